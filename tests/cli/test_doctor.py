"""`normbench doctor`: says what is there, and survives what is broken."""

from __future__ import annotations

import importlib.metadata
import json
import sys
from pathlib import Path

import pytest

from normbench.commands import doctor
from normbench.core import extras

TOPICS = ["versions", "machine", "data"]


def findings(capfd: pytest.CaptureFixture[str]) -> list[dict[str, str]]:
    return list(json.loads(capfd.readouterr().out)["findings"])


def test_all_is_examined_and_nothing_is_made(normbench, capfd, tmp_path: Path):
    assert normbench("doctor", "--json") == 0
    found = findings(capfd)
    assert list(dict.fromkeys(f["topic"] for f in found)) == TOPICS
    assert not [f for f in found if f["state"] == "bad"]
    texts = "\n".join(f["text"] for f in found)
    for name in ("torch", "hydra-core", "plotly", "wandb"):
        assert f"{name} {importlib.metadata.version(name)}" in texts
    assert "GB free" in texts and "mnist: missing. Bring it with: normbench data get mnist" in texts
    assert list(tmp_path.iterdir()) == []
    assert normbench("doctor") == 0
    out = capfd.readouterr().out
    assert "versions ✓" in out


def test_what_is_missing_comes_with_the_way_out(normbench, capfd, monkeypatch, tmp_path: Path):
    real = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.1" if name == "plotly" else real(name))
    monkeypatch.setenv("CC", "/no/such/compiler")
    (tmp_path / "data" / "MNIST" / "raw").mkdir(parents=True)
    (tmp_path / "data" / "MNIST" / "raw" / "train-images-idx3-ubyte.gz").write_text("<html>not found</html>")
    assert normbench("doctor", "--json") == 4
    by_state = {s: [f["text"] for f in findings(capfd) if f["state"] == s] for s in ("bad",)}
    assert by_state["bad"] == [next(t for t in by_state["bad"] if "plotly 0.1 does not fit" in t)]
    assert normbench("doctor") == 4
    out = capfd.readouterr().out
    assert extras.WITHOUT_COMPILER in out and "is damaged" in out and "pip install 'plotly" in out


def test_a_check_that_breaks_is_a_line(normbench, capfd, monkeypatch: pytest.MonkeyPatch):
    def broken(results):
        yield "good", "2 cores"
        raise ImportError("libtorch.so:\ncannot open shared object file")

    monkeypatch.setattr(doctor, "_machine", broken)
    assert normbench("doctor", "--json") == 4
    machine = [finding for finding in findings(capfd) if finding["topic"] == "machine"]
    assert [finding["state"] for finding in machine] == ["good", "bad"]
    assert "libtorch.so" in machine[1]["text"] and "\n" not in machine[1]["text"]


def test_a_package_that_cannot_be_imported_is_not_among_the_good_ones(normbench, capfd, monkeypatch, tmp_path: Path):
    (tmp_path / "wandb.py").write_text("raise RuntimeError('of another build')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    assert normbench("doctor", "--json") == 0
    (finding,) = [finding for finding in findings(capfd) if "wandb" in finding["text"]]
    assert finding["state"] == "note" and "of another build" in finding["text"]


def test_what_a_compiler_brings_is_measured():
    content = json.loads((Path(__file__).parents[2] / "results" / "bench" / "rnn.json").read_text())
    took = {row["case"]: row["ours_ms"] for row in content["rows"]}
    word = " without a compiler"
    factors = [milliseconds / took[case.replace(word, "")] for case, milliseconds in took.items() if word in case]
    assert f"{min(factors):.1f} to {max(factors):.1f} times as fast" in extras.WITHOUT_COMPILER
