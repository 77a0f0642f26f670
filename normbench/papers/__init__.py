"""The papers' artifacts: claims and reference values as data, verdicts from runs. No torch."""
