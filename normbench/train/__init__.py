"""One visible loop, optimizers, checkpoints and evaluation; probes, which compute without training; kept weights."""
