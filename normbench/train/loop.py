"""The one training loop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace

from normbench import data as datasets
from normbench.config.spec import Spec
from normbench.core.streams import stream
from normbench.data.sampler import Sampler
from normbench.errors import BadInput, Diverged, NormbenchError, kind
from normbench.models import base as models
from normbench.norms.modes import normalizers, seed_torch
from normbench.norms.scalars import logging_to
from normbench.rnn import loop as recurrent
from normbench.runs import directory
from normbench.runs.run import PLACE
from normbench.train import checkpoint, environment, loaded, optim
from normbench.train.clipping import Clipping
from normbench.train.evaluate import Evaluation
from normbench.train.progress import resume, save
from normbench.train.recorder import Event, Recorder, diverged


def train(
    spec: Spec,
    run: directory.RunDirectory,
    listen: Callable[[Event], None],
    stopping: Callable[[], bool],
    anew: bool,
) -> str:
    """Train a run, resuming from its directory, whose lock this process holds, or `anew`; see `ensure_run`."""
    config, seed, steps = spec.config, spec.seed, spec.steps
    device = environment.device(config["device"])
    data = datasets.load(config["data"], seed=seed)
    if "file" in config["data"]["declares"]:
        loaded.check(data, config)
    seed_torch(int(stream(seed, "torch").integers(2**63)), device)  # only users' normalizers draw from it
    model = models.build(config, spec.sites).to(device)
    for note in (*data.notes, *recurrent.notes(config, spec.sites)):
        print(note)
    takes, labels = models.takes(model), (f"model={config['model']['name']}", f"data={data.name}")
    splits = {name: split.only(takes, *labels).to(device) for name, split in data.splits.items()}
    examples = splits["train"]
    sampler = Sampler.of(config["train"], seed, examples)
    evaluation = Evaluation(model, replace(data, splits=splits), config, spec.sites)
    optimizer = optim.build(config["optim"], model, config["model"]["declares"].get("outer", ()))
    clip = Clipping(config, model, optimizer)
    current = environment.environment(model, device) | ({"data": dict(data.copy)} if data.copy else {})
    run.take_over(spec.content(), anew)  # only after everything that the run needs was found
    progress = resume(run, model, optimizer, steps, current)
    recorder = Recorder(run, evaluation, data, sampler, config, steps, listen)
    taken = {*PLACE, "clipped", model.loss, *config["model"]["declares"].get("metrics", ())}
    started, saved = time.monotonic() - progress.seconds, time.monotonic()
    try:
        if progress.evaluated < 0:
            model.begin(examples)
            models.start_from_data(model, examples.batch(sampler.batch(0)), seed)
        model.train()
        while True:
            epoch, place = divmod(progress.step, sampler.per_epoch)
            if progress.epochs < epoch:
                for norm in normalizers(model):
                    norm.end_epoch()
                progress.epochs = epoch
            if str(progress.step) in config["train"]["keep"]:
                recorder.keep_step(progress)
            if recorder.is_due(progress):
                recorder.evaluate(progress)
            if progress.step >= steps:
                status, reason = "done", ""
                break
            if place == 0:
                for norm in normalizers(model):
                    norm.begin_epoch()
            batch = examples.batch(sampler.batch(progress.step))
            with environment.flushed(), logging_to(progress.logged, {*taken, *model.tally}):
                with models.update(model, seed, progress.step, recorder.is_observed(progress)):
                    loss = model(**batch.tensors)
                if getattr(loss, "shape", None) != ():
                    raise BadInput(
                        f"{labels[0]}: forward gives {kind(loss)}, not one number, the mean loss of the batch."
                    )
                value = loss.item()
                if not math.isfinite(value):  # before the update, so the weights stay unchanged
                    raise diverged(model, value, f"at step {progress.step + 1}")
                loss.backward()
                clipped = {name: share * batch.size for name, share in clip(progress.step).items()}
                optimizer.step()
                optimizer.zero_grad()
            progress.add(value, batch.counted, batch.size, {**model.tally, **clipped})
            if time.monotonic() - saved >= config["train"]["checkpoint_seconds"]:
                save(run, progress, model, optimizer, time.monotonic() - started)
                saved = time.monotonic()
                listen({"step": progress.step, "steps": steps, "loss": value})
            if stopping():
                status, reason = "interrupted", "stopped; the same command goes on"
                break
    except Diverged as error:
        status, reason = "diverged", str(error)
    except NormbenchError as error:  # bad input that shows only in training
        run.write("failed", step=progress.step, reason=str(error))
        raise
    seconds = time.monotonic() - started
    fields = {"step": progress.step, "reason": reason, "seconds": round(seconds, 3)}
    if status == "interrupted":
        save(run, progress, model, optimizer, seconds)
        run.write(status, **fields)
        return status
    if "last" in config["train"]["keep"]:
        recorder.save_weights("last")
    if status == "done":
        recorder.write_samples()
    run.finish(status, **fields)
    checkpoint.clear(run.path)
    return status
