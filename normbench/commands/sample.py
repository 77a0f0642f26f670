"""`normbench sample RUN`: the files that show what a trained model draws."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from normbench.commands.show import known
from normbench.commands.terminal import say
from normbench.config import compose
from normbench.config.identity import assign
from normbench.errors import NormbenchError
from normbench.runs import store


def run(
    name: str, results: Path, count: int | None, seed: int, weights: str, config_dir: Path | None, console: Console
) -> int:
    """List a run's samples; with `count` draw so many more, from weights that the run kept.

    Errors: no such run, one that is published alone, weights that it did not keep, a model that draws nothing.
    """
    found = known(name, results)
    if not found.source.is_dir():
        raise NormbenchError(
            f"run {found.id} is published without its weights: train it below another --results to draw from it."
        )
    if count is not None:
        if count < 1:
            raise NormbenchError(f"--count {count} must be at least 1.")
        _draw(found.source, compose.restore(found.config, config_dir), count, seed, weights, config_dir)
    files = sorted((found.source / "samples").glob("*")) if (found.source / "samples").is_dir() else []
    if not files:
        raise NormbenchError(
            f"model={found.config['model']['name']} has left no samples in {found.source}. To draw some: --count 8"
        )
    for file in files:
        say(console, str(file))
    return 0


def _draw(folder: Path, config: compose.Config, count: int, seed: int, weights: str, config_dir: Path | None) -> None:
    from safetensors.torch import load_file

    from normbench.models import base as models

    path = folder / "weights" / f"{weights}.safetensors"
    kept = sorted(file.stem for file in path.parent.glob("*.safetensors")) if path.parent.is_dir() else []
    if weights not in kept:
        raise NormbenchError(f"--weights {weights}: the run kept {', '.join(kept) or 'none'}. (train.keep=[last,best])")
    model = models.build(config, assign(config, config_dir))
    model.load_state_dict(load_file(path))
    drawn = model.sample(seed, count)
    if not drawn:
        raise NormbenchError(f"model={config['model']['name']} draws nothing.")
    run = store.RunDirectory(folder)
    with run.writing():
        run.write_samples({f"{weights}-seed-{seed}-{name}": content for name, content in drawn.items()})
