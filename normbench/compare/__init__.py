"""Comparisons of runs: which runs may be compared, how they differ, and the answer in numbers and words."""
