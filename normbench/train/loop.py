"""The one training loop."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import time
from collections.abc import Callable
from typing import Any

import torch

from normbench import data as datasets
from normbench.config.identity import RunSpec, merged, satisfies
from normbench.data.examples import Split
from normbench.data.sampler import Sampler
from normbench.errors import NormbenchError
from normbench.models import base as models
from normbench.norms.base import normalizers
from normbench.runs import files, store
from normbench.train import checkpoint, environment, optim, outcomes, probes
from normbench.train.adjust import Adjust
from normbench.train.evaluate import Evaluation, Record, State
from normbench.train.progress import labels, old_status, resume, save

Event = dict[str, Any]
DRAWN = 8  # samples that a finished run of a model that draws some leaves


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
        already = store.finished(run.path, spec.steps, spec)
        if already is not None:
            return str(already[0]["status"])
        _leave_older_form(run)
        spec = _with_evaluations(spec, run)
        try:
            if spec.config["model"]["declares"].get("probe"):
                return _compute(spec, run)
            return _train(spec, run, listen, stopping)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            return _disk_full(spec, run, error)


def _leave_older_form(run: store.RunDirectory) -> None:
    """What cannot be gone on with, or one curve would hold records of two forms: such a run starts anew."""
    old = old_status(run)
    if old is None or old["schema"] == store.SCHEMA:
        return
    print(f"the records here are of form {old['schema']}, this version writes form {store.SCHEMA}: started anew")
    checkpoint.clear(run.path / "checkpoint")  # first: what is left without it is never gone on with
    if old["status"] in store.FINISHED:  # a shorter one
        run.set_aside_finished(goes_on=False)
    else:
        run.drop_unfinished()


def _with_evaluations(spec: RunSpec, run: store.RunDirectory) -> RunSpec:
    """Where what is there was trained without an evaluation that is asked for now: with both, and from the start."""
    try:
        old = store.read_config(run.path)["config"]
    except store.Damaged:
        return spec
    if satisfies(old, spec.config, spec.config_dir):
        return spec
    checkpoint.clear(run.path / "checkpoint")
    return merged(spec, old)


def _disk_full(spec: RunSpec, run: store.RunDirectory, error: OSError) -> str:
    reason = f"disk full: {error.strerror}"
    # no room for a new status: the old one says running, and nobody holds the lock, which reads the same
    with contextlib.suppress(OSError):
        run.write_status("interrupted", **labels(spec), reason=reason)
    raise NormbenchError(
        f"run {spec.id}: {reason} below {run.path}. The last checkpoint is whole: free some space and repeat the "
        "command.",
        code=4,
    ) from None


def _train(
    spec: RunSpec, run: store.RunDirectory, listen: Callable[[Event], None], stopping: Callable[[], bool]
) -> str:
    config, seed, steps = spec.config, spec.seed, spec.steps
    device = environment.device(config["device"])
    data = datasets.load(config["data"], seed=seed)
    for note in data.notes:
        print(note)
    model = models.build(config, spec.sites()).to(device)
    splits = _splits(data, model, spec, device)
    examples = splits["train"]
    sampler = Sampler.of(config["train"], seed, len(examples), examples.lengths)
    every = config["eval"]["every"] * (sampler.per_epoch if config["eval"]["unit"] == "epochs" else 1)
    evaluation = Evaluation(model, splits, config, spec.sites())
    optimizer = optim.build(config["optim"], model)
    adjust = Adjust(config, model, optimizer)
    here = environment.environment(model, device) | ({"data": dict(data.copy)} if data.copy else {})
    progress = resume(spec, run, model, optimizer, here, every)
    started = saved = clock = time.monotonic()
    before, kept = progress.seconds, {int(step) for step in config["train"]["keep"] if step.isdecimal()}

    def seconds() -> float:
        return before + time.monotonic() - started

    with open(run.curve, "ab") as curve, open(run.path / "timing.jsonl", "ab") as timing:

        def evaluate() -> None:
            nonlocal clock
            step, (epoch, beyond) = progress.step, divmod(progress.step, sampler.per_epoch)
            trained = time.monotonic() - clock
            place: Record = {"epoch": epoch + beyond / sampler.per_epoch if beyond else epoch, "step": step}
            if config["train"]["sampler"] == "equal_lengths":  # batches of several sizes: neither tells the examples
                place["examples"] = progress.seen
            moment = f"update {step}" if beyond else epoch
            state = State(moment, first=step == 0, last=step == steps, lowest=progress.lowest)
            records = evaluation(state)
            if step:
                records.insert(0, {"split": "train", "mode": "running", **progress.means(model.loss)})
            state = evaluation.seen(records, state)
            if state.last:
                records += [{"mode": "stage", **record} for record in model.after(splits, seed)]
            _keep(run, model, evaluation, state, config)
            if step:
                for variant, value in state.values.items():
                    progress.lowest[variant] = min(progress.lowest.get(variant, math.inf), value)
            curve.write(b"".join(files.line(place | record) for record in records))  # at once: others read along
            curve.flush()
            for record in records:
                if record["split"] == "train" and not math.isfinite(record.get(model.loss, 0.0)):
                    raise Stop("diverged", f"{_loss(model)} is {record[model.loss]} after {_when(place)}")
            if step:
                spent = {"train_seconds": trained, "evaluate_seconds": time.monotonic() - clock - trained}
                timing.write(files.line(place | spent))
                timing.flush()
                listen({"step": step, "steps": steps, "loss": records[0][model.loss]})
            progress.evaluated, clock = step, time.monotonic()

        try:
            if progress.evaluated < 0:
                models.start_from_data(model, examples.batch(sampler.batch(0)))
            model.train()
            while True:
                epoch, place = divmod(progress.step, sampler.per_epoch)
                if progress.epochs < epoch:
                    for norm in normalizers(model):
                        norm.end_epoch()
                    progress.epochs = epoch
                if progress.evaluated < progress.step and (progress.step % every == 0 or progress.step == steps):
                    evaluate()
                if progress.step >= steps:
                    break
                if place == 0:
                    for norm in normalizers(model):
                        norm.begin_epoch()
                batch = examples.batch(sampler.batch(progress.step))
                with models.update(model, seed, progress.step):
                    loss = model(**batch.tensors)
                value = loss.item()
                if not math.isfinite(value):  # before the update: the weights stay as they were
                    raise Stop("diverged", f"{_loss(model)} is {value} at step {progress.step + 1}")
                loss.backward()
                acted = {name: share * batch.size for name, share in adjust(progress.step).items()}
                optimizer.step()
                optimizer.zero_grad()
                progress.add(value, batch.counted, batch.size, {**model.tally, **acted})
                if progress.step in kept:
                    checkpoint.save_weights(run.path / "weights" / f"step-{progress.step}.safetensors", model)
                if time.monotonic() - saved >= config["train"]["checkpoint_seconds"]:
                    progress.seconds = seconds()
                    save(run, curve, progress, model, optimizer)
                    saved = time.monotonic()
                    listen({"step": progress.step, "steps": steps, "loss": value})
                if stopping():
                    progress.seconds = seconds()
                    save(run, curve, progress, model, optimizer)
                    raise Stop("interrupted", "stopped; the same command goes on")
            status, reason = "done", ""
        except Stop as stop:
            status, reason = stop.status, stop.reason
        curve.flush()
        os.fsync(curve.fileno())
        fields = {**labels(spec), "step": progress.step, "reason": reason, "seconds": round(seconds(), 3)}
        if status == "interrupted":
            run.write_status(status, **fields)
            return status
        if config["train"]["keep_checkpoint"] and status == "done":
            progress.seconds = seconds()
            save(run, curve, progress, model, optimizer)
    if "last" in config["train"]["keep"]:
        checkpoint.save_weights(run.path / "weights" / "last.safetensors", model)
    if status == "done":
        run.write_samples(model.sample(seed, DRAWN))
    run.write_status(status, **fields, curve_sha256=store.curve_sha256(run.curve))
    run.drop_aside()
    if not config["train"]["keep_checkpoint"]:
        checkpoint.clear(run.path / "checkpoint")
    return status


def _splits(data: datasets.Dataset, model: models.Model, spec: RunSpec, device: torch.device) -> dict[str, Split]:
    """With the tensors that the model takes, where it computes."""
    takes, who = models.takes(model), f"model={spec.config['model']['name']}"
    return {name: split.only(takes, who, f"data={data.name}").to(device) for name, split in data.splits.items()}


def _keep(
    run: store.RunDirectory, model: models.Model, evaluation: Evaluation, state: State, config: dict[str, Any]
) -> None:
    """Weights of the best evaluation so far, and each test example's results of that one and of the last."""
    if state.best and "best" in config["train"]["keep"]:
        checkpoint.save_weights(run.path / "weights" / "best.safetensors", model)
    if evaluation.outcomes:
        for name in [*(["best"] if state.best else []), *(["last"] if state.last else [])]:
            outcomes.write(run.path / "outcomes" / f"{name}.npz", evaluation.outcomes, evaluation.splits)


def _loss(model: models.Model) -> str:
    return f"train {model.loss.upper() if model.loss == 'nll' else model.loss}"


def _when(place: Record) -> str:
    return f"epoch {place['epoch']}" if isinstance(place["epoch"], int) else f"step {place['step']}"


def _compute(spec: RunSpec, run: store.RunDirectory) -> str:
    """A probe: its records, written at once; there is nothing to resume."""
    started = time.monotonic()
    environment.record(run, 0, [], environment.environment())
    run.write_config(spec)
    fields = {**labels(spec), "step": spec.steps, "reason": ""}
    run.write_status("running", **fields | {"step": 0})
    files.atomic_write(run.curve, b"".join(files.line(record) for record in probes.compute(spec)))
    fields["seconds"] = round(time.monotonic() - started, 3)
    run.write_status("done", **fields, curve_sha256=store.curve_sha256(run.curve))
    return "done"
