"""What is to be trained. It is computed once; a worker gets `to_json` and trusts it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from normbench.config import compose, identity
from normbench.config.updates import updates_per_epoch
from normbench.errors import Failed, NormbenchError
from normbench.files.stored import LABELS, OWN
from normbench.norms.sites import Choice, simpler

# options of `eval`: a stored run may have more of the first, and must have the same of the second
LISTS = ("variants", "also_at_best", "splits", "reshuffled", "whole", "also_after", "tasks")
EQUAL = ("unit", "strides", "drop_last", "samples")


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

    def with_seed(self, seed: int) -> Spec:
        """The same with another seed."""
        return replace(self, config={**self.config, "seed": seed}, maths={**self.maths, "seed": seed})

    def is_of(self, stored: Mapping[str, Any]) -> bool:
        """Whether a stored configuration gives this id, in this version."""
        try:
            return identity.run_id(compose.restore(stored, self.config_dir), self.config_dir) == self.id
        except NormbenchError:
            return False

    def accepts(self, stored: Mapping[str, Any]) -> bool:
        """Whether a finished run of a stored configuration, with this id, has every evaluation that is asked for."""
        return _accepts(self, stored)

    def can_continue(self, stored: Mapping[str, Any]) -> bool:
        """The same of an unfinished run: where it ends it is evaluated."""
        return _accepts(self, stored, any_length=True)

    def labels(self) -> dict[str, Any]:
        """How the run is filed; no part of its identity."""
        return {**{label: getattr(self, label) for label in LABELS}, "axes": dict(self.axes)}

    def stored_config(self) -> dict[str, Any]:
        """The configuration as the run keeps it; of its author's own files their hashes, and what a model logs."""
        file_hashes = {name: part["file"] for name, part in identity.own_parts(self.maths)}
        stored = compose.stored_form(self.config) | ({OWN: file_hashes} if file_hashes else {})
        if "file" in (facts := self.config["model"]["declares"]):  # later readers have no --config-dir
            declares = {key: facts[key] for key in ("metrics", "shares", "rising", "units") if key in facts}
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


# --- whether a stored run has every evaluation that is asked for: an id says nothing of them -------------------------


def _accepts(spec: Spec, stored: Mapping[str, Any], any_length: bool = False) -> bool:
    """Whether a run of the stored configuration, with the same id, has every evaluation that `spec` asks for.

    any_length: as if the stored run had the length of `spec`.
    """
    has, wanted = {**compose.root_defaults("eval"), **stored["eval"]}, spec.config["eval"]
    same_length = any_length or _length(stored) == _length(spec.config)
    return (
        all(set(wanted[key]) <= set(has[key]) for key in LISTS)
        and all(wanted[key] == has[key] for key in EQUAL)
        and stored["monitor"] == spec.config["monitor"]
        and wanted["every"] % has["every"] == 0
        and wanted["reshuffles"] <= has["reshuffles"]
        # the last evaluation is tested in any case, and another length has another last one
        and (has["test"] == "each" or (same_length and wanted["test"] == has["test"]))
        and (same_length or _was_evaluated_there(spec, has, *_length(stored)))
        and (spec.probe or _has_default(spec, stored))
    )


def _length(config: Mapping[str, Any]) -> tuple[int, int]:
    return int(config["train"]["epochs"]), int(config["train"]["steps"])


def _was_evaluated_there(spec: Spec, has: Mapping[str, Any], epochs: int, steps: int) -> bool:
    """Whether a run of this length and evaluation was evaluated where `spec` ends, if it is longer."""
    if spec.probe or (steps or updates_per_epoch(spec.config) * epochs) <= spec.steps:
        return True
    every = has["every"] * (updates_per_epoch(spec.config) if has["unit"] == "epochs" else 1)
    return spec.steps % every == 0 or spec.steps in has["also_after"]


def _has_default(spec: Spec, stored: Mapping[str, Any]) -> bool:
    """Whether the default evaluation of the stored run is that of `spec`, at each site."""
    wanted = _default(spec.sites)
    if not any(wanted.values()):
        return True
    try:
        return _default(identity.assign(compose.restore(stored, spec.config_dir), spec.config_dir)) == wanted
    except NormbenchError:  # of a version that had other options
        return False


def _default(sites: Mapping[str, Choice]) -> dict[str, Any]:
    """The options at each site that decide how a trained run is evaluated without being asked for more."""
    return {path: {key: choice.options[key] for key in choice.evaluation} for path, choice in sites.items()}
