"""BLN Table 1: which statistics LeNet-5 is best evaluated with on CIFAR-10, 20 % of it and the whole."""

from normbench.papers.bln2022.configurations import panels, table

__all__ = ["panels", "table"]
