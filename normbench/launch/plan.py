"""Writes the plan and leaves; whoever starts `normbench worker PLAN`, here or elsewhere, trains its runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from normbench.config.identity import RunSpec
from normbench.launch.base import Launcher, Listener, Outcome
from normbench.runs import plans


def launcher() -> Launcher:
    return Written()


@dataclass(frozen=True)
class Written:
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
        said = f"planned; workers train it, as many as you start: normbench worker {plan.path}"
        return {spec.id: Outcome("planned", said) for spec in specs}, False
