"""LN Table 2: test results of order embeddings at the weights that validation chose, with LN and without."""

from normbench.papers.ln2016.fig1 import caution

__all__ = ["caution"]
