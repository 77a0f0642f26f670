"""`normbench sample RUN`: draws, writes or searches with a trained model."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from normbench.commands.terminal import say
from normbench.config import compose
from normbench.errors import NormbenchError
from normbench.runs import writing
from normbench.train.weights import locate_run, refuse_edited, trained

NEAREST = 5  # lines, the default of --count with --near


@dataclass(frozen=True)
class Asked:
    """The options of the command."""

    count: int | None = None
    near: str | None = None
    text: str | None = None
    bias: float = 0.0
    seed: int = 1
    weights: str | None = None


def run(of: str, results: Path, asked: Asked, config_dir: Path | None, console: Console) -> int:
    """List a run's samples; with `count` draw more, with `text` write it, with `near` list the nearest test examples.

    weights: which stored weights, by default the last. NormbenchError: no such run or none with weights, missing or
    unfitting weights, a model that draws nothing or reads or writes no text.
    """
    if asked.bias and asked.text is None:
        raise NormbenchError("--bias is for a text of yours: --text 'a line'.")
    found, folder = locate_run(of, results)
    config = compose.restore(found.config, config_dir)
    name = config["model"]["name"]
    if asked.count or asked.near is not None or asked.text is not None:
        from normbench import data

        refuse_edited(found, config_dir)
        model, stem = trained(folder, config, asked.weights, config_dir)
        examples = data.load(config["data"], seed=int(config["seed"]))
        if asked.near is not None:
            lines = model.nearest(asked.near, asked.count or NEAREST, examples)
            if not lines:
                raise NormbenchError(f"--near: model={name} reads no text of yours.")
            for line in lines:
                say(console, line)
            return 0
        made = _files(model, name, asked, examples)
        run = writing.RunDirectory(folder)
        with run.writing():
            run.write_samples({f"{stem}-seed-{asked.seed}-{file}": content for file, content in made.items()})
    files = sorted((folder / "samples").glob("[!.]*")) if (folder / "samples").is_dir() else []
    if not files:
        raise NormbenchError(f"model={name} has left no samples in {folder}. To draw some, if it draws any: --count 8")
    for file in files:
        say(console, str(file))
    return 0


def _files(model: Any, name: str, asked: Asked, examples: Any) -> dict[str, bytes]:
    """Files by name; those of a text begin with it, so that texts do not overwrite each other."""
    if asked.text is None:
        made: dict[str, bytes] = model.sample(asked.seed, asked.count, examples)
        if not made:
            raise NormbenchError(f"model={name} draws nothing.")
        return made
    written = model.write(asked.text, asked.bias, asked.seed, asked.count or 1, examples)
    if not written:
        raise NormbenchError(f"--text: model={name} writes no text of yours.")
    called = re.sub(r"[^A-Za-z0-9]+", "-", asked.text).strip("-")[:40] + f"-bias-{asked.bias:g}"
    return {f"{called}-{file}": content for file, content in written.items()}
