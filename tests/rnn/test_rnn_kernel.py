"""Building and loading the kernel: nothing about a compiler or a cache may stop a run."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from normbench.errors import NormbenchError
from normbench.norms import kernel
from normbench.rnn import aten, backends
from normbench.rnn.layers import LSTM

# Where building alone is the matter: a tenth of the time.
QUICK = (("-O0", "-fPIC", "-shared"),)


def compiler() -> bool:
    return shutil.which(kernel.words()[0]) is not None and "false" not in kernel.words()[0]


needs_compiler = pytest.mark.skipif(not compiler(), reason="there is no C compiler here")


def described(_: int) -> str:
    kernel._load.cache_clear()
    LSTM(3, 4)(torch.randn(2, 5, 3))
    return backends.describe()


def suffixes(cache: Path) -> list[str]:
    return sorted(path.suffix for path in (cache / "normbench" / "kernel").iterdir())


@pytest.mark.slow
@needs_compiler
def test_two_processes_at_first_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("NORMBENCH_RNN", "")
    monkeypatch.setattr(kernel, "FLAGS", QUICK)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        both = pool.map(described, range(2), chunksize=1)
    assert all(words.startswith("C, ") for words in both) and capfd.readouterr().err == ""
    assert suffixes(tmp_path) == [".fetched", ".so"], "nothing else is left"


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("damage", [b"", b"no library"])
def test_a_file_that_is_no_library_is_built_anew(
    damage: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(kernel, "FLAGS", QUICK)
    library = kernel._folder() / f"step-{kernel._key()}.so"
    library.write_bytes(damage)
    kernel._load.cache_clear()
    assert kernel.compiler()
    assert library.read_bytes().startswith(b"\x7fELF") and suffixes(tmp_path) == [".fetched", ".so"]


@needs_compiler
def test_what_a_killed_build_left_is_removed_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(kernel, "FLAGS", QUICK)
    monkeypatch.setattr(kernel, "_build", lambda folder: os._exit(9))
    kernel._load.cache_clear()
    if (child := os.fork()) == 0:
        kernel.load()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    (left,) = kernel.cache().iterdir()
    assert left.is_dir()
    os.utime(left, (0, 0))  # a young one may not be locked yet
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(kernel, "FLAGS", QUICK)
    kernel._load.cache_clear()
    assert kernel.compiler()
    assert suffixes(tmp_path) == [".fetched", ".so"]


@needs_compiler
@pytest.mark.parametrize("place", ["file", "denied"])
def test_a_cache_that_cannot_be_written_is_done_without(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if place == "file":
        (tmp_path / "normbench").write_text("in the way")
    else:  # root may write anywhere, so the refusal is made here
        real = Path.mkdir

        def refuse(self: Path, *arguments: object, **keywords: object) -> None:
            if tmp_path in self.parents:
                raise PermissionError(13, "Permission denied", str(self))
            real(self, *arguments, **keywords)  # type: ignore[arg-type]

        monkeypatch.setattr(Path, "mkdir", refuse)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(kernel, "FLAGS", QUICK)
    kernel._load.cache_clear()
    assert kernel.compiler()
    assert not (tmp_path / "normbench").is_dir()


@pytest.mark.parametrize("broken", ["missing", "failing", "lying", "garbage"])
def test_without_a_compiler_torchs_operations_serve_which_is_said_once(
    broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "cc"
    words = {
        "missing": "",
        "failing": "echo 'cc1: out of luck' >&2; exit 1",
        "lying": "exit 0",
        "garbage": 'while [ "$1" != -o ]; do shift; done; echo no library > "$2"',
    }[broken]
    if words:
        script.write_text(f"#!/bin/sh\n{words}\n")
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CC", str(script))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NORMBENCH_RNN", "")
    assert backends.current() is aten.Run and backends.current() is aten.Run
    errors = capfd.readouterr().err
    assert errors.count("\n") == 1 and "torch's own operations" in errors
    wanted = {
        "missing": "cannot be run",
        "failing": "cannot build step.c: cc1: out of luck",
        "lying": "it ends with code 0",
        "garbage": "cannot be loaded",
    }
    assert wanted[broken] in errors
    assert backends.describe().startswith("ATen")
    monkeypatch.setenv("NORMBENCH_RNN", "c")
    with pytest.raises(NormbenchError, match=r"NORMBENCH_RNN=c: .*Install a C compiler, or take aten"):
        backends.current()


def test_an_unknown_backend_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NORMBENCH_RNN", "atne")
    with pytest.raises(NormbenchError, match=r"NORMBENCH_RNN=atne is not possible. Did you mean 'aten'"):
        backends.current()


@needs_compiler
def test_another_source_compiler_or_processor_gets_a_library_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {kernel._key()}
    monkeypatch.setenv("CC", f"{kernel.words()[0]} -DX")
    keys.add(kernel._key())
    monkeypatch.setattr(kernel, "FLAGS", kernel.FLAGS[1:])
    keys.add(kernel._key())
    monkeypatch.setattr(kernel, "SOURCE", Path(__file__))
    keys.add(kernel._key())
    assert len(keys) == 4


PLANTED = {
    "all can write to the folder": lambda folder, patch: folder.chmod(0o777),
    "a group can write to the folder": lambda folder, patch: folder.chmod(0o770),
    "the folder is another user's": lambda folder, patch: patch.setattr(
        os, "geteuid", lambda: folder.stat().st_uid + 1
    ),
}


@needs_compiler
@pytest.mark.thinned(0)
@pytest.mark.parametrize("how", PLANTED)
def test_a_planted_library_is_not_loaded(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder alone shows that it is not ours."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(kernel, "FLAGS", QUICK)
    kernel._load.cache_clear()
    assert kernel.compiler() and kernel.refused() == ""
    (library,) = kernel.cache().glob("*.so")
    assert stat.S_IMODE(library.parent.stat().st_mode) == 0o700
    library.unlink()  # this process has it open
    library.write_bytes(b"planted")
    PLANTED[how](library.parent, monkeypatch)
    kernel._load.cache_clear()
    assert kernel.compiler() and library.read_bytes() == b"planted"
    assert "another user can write to it" in kernel.refused()


@needs_compiler
def test_what_was_measured_is_kept_beside_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(kernel, "FLAGS", QUICK)
    kernel._load.cache_clear()
    kernel.load()
    (kept,) = kernel.cache().glob("*.fetched")
    assert int(kept.read_text()) in {0, kernel.NEVER, *(4 * rows * columns for rows, columns in kernel.MATRICES)}
    for text, expected in (("4096", 4096), ("torn", None)):
        kept.write_text(text)
        kernel._load.cache_clear()
        fetched = ctypes.c_int64.in_dll(kernel.load(), "step_fetched").value
        assert int(kept.read_text()) == fetched and fetched == (expected or fetched)


def test_a_compiler_that_hangs_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "cc"
    script.write_text("#!/bin/sh\nexec sleep 600\n")
    script.chmod(0o700)
    monkeypatch.setenv("CC", str(script))
    monkeypatch.setattr(kernel, "PATIENCE", 0.5)
    with pytest.raises(kernel.Unavailable, match=r"timed out after 0\.5 seconds"):
        kernel._build(tmp_path)


@pytest.mark.slow
@needs_compiler
def test_the_kernel_is_clean_under_the_sanitizers() -> None:
    script = Path(__file__).resolve().parents[2] / "scripts" / "check" / "kernel_sanitized.py"
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=1200)
    if done.stdout.startswith("skipped"):
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("calls, clean") == 2
