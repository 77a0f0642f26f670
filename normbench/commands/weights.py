"""`normbench weights RUN`: the weights of a trained network, to take home."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

from normbench.commands.options import ConfigDir, Results, RunName, option
from normbench.commands.terminal import console, say
from normbench.errors import BadInput
from normbench.files.reading import place
from normbench.runs import files
from normbench.train.weights import locate_run

EPILOG = """examples:
  normbench weights 05fb4                               list what the run kept
  normbench weights 05fb4 --output model.safetensors    the best weights by validation, else the last ones
  normbench weights 05fb4 --output last.safetensors --weights last

The names of the tensors are those of the network's state_dict, statistics of normalizers too; the run's configuration
is the metadata normbench, as JSON. In Python: network, config = normbench.load_model("05fb4").

A run keeps the weights after its last update and, where it evaluates on validation, the best ones: as many bytes again.
Others: train.keep=[last,best,1000]. Runs are published without their weights.
"""


def command(
    run: RunName,
    results: Results,
    config_dir: ConfigDir = None,
    output: Annotated[
        Path | None, option("the file to write, in the form of safetensors", "FILE", parser=place)
    ] = None,
    weights: Annotated[
        str | None, option("which weights: best, last or step-N (default: best, if stored)", "NAME")
    ] = None,
) -> None:
    """List the weights that a run kept; with `output` write some into a file."""
    if output is None:
        if weights is not None:
            raise BadInput(f"--weights {weights} says what to write: --output FILE says where.")
        _, folder = locate_run(run, results)
        stored = sorted((folder / "weights").glob("*.safetensors"))
        if not stored:
            raise BadInput(f"{folder} keeps no weights. Train it again with train.keep=[last,best].")
        for path in stored:
            say(console(), f"{path.stem:<10} {path.stat().st_size:>12,} bytes  {path}")
        return
    from safetensors.torch import save

    from normbench.library.models import load_trained

    source, network, stem = load_trained(run, weights, results, config_dir)
    if output.exists() and not output.is_file():
        raise BadInput(f"--output {output} is no regular file.")
    target = Path(os.path.realpath(output))  # write through a link, not over it
    files.check_folder(target, "--output")
    tensors = {name: tensor.contiguous() for name, tensor in sorted(network.state_dict().items())}
    facts = {"run": source.id, "weights": stem, "config": dict(source.config)}
    files.atomic_write(target, save(tensors, {"normbench": json.dumps(facts)}))
    size = f"{len(tensors)} tensors, {target.stat().st_size:,} bytes"
    say(console(), f"{stem} weights of run {source.id}, {size}: {output}")
