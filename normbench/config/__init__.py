"""Configuration: composing, schema, run identity, plans. Nothing here imports torch."""

FIDELITY_MEANING = {
    "paper": "the paper's protocol, sizes and data",
    "reduced": "the same data and task, a smaller size or budget (said beside each verdict)",
    "proxy": "other data (never shown beside the paper's numbers)",
    "smoke": "embedded data, seconds (a test of the program, which decides nothing about the paper)",
}
FIDELITIES = tuple(FIDELITY_MEANING)
FIDELITY_HELP = "; ".join(f"{name}: {meaning}" for name, meaning in FIDELITY_MEANING.items())
