"""An update with RMSNorm, and with pRMSNorm, against one with LN: python scripts/bench/rms.py [--rounds N]

Arms of rms2019/recall, rms2019/captions and ours/today (MNIST) at their sizes, on the first minibatch of their data
(NORMBENCH_DATA): forward, backward and the optimizer's step, on one thread. Beside them no normalization against LN.
The recurrent layers compute LN and RMSNorm inside their time loop, pRMSNorm they call at every step.
"""

from __future__ import annotations

from collections.abc import Iterator

import harness

from normbench.battery.cost import ROUNDS, costs
from normbench.config.plan import artifact_specs

TASKS = {  # the arm with LN first: times are divided by its own
    "recall (LSTM)": ("rms2019/recall", "reduced", ("ln", "rms", "prms", "none")),
    "captions (GRU)": ("rms2019/captions", "proxy", ("ln", "rms", "prms", "none")),
    "MNIST (MLP)": ("ours/today", "reduced", ("mnist-layer", "mnist-rms", "mnist-none")),
}


def rows(rounds: int) -> Iterator[harness.Row]:
    for task, (artifact, fidelity, arms) in TASKS.items():
        specs = {spec.arm: spec for spec in artifact_specs(artifact, fidelity, 1)}
        with_ln, *others = arms
        by_arm = costs({arm: specs[arm] for arm in arms}, rounds)
        for arm in others:
            cost, case = by_arm[arm], f"{task}: {arm.removeprefix('mnist-')} / ln"
            yield harness.Row(case, cost.ratio, cost.low, cost.high, cost.ms, by_arm[with_ln].ms, rounds, None)


if __name__ == "__main__":
    harness.main(__doc__, "rms", "An update with RMSNorm / with LN", ROUNDS, rows)
