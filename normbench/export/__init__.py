"""Runs in other tools' forms: Weights & Biases, CSV, parquet. The run directory stays the truth. No torch."""
