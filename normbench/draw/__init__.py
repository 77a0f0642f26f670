"""Tables, panels of curves and their style, independent of claims and papers."""
