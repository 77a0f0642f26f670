"""`--json` of every command: one JSON value alone on standard output, of the form in commands/answers.py."""

from __future__ import annotations

import json
from pathlib import Path

import fake
import pytest
import tiny
from pydantic import TypeAdapter

from normbench.commands.answers import ANSWERS
from normbench.data import fetch

PUBLISHED = Path(__file__).parents[2] / "results"
SPECS = fake.specs(2)
ONE = (*tiny.WORDS, "train.epochs=1")
CALLS = [
    ("list",),
    ("train", *ONE),
    ("train", *ONE, "-m", "norm=none,layer", "--dry-run"),
    ("train", *ONE, "--cfg", "job"),
    ("reproduce", "ln2016/fig6", "--dry-run"),
    ("reproduce", "ln2016/table1", "--jobs", "1"),
    ("status",),
    ("compare",),
    ("show", SPECS[0].id),
    ("rerun", SPECS[0].id),
    ("battery", "--norm", "rms", "--only", "ln2016/table1", "--dry-run"),
    ("report",),
    ("export", "csv"),
    ("export", "wandb"),
    ("import", "--list"),
    ("judge", "--results", str(PUBLISHED), "--runs", "ln2016/fig5 fidelity=reduced", "--compare", "ln", "none"),
    ("check",),
    ("doctor",),
    ("data",),
    ("data", "get", "mnist"),
]


def test_every_command_that_answers_and_ends_has_an_answer() -> None:
    listed = json.loads((Path(__file__).parents[1] / "golden" / "commands.json").read_text())
    assert {name for name in listed if "--json" in listed[name]} == ANSWERS.keys() == {words[0] for words in CALLS}
    assert listed.keys() - ANSWERS.keys() == {"dashboard", "sample", "worker"}


@pytest.mark.parametrize("call", CALLS, ids=" ".join)
def test_an_answer_has_its_form(call, normbench, capfd, tmp_path: Path, monkeypatch) -> None:
    for spec in SPECS:
        fake.directory(tmp_path / "results" / "runs", spec)
    monkeypatch.setattr(fetch, "get", lambda *_, **__: [])
    code = normbench(*call, "--json")
    out, err = capfd.readouterr()
    assert code in ((4,) if call[0] == "rerun" else (0, 2)), err
    TypeAdapter(ANSWERS[call[0]]).validate_json(out, strict=True)
    assert json.loads(out)
