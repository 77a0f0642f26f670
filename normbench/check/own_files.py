"""The models and data sets in a folder of a user's own, tried: do they keep what `contract` states?"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from normbench import data as datasets
from normbench.battery.contract import format_error
from normbench.check import contract
from normbench.check.contract import Broken, demand
from normbench.check.stored import Finding
from normbench.config import compose
from normbench.config.plan import train_specs
from normbench.config.spec import Spec
from normbench.errors import NormbenchError
from normbench.files import scratch
from normbench.models import base as models
from normbench.models.base import Model
from normbench.norms import sites
from normbench.norms.modes import seed_torch
from normbench.runs.directory import RunDirectory
from normbench.train import loaded, optim
from normbench.train.train_one import ensure_run

NORMS = ("layer", "batch", "weight")  # of several kinds: each that can stand at a model's default sites
UPDATES = 4  # of a run that is interrupted after half of them
PASSES = 3  # after which a parameter that begins with zeros behind it has a gradient


def check(config_dir: Path, counts: dict[str, int]) -> Iterator[Finding]:
    """A finding for the first broken promise of each model and data set of the folder; counts them in `counts`."""
    for group, examine in {"model": _model, "data": _data}.items():
        for path in sorted((config_dir / group).rglob("*.yaml")):
            name = path.relative_to(config_dir / group).with_suffix("").as_posix()
            what = {"model": "own models", "data": "own data sets"}[group]
            counts[what] = counts.get(what, 0) + 1
            try:
                yield from (Finding(kind, path, text) for kind, text in examine(name, config_dir))
            except Broken as broken:
                yield Finding("contract", path, str(broken))
            except Exception as error:  # raised by the user's code, or by what reads the YAML
                yield Finding("contract", path, format_error(error))


def _data(name: str, config_dir: Path) -> Iterator[tuple[str, str]]:
    config = compose.choice("data", name, config_dir)
    if lines := [config["declares"]["refused"]] if "refused" in config["declares"] else datasets.problems(config):
        yield "unknown", f"not tried: {lines[0]}"
        return
    first, again = (datasets.load(config, seed=1) for _ in range(2))
    if "file" in config["declares"]:
        loaded.check(first, {"data": config})
    contract.sizes_and_types(first, config["declares"])
    contract.alike(first, again)
    for (part, other), count in contract.common(first.splits).items():
        yield "shared", f"{count} examples of split {part} are in {other}, too"


def _model(name: str, config_dir: Path) -> Iterator[tuple[str, str]]:
    declares = compose.declaration("model", name, config_dir)
    if declares.get("probe") or "refused" in declares:
        yield "unknown", "not tried: it is not trained"
        return
    plain = _spec(name, config_dir, "norm=none")
    if lines := datasets.problems(plain.config["data"]):
        yield "unknown", f"not tried: {lines[0]}"
        return
    specs = [plain]
    for norm in NORMS:
        with contextlib.suppress(NormbenchError):  # it cannot stand there
            specs.append(_spec(name, config_dir, f"norm={norm}"))
    train = datasets.load(plain.config["data"], seed=1).splits["train"]
    initial = {key: parameter.clone() for key, parameter in _built(plain).named_parameters()}
    for spec in specs:
        network = _built(spec)
        split = train.only(models.takes(network), f"model={name}", f"data={spec.config['data']['name']}")
        batch = split.batch(slice(0, spec.config["train"]["batch_size"])).tensors
        declared = sites.declared(spec.config)
        contract.sites(network, {path: declared[path] for path in spec.sites if not path.endswith(sites.WEIGHT)})
        contract.draws(network, initial)
        network.begin(split)
        contract.forms(network, batch, spec.sites)
        _gradients(network, spec, batch)
        evaluated = _built(spec).eval()
        contract.metrics(evaluated, _built(spec).eval(), batch)
        contract.declared_metrics(evaluated, batch, declares.get("metrics") or [network.loss])
    _resumes(specs[-1])


def _spec(name: str, config_dir: Path, *words: str) -> Spec:
    (spec,) = train_specs([f"model={name}", *words], False, config_dir)
    return spec


def _built(spec: Spec) -> Model:
    seed_torch(1, torch.device("cpu"))  # as before a training
    return models.build(spec.config, spec.sites)


def _gradients(network: Model, spec: Spec, batch: Mapping[str, torch.Tensor]) -> None:
    """Each parameter learns within a few updates."""
    optimizer = optim.build(spec.config["optim"], network, spec.config["model"]["declares"].get("outer", ()))
    without = {key for key, _ in network.named_parameters()}
    for _ in range(PASSES):
        without &= contract.gradients(network, batch)
        optimizer.step()
    demand(not without, f"the gradient of {', '.join(sorted(without))} is zero: the loss does not depend on it")


def _resumes(spec: Spec) -> None:
    """A run that is interrupted and goes on ends with the bytes of one that was not."""
    words = {"epochs": 0, "steps": UPDATES, "keep": ["last"]}
    config: dict[str, Any] = {**spec.config, "train": {**spec.config["train"], **words}}
    short = replace(spec, config=config)
    with scratch.folder("normbench-check-") as folder, contextlib.redirect_stdout(io.StringIO()):
        whole, parts = RunDirectory(folder / "whole"), RunDirectory(folder / "parts")
        status = ensure_run(short, whole)
        demand(status == "done", f"a run of {UPDATES} updates ends as {status}")
        answers = iter([False] * (UPDATES // 2))
        ensure_run(short, parts, stopping=lambda: next(answers, True))
        ensure_run(short, parts)
        for file in ("curve.jsonl", "weights/last.safetensors"):
            demand(
                (whole.path / file).read_bytes() == (parts.path / file).read_bytes(),
                "an interrupted run ends with other numbers than one that was not: keep all state in parameters and "
                "buffers, and draw random numbers by self.draws",
            )
