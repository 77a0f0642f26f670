"""Configuration: composing (Hydra), schema, run identity, plans. Nothing here imports torch."""
