"""The command line: turns arguments into calls. Imports are late, so that help is instant."""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
from ast import literal_eval
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import NoReturn

from normbench.errors import NormbenchError, code_of, did_you_mean, unknown

EPILOG = """examples:
  normbench reproduce ln2016/fig6 --fidelity smoke      everything in half a minute, on embedded data
  normbench reproduce ln2016/fig6 --max-time 0          the published result: draw and judge, train nothing
  normbench train model=mnist_mlp norm=layer seed=3     one run by Hydra overrides
  normbench train -m model=mnist_mlp norm=none,batch,layer 'seed=range(1,6)' launcher=pool
  normbench status                                      runs done, running, failed
  normbench compare model=mnist_mlp                     who wins, by how much, how sure

exit codes: 0 done; 2 bad input; 3 the run diverged; 4 a run failed, or what is stored is damaged; 5 busy elsewhere;
            130 interrupted, resumable
"""

ARGUMENTS = "normbench.commands.arguments"
COMMANDS = {
    "list": "list artifacts, models, norms, data sets",
    "train": "one run by Hydra overrides; -m sweeps",
    "reproduce": "plan, train what is missing, draw, judge",
    "worker": "train the remaining runs of a plan, together with other workers: for batch systems, xargs, ssh",
    "status": "runs done, running, failed; time left",
    "compare": "compare runs: means, differences, which arm wins or what is undecided",
    "show": "one run: configuration, environment, last records",
    "history": "the earlier verdicts of a claim, and why they changed",
    "rerun": "repeat a run: how far apart are the curves?",
    "sample": "samples of a trained model: the files of a run, or new ones",
    "embed-eval": "evaluate sentence vectors on SICK, MR, CR, SUBJ, MPQA",
    "battery": "test a normalizer: contract, Table 1, every experiment",
    "dashboard": "runs side by side in the browser, live: on this machine, for you alone",
    "report": "a static HTML site of all published artifacts",
    "export": "finished runs for other tools: W&B, CSV, parquet",
    "check": "check that everything stored is intact and consistent: packs, verdicts, runs, weights; like git fsck",
    "doctor": "check versions, device, threads, compiler, disk, data, W&B",
    "data": "list the data sets, or download one",
}


class Parser(argparse.ArgumentParser):
    """argparse with one line per error, and the nearest name for a mistyped command or option.

    `more_help` makes the end of the help; it is called only when the help is printed.
    """

    more_help: Callable[[], str] | None = None

    def format_help(self) -> str:
        return super().format_help() + (self.more_help() if self.more_help else "")

    def error(self, message: str) -> NoReturn:
        what, _, problem = message.removeprefix("argument ").partition(": ")
        if found := re.fullmatch(r"invalid choice: (.+) \(choose from (.+)\)", problem, re.DOTALL):
            value, choices = literal_eval(found[1]), [name.strip("'\"") for name in found[2].split(", ")]
            article = "an" if what[0] in "aeiou" else "a"
            raise unknown(f"{value} is not {article} {what}.", value, choices, f"{self.prog} --help")
        if found := re.fullmatch(r"invalid (.*number.*) value: (.+)", problem, re.DOTALL):
            message = f"{what} {literal_eval(found[2]) or repr('')} is not a {found[1]}"
        raise NormbenchError(f"{message}. ({self.prog} --help)")


def parser(chosen: str | None) -> Parser:
    """All commands, and the arguments of the chosen one."""
    from normbench.commands import format

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
        "--config-dir",
        metavar="DIR",
        type=format.folder,
        help="a folder of your own choices, laid out like conf/; its papers/ has your claims",
    )
    for name, title in COMMANDS.items():
        command = commands.add_parser(
            name,
            help=title,
            description=title,
            parents=[shared],
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        if name == chosen:
            module = import_module(".".join([ARGUMENTS, name.replace("-", "_")]))
            command.epilog = module.EPILOG
            command.more_help = getattr(module, "more_help", None)
            module.add_arguments(command)
            options = [option for action in command._actions for option in action.option_strings]
            command.set_defaults(run_command=module.run, options=options)
    return top


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The console script."""
    from normbench.draw.text import visible_lines

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name may have characters that the terminal's encoding lacks
            stream.reconfigure(errors="backslashreplace")
    try:
        code = run(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
    except NormbenchError as error:
        print(f"normbench: {visible_lines(str(error))}", file=sys.stderr)
        code = error.code
    except KeyboardInterrupt:
        print("normbench: interrupted; the same command goes on.", file=sys.stderr)
        code = 130
    except BrokenPipeError:  # `normbench status | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except OSError as error:  # a path that is too long, unreadable or gone
        place = error.filename or "a file"
        try:
            sys.stdout.flush()
        except OSError:  # standard output itself failed; its buffer would fail again at exit
            place = "standard output"
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        line = f"{place}: {error.strerror or error}."
        print(f"normbench: {visible_lines(line)}", file=sys.stderr)
        code = code_of(error)
    except MemoryError as error:
        line = f"there is not enough memory{f': {error}' if str(error) else ''}."
        print(f"normbench: {visible_lines(line)}", file=sys.stderr)
        code = 4
    sys.exit(code)


def run(arguments: list[str]) -> int:
    top = parser(next((word for word in arguments if not word.startswith("-")), None))
    given, unknown = top.parse_known_args(arguments)
    if hasattr(given, "words"):  # argparse takes a list of words in one place only: `a=1 --results DIR b=2` is fine too
        given.words += [word for word in unknown if not word.startswith("-")]
        unknown = [word for word in unknown if word.startswith("-")]
    if unknown:
        options = given.options if given.command else ["--help", "--version"]
        prog = f"normbench {given.command}" if given.command else "normbench"
        if not unknown[0].startswith("-"):
            raise NormbenchError(f"{unknown[0]} is one word too many for {prog}. ({prog} --help)")
        raise NormbenchError(f"{unknown[0]} is not an option of {prog}.{did_you_mean(unknown[0], options)}")
    if given.version:
        import normbench

        print(f"normbench {normbench.__version__}")
        return 0
    if given.command is None:
        top.print_help()
        return 0
    from normbench import runs
    from normbench.commands import terminal

    given.results = runs.root(given.results)
    return int(given.run_command(given, terminal.console()))


if __name__ == "__main__":
    main()
