"""`normbench doctor`: checks this machine. It uses no network; it builds the C kernel if that is missing."""

from __future__ import annotations

import importlib.metadata
import netrc
import os
import platform
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

from packaging.requirements import Requirement
from rich.text import Text

import normbench
from normbench.commands import data as data_command
from normbench.commands import format, terminal
from normbench.commands.options import ConfigDir, Json, Results
from normbench.commands.terminal import say_json, say_under
from normbench.config import compose
from normbench.core import extras
from normbench.data import root as data_root
from normbench.errors import NormbenchError
from normbench.files import locks, reading
from normbench.launch.base import cores

EPILOG = """--json prints, shortened:
  {"findings": [{"topic": "threads", "state": "good", "text": "2 cores: 2 runs at once, one thread each"}]}
"state" is good, note or bad.
"""
LITTLE_DISK = 2e9  # bytes; a run of Fig. 6 takes 42 MB while it trains and 7 MB after that
LITTLE_MEMORY = 2e9
MARK = {"good": "[green]✓[/]", "note": "[yellow]![/]", "bad": "[red]✗[/]"}


@dataclass(frozen=True)
class Finding:
    """One line: `state` is good, note (works, with a limitation) or bad (something will fail)."""

    topic: str
    state: str
    text: str


def command(results: Results, config_dir: ConfigDir = None, as_json: Json = False) -> int:
    """Exit code 0, or 4 if something that every run needs is broken."""
    findings = [finding for check in CHECKS for finding in _guarded(check, results)]
    if as_json:
        say_json({"findings": [asdict(finding) for finding in findings]})
    else:
        console, topic = terminal.console(), ""
        for finding in findings:
            begun = finding.topic if finding.topic != topic else ""
            say_under(console, Text.from_markup(f"{begun:<9} {MARK[finding.state]} "), finding.text)
            topic = finding.topic
    return 4 if any(finding.state == "bad" for finding in findings) else 0


def _guarded(check: Callable[[Path], Iterator[Finding]], results: Path) -> Iterator[Finding]:
    """The findings of a check; its exception becomes one, since this command must survive a broken installation."""
    try:
        yield from check(results)
    except ModuleNotFoundError as error:
        if not extras.missing("", error):  # else a line of versions says it
            yield Finding(check.__name__.strip("_"), "bad", f"cannot be examined: {error}")
    except Exception as error:
        text = " ".join(str(error).split()) or type(error).__name__
        yield Finding(check.__name__.strip("_"), "bad", f"cannot be examined: {text}")


def _versions(results: Path) -> Iterator[Finding]:
    place = Path(normbench.__file__).parent
    yield Finding("versions", "good", f"normbench {normbench.__version__} in {place}, choices in {compose.conf_dir()}")
    yield Finding("versions", "good", f"Python {platform.python_version()}, {platform.system()} {platform.machine()}")
    fits: list[str] = []
    for extra in ("", *extras.MODULES):
        absent = []
        for need in _needs(extra):
            try:
                version = importlib.metadata.version(need.name)
            except importlib.metadata.PackageNotFoundError:
                absent.append(need.name)
                continue
            if need.specifier.contains(version, prereleases=True):
                fits.append(f"{need.name} {version}")
            else:
                yield Finding(
                    "versions",
                    "bad",
                    f"{need.name} {version} does not fit. Run: pip install '{need.name}{need.specifier}'",
                )
        if absent:
            what = f"{', '.join(absent)}: not installed"
            command = extras.install(extra) if extra else "pip install normbench"
            yield Finding("versions", "note" if extra else "bad", f"{what}. Run: {command}")
    yield Finding("versions", "good", ", ".join(fits))


def _needs(extra: str) -> list[Requirement]:
    """What an extra brings; without one what every installation has."""
    lines = importlib.metadata.requires("normbench") or []
    needs = [Requirement(line) for line in lines if ("extra ==" in line) == bool(extra)]
    return [need for need in needs if need.marker is None or need.marker.evaluate({"extra": extra})]


def _torch(results: Path) -> Iterator[Finding]:
    import torch

    from normbench.data import vgg

    torch.set_num_threads(1)
    capability = torch.backends.cpu.get_cpu_capability()
    yield Finding("device", "good", f"CPU, {capability}, {_gflops():.0f} GFLOP/s in float32 on one thread")
    if torch.cuda.is_available():
        names = ", ".join(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))
        yield Finding(
            "device",
            "good",
            f"CUDA {torch.version.cuda}: {names}; device=cuda trains there",
        )
    try:
        vgg.torchvision()
    except NormbenchError as error:  # nothing but VGG-19's features needs it
        yield Finding("device", "note", str(error))


def _gflops() -> float:
    """The best of a few matrix products: 2·size³ operations each."""
    import torch

    size = 768
    a = torch.rand(size, size)
    best = float("inf")
    for _ in range(5):
        started = time.perf_counter()
        a @ a
        best = min(best, time.perf_counter() - started)
    return 2 * size**3 / best / 1e9


def _threads(results: Path) -> Iterator[Finding]:
    usable, there = cores(), os.cpu_count() or 1
    limit = f" of {there}" if usable != there else ""
    yield Finding("threads", "good", f"{usable} cores{limit}: {format.plural(usable, 'run')} at once, one thread each")
    load = os.getloadavg()[0]
    if load > 0.5 * usable:
        yield Finding("threads", "note", f"the machine is busy (load {load:.1f}): timings are not those of an idle one")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    state = "good" if memory > LITTLE_MEMORY * usable else "note"
    yield Finding("threads", state, f"{memory / 1e9:.0f} GB of memory; a run takes 0.6 GB, of BLN's RNN up to 3")


def _compiler(results: Path) -> Iterator[Finding]:
    from normbench.norms import kernel

    try:
        kernel.load()
    except kernel.Unavailable as reason:
        yield Finding("compiler", "note", f"no C kernel, recurrent layers run up to four times slower: {reason}")
        return
    if why := kernel.refused():
        yield Finding("compiler", "note", f"{why}, so every process builds its own kernel. Delete it or its folder")
        return
    yield Finding("compiler", "good", f"kernel for recurrent layers built by {kernel.compiler()}, in {kernel.cache()}")


def _disk(results: Path) -> Iterator[Finding]:
    cache = reading.place(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    folders = {"results": results, "data": data_root(), "caches": cache}
    for name, path in folders.items():
        there = path.absolute()
        while not there.exists():
            there = there.parent
        free = shutil.disk_usage(there).free
        text = f"{name}: {path}, {free / 1e9:.0f} GB free" + ("" if path.exists() else " (not made yet)")
        if path.exists() and not path.is_dir():
            yield Finding("disk", "bad" if name == "results" else "note", f"{name}: {path} is not a folder")
        elif name == "results" and not os.access(there, os.W_OK):
            yield Finding(
                "disk", "bad", f"{text}; not writable. Choose another place with --results or NORMBENCH_RESULTS"
            )
        elif free < LITTLE_DISK:
            yield Finding("disk", "note", f"{text}: little room")
        else:
            yield Finding("disk", "good", text)
        if name == "results" and there.is_dir() and os.access(there, os.W_OK):
            why = locks.fault(there)
            text = f"locks do not work in {there}: {why}" if why else f"files in {there} can be locked"
            yield Finding("disk", "bad" if why else "good", text)


def _data(results: Path) -> Iterator[Finding]:
    for name, text in data_command.states():
        kind = "good" if text.startswith("ready") else "note"
        yield Finding("data", kind, f"{name}: {text}")


def _wandb(results: Path) -> Iterator[Finding]:
    extras.require("wandb")
    version = importlib.metadata.version("wandb")
    try:
        host = urlsplit(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")).hostname or "?"  # without a password
    except ValueError:
        yield Finding("W&B", "note", f"wandb {version}; WANDB_BASE_URL is not an address")
        return
    key = (
        "a key is set (not shown)"
        if _has_key(host)
        else "no key: logger=wandb works offline; online needs `wandb login`"
    )
    yield Finding("W&B", "good", f"wandb {version}, server {host}, {key}")


def _has_key(host: str) -> bool:
    if os.environ.get("WANDB_API_KEY"):
        return True
    try:
        return netrc.netrc().authenticators(host) is not None
    except (OSError, netrc.NetrcParseError):
        return False


CHECKS = (_versions, _torch, _threads, _compiler, _disk, _data, _wandb)
