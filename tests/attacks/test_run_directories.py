"""One hostile run directory harms no other run and no command: each says a line, none hangs, none breaks."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import fake
import pytest
import spoil
import tiny

from normbench.cli import main
from normbench.commands.rerun import DIFFERENT
from normbench.config.spec import Spec
from normbench.web.index import Index

GOOD = 3  # runs beside the hostile ones
PATIENCE = 20  # s for one command
DIFFERS = re.compile(rf"^run [0-9a-f]{{12}}, .*: {DIFFERENT}$", re.MULTILINE)
EXPORTS = (("export", "csv", "--output", "out.csv"), ("export", "parquet", "--output", "out.parquet"))
STEERS = "\x1b]0;owned\x07\x9b31m\u202e\n[/red]"


def _renamed(name: bytes) -> Callable[[Path], object]:
    """Another arm in the directory's name."""
    return lambda run: os.rename(os.fsencode(run), os.fsencode(run.parent) + b"/" + name + os.fsencode(run.name[-16:]))


def _folders(run: Path) -> None:
    here = os.getcwd()
    os.chdir(run.parent)
    try:
        for _ in range(400):
            os.mkdir("d")
            os.chdir("d")
    finally:
        os.chdir(here)


CASES: dict[str, Callable[[Path], object]] = {
    "a reason of 500 kB": lambda p: spoil.change(p, status="failed", reason=STEERS * 10**4),
    "a reason that steers": lambda p: spoil.change(p, status="failed", reason=STEERS),
    **{f"{key} steers": lambda p, k=key: spoil.change(p, **{k: STEERS}) for key in ("experiment", "arm", "control")},
    "axes that steer": lambda p: spoil.change(p, axes={STEERS: STEERS}),
    "a name that is not UTF-8": _renamed(b"bad\xff\xfe"),
    "a name that steers": _renamed(b"a\x1b[31mred\x1b]0;t\x07\n"),
    "a name with a seed of 200 digits": lambda p: p.rename(p.with_name(f"a.s{'9' * 200}.{p.name[-12:]}")),
    "folders in folders": _folders,
}


class Hangs(Exception):
    """A command that goes on and on."""


@contextlib.contextmanager
def patience() -> Iterator[None]:
    def late(*_: object) -> None:
        raise Hangs

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def specs() -> list[Spec]:
    first = tiny.spec()
    return [first.with_seed(seed) for seed in range(1, GOOD + 1 + len(CASES))]


def run_command(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """A command's exit code and what it said, which steers no terminal and is not without end."""
    with patience(), pytest.raises(SystemExit) as ended:
        main(words)
    out, err = capfd.readouterr()
    code = int(ended.value.code or 0)
    printed = out + err
    printed.encode()
    steering = {c for c in set(printed) if c != "\n" and (ord(c) < 32 or 0x7F <= ord(c) < 0xA0 or c == "\u202e")}
    assert not steering, (words, steering)
    assert code in (0, 2, 4), (words, printed)
    answered = words[0] == "rerun" and code == 4 and err == "" and DIFFERS.search(out)  # training makes other curves
    assert code == 0 or answered or (len(err.splitlines()) == 1 and err.startswith("normbench: ")), (words, err[:500])
    return code, out, err


def unharmed(good: Sequence[str], hostile: Sequence[str], capfd: pytest.CaptureFixture[str]) -> None:
    """Every command that reads runs, in a folder with these."""
    assert run_command(capfd, "status")[0] == 0
    code, out, _ = run_command(capfd, "status", "--json")
    states = {run["id"]: run["status"] for run in json.loads(out)["runs"]}
    assert code == 0 and [states[run] for run in good] == ["done"] * GOOD
    for words in (("compare",), ("compare", "--json"), *EXPORTS):
        assert run_command(capfd, *words)[0] == 0, words
    assert run_command(capfd, "show", good[0])[0] == 0
    for run in hostile:
        run_command(capfd, "show", run)
        run_command(capfd, "show", run, "--json")
    run_command(capfd, "sample", hostile[0])
    run_command(capfd, "rerun", hostile[0])
    assert run_command(capfd, "train", *tiny.WORDS, "seed=1")[0] == 0, "it is there"
    with patience():
        index = Index(Path("results"))
        index.refresh()
        loaded = index.load([head.id for head in index.heads])
    assert all(len(loaded[run].records) == 5 for run in good)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NORMBENCH_RESULTS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield tmp_path / "results"
    subprocess.run(["rm", "-rf", tmp_path / "results"], check=True)  # folders in folders: too deep for pytest's own way


@pytest.mark.slow
@pytest.mark.parametrize(
    "spoilt", [[*CASES.values()], *([one] for one in CASES.values())], ids=["many at once", *CASES]
)
def test_they_harm_no_other_run(
    spoilt: list[Callable[[Path], object]], specs: list[Spec], here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for spec in specs[:GOOD]:
        fake.directory(here / "runs", spec)
    for spec, spoil_it in zip(specs[GOOD:], spoilt, strict=False):
        spoil_it(fake.directory(here / "runs", spec))
    unharmed([spec.id for spec in specs[:GOOD]], [specs[GOOD].id], capfd)
