"""`normbench sample RUN`: draws, writes or searches with a trained model."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any

from normbench.commands.options import ConfigDir, Results, RunName, Weights, option
from normbench.commands.terminal import console, say
from normbench.config import compose
from normbench.errors import BadInput
from normbench.runs import directory
from normbench.train.weights import locate_run, refuse_edited, trained

EPILOG = """examples:
  normbench sample 85b977d027bf                         list the files that the run wrote at its end
  normbench sample 85b97 --count 20 --seed 7            draw 20 more from its stored weights
  normbench sample 5f13e --near "a dog runs"            images whose captions are nearest to this one; for models
                                                        of sentences, the nearest held-out sentences
  normbench sample cf9d --text "a line" --bias 0.7      write a text in a hand that the model draws

Runs are published without their weights: train such a run first, below another --results (normbench show RUN).
"""
NEAREST = 5  # lines, the default of --count with --near


def command(
    run: RunName,
    results: Results,
    config_dir: ConfigDir = None,
    count: Annotated[int | None, option("draw N new samples", "N", min=1)] = None,
    near: Annotated[str | None, option("list the test examples nearest to a text", "TEXT")] = None,
    text: Annotated[
        str | None, option("write this text as handwriting; with --count N, in N different hands", "TEXT")
    ] = None,
    bias: Annotated[float, option("with --text: 0 samples the model, larger values draw likelier strokes", "B")] = 0,
    seed: Annotated[int, option("seed of the samples", "S")] = 1,
    weights: Weights = None,
) -> None:
    """List a run's samples; with `count` draw more, with `text` write it, with `near` list the nearest test examples.

    NormbenchError: no such run or none with weights, missing or unfitting weights, a model that draws nothing or reads
    or writes no text.
    """
    if near is not None and text is not None:
        raise BadInput("--near and --text exclude each other.")
    if not 0 <= bias < math.inf:
        raise BadInput(f"--bias {bias:g} is not a number of at least 0.")
    if bias and text is None:
        raise BadInput("--bias is for a text of yours: --text 'a line'.")
    stored, folder = locate_run(run, results)
    config = compose.restore(stored.config, config_dir)
    name = config["model"]["name"]
    if count or near is not None or text is not None:
        from normbench import data

        refuse_edited(stored, config_dir)
        model, stem = trained(folder, config, weights, config_dir)
        examples = data.load(config["data"], seed=int(config["seed"]))
        if near is not None:
            lines = model.nearest(near, count or NEAREST, examples)
            if not lines:
                raise BadInput(f"--near: model={name} reads no text of yours.")
            for line in lines:
                say(console(), line)
            return
        made = _files(model, name, count, text, bias, seed, examples)
        writer = directory.RunDirectory(folder)
        with writer.writing():
            writer.write_samples({f"{stem}-seed-{seed}-{file}": content for file, content in made.items()})
    files = sorted((folder / "samples").glob("[!.]*")) if (folder / "samples").is_dir() else []
    if not files:
        raise BadInput(f"model={name} has left no samples in {folder}. To draw some, if it draws any: --count 8")
    for file in files:
        say(console(), str(file))


def _files(
    model: Any, name: str, count: int | None, text: str | None, bias: float, seed: int, examples: Any
) -> dict[str, bytes]:
    """Files by name; those of a text begin with it, so that texts do not overwrite each other."""
    made: dict[str, bytes]
    if text is None:
        made = model.sample(seed, count, examples)
    else:
        called = re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")[:40] + f"-bias-{bias:g}"
        written = model.write(text, bias, seed, count or 1, examples)
        made = {f"{called}-{file}": content for file, content in written.items()}
    if not made:
        raise BadInput(f"model={name} {'draws nothing' if text is None else 'writes no text of yours (--text)'}.")
    return made
