"""`normbench sample`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from normbench.commands.arguments import from_options
from normbench.commands.format import at_least

EPILOG = """examples:
  normbench sample 9b1c1575a08c                         list the files that the run wrote at its end
  normbench sample 9b1c1 --count 20 --seed 7            draw 20 more from its stored weights
  normbench sample 4f13e --near "a dog runs"            images whose captions are nearest to this one; for models
                                                        of sentences, the nearest held-out sentences
  normbench sample 5379 --text "a line" --bias 0.7      write a text in a hand that the model draws

Runs are published without their weights: train such a run first, below another --results (normbench show RUN).
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("run", help="id, the start of one, or its directory")
    parser.add_argument("--count", type=at_least(1), metavar="N", help="draw N more")
    words = parser.add_mutually_exclusive_group()
    words.add_argument("--near", metavar="TEXT", help="list the test examples nearest to a text")
    words.add_argument("--text", metavar="TEXT", help="write a text, with --count N in so many hands")
    parser.add_argument(
        "--bias",
        type=at_least(0, float),
        default=0.0,
        metavar="B",
        help="with --text: 0 samples the model, larger values draw more likely strokes",
    )
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="seed of the samples (default: 1)")
    parser.add_argument("--weights", metavar="NAME", help="last, best or step-N (default: last, if stored)")


def run(arguments: Namespace, console: Any) -> int:
    from normbench.commands import sample

    return sample.run(
        arguments.run, arguments.results, from_options(sample.Asked, arguments), arguments.config_dir, console
    )
