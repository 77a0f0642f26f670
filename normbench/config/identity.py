"""A run is its configuration: the id is a hash of everything that changes the training maths, and of nothing else.

In: options of model, data, optimizer, batch size, seed; the normalizer and its options at every site (whichever way
they were written); the data's checksum (of a user's own set what its files hold); a maths version per component; a
user's own normalizer file, with those of its folder that it imports. Out: paths, launcher, device, how often to save,
fidelity and experiment names, how long (a longer run serves a shorter request: a schedule counts updates from the
first) and how it is evaluated (`eval`, `monitor`, and normalizers' options with `hashed: false`; a probe trains
nothing, so it has all options in); and an option that came later (`legacy_default` in its declaration), while it has
the value of the time before, and schedule and clipping, which came later, where there are none.

A finished run serves a plan with its id only if it has the evaluations that are asked for: see `evaluation`.
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
from normbench import schema, user_code
from normbench.config import compose
from normbench.config.updates import refuse_batches_of_one
from normbench.norms import sites
from normbench.stored import LATER_GROUPS

SCHEMA = 1


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
    return {
        "schema": SCHEMA,
        "seed": config["seed"],
        "train": {"maths": root["maths"]}
        | _counted(
            {k: v for k, v in config["train"].items() if root["options"][f"train.{k}"].get("hashed", True)},
            schema.legacy_defaults(root, "train."),
        ),
        **{group: _component(config[group]) for group in ("model", "data", "optim")},
        **{group: _component(config[group]) for group in LATER_GROUPS if config[group]["name"] != "none"},
        "data_checksum": data_checksum(config["data"]),
        "sites": {
            path: {
                "name": c.name,
                "maths": c.maths,
                "kind": c.kind,
                "keep_bias": c.keep_bias,
                "options": _counted(
                    {key: value for key, value in c.options.items() if probe or key not in c.evaluation}, c.legacy
                ),
            }
            | ({"file": user_code.digest(Path(c.file))} if c.file else {})
            for path, c in choices.items()
        },
    }


def own_parts(maths: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The parts of a run's maths with code of its author's, by the name of the normalizer, `model` or `data`."""
    sites = [(site["name"], site) for site in maths["sites"].values()]
    return [(name, part) for name, part in [*sites, *((g, maths[g]) for g in ("model", "data"))] if "file" in part]


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
    """The id of the run of a configuration."""
    return hashed(maths(config, assign(config, config_dir)))


def hashed(maths: Mapping[str, Any]) -> str:
    """The id of a run of these `maths`: the first 12 hex digits of the SHA-256 of their canonical form."""
    return hashlib.sha256(canonical(maths).encode()).hexdigest()[:12]


def canonical(value: Any) -> str:
    """One text per value: keys sorted, no spaces, floats as their shortest round-trip form."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def data_checksum(data: Mapping[str, Any]) -> str:
    """The checksum of a data set as it should be: of its official files where the declaration has their sums.

    Loading refuses files that differ from all that is declared. Of a set with copies that are known to differ, a run
    records which one it read, with a checksum of the same making. A set made of another one's files has that one's. A
    user's own set has what its files hold.
    """
    if is_users(data):
        return datasets.own_checksum(data)
    declares = datasets.made_of(data)["declares"]
    official = (declares.get("sources") or {}).get("batches")
    return hashlib.sha256(canonical(official or declares.get("files") or declares["sha256"]).encode()).hexdigest()


def is_users(data: Mapping[str, Any]) -> bool:
    """Whether a data set is a user's own."""
    return not {"like", "file"}.isdisjoint(data["declares"])


def _component(node: Mapping[str, Any]) -> dict[str, Any]:
    options = node["declares"].get("options") or {}
    return {
        "name": node["name"],
        "maths": node["declares"]["maths"],
        "options": _counted(
            {key: node[key] for key, spec in options.items() if spec.get("hashed", True)},
            schema.legacy_defaults(node["declares"]),
        ),
    } | ({"file": user_code.digest(Path(node["declares"]["file"]))} if "file" in node["declares"] else {})


def _counted(options: Mapping[str, Any], legacy: Mapping[str, Any]) -> dict[str, Any]:
    """The options without those that came later and leave everything as it was."""
    return {key: value for key, value in options.items() if key not in legacy or value != legacy[key]}


@functools.cache
def code() -> str:
    """A hash of all that decides what a run computes: the package's sources and the shipped choices."""
    found = hashlib.sha256()
    for base in (Path(normbench.__file__).parent, compose.conf_dir()):
        for path in sorted(p for p in base.rglob("*") if p.suffix in (".py", ".c", ".yaml")):
            found.update(f"{path.relative_to(base)}\0".encode() + path.read_bytes() + b"\0")
    return found.hexdigest()[:12]
