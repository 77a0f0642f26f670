"""The training loop, optimizers, checkpoints, evaluation and stored weights; probes, which compute without training."""
