"""The W&B mirror: what it sends, that it sends it once, and that its failures cost a line and some seconds."""

from __future__ import annotations

import dataclasses
import json
import os
import socket
import subprocess
import sys
import textwrap
import time
import types
from pathlib import Path

import fake
import madeup
import pytest
import spoil
import tiny

from normbench.errors import NormbenchError
from normbench.export import mirror, wandb_run
from normbench.runs import store

# Stands in for the real package in the mirror's process: notes what it is told, or misbehaves as BEHAVIOUR says.
STAND_IN = """
import json, os, sys, time
def _note(**what):
    with open(os.environ["WANDB_NOTES"], "a") as file:
        file.write(json.dumps(what) + "\\n")
class Settings:
    def __init__(self, **options): pass
class _Run:
    def __init__(self, id): self.id, self.summary = id, {}
    def define_metric(self, *names, **options): pass
    def log(self, row):
        if os.environ.get("BEHAVIOUR") == "crash": os._exit(7)
        _note(run=self.id, row=row)
    def finish(self, exit_code): _note(run=self.id, code=exit_code, summary=self.summary)
def teardown(): pass
def init(id, **options):
    if os.environ.get("BEHAVIOUR") == "hang": time.sleep(1000)
    if os.environ.get("BEHAVIOUR") == "refuse": raise ValueError("No API key\\nconfigured.")
    _note(run=id, options={k: options[k] for k in ("mode", "project", "group", "name", "tags", "resume")})
    return _Run(id)
"""


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The stand-in on the path of child processes; the file of what it was told."""
    (tmp_path / "stand_in" / "wandb").mkdir(parents=True)
    (tmp_path / "stand_in" / "wandb" / "__init__.py").write_text(textwrap.dedent(STAND_IN))
    paths = [str(tmp_path / "stand_in"), *(p for p in __import__("sys").path if p)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    monkeypatch.setenv("WANDB_NOTES", str(tmp_path / "notes.jsonl"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(mirror, "GRACE_SECONDS", 30.0)
    return tmp_path / "notes.jsonl"


def noted(notes: Path) -> list[dict]:
    return [json.loads(line) for line in notes.read_text().splitlines()] if notes.exists() else []


DESCRIPTION = "mnist_mlp none data=digits model.hidden_sizes=[8] train.batch_size=210"  # the tiny run, by itself
ONLINE = {"name": "wandb", "mode": "online", "project": "p", "entity": ""}


def test_a_row_per_epoch_with_modes_and_variants_told_apart():
    records = [
        {"epoch": 0, "step": 0, "split": "train", "mode": "both", "nll": 2.0},
        {"epoch": 1, "step": 6, "split": "train", "mode": "running", "nll": 1.5},
        {"epoch": 1, "step": 6, "split": "train", "mode": "train", "nll": "NaN"},
        {
            "epoch": 1,
            "step": 6,
            "split": "test",
            "mode": "eval",
            "variant": {"momentum": 0.01},
            "nll": 1.0,
            "error": 0.5,
        },
    ]
    first, second = wandb_run.epochs(records, -1)
    assert first == {"epoch": 0, "updates": 0, "train/nll": 2.0}
    assert second.pop("train (training mode)/nll") != second["epoch"]  # NaN, as a number
    assert second == {
        "epoch": 1, "updates": 6, "train (running mean)/nll": 1.5,
        "test (momentum=0.01)/nll": 1.0, "test (momentum=0.01)/error": 0.5,
    }  # fmt: skip
    assert len(list(wandb_run.epochs(records, 0))) == 1


@pytest.mark.slow
def test_finished_runs_are_sent_once_into_real_offline_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "a-private-host")
    monkeypatch.setattr("getpass.getuser", lambda: "a-private-user")
    runs = madeup.runs(2, epochs=2)[:2]
    parts = [record | {"epoch": record["epoch"] / 8} for record in runs[1].records]  # evaluated after some updates
    runs[1] = dataclasses.replace(runs[1], records=parts)
    target = wandb_run.Target("offline", "p", "", tmp_path / "wandb")
    assert [wandb_run.send(run, target) for run in runs] == [True, True]
    target.settle()
    assert [wandb_run.send(run, target) for run in runs] == [False, False]
    assert [target.arrived(run.id) for run in runs] == [60, 7.5]
    sent = {path.parent.name.rsplit("-", 1)[1]: path.read_bytes() for path in tmp_path.rglob("run-*.wandb")}
    assert set(sent) == {run.id for run in runs}
    for run in runs:
        content = sent[run.id]
        for text in ("test/error", "train (training mode)/nll", wandb_run.group(run), run.arm, "paper"):
            assert text.encode() in content
        assert b"a-private" not in content  # who ran it, and where, is nobody's business

    def folders() -> int:
        return len(list((tmp_path / "wandb" / "wandb").glob(f"offline-run-*-{runs[0].id}")))

    longer = dataclasses.replace(runs[0], records=[*runs[0].records, runs[0].records[-1] | {"epoch": 61}])
    assert wandb_run.send(longer, target) and folders() == 1, "one file has all its steps, the former one is gone"
    target.settle()
    other = wandb_run.Target("offline", "another project", "", tmp_path / "wandb")
    other.clear(runs[0].id)
    assert folders() == 1 and not other.has(runs[0]), "what another project has stays"
    assert wandb_run.send(runs[0], other)


@pytest.mark.slow
def test_the_mirror_sends_a_run_while_it_trains_and_says_how_it_ended(tmp_path: Path, notes: Path):
    spec, events = tiny.spec(), []
    with mirror.following(ONLINE, tmp_path, lambda spec, event: events.append(event["event"])) as follower:
        follower.listen(spec, {"event": "start"})
        path = fake.directory(tmp_path / "runs", spec, "running")
        assert tiny.wait_until(lambda: len(noted(notes)) >= 3)  # before the end: opened, epochs 0 and 1 at least
        follower.listen(spec, {"event": "progress", "step": 6, "nll": 1.0})
        spoil.change(path, status="diverged", reason="NLL is NaN")
        follower.listen(spec, {"event": "end", "status": "diverged"})
    assert events == ["start", "progress", "end"] and follower.notes == []
    first, *rows, last = noted(notes)
    assert first["options"] == {
        "mode": "online", "project": "p", "group": f"adhoc {DESCRIPTION}", "name": f"{DESCRIPTION} s1",
        "tags": ["adhoc"], "resume": "allow",
    }  # fmt: skip
    assert [row["row"]["epoch"] for row in rows] == [0, 1, 2]
    assert last["code"] == 0 and last["summary"]["status"] == "diverged" and last["summary"]["reason"] == "NLL is NaN"


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "codes"), [("online", [1, 1, 0]), ("offline", [0])])
def test_of_a_resumed_run_each_epoch_is_sent_once(tmp_path: Path, notes: Path, mode: str, codes: list[int]):
    """To a server what is new, into files the whole run once it is finished: W&B counts each file's steps from 0."""
    spec = tiny.spec("train.epochs=4")
    path = fake.directory(tmp_path / "runs", spec, "running")
    whole = (path / "curve.jsonl").read_bytes()
    (path / "curve.jsonl").write_bytes(b"".join(whole.splitlines(keepends=True)[:6]))  # a checkpoint's: epochs 0 to 2
    for status in ("interrupted", "busy", "done"):
        with mirror.following(ONLINE | {"mode": mode}, tmp_path, lambda *_: None) as follower:
            follower.listen(spec, {"event": "start"})
            follower.listen(spec, {"event": "end", "status": status})
        (path / "curve.jsonl").write_bytes(whole)
    assert [n["row"]["epoch"] for n in noted(notes) if "row" in n] == [0, 1, 2, 3, 4]
    assert [n["code"] for n in noted(notes) if "code" in n] == codes


ORPHAN = """
import sys, time
import tiny
from pathlib import Path
from normbench.export import mirror
mirror.GRACE_SECONDS = 0.5
logger = {"name": "wandb", "mode": "online", "project": "p", "entity": ""}
with mirror.following(logger, Path(sys.argv[1]), lambda *_: None) as follower:
    follower.listen(tiny.spec(), {"event": "start"})
    print(follower.process.pid, flush=True)
    time.sleep(60)
"""


@pytest.mark.slow
def test_a_mirror_that_hangs_ends_with_its_command_however_that_ends(tmp_path: Path, notes: Path, monkeypatch):
    fake.directory(tmp_path / "runs", tiny.spec(), "running")
    monkeypatch.setenv("BEHAVIOUR", "hang")
    command = subprocess.Popen(
        [sys.executable, "-c", ORPHAN, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1]
    )
    assert command.stdout is not None
    pid = int(command.stdout.readline())
    time.sleep(2.0)  # it opens the run, and hangs there
    command.kill()
    command.wait()
    assert tiny.wait_until(lambda: not Path(f"/proc/{pid}").exists() or "State:\tZ" in status(pid), 20)


def status(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return "State:\tZ"


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [("hang", "had not ended after 1 s"), ("refuse", "No API key configured."), ("crash", "it ended with code 7")],
)
def test_a_failing_mirror_costs_a_line(tmp_path: Path, notes: Path, monkeypatch, behaviour: str, reason: str):
    monkeypatch.setenv("BEHAVIOUR", behaviour)
    if behaviour == "hang":
        monkeypatch.setattr(mirror, "GRACE_SECONDS", 1.0)
    specs = [tiny.spec(f"seed={seed}") for seed in range(1, 60)]
    for spec in specs[:2]:
        fake.directory(tmp_path / "runs", spec)
    started = time.monotonic()
    with mirror.following(ONLINE | {"mode": "offline"}, tmp_path, lambda *_: None) as follower:
        for spec in specs:  # more than a pipe holds: nobody waits for a mirror that does not read
            follower.listen(spec, {"event": "start"})
            follower.listen(spec, {"event": "end", "status": "done"})
        assert time.monotonic() - started < 4
    (note,) = follower.notes
    assert reason in note and "normbench export wandb --mode offline" in note and "\n" not in note
    assert follower.process is not None and follower.process.poll() is not None


@pytest.mark.slow  # the real package's several processes; the stand-in that hangs has the same in a moment
def test_training_goes_on_where_no_wandb_host_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd):
    """The real package, asked to send to a host that takes connections and never says a word."""
    from normbench.cli import main

    silent = socket.create_server(("127.0.0.1", 0), backlog=50)
    monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
    monkeypatch.setenv("WANDB_API_KEY", "0123456789" * 4)
    monkeypatch.setenv("WANDB_MODE", "offline")  # the option decides, not the environment
    monkeypatch.setattr(mirror, "GRACE_SECONDS", 2.0)
    monkeypatch.chdir(tmp_path)
    curves = []
    for words in (("--results", "plain"), ("--results", "mirrored", "logger=wandb", "logger.mode=online")):
        with pytest.raises(SystemExit) as ended:
            main(("train", *tiny.WORDS, *words))
        assert ended.value.code == 0
        (stored,) = store.scan(tmp_path / words[1] / "runs")
        assert stored.state == "done"
        curves.append((stored.path / "curve.jsonl").read_bytes())
    silent.close()
    assert curves[0] == curves[1]
    output = capfd.readouterr().out
    assert "note: W&B mirror: " in output and "--mode online" in output
    assert list((tmp_path / "mirrored" / "wandb" / "sent").glob("*")) == []  # nothing arrived, nothing is claimed


def test_where_nothing_can_be_written_nothing_is_written_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """W&B itself would take a folder below /tmp."""
    monkeypatch.setattr(wandb_run, "_wandb", lambda: pytest.fail("W&B was asked"))
    (run, *_) = madeup.runs(2, epochs=2)
    (tmp_path / "wandb").write_text("a file")
    for folder, reason in ((tmp_path / "wandb", "File exists"), (Path("/proc"), "No such file or directory")):
        with pytest.raises(NormbenchError) as caught:
            wandb_run.send(run, wandb_run.Target("offline", "p", "", folder))
        assert str(caught.value) == f"{folder} cannot be written: {reason}. Choose another place with --results."


@pytest.mark.slow
def test_an_export_that_breaks_off_says_so_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd):
    from normbench.cli import main

    madeup.published(tmp_path / "results")
    monkeypatch.chdir(tmp_path)
    real, calls = wandb_run.send, []

    def third_fails(run, target):
        calls.append(run.id)
        if len(calls) == 3:
            raise NormbenchError(f"W&B broke off at run {run.id}: network is gone", 4)
        return real(run, target)

    monkeypatch.setattr(wandb_run, "send", third_fails)
    for code, text in (
        (4, "(2 of 5 sent; the same command goes on)"),
        (0, "3 runs to W&B project normbench, offline, 2"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(("export", "wandb", "ln"))
        shown = capfd.readouterr()
        assert ended.value.code == code and text in shown.out + shown.err


def test_a_key_that_is_missing_is_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd):
    from normbench.cli import main

    class UsageError(Exception):  # W&B's own, by its name
        pass

    def init(**options):
        raise error

    madeup.published(tmp_path / "results")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(wandb_run, "_wandb", lambda: types.SimpleNamespace(init=init, Settings=dict))
    for error, code in ((UsageError("No API key configured."), 2), (OSError("no network"), 4)):
        with pytest.raises(SystemExit) as ended:
            main(("export", "wandb", "--mode", "online", "ln"))
        assert ended.value.code == code
        (line,) = capfd.readouterr().err.splitlines()
        assert str(error) in line and ("export wandb --mode online: " in line) is (code == 2)


def test_runs_that_are_done_already_are_not_mirrored_and_it_is_said_how(tmp_path: Path, monkeypatch, capfd):
    from normbench.cli import main

    spec = tiny.spec()
    fake.directory(tmp_path / "results" / "runs", spec)
    monkeypatch.chdir(tmp_path)

    def output() -> str:
        with pytest.raises(SystemExit) as ended:
            main(("train", *tiny.WORDS, "logger=wandb", "logger.mode=online", "logger.project=p"))
        assert ended.value.code == 0
        return capfd.readouterr().out

    assert f"  already done: normbench export wandb {spec.id} --mode online --project p\n" in output()
    target = wandb_run.Target("online", "p", "", tmp_path / "results" / "wandb")
    monkeypatch.setattr(wandb_run, "_wandb", lambda: types.SimpleNamespace(teardown=lambda: None))
    target.finished[spec.id] = 2
    target.settle()
    assert "already done" not in output(), "what is there"
