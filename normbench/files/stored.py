"""Names in a stored configuration, for what writes it (config) and what reads it (runs)."""

from __future__ import annotations

RUN_GROUPS = ("model", "norm", "data", "optim", "schedule", "clip")  # what a run is
LABELS = ("experiment", "arm", "fidelity", "control")  # how it is filed
OWN = "own_files"  # by normalizer's name, `model` or `data`: the SHA-256 of its author's file then
IMPORT = "import"  # what another program logged of a run: what else is not in its configuration is not known
LOGGED = "logged"  # the fidelity, and the mode of records, of runs that another program logged
