"""One visible loop, optimizers, checkpoints and evaluation."""
