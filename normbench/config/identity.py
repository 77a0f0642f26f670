"""A run is its configuration: the id is a hash of everything that changes the training maths, and of nothing else.

In: options of model, data, optimizer, batch size, seed; the normalizer and its options at every site (whichever way
they were written); the data's checksum (of a user's own set what its files hold); a maths version per component; a
user's own normalizer file, with those of its folder that it imports. Out: paths, launcher, device, how often to save,
fidelity and experiment names, how long (a longer run serves a shorter request: a schedule counts updates from the
first) and how it is evaluated (`eval`, `monitor`, and normalizers' options with `hashed: false`; a probe trains
nothing, so it has all options in); and an option that came later (`legacy_default` in its declaration), while it has
the value of the time before, and schedule and clipping, which came later, where there are none.

A finished run serves a plan with its id only if it has the evaluations that are asked for: see `satisfies`.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from normbench import data as datasets
from normbench import schema, user_code
from normbench.config import compose, grammar
from normbench.config.updates import refuse_batches_of_one, updates_per_epoch
from normbench.errors import NormbenchError
from normbench.norms import sites

SCHEMA = 1
OWN = "own_files"  # of a stored configuration: by normalizer's name the SHA-256 of its author's file, as it was then


@dataclass(frozen=True)
class ResolvedRun:
    """One run to be: its configuration (with declarations) and the labels under which it is filed."""

    config: compose.Config
    experiment: str
    arm: str
    fidelity: str
    control: str = ""
    axes: Mapping[str, Any] = field(default_factory=dict)
    config_dir: Path | None = None

    @property
    def seed(self) -> int:
        return int(self.config["seed"])

    @property
    def epochs(self) -> int:
        """The run's length where it is given in epochs, else 0."""
        return int(self.config["train"]["epochs"])

    @functools.cached_property
    def id(self) -> str:
        """12 hex digits; taken once, so that a file edited meanwhile does not give a planned run another name."""
        return hashed(self._maths)

    @functools.cached_property
    def _maths(self) -> dict[str, Any]:
        return maths(self.config, self.sites)

    @property
    def steps(self) -> int:
        """Updates in the whole run, asked for in epochs or as such."""
        if self.config["model"]["declares"].get("probe"):
            return self.epochs  # as many as it counts
        return int(self.config["train"]["steps"]) or updates_per_epoch(self.config) * self.epochs

    @functools.cached_property
    def sites(self) -> dict[str, sites.Choice]:
        """The normalizer at each site."""
        return assign(self.config, self.config_dir)

    def filed(self) -> dict[str, Any]:
        """The plain form in which a run's directory keeps its spec: id, labels and configuration."""
        return {"id": self.id, **self.labels(), "config": self.stored_config()}

    def stored_config(self) -> dict[str, Any]:
        """The configuration as the run keeps it, with the hashes of its author's own normalizers."""
        own = {site["name"]: site["file"] for site in self._maths["sites"].values() if "file" in site}
        return {**compose.stored_form(self.config), **({OWN: own} if own else {})}

    def message(self) -> dict[str, Any]:
        """The plain form in which a spec travels to a worker process."""
        return {**self.filed(), "config_dir": str(self.config_dir) if self.config_dir else None}

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> ResolvedRun:
        """The inverse of `message`; composed and checked anew. NormbenchError if that gives another run."""
        config_dir = Path(message["config_dir"]) if message["config_dir"] else None
        labels = {key: message[key] for key in (*grammar.LABELS, "axes")}
        spec = cls(compose.restore(message["config"], config_dir), config_dir=config_dir, **labels)
        if spec.id != message["id"]:
            raise NormbenchError(
                f"run {message['id']} is another one by now ({spec.id}): a file of its configuration or its normalizer "
                "was changed after planning. Repeat the command.",
                code=4,
            )
        return spec

    def heading(self) -> dict[str, Any]:
        """What every status file of the run says."""
        return {"id": self.id, "seed": self.seed, "epochs": self.epochs, "steps": self.steps, **self.labels()}

    def labels(self) -> dict[str, Any]:
        """How the run is filed; no part of its identity."""
        return {**{label: getattr(self, label) for label in grammar.LABELS}, "axes": dict(self.axes)}


def assign(config: compose.Config, config_dir: Path | None = None) -> dict[str, sites.Choice]:
    """The normalizer at each site of a configuration; NormbenchError for one that its batches cannot serve."""

    def node(name: str) -> compose.Config:
        return compose.normalizer(name, config_dir)

    chosen = sites.assign(config, node)
    refuse_batches_of_one(config, chosen, node)
    return chosen


def maths(config: compose.Config, choices: Mapping[str, sites.Choice] | None = None) -> dict[str, Any]:
    """What is hashed, as plain data; `choices`: the normalizer at each site, where they have been resolved."""
    root, probe = config["declares"], bool(config["model"]["declares"].get("probe"))
    return {
        "schema": SCHEMA,
        "seed": config["seed"],
        "train": {"maths": root["maths"]}
        | _said(
            {k: v for k, v in config["train"].items() if root["options"][f"train.{k}"].get("hashed", True)},
            schema.legacy_defaults(root, "train."),
        ),
        **{group: _component(config[group]) for group in ("model", "data", "optim")},
        **{group: _component(config[group]) for group in grammar.LATER_GROUPS if config[group]["name"] != "none"},
        "data_checksum": datasets.own_checksum(config["data"])
        if "like" in config["data"]["declares"]
        else data_checksum(config["data"]["declares"]),
        "sites": {
            path: {
                "name": c.name,
                "maths": c.maths,
                "kind": c.kind,
                "keep_bias": c.keep_bias,
                "options": _said(
                    {key: value for key, value in c.options.items() if probe or key not in c.evaluation}, c.legacy
                ),
            }
            | ({"file": user_code.digest(Path(c.file))} if c.file else {})
            for path, c in (assign(config) if choices is None else choices).items()
        },
    }


def edited(stored: Mapping[str, Any], filed: str, config_dir: Path | None = None) -> str:
    """Why the normalizer of its author's that a stored run has is another one by now; "" where it is not, or has none.

    filed: the run's id. NormbenchError for a configuration that is none here.
    """
    config = compose.restore(stored, config_dir)
    choices = assign(config, config_dir)
    files = sorted({choice.file for choice in choices.values() if choice.file})
    if not files or run_id(config, choices) == filed:
        return ""
    return f"{' and '.join(files)} was changed since it was trained."


def run_id(config: compose.Config, choices: Mapping[str, sites.Choice] | None = None) -> str:
    """First 12 hex digits of the SHA-256 of the canonical form."""
    return hashed(maths(config, choices))


def hashed(found: Mapping[str, Any]) -> str:
    """The id of a run of these `maths`."""
    return hashlib.sha256(canonical(found).encode()).hexdigest()[:12]


def satisfies(stored: Mapping[str, Any], spec: ResolvedRun) -> bool:
    """Whether a run of the stored configuration, of the same id, has every evaluation that the spec asks for."""
    had, asked = _asked(stored), _asked(spec.config)
    if _further(asked) and any(not set(asked[key]) <= set(had[key]) for key in EVALUATIONS):
        return False
    if asked["reshuffles"] > had["reshuffles"]:
        return False
    if (
        any(asked[key] != had[key] for key in ("unit", "strides", "drop_last", "samples", "monitor"))
        or asked["every"] % had["every"]
    ):
        return False
    # the last evaluation is tested in any case, and another length has another last one
    if had["test"] != "each" and (asked["test"] == "each" or _length(stored) != _length(spec.config)):
        return False
    if not _went_through(stored, spec):
        return False
    usual = _usual(spec)
    if not any(usual.values()):
        return True
    try:  # what else decides it is the same in runs of one id
        facts = compose.choice("norm", stored["norm"]["name"], spec.config_dir)["declares"]
        norm = {**schema.legacy_defaults(facts), **stored["norm"], "declares": facts}
        return _usual(replace(spec, config={**spec.config, "norm": norm})) == usual
    except (NormbenchError, KeyError, TypeError):  # of a version that had other options
        return False


def _went_through(stored: Mapping[str, Any], spec: ResolvedRun) -> bool:
    """Whether a longer run of the stored configuration was evaluated where the spec ends."""
    if spec.config["model"]["declares"].get("probe") or _updates(stored, spec) <= spec.steps:
        return True
    had = _asked(stored)
    return spec.steps % _every(had, spec) == 0 or spec.steps in had["also_after"]


def _every(evaluation: Mapping[str, Any], spec: ResolvedRun) -> int:
    """Updates between two evaluations of a run with the spec's id."""
    return int(evaluation["every"]) * (updates_per_epoch(spec.config) if evaluation["unit"] == "epochs" else 1)


def _updates(stored: Mapping[str, Any], spec: ResolvedRun) -> int:
    """How many a run of the stored configuration, of the spec's id, has."""
    epochs, steps = _length(stored)
    return steps or updates_per_epoch(spec.config) * epochs


def _length(config: Mapping[str, Any]) -> tuple[int, int]:
    return int(config["train"]["epochs"]), int(config["train"].get("steps", 0))


EVALUATIONS = ("variants", "also_at_best", "splits", "reshuffled", "whole", "also_after", "tasks")
EARLIER = {  # what a configuration meant before it could be said
    **dict.fromkeys(EVALUATIONS, ()), "test": "each", "reshuffles": 0, "every": 1, "unit": "epochs",
    "strides": {}, "drop_last": False, "samples": 1,
}  # fmt: skip
MONITOR = {"split": "valid", "metric": "nll", "goal": "min"}  # of runs from before it could be said


def _further(asked: Mapping[str, Any]) -> bool:
    """Whether there are further evaluations, which `splits` are of: without any these ask for nothing."""
    return any(asked[key] for key in EVALUATIONS if key != "splits") or bool(asked["reshuffles"])


def _asked(config: Mapping[str, Any]) -> dict[str, Any]:
    """What a configuration, perhaps an old stored one, says of evaluation."""
    return {**EARLIER, **config.get("eval", {}), "monitor": {**MONITOR, **config.get("monitor", {})}}


def _usual(spec: ResolvedRun) -> dict[str, Any]:
    """The options at each site that decide how a trained run is evaluated without being asked for more."""
    if spec.config["model"]["declares"].get("probe"):
        return {}
    return {path: {key: c.options[key] for key in c.evaluation} for path, c in spec.sites.items()}


def canonical(value: Any) -> str:
    """One text per value: keys sorted, no spaces, floats as their shortest round-trip form."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def data_checksum(declares: Mapping[str, Any]) -> str:
    """The checksum of a data set as it should be: of its official files where the declaration has their sums.

    Loading refuses files that differ from all that is declared. Of a set with copies that are known to differ, a run
    records which one it read, with a checksum of the same making. A set made of another one's files has that one's.
    """
    declares = declares["files_of"]["declares"] if "files_of" in declares else declares
    official = (declares.get("sources") or {}).get("batches")
    return hashlib.sha256(canonical(official or declares.get("files") or declares["sha256"]).encode()).hexdigest()


def _component(node: Mapping[str, Any]) -> dict[str, Any]:
    options = node["declares"].get("options") or {}
    return {
        "name": node["name"],
        "maths": node["declares"]["maths"],
        "options": _said(
            {key: node[key] for key, spec in options.items() if spec.get("hashed", True)},
            schema.legacy_defaults(node["declares"]),
        ),
    }


def _said(options: Mapping[str, Any], legacy: Mapping[str, Any]) -> dict[str, Any]:
    """The options without those that came later and leave everything as it was."""
    return {key: value for key, value in options.items() if key not in legacy or value != legacy[key]}
