"""Runs the worker pool in a process of its own, for tests that end it: python drive.py ROOT JOBS SEED..."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import tiny

from normbench.launch.pool import Pool

# saved after every step, so that these take long enough to be met in the middle
WORDS = ("train.epochs=400", "train.checkpoint_seconds=0")


def main() -> None:
    specs = [tiny.spec(*WORDS, f"seed={seed}") for seed in sys.argv[3:]]
    outcomes, interrupted = Pool(int(sys.argv[2])).launch(specs, Path(sys.argv[1]))
    states = {str(spec.seed): [outcomes[spec.id].status, outcomes[spec.id].reason] for spec in specs}
    print(json.dumps({"outcomes": states, "interrupted": interrupted}))


if __name__ == "__main__":
    main()
