"""Claims about logged curves: no experiment planned these runs, so nothing about them is taken for granted."""
