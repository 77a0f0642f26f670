"""`normbench data`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from rich.console import Console

from normbench import data
from normbench.commands import terminal
from normbench.commands.options import ConfigDir, Json, Results, argument
from normbench.commands.terminal import say
from normbench.config import compose
from normbench.data import files
from normbench.errors import BadInput

EPILOG = """examples:
  normbench data                                        list the data sets and their state
  normbench data get mnist                              download it (checked)

a set of your own in MNIST's format (Fashion-MNIST, KMNIST, EMNIST, ...): DIR/data/fashion.yaml with

  name: fashion
  valid: 5000                              # of the training images, the first ones
  declares:
    title: Fashion-MNIST
    source: Xiao et al. 2017
    like: mnist
    files:                                 # below NORMBENCH_DATA, each with its md5 or sha256, if you know it
      fashion/train-images-idx3-ubyte.gz:
      fashion/train-labels-idx1-ubyte.gz:
      fashion/t10k-images-idx3-ubyte.gz:
      fashion/t10k-labels-idx1-ubyte.gz:
    # where they are not MNIST's: classes: 47, features: 784, sizes: {train: 112800, test: 18800}

  normbench data --config-dir DIR                                         check that it is found
  normbench train --config-dir DIR model=mnist_mlp data=fashion norm=layer

--json prints, shortened:
  {"root": "data",
   "sets": [{"id": "mnist", "title": "MNIST", "state": "missing. Bring it with: normbench data get mnist"}]}
  {"id": "mnist", "root": "data", "brought": ["train-images"], "remark": "", "terms": ""}        data get
"""


def command(
    results: Results,
    action: Annotated[Literal["get"] | None, argument("", show_default="list all")] = None,
    name: Annotated[str | None, argument("a data set", "set")] = None,
    config_dir: ConfigDir = None,
    as_json: Json = False,
) -> None:
    console = terminal.console(stderr=as_json)
    if action is None:
        answer = listed(config_dir, None if as_json else console)
    elif name is None:
        raise BadInput("data get needs a set, such as: normbench data get mnist")
    else:
        answer = get(name, console, config_dir)
    if as_json:
        terminal.say_json(answer)


def listed(config_dir: Path | None, console: Console | None) -> dict[str, Any]:
    """Every data set with its state, also printed unless there is no console."""
    root = data.root()
    sets = [
        {"id": name, "title": compose.declaration("data", name, config_dir)["title"], "state": state}
        for name, state in states(config_dir)
    ]
    if console:
        for entry in sets:
            terminal.say_under(console, f"{entry['id']:<17} ", f"{entry['title']}: {entry['state']}")
        say(console, f"looked in {root} (NORMBENCH_DATA)")
    return {"root": str(root), "sets": sets}


def states(config_dir: Path | None = None) -> Iterator[tuple[str, str]]:
    """Every data set's name and state, with the command that mends it."""
    for name in compose.choices("data", config_dir):
        yield name, _state(compose.choice("data", name, config_dir))


def _state(config: Mapping[str, Any]) -> str:
    """ready, missing or damaged, with the remedy."""
    root, config = data.root(), data.made_of(config)
    names = [*files.folders(config), *files.declared(config, root)]
    if not names:
        return "ready (embedded)"
    if not any((root / name).exists() for name in names):
        return f"missing. {files.remedy(config, root, names[0])}"
    if problems := data.problems(config):
        return problems[0]
    total = sum(path.stat().st_size for path in files.paths(config, root))
    remark = files.remark(config, root)
    return f"ready, {total / 1e6:.1f} MB" + (f"; {remark}" if remark else "")


def get(name: str, console: Console, config_dir: Path | None = None) -> dict[str, Any]:
    """Download a data set: the one command that uses the network."""
    config, root = data.made_of(compose.choice("data", name, config_dir)), data.root()
    problems = data.problems(config)
    if "fetch" not in config["declares"]:
        raise BadInput(f"{name}: there is nothing to fetch; {_state(config)}.")
    brought = []
    for path in files.fetch(config, root) if problems else ():
        say(console, f"brought {path}")
        brought.append(str(path))
    data.check(config)
    remark, terms = files.remark(config, root), config["declares"].get("terms", "")
    say(console, f"terms of use: {terms}" if brought and terms else f"{name} is complete below {root}")
    if remark:
        say(console, f"{name}: {remark}")
    return {"id": name, "root": str(root), "brought": brought, "remark": remark, "terms": terms}
