"""Configuration: composing (Hydra), schema, run identity, plans. Nothing here imports torch."""

FIDELITIES = ("paper", "reduced", "proxy", "smoke")
