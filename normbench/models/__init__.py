"""The papers' models, one per file. A model's `forward` gives the loss, `evaluate` per-example metrics."""
