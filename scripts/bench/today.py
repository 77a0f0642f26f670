"""An update with each of today's normalizers against one without: python scripts/bench/today.py [--rounds N]

The arms of the experiment ours/today at their sizes, on the first minibatch of their data (NORMBENCH_DATA): forward,
backward and the optimizer's step.
"""

from __future__ import annotations

from collections.abc import Iterator

import harness

from normbench.battery.cost import ROUNDS, costs
from normbench.config.plan import artifact_specs


def rows(rounds: int) -> Iterator[harness.Row]:
    for fidelity in ("reduced", "proxy"):
        arms = {spec.arm: spec for spec in artifact_specs("ours/today", fidelity, 1)}
        for task in dict.fromkeys(arm.partition("-")[0] for arm in arms):
            specs = {arm: spec for arm, spec in arms.items() if arm.startswith(f"{task}-")}
            none = next(iter(specs))
            by_arm = costs(specs, rounds)
            for arm, cost in list(by_arm.items())[1:]:
                case = f"{task}: {arm.partition('-')[2]} / {none.partition('-')[2]}"
                yield harness.Row(case, cost.ratio, cost.low, cost.high, cost.ms, by_arm[none].ms, rounds, None)


if __name__ == "__main__":
    harness.main(__doc__, "today", "An update with today's normalizers / without", ROUNDS, rows)
