"""Writes the plan and returns; its runs are trained by `normbench worker PLAN`, started by the user anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from normbench.config.identity import RunSpec
from normbench.launch.base import Launcher, Listener, Outcome
from normbench.runs import plans


def launcher() -> Launcher:
    return PlanWriter()


@dataclass(frozen=True)
class PlanWriter:
    processes: int = 1
    here: bool = False

    def launch(
        self,
        specs: Sequence[RunSpec],
        root: Path,
        listen: Listener = lambda spec, event: None,
        deadline: float | None = None,
    ) -> tuple[dict[str, Outcome], bool]:
        plan = plans.write(specs, root.parent)
        reason = f"planned; workers train it, as many as you start: normbench worker {plan.path}"
        return {spec.id: Outcome("planned", reason) for spec in specs}, False
