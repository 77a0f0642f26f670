"""normbench: the experiments of two normalization papers, reproduced, judged and open to any normalizer."""

__version__ = "0.1.0"
