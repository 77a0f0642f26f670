"""`--json` of every command: one JSON value alone on standard output, with the keys of the example in its help."""

from __future__ import annotations

import json
from pathlib import Path

import fake
import json_examples
import pytest
import tiny

from normbench import data
from normbench.data import files

PUBLISHED = Path(__file__).parents[2] / "results"
LOGS = Path(__file__).parents[2] / "examples" / "imports" / "keras"
SPECS = [*fake.specs(5), *fake.specs(5, "norm=layer")]
ONE = (*tiny.WORDS, "train.epochs=1")
CALLS: dict[str, list[tuple[str, ...]]] = {
    "list": [()],
    "train": [ONE, (*ONE, "-m", "norm=none,layer", "--dry-run"), (*ONE, "--cfg", "job")],
    "reproduce": [("ln2016/fig6", "--dry-run"), ("ln2016/table1", "--jobs", "1"), ("ln2016/fig6", "--max-time", "0")],
    "status": [()],
    "compare": [()],
    "show": [(SPECS[0].id,)],
    "rerun": [(SPECS[0].id,)],
    "battery": [("--norm", "rms", "--only", "ln2016/fig6", "--dry-run")],  # another test has its numbers
    "report": [()],
    "export": [("csv",)],
    "import": [(str(LOGS), "--as", "mine", "--yes"), ("--list",)],
    "judge": [("--results", str(PUBLISHED), "--runs", "ln2016/fig5 fidelity=reduced", "--compare", "ln", "none")],
    "check": [()],
    "doctor": [()],
    "data": [(), ("get", "mnist")],
}


def test_every_command_that_answers_and_ends_has_an_example() -> None:
    listed = json.loads((Path(__file__).parents[1] / "golden" / "commands.json").read_text())
    assert {name for name in listed if "--json" in listed[name]} == CALLS.keys()
    assert listed.keys() - CALLS.keys() == {"dashboard", "sample", "weights", "worker"}


@pytest.mark.parametrize("command", CALLS)
def test_an_answer_has_the_keys_of_the_example(command: str, normbench, capfd, tmp_path: Path, monkeypatch) -> None:
    for spec in SPECS:
        run = fake.directory(tmp_path / "results" / "runs", spec)
    if command == "check":
        (run / "curve.jsonl").write_bytes(b"")
    if command == "data":  # as if it had brought the files
        monkeypatch.setattr(files, "fetch", lambda *_, **__: [])
        monkeypatch.setattr(data, "check", lambda _: None)
    answers = []
    for words in CALLS[command]:
        code = normbench(command, *words, "--json")
        out, err = capfd.readouterr()
        assert code in ((4,) if command in ("rerun", "check") else (0, 2)), err
        answers.append(json.loads(out))
    json_examples.check(command, answers)
