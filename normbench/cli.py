"""The command line: imports the command that is asked for, calls it, and prints errors as one line."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from inspect import signature
from typing import Annotated, Any, NoReturn, get_args

import typer
from typer.core import TyperGroup

from normbench.core import extras, output
from normbench.errors import BadInput, NormbenchError, class_of, did_you_mean, line_of, unknown

EPILOG = """examples:
  normbench reproduce ln2016/fig6 --fidelity smoke      everything in half a minute, on embedded data
  normbench reproduce ln2016/fig6 --max-time 0          the published result: draw and judge, train nothing
  normbench train model=mnist_mlp norm=layer seed=3     one run by Hydra overrides
  normbench train -m model=mnist_mlp norm=none,batch,layer 'seed=range(1,6)' launcher=pool
  normbench status                                      runs done, running, failed
  normbench compare model=mnist_mlp                     who wins, by how much, how sure

exit codes: 0 done; 2 bad input; 3 the run diverged; 4 a run failed, or what is stored is damaged; 5 busy elsewhere;
            6 a claim is what --fail-on names; 130 interrupted, resumable
"""
SAME = {"--max-time": "--budget", "--budget": "--max-time"}  # of other commands: what a user may mean
COMMANDS = {  # name: title. The function `command` of commands/NAME.py has the options
    "list": "list artifacts, models, norms, data sets",
    "train": "train one run by Hydra overrides; -m trains all combinations",
    "reproduce": "reproduce a figure or table: train the missing runs, draw it, judge its claims",
    "worker": "train a shard of a plan: for batch systems, xargs, ssh",
    "status": "list runs that are done, running or failed, and the time left",
    "compare": "compare runs: means, differences, and which normalizer is ahead",
    "show": "show one run: configuration, environment, last records",
    "rerun": "repeat a run, and measure how far apart the two curves are",
    "sample": "list the samples of a trained model, or draw new ones",
    "weights": "write the weights of a trained network into a file, the best by validation",
    "battery": "test a normalizer: contract, LN Table 1, every experiment",
    "dashboard": "compare curves in the browser, live; only you can open it, on this machine",
    "report": "write a static HTML site of all published artifacts",
    "export": "write finished runs for other tools: W&B, CSV, parquet",
    "import": "import curves that other programs logged: TensorBoard, W&B, CSV, ...",
    "judge": "judge claims about logged curves: a file of claims, or is arm A better than arm B?",
    "check": "check that everything stored is intact and consistent: packs, verdicts, runs, weights; like git fsck",
    "doctor": "check versions, cores, memory, disk, GPU, compiler, data",
    "data": "list the data sets, or download one",
}
PLAIN: dict[str, Any] = {"add_completion": False, "rich_markup_mode": None, "pretty_exceptions_enable": False}
SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 120}


class Commands(TyperGroup):
    """All commands; the help names them without importing one."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*COMMANDS]

    def get_command(self, ctx: Any, name: str) -> Any:
        if name not in COMMANDS:
            raise unknown(f"{name} is not a command.", name, COMMANDS, "normbench --help")
        from normbench.commands import options

        module = import_module(f"normbench.commands.{name.replace('-', '_')}")
        app = typer.Typer(**PLAIN)
        app.command(
            name,
            cls=getattr(module, "Command", options.Command),
            help=COMMANDS[name],
            epilog=module.EPILOG,
            context_settings=SETTINGS,
        )(module.command)
        return typer.main.get_command(app)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([*COMMANDS.items()])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        formatter.write(f"\n{EPILOG}")


app = typer.Typer(cls=Commands, context_settings=SETTINGS, **PLAIN)


@app.callback(invoke_without_command=True)
def top(
    context: typer.Context, version: Annotated[bool, typer.Option("--version", help="print the version")] = False
) -> None:
    """Reproduce the experiments of papers on normalization and judge their claims; compare any normalizer."""
    if version:
        import normbench

        print(f"normbench {normbench.__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


def run(arguments: list[str]) -> int:
    """The exit code of the command that the arguments name."""
    group = typer.main.get_command(app)
    try:
        with group.make_context("normbench", arguments) as context:
            return group.invoke(context) or 0
    except typer.Exit as ended:  # of --help
        return ended.exit_code
    except typer.TyperException as error:
        raise BadInput(_line(error, arguments)) from None


def _line(error: Any, arguments: list[str]) -> str:
    """What is wrong with the arguments: the option, its value, and the nearest name."""
    called = " ".join(["normbench", *(word for word in arguments[:1] if word in COMMANDS)])
    if hasattr(error, "possibilities"):  # no such option
        options = [option for param in error.ctx.command.get_params(error.ctx) for option in param.opts]
        name = SAME.get(error.option_name, error.option_name)
        return f"{error.option_name} is not an option of {called}.{did_you_mean(name, options)}"
    if not (hasattr(error, "param") and error.message):
        return f"{error.format_message().removesuffix('.')}. ({called} --help)"
    # from the arguments and the command's signature: typer's messages and types differ between its versions
    value = error.ctx.command.make_parser(error.ctx).parse_args(arguments[1:])[0][error.param.name]
    kind, limits = get_args(
        signature(error.ctx.command.callback, eval_str=True).parameters[error.param.name].annotation
    )
    kind = get_args(kind)[0] if type(None) in get_args(kind) else kind
    given = f"{error.param.opts[-1]} {value or repr(value)}"
    if choices := get_args(kind):
        return str(unknown(f"{given} is not possible.", value, choices, f"{called} --help"))
    bounds = f" of at least {limits.min}" if limits.max is None else f" from {limits.min} to {limits.max}"
    return f"{given} is not a {'whole ' * (kind is int)}number{bounds * (limits.min is not None)}. ({called} --help)"


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The console script."""
    from normbench.draw.text import visible_lines

    output.guard()
    words, line = list(sys.argv[1:] if arguments is None else arguments), ""
    try:
        code = run(words)
        if not code and (error := output.lost()):
            line, code = f"standard output: {error.strerror}.", class_of(error).code
    except NormbenchError as error:
        line, code = str(error), error.code
    except KeyboardInterrupt:
        line, code = "interrupted; the same command goes on.", 130
    except ModuleNotFoundError as error:
        line, code = extras.missing(words[0], error), 2
        if not line:
            raise
    except SystemExit as error:  # of a user's file: the code that it names says nothing about this command
        line, code = f"sys.exit was called{line_of(error)}: nothing after that was done.", 4
    except OSError as error:  # a path that is too long, unreadable or gone
        line, code = f"{error.filename or 'a file'}: {error.strerror or error}.", class_of(error).code
    except MemoryError as error:
        line, code = f"there is not enough memory{f': {error}' if str(error) else ''}.", 4
    if line:
        print(f"normbench: {visible_lines(line)}", file=sys.stderr)
    sys.exit(code)
