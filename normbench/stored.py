"""Names in a stored configuration, for what writes it (config) and what reads it (runs)."""

from __future__ import annotations

LATER_GROUPS = ("schedule", "clip")  # came after runs had been published, which had none of them
RUN_GROUPS = ("model", "norm", "data", "optim", *LATER_GROUPS)  # what a run is
LABELS = ("experiment", "arm", "fidelity", "control")  # how it is filed
MONITOR = {"split": "valid", "metric": "nll", "goal": "min"}  # of runs from before this option
OWN = "own_files"  # by normalizer's name, `model` or `data`: the SHA-256 of its author's file then
IMPORT = "import"  # what another program logged of a run: what else is not in its configuration is not known
LOGGED = "logged"  # the fidelity, and the mode of records, of runs that another program logged
