"""Configuration: composing, schema, run identity, plans. Nothing here imports torch."""

FIDELITY_MEANING = {
    "paper": "the paper's protocol, sizes and data",
    "reduced": "same data and task, smaller size or budget: cannot say reproduced",
    "proxy": "other data standing in: never beside the paper's numbers",
    "smoke": "embedded data, seconds: shows that the machinery works, decides nothing about the paper",
}
FIDELITIES = tuple(FIDELITY_MEANING)
FIDELITY_HELP = "; ".join(f"{name}: {meaning}" for name, meaning in FIDELITY_MEANING.items())
