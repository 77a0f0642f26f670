"""`normbench sample RUN`: files that show what a trained model draws; what it takes for near."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console

from normbench.commands.show import Known, known
from normbench.commands.terminal import say
from normbench.config import compose
from normbench.config.identity import assign
from normbench.errors import NormbenchError
from normbench.runs import store

NEAREST = 5  # lines, where `--count` does not say


def run(
    of: str,
    results: Path,
    count: int | None,
    near: str | None,
    seed: int,
    weights: str | None,
    config_dir: Path | None,
    console: Console,
) -> int:
    """List a run's samples; with `count` draw so many more; with `near` so many test examples that are near a text.

    From `weights` that the run kept, the last if it kept those. Errors: no such run, one that is published alone,
    weights that it did not keep or that do not fit, a model that draws nothing or reads no text.
    """
    found, folder = kept_run(of, results)
    if count is not None and count < 1:
        raise NormbenchError(f"--count {count} must be at least 1.")
    config = compose.restore(found.config, config_dir)
    name = config["model"]["name"]
    if near is not None or count is not None:
        from normbench import data

        model, kept = trained(folder, config, weights, config_dir)
        examples = data.load(config["data"], seed=int(config["seed"]))
        if near is not None:
            lines = model.nearest(near, count or NEAREST, examples)
            if not lines:
                raise NormbenchError(f"--near: model={name} reads no text of yours.")
            for line in lines:
                say(console, line)
            return 0
        drawn = model.sample(seed, count, examples)
        if not drawn:
            raise NormbenchError(f"model={name} draws nothing.")
        run = store.RunDirectory(folder)
        with run.writing():
            run.write_samples({f"{kept}-seed-{seed}-{file}": content for file, content in drawn.items()})
    files = sorted((folder / "samples").glob("*")) if (folder / "samples").is_dir() else []
    if not files:
        raise NormbenchError(f"model={name} has left no samples in {folder}. To draw some: --count 8")
    for file in files:
        say(console, str(file))
    return 0


def kept_run(name: str, results: Path) -> tuple[Known, Path]:
    """The run called `name` and its directory. NormbenchError where it is published alone, without its weights."""
    found = known(name, results)
    folder = next((s.path for s in store.scan(results / "runs") if s.id == found.id and not s.reason), found.source)
    if not folder.is_dir():
        raise NormbenchError(
            f"run {found.id} is published without its weights: train it below another --results to draw from it."
        )
    return found, folder


def trained(folder: Path, config: compose.Config, weights: str | None, config_dir: Path | None) -> tuple[Any, str]:
    """The run's model with weights that it kept, the last if it kept those, and which these are.

    Errors: weights that it did not keep, or that do not fit.
    """
    from safetensors.torch import load_file

    from normbench.models import base as models

    kept = sorted(file.stem for file in (folder / "weights").glob("*.safetensors"))
    chosen = weights or ("last" if "last" in kept or not kept else kept[0])
    if chosen not in kept:
        raise NormbenchError(f"--weights {chosen}: the run kept {', '.join(kept) or 'none'}. (train.keep=[last,best])")
    model = models.build(config, assign(config, config_dir)).eval()
    path = folder / "weights" / f"{chosen}.safetensors"
    try:
        model.load_state_dict(load_file(path))
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise NormbenchError(f"{path} does not fit the run's model and data ({reason}). Train the run again.") from None
    return model, chosen
