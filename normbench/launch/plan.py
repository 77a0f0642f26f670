"""Writes the plan and returns; `normbench worker PLAN`, started by the user anywhere, trains its runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from normbench.config.identity import code
from normbench.config.spec import Spec
from normbench.launch.base import Listener, Outcome
from normbench.runs import plans


class PlanWriter:
    processes = 1
    here = False

    def launch(
        self,
        specs: Sequence[Spec],
        root: Path,
        listen: Listener = lambda spec, event: None,
        deadline: float | None = None,
    ) -> tuple[dict[str, Outcome], bool]:
        plan = plans.new([spec.to_json() for spec in specs], root.parent, code())
        plan.write()
        reason = f"planned; a worker trains shard i of n, from 0: normbench worker {plan.path} --shard i/n"
        return {spec.id: Outcome("planned", reason) for spec in specs}, False


launcher = PlanWriter
