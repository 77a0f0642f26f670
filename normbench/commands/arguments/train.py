"""`normbench train`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

EPILOG = """examples:
  normbench train model=mnist_mlp norm=layer 'norm.sites=[hidden,logits]' optim.lr=3e-4 train.epochs=10
  normbench train model=mnist_mlp 'norm.sites={hidden: {name: layer, eps: 1e-3}, logits: batch}'
  normbench train experiment=ln2016/fig6 arm=ln seed=2 train.batch_size=4
  normbench train -m model=mnist_mlp norm=none,layer 'seed=range(1,6)' launcher=pool
  normbench train -m model=mnist_mlp data=digits norm=none,layer,my_norm.py 'seed=range(1,6)'   your own file
  normbench train model=mnist_mlp norm=batch --cfg job  print the whole configuration as YAML
  normbench train -m model=mnist_mlp norm=none,layer --dry-run      list the runs with their ids
"""


def more_help() -> str:
    """The groups and their choices in `conf/`; called only for the help."""
    import textwrap

    from normbench.config import compose, grammar

    lines = ["groups and their choices (GROUP=CHOICE):"]
    for group in grammar.GROUPS:
        names = [name for name in compose.choices(group) if compose.can_be_chosen(group, name)]
        lines += textwrap.wrap(
            ", ".join(names), 118, initial_indent=f"  {group:<10}", subsequent_indent=" " * 12, break_on_hyphens=False
        )
    lines += [
        "  experiment, arm, fidelity, control: a run of an artifact (normbench list artifacts)",
        "",
        f"options (GROUP.OPTION=VALUE) are in {compose.conf_dir()}/GROUP/CHOICE.yaml, those of torch's",
        "optimizers and schedules in torch.yaml there, those of all runs in config.yaml; --cfg job prints them with",
        "their values. Choices of your own: --config-dir.",
    ]
    return "\n".join(["", *lines, ""])


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("-m", "--multirun", action="store_true", help="run every combination of comma lists and ranges")
    parser.add_argument("--cfg", choices=["job"], help="print the configuration as YAML and run nothing")
    parser.add_argument(
        "--dry-run", action="store_true", help="the same as --cfg job; with -m, list the runs with their ids"
    )
    parser.add_argument("words", nargs="*", metavar="key=value")


def run(arguments: Namespace, console: Any) -> int:
    from normbench.commands import train

    keeps = not (arguments.cfg or arguments.dry_run)
    registered = train.named(
        arguments.words, arguments.multirun, arguments.results, arguments.config_dir, console, keeps
    )
    with registered as (words, config_dir):
        if arguments.cfg or (arguments.dry_run and not arguments.multirun):
            return train.show_configurations(words, arguments.multirun, config_dir)
        if arguments.dry_run:
            return train.list_runs(words, arguments.results, config_dir, console)
        return train.run(words, arguments.multirun, arguments.results, config_dir, console)
