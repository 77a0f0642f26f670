"""`normbench compare`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

EPILOG = """examples:
  normbench compare model=mnist_mlp norm=none,batch,layer        own runs and published ones
  normbench compare model=lenet5 experiment=adhoc --metric nll   runs of no experiment alone
  normbench compare model=imdb_rnn train.batch_size=25 --against bn --at best
  normbench compare                                              what there is to compare

filters: KEY=VALUE[,VALUE]; keys of the configuration and experiment, arm, fidelity, control, status, seed (1-5), run;
train.epochs and train.steps are how long; a star stands for any text. By itself: an experiment, an arm, or the
beginning of an id.

Runs of one configuration but for the seed are averaged; those of the same model, data and length are compared: pairs of
equal seeds, or by Welch's interval where seeds are not shared. Where others are shorter, a longer run is compared at
their length too, and that is said. A winner is ahead of every other arm; below 5 seeds there is no verdict. Diverged
runs are counted, and an arm that lost some is never ahead.

All pairs of arms in a table, those with the baseline among them, share Holm's adjustment: the chance of any false word
is at most 5 %. Each table and each metric is judged separately. It is so for one look: who adds seeds until there is a
word is wrong more often.
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("filters", nargs="*", metavar="key=value")
    parser.add_argument("--metric", help="what is compared (default: the model's first rate, such as error)")
    parser.add_argument("--split", help="evaluated on which split (default: test)")
    parser.add_argument(
        "--at", choices=["end", "best"], help="the last evaluation (default), or each run's best by what it monitors"
    )
    parser.add_argument("--against", metavar="ARM", help="the baseline (default: no normalization)")
    parser.add_argument(
        "--by", metavar="KEYS", help="the keys that define an arm, with commas (default: the normalizer)"
    )
    parser.add_argument(
        "--level",
        metavar="VALUE",
        help="measure the time up to this value (default: 95 %% of the way from the worst start to the best value)",
    )
    parser.add_argument("--json", action="store_true")


def run(given: Namespace, console: Any) -> int:
    from normbench.commands import compare

    names = ("metric", "split", "at", "against", "by", "level")
    asked = {name: getattr(given, name) for name in names if getattr(given, name)}
    return compare.run(given.filters, asked, given.results, given.json, console, given.config_dir)
