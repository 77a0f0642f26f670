"""The training loop, optimizers, checkpoints, evaluation and stored weights; what runs the probes of the papers."""
