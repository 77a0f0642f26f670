"""The one training loop."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, BinaryIO

import numpy
import torch
from torch import Tensor, nn

import normbench
from normbench import data as datasets
from normbench.config.identity import RunSpec, covers, widened
from normbench.errors import NormbenchError
from normbench.models import base as models
from normbench.norms.base import normalizers
from normbench.rnn import engine
from normbench.rnn.cells import Cell
from normbench.runs import files, store
from normbench.streams import stream
from normbench.train import checkpoint, optim, probes
from normbench.train.adjust import Adjust
from normbench.train.evaluate import Record, block_size, evaluate, validation

Event = dict[str, Any]


@dataclass
class Progress:
    """Where a run is; everything that resuming needs beside the tensors."""

    epoch: int = 1  # the one being trained
    batch: int = 0  # batches of it that are done
    step: int = 0  # updates in all
    loss_sum: float = 0.0  # of the epoch's examples so far
    sums: dict[str, float] = field(default_factory=dict)  # the same of further metrics
    lowest: dict[str, float] = field(default_factory=dict)  # validation NLL of an epoch, by the way of evaluating
    curve_bytes: int = 0  # the curve when this was saved; what comes after is repeated
    seconds: float = 0.0


class Stop(Exception):
    """The run ends here, with this status and reason."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


def train(
    spec: RunSpec,
    run: store.RunDirectory,
    listen: Callable[[Event], None] = lambda event: None,
    stopping: Callable[[], bool] = lambda: False,
) -> str:
    """Train one run to its end, or on from its checkpoint; returns `done`, `diverged` or `interrupted`.

    Kill it at any moment: the same call goes on and ends with weights and curve byte-equal to an undisturbed run.
    A full disk leaves the run interrupted and raises NormbenchError (code 4).
    """
    torch.set_num_threads(1)  # one process per core; two threads on a busy core stall each other
    with run.writing():
        already = store.finished(run.path, spec.epochs, spec)
        if already is not None:
            return str(already[0]["status"])
        spec = _with_evaluations(spec, run)
        try:
            if spec.config["model"]["declares"].get("probe"):
                return _compute(spec, run)
            return _train(spec, run, listen, stopping)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            return _disk_full(spec, run, error)


def _with_evaluations(spec: RunSpec, run: store.RunDirectory) -> RunSpec:
    """Where what is there was trained without an evaluation that is asked for now: with both, and from the start."""
    try:
        old = store.read_config(run.path)["config"]
    except store.Damaged:
        return spec
    if covers(old, spec.config, spec.config_dir):
        return spec
    checkpoint.clear(run.path / "checkpoint")
    return widened(spec, old)


def _disk_full(spec: RunSpec, run: store.RunDirectory, error: OSError) -> str:
    reason = f"disk full: {error.strerror}"
    # no room for a new status: the old one says running, and nobody holds the lock, which reads the same
    with contextlib.suppress(OSError):
        run.write_status("interrupted", **_labels(spec), reason=reason)
    raise NormbenchError(
        f"run {spec.id}: {reason} below {run.path}. The last checkpoint is whole: free some space and repeat the "
        "command.",
        code=4,
    ) from None


def _train(
    spec: RunSpec, run: store.RunDirectory, listen: Callable[[Event], None], stopping: Callable[[], bool]
) -> str:
    config, seed = spec.config, spec.seed
    batch_size, epochs = config["train"]["batch_size"], config["train"]["epochs"]
    choices = spec.sites()
    mode_dependent = any(choice.mode_dependent for choice in choices.values())
    data = datasets.load(config["data"], seed=seed)
    for note in data.notes:
        print(note)
    train_split = data.splits["train"]
    if config["eval"]["blocks"]:
        for name, split in data.splits.items():
            if name.startswith("test"):
                block_size(len(split.targets), batch_size, config["eval"]["blocks"], name)
    model = models.build(config, choices)
    optimizer = optim.build(config["optim"], model)
    adjust = Adjust(config, model, optimizer)
    progress = _resume(spec, run, model, optimizer, data.copy)
    started = saved = time.monotonic()
    before = progress.seconds

    with open(run.curve, "ab") as curve, open(run.path / "timing.jsonl", "ab") as timing:

        def save() -> None:
            nonlocal saved
            progress.seconds = before + time.monotonic() - started
            _save(run, curve, progress, model, optimizer)
            saved = time.monotonic()

        def log(epoch: int, records: list[Record]) -> None:
            place = {"epoch": epoch, "step": progress.step}
            curve.write(b"".join(files.line(place | record) for record in records))  # at once: others read along
            curve.flush()
            for record in records:
                if record["split"] == "train" and not math.isfinite(record["nll"]):
                    raise Stop("diverged", f"train NLL is {record['nll']} after epoch {epoch}")

        try:
            if progress.step == 0 and curve.tell() == 0:
                first = torch.from_numpy(stream(seed, "order", 1).permutation(len(train_split.targets)))[:batch_size]
                models.start_from_data(model, train_split.inputs[first], train_split.targets[first])
                log(0, evaluate(model, data, 0, seed, batch_size, mode_dependent, config["eval"]))
            while progress.epoch <= epochs:
                clock = time.monotonic()
                shuffle = progress.epoch if config["train"]["reshuffle"] else 1
                order = torch.from_numpy(stream(seed, "order", shuffle).permutation(len(train_split.targets)))
                model.train()
                if progress.batch == 0:
                    for norm in normalizers(model):
                        norm.begin_epoch()
                for index in order.split(batch_size)[progress.batch :]:
                    with models.update(model, seed, progress.step):
                        loss = model(train_split.inputs[index], train_split.targets[index])
                    value = loss.item()
                    if not math.isfinite(value):  # before the update: the weights stay as they were
                        raise Stop("diverged", f"train NLL is {value} at step {progress.step + 1}")
                    loss.backward()
                    for name, acted in adjust(progress.step).items():  # means are over examples
                        progress.sums[name] = progress.sums.get(name, 0.0) + acted * len(index)
                    optimizer.step()
                    optimizer.zero_grad()
                    progress.loss_sum += value * len(index)
                    for name, total in model.tally.items():
                        progress.sums[name] = progress.sums.get(name, 0.0) + total.item()
                    progress.batch += 1
                    progress.step += 1
                    if time.monotonic() - saved >= config["train"]["checkpoint_seconds"]:
                        save()
                        listen({"step": progress.step, "steps": spec.steps, "nll": value})
                    if stopping():
                        save()
                        raise Stop("interrupted", "stopped; the same command goes on")
                for norm in normalizers(model):
                    norm.end_epoch()
                means = {
                    k: v / len(train_split.targets) for k, v in {"nll": progress.loss_sum, **progress.sums}.items()
                }
                running = {"split": "train", "mode": "running", **means}
                trained = time.monotonic() - clock
                usual = (model, data, progress.epoch, seed, batch_size, mode_dependent, config["eval"])
                records = evaluate(*usual, progress.lowest, last=progress.epoch == epochs)
                for way, nll in validation(records).items():
                    progress.lowest[way] = min(progress.lowest.get(way, math.inf), nll)
                log(progress.epoch, [running, *records])
                timing.write(
                    files.line(
                        {
                            "epoch": progress.epoch,
                            "train_seconds": trained,
                            "evaluate_seconds": time.monotonic() - clock - trained,
                        }
                    )
                )
                timing.flush()
                progress.epoch, progress.batch, progress.loss_sum, progress.sums = progress.epoch + 1, 0, 0.0, {}
                listen({"step": progress.step, "steps": spec.steps, "nll": means["nll"]})
            status, reason = "done", ""
        except Stop as stop:
            status, reason = stop.status, stop.reason
        curve.flush()
        os.fsync(curve.fileno())

    fields = {**_labels(spec), "step": progress.step, "reason": reason}
    fields["seconds"] = round(before + time.monotonic() - started, 3)
    if status == "interrupted":
        run.write_status(status, **fields)
        return status
    if config["train"]["keep_checkpoint"] and status == "done":
        with open(run.curve, "ab") as curve:
            _save(run, curve, progress, model, optimizer)
    if "last" in config["train"]["keep"]:
        checkpoint.save_weights(run.path / "weights" / "last.safetensors", model)
    run.write_status(status, **fields, curve_sha256=store.curve_sha256(run.curve))
    run.drop_aside()
    if not config["train"]["keep_checkpoint"]:
        checkpoint.clear(run.path / "checkpoint")
    return status


def _compute(spec: RunSpec, run: store.RunDirectory) -> str:
    """A probe: its records, written at once; there is nothing to resume."""
    started = time.monotonic()
    _record_environment(run, 0, [])
    run.write_config(spec)
    fields = {**_labels(spec), "step": spec.steps, "reason": ""}
    run.write_status("running", **fields | {"step": 0})
    files.write_whole(run.curve, b"".join(files.line(record) for record in probes.compute(spec)))
    fields["seconds"] = round(time.monotonic() - started, 3)
    run.write_status("done", **fields, curve_sha256=store.curve_sha256(run.curve))
    return "done"


def _labels(spec: RunSpec) -> dict[str, Any]:
    return {"id": spec.id, "seed": spec.seed, "epochs": spec.epochs, "steps": spec.steps, **spec.labels()}


def _save(
    run: store.RunDirectory, curve: BinaryIO, progress: Progress, model: nn.Module, optimizer: torch.optim.Optimizer
) -> None:
    curve.flush()
    os.fsync(curve.fileno())  # a checkpoint must never promise records that a power cut can still take
    progress.curve_bytes = curve.tell()
    tensors: dict[str, Tensor] = {f"model:{name}": tensor for name, tensor in model.state_dict().items()}
    tensors |= {f"optim:{name}": tensor for name, tensor in optim.state_tensors(optimizer, model).items()}
    checkpoint.save_slot(run.path / "checkpoint", asdict(progress), tensors)


def _resume(
    spec: RunSpec,
    run: store.RunDirectory,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    copy: Mapping[str, Any],
) -> Progress:
    """Model, optimizer and curve as the newest checkpoint left them, or a fresh start; says `running` from here on."""
    old = _old_status(run)
    found = checkpoint.newest(run.path / "checkpoint")
    notes: list[str] = []
    progress = Progress()
    if found is not None and found[0]["step"] > spec.steps:
        raise NormbenchError(
            f"run {spec.id} is already at step {found[0]['step']} of a longer one, beyond the {spec.steps} asked for. "
            "Finish that one first (the same train.epochs as before), or delete its directory.",
        )
    if found is not None:
        saved, tensors, notes = found
        if isinstance(saved.get("lowest"), float):  # from when only the usual way was remembered
            saved["lowest"] = {"": saved["lowest"]}
        progress = Progress(**saved)
        model.load_state_dict({n[6:]: t for n, t in tensors.items() if n.startswith("model:")})
        optim.load_state(optimizer, model, {n[6:]: t for n, t in tensors.items() if n.startswith("optim:")})
    if old is not None and old["status"] in store.FINISHED:
        run.set_aside_finished(goes_on=found is not None)
    _record_environment(run, progress.step, notes, model, copy)
    run.write_config(spec)
    if run.curve.exists() and run.curve.stat().st_size < progress.curve_bytes:
        raise NormbenchError(
            f"{run.curve} is shorter than its checkpoint remembers: it was changed by hand. Delete the run's directory "
            "to start it anew.",
            code=4,
        )
    # the status first: a curve without one counts as damaged
    run.write_status("running", **_labels(spec), step=progress.step, reason="")
    with open(run.curve, "ab") as curve:
        curve.truncate(progress.curve_bytes)
    return progress


def _old_status(run: store.RunDirectory) -> dict[str, Any] | None:
    if not (run.path / "status.json").exists():
        return None
    try:
        return store.read_status(run.path)
    except store.Damaged as damage:
        raise NormbenchError(f"{run.path} is damaged: {damage}. Delete it to start this run anew.", code=4) from None


def environment(model: nn.Module | None = None) -> dict[str, Any]:
    """What the bytes of a curve depend on beside the configuration, and what wall times depend on."""
    recurrent = model is not None and any(isinstance(module, Cell) for module in model.modules())
    return {
        "normbench": normbench.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "instruction_set": torch.backends.cpu.get_cpu_capability(),
        "processor": _processor(),
        "threads": torch.get_num_threads(),
        **({"recurrent": engine.describe()} if recurrent else {}),
        "device": "cpu",
        "system": f"{platform.system()} {platform.machine()}",
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def _record_environment(
    run: store.RunDirectory,
    step: int,
    notes: list[str],
    model: nn.Module | None = None,
    copy: Mapping[str, Any] | None = None,
) -> None:
    """The environment with the copy of the data, and where it changed: a run that was resumed elsewhere says so."""
    path = run.path / "environment.json"
    now: dict[str, Any] = environment(model) | ({"data": dict(copy)} if copy else {})
    content: dict[str, Any] = {**now, "resumed": []}
    if step and path.exists():
        try:
            content = store.read_environment(run.path)
        except store.Damaged as damage:
            raise NormbenchError(
                f"{run.path} is damaged: {damage}. Delete it to start this run anew.", code=4
            ) from None
        content.setdefault("resumed", [])
        changed = {key: value for key, value in now.items() if content.get(key) != value}
        content["resumed"].append({"step": step, "changed": changed, "notes": notes})
    files.write_json(path, content)
