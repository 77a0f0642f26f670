"""`normbench doctor`: checks this machine. It uses no network; it builds the C kernel if that is missing."""

import importlib.metadata
import os
import platform
import shutil
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement
from rich.text import Text

from normbench import __file__, __version__
from normbench.commands import data, terminal
from normbench.commands.options import ConfigDir, Json, Results
from normbench.config import compose
from normbench.core import extras
from normbench.files import locks
from normbench.launch.base import cores

EPILOG = """--json prints, shortened:
  {"findings": [{"topic": "data", "state": "note", "text": "mnist: missing. Bring it with: normbench data get mnist"}]}
"state" is good, note (works, with a limitation) or bad (what every run needs is broken).
"""
MARK = {"good": ("✓", "green"), "note": ("!", "yellow"), "bad": ("✗", "red")}
Findings = Iterator[tuple[str, str]]  # states and texts


def command(results: Results, config_dir: ConfigDir = None, as_json: Json = False) -> int:
    """Exit code 0, or 4 if something is bad."""
    findings: list[dict[str, str]] = []
    for topic, check in {"versions": _versions(), "machine": _machine(results), "data": _data(config_dir)}.items():
        try:
            for state, text in check:
                findings.append({"topic": topic, "state": state, "text": text})
        except Exception as error:  # this command must survive a broken installation
            if not (isinstance(error, ModuleNotFoundError) and extras.missing("", error)):  # that is among the versions
                findings.append({"topic": topic, "state": "bad", "text": f"cannot be examined: {error!r}"})
    if as_json:
        terminal.say_json({"findings": findings})
    else:
        console = terminal.console()
        for line in findings:
            terminal.say_under(console, Text.assemble(f"{line['topic']:<9}", MARK[line["state"]], " "), line["text"])
    return 4 if any(line["state"] == "bad" for line in findings) else 0


def _versions() -> Findings:
    yield "good", f"normbench {__version__} in {Path(__file__).parent}, choices in {compose.conf_dir()}"
    usable = [f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"]
    absent: dict[str, list[str]] = {}
    for need in map(Requirement, importlib.metadata.requires("normbench") or []):
        extra = next((name for name in extras.MODULES if need.marker and need.marker.evaluate({"extra": name})), "")
        if need.marker and not extra:  # of developers
            continue
        try:
            version = importlib.metadata.version(need.name)
            importlib.import_module(need.name.replace("-", "_"))
        except importlib.metadata.PackageNotFoundError:
            absent.setdefault(extra, []).append(need.name)
            continue
        except ModuleNotFoundError:  # the module has another name
            pass
        except Exception as error:  # such as of a build for another torch
            yield "note", f"{need.name} {version} cannot be imported: {error!r}"
            continue
        if need.specifier.contains(version, prereleases=True):
            usable.append(f"{need.name} {version}")
        else:
            yield "bad", f"{need.name} {version} does not fit. Run: pip install '{need.name}{need.specifier}'"
    for extra, names in absent.items():
        yield "note" if extra else "bad", f"{', '.join(names)}: not installed. Run: {extras.install(extra)}"
    yield "good", ", ".join(usable)


def _machine(results: Path) -> Findings:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    state = "good" if memory > 2 * cores() else "note"
    yield state, f"{cores()} cores: as many runs at once; {memory:.0f} GB: a run takes 0.6, of BLN's RNN up to 3"
    folder = next(path for path in (results.absolute(), *results.absolute().parents) if path.exists())
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        yield "bad", f"{folder} is no folder to write to. Choose another with --results or NORMBENCH_RESULTS"
    elif why := locks.fault(folder):
        yield "bad", f"{folder} has no locks: {why}"
    else:
        free = shutil.disk_usage(folder).free / 1e9  # a run of Fig. 6 takes 42 MB while it trains and 7 MB after that
        yield "good" if free > 2 else "note", f"{free:.0f} GB free for {results}; locks work there"
    import torch  # after what can be said without it

    from normbench.norms import kernel

    for index in range(torch.cuda.device_count()):
        yield "good", f"{torch.cuda.get_device_name(index)}, CUDA {torch.version.cuda}: device=cuda trains there"
    try:
        yield "good", f"kernel for recurrent layers built by {kernel.compiler()}, in {kernel.cache()}"
    except kernel.Unavailable as reason:
        yield "note", f"{extras.WITHOUT_COMPILER}: {reason}"
    if why := kernel.refused():
        yield "note", f"{why}, so every process builds its own kernel. Delete it or its folder"


def _data(config_dir: Path | None) -> Findings:
    for name, text in data.states(config_dir):
        yield "good" if text.startswith("ready") else "note", f"{name}: {text}"
