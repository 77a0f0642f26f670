"""`normbench compare`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

EPILOG = """examples:
  normbench compare model=mnist_mlp norm=none,batch,layer        own runs and published ones
  normbench compare model=lenet5 experiment=adhoc --metric nll   runs of no experiment alone
  normbench compare model=imdb_rnn train.batch_size=25 --against bn --at best
  normbench compare                                              list what can be compared

filters: KEY=VALUE[,VALUE]; keys of the configuration and experiment, arm, fidelity, control, status, seed (1-5), run;
train.epochs and train.steps give the length; * matches any text. A word without = is an experiment, an arm, or the
beginning of an id.

Runs that differ only in the seed are averaged; those of the same model, data and length are compared: by pairs of equal
seeds, or by Welch's interval where seeds are not shared. A longer run is also compared at the length of shorter ones,
and a line says so. A winner is ahead of every other arm; below 5 seeds there is no verdict. Diverged runs are counted,
and an arm with a diverged run is never ahead.

All pairs of arms in a table, including those with the baseline, share Holm's adjustment: the chance of a false verdict
is at most 5 %. Each table and each metric is judged separately. The 5 % hold for one look: adding seeds until there
is a verdict errs more often.
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("filters", nargs="*", metavar="key=value")
    parser.add_argument("--metric", help="the metric to compare (default: the model's first rate, such as error)")
    parser.add_argument("--split", help="the split to compare on (default: test)")
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


def run(arguments: Namespace, console: Any) -> int:
    from normbench.commands import compare

    names = ("metric", "split", "at", "against", "by", "level")
    asked = {name: getattr(arguments, name) for name in names if getattr(arguments, name)}
    return compare.run(arguments.filters, asked, arguments.results, arguments.json, console, arguments.config_dir)
