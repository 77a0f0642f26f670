"""What is to be trained. It is computed once; a worker gets `to_json` and trusts it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from normbench.config import compose, evaluation, identity
from normbench.config.updates import updates_per_epoch
from normbench.errors import Failed, NormbenchError
from normbench.files.stored import LABELS, OWN
from normbench.norms.sites import Choice, simpler


@dataclass(frozen=True)
class Spec:
    """One run to be: its configuration (with declarations), the labels under which it is filed, and what follows.

    `sites`: the normalizer at each. `maths`: what changes its training. Neither follows the author's files when these
    are edited later.
    """

    config: compose.Config
    experiment: str
    arm: str
    fidelity: str
    sites: Mapping[str, Choice] = field(compare=False)
    maths: Mapping[str, Any] = field(repr=False)
    control: str = ""
    axes: Mapping[str, Any] = field(default_factory=dict)
    config_dir: Path | None = None

    @cached_property
    def id(self) -> str:
        """12 hex digits: the checksum of its maths."""
        return identity.hashed(self.maths)

    @cached_property
    def steps(self) -> int:
        """Updates in the whole run; a probe has as many as it counts."""
        if self.probe:
            return self.epochs
        return int(self.config["train"]["steps"]) or updates_per_epoch(self.config) * self.epochs

    @property
    def seed(self) -> int:
        return int(self.config["seed"])

    @property
    def epochs(self) -> int:
        """The run's length where it is given in epochs, else 0."""
        return int(self.config["train"]["epochs"])

    @property
    def probe(self) -> bool:
        """Whether it computes records instead of training."""
        return bool(self.config["model"]["declares"].get("probe"))

    @property
    def simpler(self) -> list[str]:
        """A sentence for each of its normalizers that is another one in a run of its size."""
        sizes = {"batch_size": int(self.config["train"]["batch_size"]), "updates": self.steps}
        return [*filter(None, dict.fromkeys(simpler(choice, sizes) for choice in self.sites.values()))]

    def is_of(self, stored: Mapping[str, Any]) -> bool:
        """Whether a stored configuration gives this id, in this version."""
        try:
            return identity.run_id(compose.restore(stored, self.config_dir), self.config_dir) == self.id
        except NormbenchError:
            return False

    def accepts(self, stored: Mapping[str, Any]) -> bool:
        """Whether a finished run of a stored configuration, with this id, has every evaluation that is asked for."""
        return evaluation.accepts(self, stored)

    def can_continue(self, stored: Mapping[str, Any]) -> bool:
        """The same of an unfinished run: where it ends it is evaluated."""
        return evaluation.accepts(self, stored, any_length=True)

    def labels(self) -> dict[str, Any]:
        """How the run is filed; no part of its identity."""
        return {**{label: getattr(self, label) for label in LABELS}, "axes": dict(self.axes)}

    def stored_config(self) -> dict[str, Any]:
        """The configuration as the run keeps it; of its author's own files their hashes, and what a model logs."""
        own = {name: part["file"] for name, part in identity.own_parts(self.maths)}
        stored = compose.stored_form(self.config) | ({OWN: own} if own else {})
        if "file" in (facts := self.config["model"]["declares"]):  # later readers have no --config-dir
            declares = {key: facts[key] for key in ("metrics", "shares", "rising") if key in facts}
            stored["model"] = {**stored["model"], "declares": declares}
        return stored

    def content(self) -> dict[str, Any]:
        """What its run.json says whatever its status."""
        length = {"seed": self.seed, "epochs": self.epochs, "steps": self.steps}
        return {"id": self.id, **self.labels(), **length, "config": self.stored_config()}

    def to_json(self) -> dict[str, Any]:
        """All of it, as the worker gets it, and what those need who list a plan."""
        return {
            **self.content(),
            "config": self.config,
            "sites": {path: asdict(choice) for path, choice in self.sites.items()},
            "maths": self.maths,
            "config_dir": str(self.config_dir.resolve()) if self.config_dir else None,
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Spec:
        """The inverse of `to_json`. NormbenchError where a file of its author's was edited after that."""
        sites = {path: Choice.from_json(choice) for path, choice in content["sites"].items()}
        config_dir = Path(content["config_dir"]) if content["config_dir"] else None
        given = {key: content[key] for key in (*LABELS, "axes", "config", "maths")}
        spec = cls(**given, sites=sites, config_dir=config_dir)
        if edited := identity.edited_files(spec.config, sites, spec.maths):
            raise Failed(f"run {spec.id}: {' and '.join(edited)} was edited after planning. Repeat the command.")
        return spec
