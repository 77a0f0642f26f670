"""`normbench train`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

EPILOG = """examples:
  normbench train model=mnist_mlp norm=layer 'norm.sites=[hidden,logits]' optim.lr=3e-4 train.epochs=10
  normbench train model=mnist_mlp 'norm.sites={hidden: {name: layer, eps: 1e-3}, logits: batch}'
  normbench train experiment=ln2016/fig6 arm=ln seed=2 train.batch_size=4
  normbench train -m model=mnist_mlp norm=none,layer 'seed=range(1,6)' launcher=pool
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("-m", "--multirun", action="store_true", help="run every combination of comma lists and ranges")
    parser.add_argument("words", nargs="*", metavar="key=value")


def run(given: Namespace, console: Any) -> int:
    from normbench.commands import train

    return train.run(given.words, given.multirun, given.results, given.config_dir, console)
