"""Recurrent cells written as in the papers, and the one time loop with its backends."""
