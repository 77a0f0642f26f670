"""Writes the plan and returns; its runs are trained by `normbench worker PLAN`, started by the user anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from normbench.config.identity import code
from normbench.config.resolve import ResolvedRun
from normbench.launch.base import Listener, Outcome
from normbench.runs import plans


class PlanWriter:
    processes = 1
    here = False

    def launch(
        self,
        specs: Sequence[ResolvedRun],
        root: Path,
        listen: Listener = lambda spec, event: None,
        deadline: float | None = None,
    ) -> tuple[dict[str, Outcome], bool]:
        plan = plans.write([spec.message() for spec in specs], root.parent, code())
        reason = f"planned; workers train it, as many as you start: normbench worker {plan.path}"
        return {spec.id: Outcome("planned", reason) for spec in specs}, False


launcher = PlanWriter
