"""The commands as a user meets them, on a shrunk Fig. 6."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import tiny

from normbench.config import compose
from normbench.config.compose import conf_dir
from normbench.papers import published, verdicts
from normbench.runs import checkpoint_file, directory, pack
from normbench.runs.table import Runs

REPRODUCE = ("reproduce", "ln2016/fig6", "--fidelity", "smoke", "--seeds", "1")
PUBLISHED = Path(__file__).resolve().parents[2] / "results"
OUTPUT = {"figure.svg", "table.md", "table.csv", "verdicts.json", "runs.jsonl.gz", "contrasts.npz"}


def test_the_figure_of_an_artifact_is_drawn_for_a_paper(normbench, capfd, tmp_path: Path):
    pytest.importorskip("matplotlib")
    (tmp_path / "results").mkdir()
    shutil.copytree(PUBLISHED / "bln2022" / "fig2", tmp_path / "results" / "bln2022" / "fig2")
    asked = ("reproduce", "bln2022/fig2", "--max-time", "0", "--results", str(tmp_path / "results"))
    path = tmp_path / "fig2.pdf"
    assert normbench(*asked, "--figure", str(path), "--width", "6.75in") == 0
    assert f"{path}: " in capfd.readouterr().out and b"/MediaBox [ 0 0 486 " in path.read_bytes()
    for words in (("--dry-run",), ("ln2016/geometry",)):
        assert normbench(*asked, *words, "--figure", str(path)) == 2
        assert "--figure" in capfd.readouterr().err
    assert normbench(*asked, "--width", "3in") == 2


@pytest.mark.slow
def test_reproduce_from_nothing_to_verdicts_and_again(normbench, capfd, small_fig6, tmp_path: Path):
    own = ("--config-dir", str(small_fig6))
    assert normbench(*REPRODUCE, *own, "--dry-run", "launcher=local") == 0
    out = capfd.readouterr().out
    assert out.count("(missing)") == 10 and " · about 8 s on 1 process\n" in out
    assert not (tmp_path / "results").exists()

    assert normbench(*REPRODUCE, *own, "launcher=pool", "launcher.jobs=2") == 0
    first = capfd.readouterr().out
    assert "10 runs · 0 done, 10 to run · about 4 s on 2 processes\n" in first
    assert [word for word in ("claim ", "holds", "undecided", "decided ") if word in first] == []
    place = tmp_path / "results" / "own" / "ln2016" / "fig6" / "smoke"
    assert {path.name for path in place.iterdir()} == OUTPUT
    before = {path.name: path.read_bytes() for path in place.iterdir()}
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "results" / "runs").rglob("curve.jsonl")}
    assert len(stamps) == 10

    assert normbench(*REPRODUCE, *own) == 0
    assert "10 runs · 10 done\n" in capfd.readouterr().out
    assert {path.name: path.read_bytes() for path in place.iterdir()} == before
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps

    assert json.loads((place / "verdicts.json").read_text())["claims"] == []  # embedded data decide nothing
    index = (tmp_path / "results" / "report" / "index.html").read_text()
    assert "Your own and smoke runs" in index and 'class="tally"' not in index and "not run: <code>" in index
    unbiased = [r for r in pack.read(place / pack.NAME).runs if r.config["norm"].get("unbiased_norm")]
    assert {(r.arm, r.axes["train.batch_size"]) for r in unbiased} == {("bn", 4), ("bn-all", 4)}

    # from the runs of another folder the same follows; its verdicts are not copied
    elsewhere = ("--max-time", "0", "--results", "here", "--from", "results")
    (place / "verdicts.json").unlink()
    assert normbench(*REPRODUCE, *own, *elsewhere) == 0 and "10 done" in capfd.readouterr().out
    copied = tmp_path / "here" / "own" / "ln2016" / "fig6" / "smoke"
    assert {path.name: path.read_bytes() for path in copied.iterdir()} == before
    assert not [*(tmp_path / "here").glob("runs/*")] and not (place / "verdicts.json").exists()
    (place / "verdicts.json").write_bytes(before["verdicts.json"])
    assert normbench(*REPRODUCE, *own, "--from", "nowhere") == 2 and "--from nowhere" in capfd.readouterr().err

    # the pack alone is enough: a fresh clone has no raw runs
    store_folder = tmp_path / "results" / "runs"
    store_folder.rename(tmp_path / "elsewhere")
    assert normbench(*REPRODUCE, *own, "--max-time", "0") == 0
    assert "10 done" in capfd.readouterr().out
    assert {path.name: path.read_bytes() for path in place.iterdir()} == before
    assert normbench("status") == 0
    out = capfd.readouterr().out
    assert out == "own/ln2016/fig6/smoke: 10 runs in a pack\n"

    run = pack.read(place / pack.NAME).runs[0]
    assert normbench("show", run.id[:6], "--json") == 0
    out = json.loads(capfd.readouterr().out)
    assert out["id"] == run.id and out["status"] == "done" and out["config"]["data"]["name"] == "digits"
    assert normbench("rerun", run.id, *own) == 0
    assert f"run {run.id}, {run.steps} of {run.steps} updates, in the same environment: equal" in capfd.readouterr().out


def test_seeds_that_no_claim_counts_are_named(normbench, capfd, tmp_path: Path):
    words = ("reproduce", "ln2016/table2", "--only", "ln", "--dry-run", "--results", str(tmp_path))
    assert normbench(*words, "--seeds", "5-6") == 0
    assert "no claim counts seed 6" in capfd.readouterr().out
    assert normbench(*words) == 0
    assert "no claim counts" not in capfd.readouterr().out


@pytest.mark.parametrize(
    ("claim", "under_high", "runs"),
    [("BLN-5", [1, 2, 3, 4, 5], 45), ("BLN-19", list(range(6, 21)), 60)],  # of bn at that rate both have some
)
def test_a_claims_runs_are_of_the_seeds_that_decide_it(normbench, capfd, tmp_path: Path, claim, under_high, runs):
    words = ("bln2022/ablation", "--only", claim, "--controls", "--dry-run", "--results", str(tmp_path))
    assert normbench("reproduce", *words) == 0
    listed = [line.split() for line in capfd.readouterr().out.splitlines() if line.endswith("(missing)")]
    assert len(listed) == runs
    assert sorted({int(line[3][5:]) for line in listed if "lr-high" in line}) == under_high


def test_nothing_is_there(normbench, capfd, tmp_path: Path):
    assert normbench("reproduce", "ln2016/fig6", "--max-time", "0") == 0
    out = capfd.readouterr().out
    assert "70 runs" in out and "0 done, 70 to run" in out and "nothing is started" in out and "not run" in out
    assert f"{tmp_path / 'results'} has no published runs" in out
    assert list(tmp_path.iterdir()) == []
    assert normbench("status") == 0
    out = capfd.readouterr().out
    assert "no runs below" in out and "normbench reproduce" in out
    assert normbench("status", "--json") == 0
    assert json.loads(capfd.readouterr().out) == {"runs": []}


@pytest.mark.slow
def test_the_published_results_come_into_an_empty_folder(normbench, capfd, tmp_path: Path):
    """Without `contrasts.npz`, as in an installed package: the verdicts stay as they were."""
    place = "ln2016/fig6/paper"
    published = conf_dir().parent / "results" / place
    without = shutil.ignore_patterns("contrasts.npz")
    shutil.copytree(published, tmp_path / "shipped" / place, ignore=without)
    assert normbench("reproduce", "ln2016/fig6", "--max-time", "0", "--dry-run") == 0
    assert not (tmp_path / "results").exists()
    assert normbench("reproduce", "ln2016/fig6", "--max-time", "0") == 0
    out = " ".join(capfd.readouterr().out.split())
    assert f"the published results of ln2016 are now in {tmp_path / 'results/ln2016'}" in out
    assert "contrasts.npz: it is not there" in out
    for name in ("verdicts.json", "table.md", "table.csv", "runs.jsonl.gz"):
        assert (tmp_path / "results" / place / name).read_bytes() == (published / name).read_bytes()
    assert normbench("check") == 0, "it is as it was brought"
    assert capfd.readouterr().out.count("contrasts.npz: it is not there") == 1
    (tmp_path / "results" / place / "table.md").unlink()
    assert normbench("reproduce", "ln2016/fig6", "--max-time", "0") == 0  # what is there is not replaced
    assert "are now in" not in capfd.readouterr().out
    assert (tmp_path / "results" / place / "table.md").read_bytes() == (published / "table.md").read_bytes()


def test_train_a_sweep_then_status_show_and_divergence(normbench, capfd, tmp_path: Path):
    small = ("model=mnist_mlp", "data=digits", "model.hidden_sizes=[4]", "train.epochs=1", "train.batch_size=300")
    assert normbench("train", "-m", *small, "norm=none,layer,none", "launcher=pool", "launcher.jobs=1") == 0
    out = capfd.readouterr().out
    assert "2 runs" in out and out.count(" done ") >= 2
    assert normbench("train", *small, "optim.lr=1e30") == 3
    out = capfd.readouterr().out
    assert "diverged" in out and "It counts as diverged" in out
    assert normbench("status", "--json") == 0
    runs = json.loads(capfd.readouterr().out)["runs"]
    assert sorted(run["status"] for run in runs) == ["diverged", "done", "done"]
    assert {run["experiment"] for run in runs} == {"adhoc"}
    assert set(runs[0]) >= {"id", "experiment", "arm", "seed", "status", "step", "steps", "reason"}

    # a damaged directory is listed and hides nobody
    victim = next(Path(run["path"]) for run in runs if run["status"] == "done")
    (victim / "run.json").write_text("{")
    assert normbench("status") == 0
    out = capfd.readouterr().out
    assert "damaged" in out and "run.json cannot be read: " in out and "1 diverged" in out and "1 done" in out


def test_a_loss_that_ends_far_above_its_beginning_is_reported(normbench, capfd):
    assert normbench("train", *tiny.WORDS, "train.epochs=1", "optim.lr=1e6") == 0
    assert ": valid NLL was 2.18 before training and is " in capfd.readouterr().out
    assert normbench("train", *tiny.WORDS, "train.epochs=1") == 0
    assert "before training" not in capfd.readouterr().out


def test_a_sweep_leaves_what_another_process_writes(normbench, capfd, tmp_path: Path):
    with directory.RunDirectory(directory.place(tmp_path / "results" / "runs", tiny.spec("norm=none"))).writing():
        assert normbench("train", "-m", *tiny.WORDS, "norm=none,layer", "launcher=pool", "launcher.jobs=1") == 5
    out = capfd.readouterr().out
    assert " busy: run " in out and "is being written by process" in out
    assert sorted(run.status for run in Runs(tmp_path / "results").raw) == ["done", "interrupted"]


@pytest.mark.parametrize("kind", ["artifacts", "models", "norms", "data"])
def test_list(kind, normbench, capfd):
    assert normbench("list", kind, "--json") == 0
    entries = json.loads(capfd.readouterr().out)[kind]
    assert entries and all(entry["id"] and entry["title"] for entry in entries)
    assert normbench("list", kind) == 0
    out = capfd.readouterr().out
    assert all(entry["id"] in out for entry in entries)


def test_the_list_says_what_replaces_the_activation(normbench, capfd):
    assert normbench("list", "norms") == 0
    replacing = {line.split()[0] for line in capfd.readouterr().out.splitlines() if "replaces the activation" in line}
    assert replacing == {name for name in compose.choices("norm") if compose.declaration("norm", name).get("replaces")}
    assert {"evo_s0", "filter_response"} <= replacing


def test_help_shows_examples_everywhere(normbench, capfd):
    for words in ("", "list", "train", "reproduce", "status", "show", "rerun", "data", "battery"):
        assert normbench(*words.split(), "--help") == 0
        assert "examples:" in capfd.readouterr().out


def test_commands_import_what_they_need_alone(tmp_path: Path):
    """Torch where something is computed, hydra where a word is swept."""
    expected = {  # one after another in one process
        "--help": "0",
        "status": "0",
        "list": "0",
        "battery --help": "0",
        "data": "0",
        "train experiment=ln2016/fig6 arm=ln --dry-run": "0",
        "reproduce ln2016/fig6 --dry-run": "0",
        "train model=mnist_mlp data=digits norm=none,layer -m --dry-run": "hydra 0",
    }
    code = (
        "import sys\nfrom normbench.cli import main\n"
        "for words in sys.argv[1:]:\n"
        "    try: main(words.split())\n"
        "    except SystemExit as e: code = e.code\n"
        "    found = [name for name in ('torch', 'hydra') if name in sys.modules]\n"
        "    print(*found, code, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, *expected], cwd=tmp_path, capture_output=True, text=True)
    assert dict(zip(expected, done.stderr.strip().splitlines(), strict=True)) == expected


def test_an_artifact_without_its_data_leaves_the_others(normbench, capfd, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("NORMBENCH_DATA", str(tmp_path / "none"))
    assert normbench("reproduce", "bln2022/fig6", "ln2016/table1", "--results", str(tmp_path), "--jobs", "1") == 2
    out = capfd.readouterr().out
    assert "bln2022/fig6 is left out: IMDB is not in" in out and "claims, 0 before this command" in out
    assert (tmp_path / "ln2016" / "table1" / "paper" / "verdicts.json").exists()


def _long_run(tmp_path: Path) -> tuple[subprocess.Popen[str], list[str]]:
    words = "train model=mnist_mlp data=digits train.epochs=100000 model.hidden_sizes=[4] --results"
    command = [sys.executable, "-m", "normbench", *words.split(), str(tmp_path / "results")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120  # only keeps a broken test from hanging
    while time.monotonic() < deadline and not list(tmp_path.rglob("timing.jsonl")):
        time.sleep(0.1)
    return process, command


@pytest.mark.slow
def test_ctrl_c_saves_and_a_second_one_ends_at_once(tmp_path: Path):
    process, command = _long_run(tmp_path)
    busy = subprocess.run(command, capture_output=True, text=True)
    assert busy.returncode == 5 and "is being written by process" in busy.stdout
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 130 and "the same command goes on" in out
    (found,) = Runs(tmp_path / "results").raw
    assert found.status == "interrupted" and found.step > 0
    assert (found.path / checkpoint_file.NAME).exists()

    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not directory.is_locked(found.path):
        assert process.poll() is None
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    os.kill(process.pid, signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode == 130
    (found,) = Runs(tmp_path / "results").raw
    assert found.status == "interrupted"


def test_the_share_of_decided_claims_is_reported_before_and_after(normbench, capfd, tmp_path: Path):
    place = tmp_path / "results" / "ln2016" / "table1" / "paper"
    shutil.copytree(PUBLISHED / "ln2016" / "table1" / "paper", place)
    path = place / "verdicts.json"
    before = published.read_verdicts(path)
    words = ["undecided", "undecided", "undecided", "untested", "holds", "untested"]  # as other rules had judged
    claims = tuple(replace(claim, word=word) for claim, word in zip(before.claims, words, strict=True))
    content = verdicts.sealed(replace(before, claims=claims), before.pack_sha256, before.contrasts_sha256)
    path.write_bytes(verdicts.as_file(content))
    command = ("reproduce", "ln2016/table1", "ln2016/fig6", "--max-time", "0")
    assert normbench(*command) == 0
    assert "\n  decided   6 of 11 claims, 1 before this command\n" in capfd.readouterr().out
    assert normbench(*command) == 0
    assert "\n  decided   6 of 11 claims, 6 before this command\n" in capfd.readouterr().out


def test_a_run_whose_normalizer_raises_names_the_log_with_the_traceback(normbench, capfd, tmp_path: Path):
    own = tmp_path / "own"
    shutil.copytree(PUBLISHED.parent / "examples" / "own_normalizer", own)
    code = own / "norm" / "centre.py"
    code.write_text(code.read_text().replace("y = x", 'raise KeyError("mine"); y = x'))
    train = ("train", "--config-dir", str(own), "model=mnist_mlp", "data=digits", "norm=centre")
    assert normbench(*train) == 4
    out = capfd.readouterr().out
    (log,) = (tmp_path / "results" / "runs").rglob("output.log")
    assert f"normbench: KeyError: 'mine' (centre.py, line 18) (more in {log})" in out.replace("\n", "")
    assert str(code) in log.read_text()
    assert normbench("show", log.parent.name[-12:], "--json") == 0
    out = json.loads(capfd.readouterr().out)
    assert (out["status"], out["log"], out["last"]) == ("failed", str(log), [])
