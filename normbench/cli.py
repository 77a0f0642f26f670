"""The command line: arguments to calls, nothing else. Imports are late, so that help is instant."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from normbench.errors import NormbenchError, did_you_mean

EPILOG = """examples:
  normbench reproduce ln2016/fig6 --fidelity smoke      everything in about a minute, on embedded data
  normbench reproduce ln2016/fig6 --max-time 0          the published result: draw and judge, train nothing
  normbench train model=mnist_mlp norm=layer seed=3     one run by Hydra overrides
  normbench train -m model=mnist_mlp norm=none,batch,layer 'seed=range(5)' launcher=pool
  normbench status                                      runs done, running, failed

exit codes: 0 done; 2 bad input; 3 the run diverged; 4 a run failed; 5 busy elsewhere; 130 interrupted, resumable
"""

TRAIN = """examples:
  normbench train model=mnist_mlp norm=layer 'norm.sites=[hidden,logits]' optim.lr=3e-4 train.epochs=10
  normbench train model=mnist_mlp 'norm.sites={hidden: {name: layer, eps: 1e-3}, logits: batch}'
  normbench train experiment=ln2016/fig6 arm=ln seed=2 train.batch_size=4
  normbench train -m model=mnist_mlp norm=none,layer 'seed=range(1,6)' launcher=pool
"""

REPRODUCE = """examples:
  normbench reproduce ln2016/fig6 --fidelity smoke
  normbench reproduce ln2016/fig6 --only ln --only bn-all --only train.batch_size=128
  normbench reproduce ln2016 --max-time 2h              go on another day with the same command
  normbench reproduce ln2016/fig6 --controls            also the settings that the paper leaves open
  normbench reproduce ln2016/fig6 logger=wandb          mirrored to W&B files below results/wandb, as it trains
"""

LIST = """examples:
  normbench list norms
  normbench list --json
"""

STATUS = """examples:
  normbench status
  normbench status --json | python -m json.tool
"""

SHOW = """examples:
  normbench show 00955a672333                           a run, raw or published
  normbench show 0095 --json
"""

RERUN = """examples:
  normbench rerun 00955a672333 --epochs 1               the first epoch again: is the curve the same to the byte?
"""

EXPORT = """examples:
  normbench export wandb                                W&B files below results/wandb; nothing leaves the machine
  normbench export wandb --mode online --entity TEAM    to the server that wandb is set up for
  normbench export csv --only ln2016/fig6               one row per evaluation: results/export/curves.csv
  normbench export parquet --output curves.parquet
"""

BATTERY = """examples:
  normbench battery --norm my_norm.py                   a file with one class marked @normalizer("my_norm")
  normbench battery --norm examples/own_normalizer/norm/centre.yaml
  normbench battery --norm rms --only ln2016/fig6       one that is there already
"""

REPORT = """examples:
  normbench report                                      write results/report/index.html; open it in a browser
  normbench report --output public                      for a web server: plain files, no external request
"""

DATA = """examples:
  normbench data                                        what is there
  normbench data get mnist                              bring it (checked, resumable)
"""


class Parser(argparse.ArgumentParser):
    """argparse with one line per error, and the nearest name for a mistyped command or option."""

    def error(self, message: str) -> NoReturn:
        if "invalid choice" in message:
            value = message.split("invalid choice: ")[1].split("'")[1]
            choices = self._choices(message)
            what = message.split(":")[0].removeprefix("argument ")
            raise NormbenchError(f"{value} is not a {what}.{did_you_mean(value, choices)} (normbench --help)")
        raise NormbenchError(f"{message}. (normbench --help)")

    @staticmethod
    def _choices(message: str) -> list[str]:
        return [part.strip(" '\")") for part in message.split("choose from", 1)[1].strip(" )").split(",")]


def parser() -> Parser:
    """All commands and options."""
    top = Parser(
        prog="normbench",
        description="The experiments of two normalization papers: one command per figure or table, claims judged.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="store_true", help="print the version")
    commands = top.add_subparsers(dest="command", metavar="command", parser_class=Parser)
    shared = Parser(add_help=False)
    shared.add_argument("--results", metavar="DIR", help="where results lie (NORMBENCH_RESULTS, else ./results)")
    shared.add_argument(
        "--config-dir", metavar="DIR", type=Path, help="a folder of your own choices, laid out like conf/"
    )

    def command(name: str, text: str, epilog: str = "") -> argparse.ArgumentParser:
        return commands.add_parser(
            name,
            help=text,
            description=text,
            epilog=epilog,
            parents=[shared],
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    listing = command("list", "what there is: artifacts, models, norms, data", LIST)
    listing.add_argument("kind", nargs="?", choices=["artifacts", "models", "norms", "data"])
    listing.add_argument("--json", action="store_true")

    train = command("train", "one run by Hydra overrides; -m sweeps", TRAIN)
    train.add_argument("-m", "--multirun", action="store_true", help="run every combination of comma lists and ranges")
    train.add_argument("overrides", nargs="*", metavar="key=value")

    reproduce = command("reproduce", "plan, train what is missing, draw, judge", REPRODUCE)
    reproduce.add_argument(
        "artifacts", nargs="+", metavar="artifact", help="ln2016/fig6, a paper (ln2016), or all; logger=wandb"
    )
    reproduce.add_argument("--fidelity", default="paper", choices=["paper", "reduced", "proxy", "smoke"])
    reproduce.add_argument(
        "--seeds", metavar="N|A-B", help="seeds per arm, or from A to B (default: the artifact's, fixed ahead)"
    )
    reproduce.add_argument("--jobs", type=int, default=0, metavar="N", help="processes (default: one per core)")
    reproduce.add_argument("--device", default="cpu", choices=["cpu"], help="where to train")
    reproduce.add_argument(
        "--only", action="append", default=[], metavar="WHAT", help="only this arm or axis value (repeatable)"
    )
    reproduce.add_argument("--controls", action="store_true", help="also the control settings of the experiment")
    reproduce.add_argument("--max-time", metavar="TIME", help="stop after 90s, 30m, 2h; 0 starts nothing")
    reproduce.add_argument("--retry-failed", action="store_true", help="train failed runs again")
    reproduce.add_argument("--dry-run", action="store_true", help="show what would run")

    status = command("status", "runs done, running, failed; time left", STATUS)
    status.add_argument("--json", action="store_true")

    show = command("show", "one run: configuration, environment, last records", SHOW)
    show.add_argument("run", help="id, the start of one, or its directory")
    show.add_argument("--json", action="store_true")

    rerun = command("rerun", "repeat a run and compare the curves to the byte", RERUN)
    rerun.add_argument("run", help="id, the start of one, or its directory")
    rerun.add_argument("--epochs", type=int, metavar="N", help="only the first N epochs")

    battery = command("battery", "where does a normalizer stand? contract, Table 1, every experiment", BATTERY)
    battery.add_argument("--norm", required=True, metavar="FILE|NAME", help="a .py or .yaml file, or a known name")
    battery.add_argument("--fidelity", default="smoke", choices=["paper", "reduced", "proxy", "smoke"])
    battery.add_argument("--seeds", type=int, default=5, metavar="N", help="seeds per normalizer (default: 5)")
    battery.add_argument("--jobs", type=int, default=0, metavar="N", help="processes (default: one per core)")
    battery.add_argument(
        "--only", action="append", default=[], metavar="EXPERIMENT", help="only this experiment (repeatable)"
    )

    report = command("report", "a static HTML site of all published artifacts", REPORT)
    report.add_argument("--output", metavar="DIR", type=Path, help="where to write it (default: RESULTS/report)")

    export = command("export", "finished runs for other tools: W&B, CSV, parquet", EXPORT)
    export.add_argument("form", choices=["wandb", "csv", "parquet"])
    export.add_argument(
        "--only", action="append", default=[], metavar="WHAT", help="only this experiment, arm or run (repeatable)"
    )
    export.add_argument("--output", metavar="FILE", type=Path, help="csv, parquet: where to write it")
    export.add_argument("--mode", choices=["offline", "online"], help="wandb: files (the default), or the server")
    export.add_argument("--project", help="wandb: the project (default: normbench)")
    export.add_argument("--entity", help="wandb: user or team (default: W&B's own)")
    export.add_argument("--again", action="store_true", help="wandb: also what was sent before")

    doctor = command("doctor", "versions, device, threads, compiler, disk, data, W&B: what is there, what is missing")
    doctor.add_argument("--json", action="store_true")

    data = command("data", "data sets: list them, or bring one", DATA)
    data.add_argument("action", nargs="?", choices=["get"])
    data.add_argument("set", nargs="?", metavar="set")
    for one in commands.choices.values():
        one.set_defaults(options=[option for action in one._actions for option in action.option_strings])
    return top


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The console script."""
    try:
        code = run(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
    except NormbenchError as error:
        print(f"normbench: {error}", file=sys.stderr)
        code = error.code
    except KeyboardInterrupt:
        print("normbench: interrupted; the same command goes on.", file=sys.stderr)
        code = 130
    except BrokenPipeError:  # `normbench status | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except OSError as error:  # a path that is too long, unreadable or gone
        print(f"normbench: {error.filename or 'a file'}: {error.strerror}.", file=sys.stderr)
        code = 2
    sys.exit(code)


def run(arguments: list[str]) -> int:
    top = parser()
    given, unknown = top.parse_known_args(arguments)
    words = getattr(given, "overrides", getattr(given, "artifacts", None))
    if words is not None:  # argparse takes a list of words in one place only: `a=1 --results DIR b=2` is fine too
        words += [word for word in unknown if not word.startswith("-")]
        unknown = [word for word in unknown if word.startswith("-")]
    if unknown:
        options = given.options if given.command else ["--help", "--version"]
        prog = f"normbench {given.command}" if given.command else "normbench"
        raise NormbenchError(f"{unknown[0]} is not an option of {prog}.{did_you_mean(unknown[0], options)}")
    if given.version:
        import normbench

        print(f"normbench {normbench.__version__}")
        return 0
    if given.command is None:
        top.print_help()
        return 0
    return dispatch(given)


def dispatch(given: argparse.Namespace) -> int:
    """Call the command; everything heavy is imported here."""
    from rich.console import Console

    from normbench.commands import places

    console = Console()
    if not console.is_terminal:
        console = Console(width=140)  # into a file or a pipe: room for the tables
    results = places.results(given.results)
    match given.command:
        case "list":
            from normbench.commands import catalogue

            return catalogue.listing(given.kind, given.json, given.config_dir, console)
        case "data":
            from normbench.commands import catalogue

            if given.action is None:
                return catalogue.data_sets(console)
            if given.set is None:
                raise NormbenchError("data get needs a set, such as: normbench data get mnist")
            return catalogue.data_get(given.set, console)
        case "train":
            from normbench.commands import train

            return train.run(given.overrides, given.multirun, results, given.config_dir, console)
        case "reproduce":
            from normbench.commands import reproduce

            if not any("=" not in name for name in given.artifacts):
                raise NormbenchError("reproduce needs an artifact, a paper or all. (normbench list artifacts)")
            max_time = None if given.max_time is None else places.seconds(given.max_time)
            request = reproduce.Request(
                [name for name in given.artifacts if "=" not in name],
                given.fidelity,
                results,
                _seeds(given.seeds),
                _jobs(given.jobs),
                given.only,
                given.controls,
                max_time,
                given.retry_failed,
                given.dry_run,
                given.config_dir,
                [word for word in given.artifacts if "=" in word],
            )
            return reproduce.run(request, console)
        case "doctor":
            from normbench.commands import doctor

            return doctor.run(results, given.json, console)
        case "export":
            from normbench.commands import export

            foreign = {"wandb": ("output",)}.get(given.form, ("mode", "project", "entity", "again"))
            for name in foreign:
                if getattr(given, name) not in (None, False):
                    raise NormbenchError(f"--{name} is not an option of export {given.form}.")
            if given.form == "wandb":
                target = (
                    given.mode or "offline",
                    "normbench" if given.project is None else given.project,
                    given.entity or "",
                )
                return export.run_wandb(results, given.only, *target, given.again, console)
            return export.run_table(given.form, results, given.only, given.output, console)
        case "battery":
            from normbench.commands import battery

            asked = battery.Request(
                given.norm, results, given.fidelity, given.seeds, _jobs(given.jobs), given.only, given.config_dir
            )
            return battery.run(asked, console)
        case "report":
            from normbench.commands import report

            return report.run(results, given.output, console)
        case "status":
            from normbench.commands import status

            return status.run(results, given.json, console)
        case "show":
            from normbench.commands import show

            return show.show(given.run, results, given.json, console)
        case _:
            from normbench.commands import show

            return show.rerun(given.run, results, given.epochs, given.config_dir, console)


def _seeds(given: str | None) -> int | range | None:
    """`5` or `6-10`."""
    if given is None:
        return None
    first, dash, last = given.partition("-")
    if first.isdecimal() and (last.isdecimal() if dash else True):
        asked = range(int(first), int(last) + 1) if dash else int(first)
        if asked and (isinstance(asked, int) or asked[0] > 0):
            return asked
    raise NormbenchError(
        f"--seeds {given} must be a number of seeds (at least 1), or the first and the last, such as 6-10."
    )


def _jobs(given: int) -> int:
    if given < 0:
        raise NormbenchError(f"--jobs {given} must be 0 (one per core) or more.")
    return given


if __name__ == "__main__":
    main()
