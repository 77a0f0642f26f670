"""A run is its configuration: the id is a hash of everything that changes the training maths, and of nothing else.

In: options of model, data, optimizer, schedule, clipping, batch size, seed; the normalizer and its options at every
site (whichever way they were written); the sum of the data; a maths version per component; a user's own file, with
those of its folder that it imports.

Out: an option of a shipped choice at its default, which is the value in the component's own file (never a preset's, a
site's or a model file's), so that an option that comes later changes no id; the choice `none`. Every option of a user's
own choice is in.

Out too: paths, launcher, device, how often to save, fidelity and experiment names, how long (a longer run serves a
shorter request: a schedule counts updates from the first) and how it is evaluated (`eval`, `monitor`, and normalizers'
options with `hashed: false`; a probe trains nothing, so it has these in).

A finished run serves a plan with its id only if it has the evaluations that are asked for: see `spec`.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import normbench
from normbench import data as datasets
from normbench.config import compose
from normbench.config.updates import refuse_batches_of_one
from normbench.core import user_code
from normbench.files.stored import RUN_GROUPS
from normbench.norms import sites


def assign(config: compose.Config, config_dir: Path | None = None) -> dict[str, sites.Choice]:
    """The normalizer at each site of a configuration; NormbenchError for one that its batches cannot serve."""

    def node(name: str) -> compose.Config:
        return compose.choice("norm", name, config_dir)

    chosen = sites.assign(config, node)
    refuse_batches_of_one(config, chosen, node)
    return chosen


def maths(config: compose.Config, choices: Mapping[str, sites.Choice]) -> dict[str, Any]:
    """What is hashed, as JSON; `choices`: the normalizer at each site."""
    root, probe = config["declares"], bool(config["model"]["declares"].get("probe"))
    train = {k: v for k, v in config["train"].items() if root["options"][f"train.{k}"].get("hashed", True)}
    components = {group: config[group] for group in RUN_GROUPS if group != "norm"}
    return {
        "seed": config["seed"],
        "train": {"maths": root["maths"]} | _counted(train, compose.root_defaults("train")),
        **{group: _component(group, node) for group, node in components.items() if node["name"] != "none"},
        "data_checksum": data_checksum(config["data"]),
        "sites": {path: _site(choice, probe) for path, choice in choices.items()},
    }


def own_parts(maths: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The parts of a run's maths with code of its author's, by the name of the normalizer, `model` or `data`."""
    sites = [(site["name"], site) for site in maths["sites"].values()]
    parts = [*sites, *((group, maths.get(group, {})) for group in ("model", "data"))]
    return [(name, part) for name, part in parts if "file" in part]


def own_files(config: compose.Config, choices: Mapping[str, sites.Choice]) -> dict[str, str]:
    """The files with code of its author's, by the name of the normalizer, `model` or `data`."""
    files = {choice.name: choice.file for choice in choices.values()}
    files |= {group: config[group]["declares"].get("file", "") for group in ("model", "data")}
    return {name: file for name, file in files.items() if file}


def edited_files(config: compose.Config, choices: Mapping[str, sites.Choice], maths: Mapping[str, Any]) -> list[str]:
    """Which of its author's files, code and data, are others by now than in the run's `maths`."""
    files = own_files(config, choices)
    code = {files[name] for name, part in own_parts(maths) if user_code.digest(Path(files[name])) != part["file"]}
    is_read_anew = is_users(config["data"]) and data_checksum(config["data"]) != maths["data_checksum"]
    return sorted(code) + ([f"data={config['data']['name']}"] if is_read_anew else [])


def edited(stored: Mapping[str, Any], filed: str, config_dir: Path | None = None) -> str:
    """Why the code of its author's that a stored run has is another one by now; "" where it is not, or has none.

    filed: the run's id. NormbenchError for a configuration that is none here.
    """
    config = compose.restore(stored, config_dir)
    choices = assign(config, config_dir)
    files = sorted({*own_files(config, choices).values()})
    if not files or hashed(maths(config, choices)) == filed:
        return ""
    return f"{' or '.join(files)} was changed since the run was trained: undo that, or train it anew."


def run_id(config: compose.Config, config_dir: Path | None = None) -> str:
    return hashed(maths(config, assign(config, config_dir)))


def hashed(maths: Mapping[str, Any]) -> str:
    """The id of a run of these `maths`: the first 12 hex digits of the SHA-256 of their canonical form."""
    return hashlib.sha256(canonical(maths).encode()).hexdigest()[:12]


def canonical(value: Any) -> str:
    """One text per value: keys sorted, no spaces, floats as their shortest round-trip form."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def data_checksum(data: Mapping[str, Any]) -> str:
    """The sum of a data set as its YAML declares it, whatever is on this disk; of a user's own what its files hold.

    Loading refuses files that differ from all that is declared; a run records which copy it read. A set made of another
    one's files has that one's.
    """
    return datasets.own_checksum(data) if is_users(data) else str(datasets.made_of(data)["declares"]["sha256"])


def is_users(data: Mapping[str, Any]) -> bool:
    """Whether a data set is a user's own, whose files count as they are."""
    return not {"like", "file"}.isdisjoint(data["declares"]) or "sha256" not in datasets.made_of(data)["declares"]


def _component(group: str, node: Mapping[str, Any]) -> dict[str, Any]:
    declares = node["declares"]
    specs = declares.get("options") or {}
    options = {key: node[key] for key, spec in specs.items() if spec.get("hashed", True)}
    return {
        "name": node["name"],
        "maths": declares["maths"],
        "options": _counted(options, compose.defaults(group, node["name"])),
    } | _file(declares.get("file", ""))


def _site(choice: sites.Choice, probe: bool) -> dict[str, Any]:
    options = {key: value for key, value in choice.options.items() if probe or key not in choice.evaluation}
    return {
        "name": choice.name,
        "maths": choice.maths,
        "kind": choice.kind,
        "keep_bias": choice.keep_bias,
        "options": _counted(options, compose.defaults("norm", choice.name)),
    } | _file(choice.file)


def _file(path: str) -> dict[str, str]:
    return {"file": user_code.digest(Path(path))} if path else {}


def _counted(options: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The options without those at their defaults."""
    return {key: value for key, value in options.items() if key not in defaults or value != defaults[key]}


@functools.cache
def code() -> str:
    """A hash of all that decides what a run computes: the package's sources and the shipped choices."""
    sha256 = hashlib.sha256()
    for base in (Path(normbench.__file__).parent, compose.conf_dir()):
        for path in sorted(p for p in base.rglob("*") if p.suffix in (".py", ".c", ".yaml")):
            sha256.update(f"{path.relative_to(base)}\0".encode() + path.read_bytes() + b"\0")
    return sha256.hexdigest()[:12]
