"""Plans: `RESULTS/plans/NAME/plan.json` lists runs, and `normbench worker PLAN`, started anywhere, trains a shard."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from normbench.config.identity import code
from normbench.config.spec import Spec
from normbench.errors import BadInput
from normbench.launch.base import Listener, Outcome, Outcomes
from normbench.runs import files

FOLDER, NAME = "plans", "plan.json"


@dataclass(frozen=True)
class Plan:
    """A plan's folder, which lies in the results folder that its runs are in, and its runs as messages."""

    path: Path
    runs: Sequence[Mapping[str, Any]]

    @property
    def results(self) -> Path:
        return self.path.parent.parent

    def shard(self, number: int, of: int) -> Sequence[Mapping[str, Any]]:
        """The runs of one shard, from 0: they are dealt in turn."""
        return self.runs[number::of]


def write(specs: Sequence[Spec], results: Path) -> Plan:
    """The plan of these runs, named by its content."""
    runs = [spec.to_json() for spec in specs]
    content = {"code": code(), "runs": runs}
    path = results.resolve() / FOLDER / files.seal(content)[:12]
    files.make_folder(path)
    files.write_json(path / NAME, content)
    return Plan(path, runs)


def read(path: Path) -> Plan:
    """A plan by its folder. NormbenchError where other code planned it: it would train something else."""
    folder = path.resolve()
    if not (folder / NAME).is_file():
        raise BadInput(f"{folder} is no plan's folder here. All nodes must share the results folder.")
    content = json.loads((folder / NAME).read_bytes())
    if content["code"] != code():
        raise BadInput(
            f"{folder} was planned by other code ({content['code']}) than this worker's ({code()}): repeat the command "
            "that planned it."
        )
    return Plan(folder, content["runs"])


class PlanWriter:
    """Writes a plan, has its workers started, and returns; here by the user."""

    is_local = False

    @property
    def processes(self) -> int:
        return 1

    def launch(self, specs: Sequence[Spec], root: Path, listen: Listener, deadline: float) -> Outcomes:
        reason = self.start(write(specs, root.parent))
        return {spec.id: Outcome("planned", reason) for spec in specs}, False

    def start(self, plan: Plan) -> str:
        """How the workers are started, or that they were."""
        return f"planned; a worker trains shard i of n, from 0: normbench worker {plan.path} --shard i/n"


launcher = PlanWriter
