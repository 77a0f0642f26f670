"""`normbench doctor`: says what is there, and survives what is broken."""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path

import pytest

from normbench.commands import doctor

TOPICS = ["versions", "device", "threads", "compiler", "disk", "data", "W&B"]


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
    assert "GFLOP/s" in texts and "mnist: missing. Bring it with: normbench data get mnist" in texts
    assert list(tmp_path.iterdir()) == []
    assert normbench("doctor") == 0
    out = capfd.readouterr().out
    assert out.count("versions ") == 1 and "✓" in out


def test_secrets_are_not_shown(normbench, capfd, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WANDB_API_KEY", "0123456789" * 4)
    monkeypatch.setenv("WANDB_BASE_URL", "https://user:password@wandb.example/x?y=z")
    assert normbench("doctor") == 0
    out = capfd.readouterr().out
    assert "a key is set" in out and "0123456789" not in out and "password" not in out


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
    assert "no C kernel" in out and "is damaged" in out and "pip install 'plotly" in out


def test_a_check_that_breaks_is_a_line(normbench, capfd, monkeypatch: pytest.MonkeyPatch):
    def broken(results):
        raise ImportError("libtorch.so:\ncannot open shared object file")
        yield

    monkeypatch.setattr(doctor, "CHECKS", (broken, doctor._disk))
    assert normbench("doctor") == 4
    assert "cannot be examined: libtorch.so: cannot open shared object file" in capfd.readouterr().out
