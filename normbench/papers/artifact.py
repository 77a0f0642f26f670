"""The registry of artifacts: `papers/<paper>/<name>.yaml` has the claims, `<name>.py` beside it figure and table."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, cast

from normbench.config import plan
from normbench.errors import unknown
from normbench.papers import claims
from normbench.papers.panels import Panel
from normbench.papers.table import Entry
from normbench.runs.record import RunRecord

HERE = Path(__file__).parent
PAPERS = {
    "ln2016": "Layer Normalization (Ba, Kiros, Hinton 2016)",
    "bln2022": "Batch Layer Normalization (Ziaee, Çano 2022)",
}


class Drawing(Protocol):
    """What an artifact's module offers."""

    def panels(self, artifact: claims.Artifact, runs: Sequence[RunRecord]) -> list[Panel]:
        """The figure in the paper's layout, as data; empty for a table."""

    def table(self, artifact: claims.Artifact, runs: Sequence[RunRecord]) -> list[Entry]:
        """Our numbers, and the paper's where it has them."""


def ids() -> list[str]:
    """All artifacts, such as `ln2016/fig6`."""
    return sorted(path.relative_to(HERE).with_suffix("").as_posix() for path in HERE.glob("*/*.yaml"))


def select(names: Sequence[str]) -> list[str]:
    """Artifact ids from ids, a paper's name or `all`."""
    known, papers = ids(), {name.split("/")[0] for name in ids()}
    chosen: list[str] = []
    for name in names:
        if name == "all":
            chosen += known
        elif name in papers:
            chosen += [i for i in known if i.startswith(f"{name}/")]
        elif name in known:
            chosen.append(name)
        else:
            raise unknown(
                f"{name} is not an artifact.", name, [*known, *sorted(papers), "all"], "normbench list artifacts"
            )
    return list(dict.fromkeys(chosen))


def load(name: str) -> claims.Artifact:
    return claims.load(HERE / f"{name}.yaml")


def highest_fidelity(artifact: claims.Artifact) -> str:
    """`paper`, unless its experiment offers no more than a lower one."""
    offered = plan.experiment(artifact.experiment)["fidelities"]
    return next(fidelity for fidelity in claims.FIDELITIES if fidelity in offered)


def drawing(name: str) -> Drawing:
    return cast(Drawing, importlib.import_module(f"normbench.papers.{name.replace('/', '.')}"))


def explanation(artifact: claims.Artifact, runs: Sequence[RunRecord]) -> list[str]:
    """Paragraphs that say what the numbers mean, where the module has an `explanation(artifact, runs)`."""
    explain = getattr(drawing(artifact.id), "explanation", None)
    return list(explain(artifact, runs)) if explain else []
