"""Interrupted, lengthened, written by two: a run ends with the bytes of an undisturbed one, or says why it cannot."""

from __future__ import annotations

import datetime
import io
import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import tiny

from normbench.config.plan import train_specs
from normbench.errors import NormbenchError
from normbench.runs import directory, files
from normbench.runs.curve import Curve
from normbench.runs.directory import RunDirectory
from normbench.runs.table import Runs
from normbench.train import checkpoint, environment, loop
from normbench.train.train_one import ensure_run

ARMS = {
    "none": (),
    "batch": ("norm=batch", "norm.also_momenta=[0.01]"),
    "layer": ("norm=layer", "norm.sites=[hidden,logits]"),
    "batch_layer": ("norm=batch_layer", "norm.also_configurations=[TTTT,FFFF]"),  # sums of an unfinished epoch
}
EVERY_STEP = "train.checkpoint_seconds=0"


Calm = Callable[..., tuple[bytes, bytes]]


@pytest.mark.parametrize("arm", ARMS)
def test_two_runs_of_one_configuration_are_equal(arm: str, tmp_path: Path, calm: Calm) -> None:
    assert tiny.train(tmp_path / "run", *ARMS[arm]) == "done"
    assert tiny.result(tmp_path / "run") == calm(*ARMS[arm])
    files = "curve.jsonl timing.jsonl run.json weights outcomes lock"
    assert {path.name for path in (tmp_path / "run").iterdir()} == set(files.split())


def test_other_seeds_and_options_are_other_curves(calm: Calm, tmp_path: Path) -> None:
    """Else all the equalities here could be those of a constant."""
    assert tiny.train(tmp_path / "run", "seed=2") == "done"
    assert len({tiny.result(tmp_path / "run"), *(calm(*words) for words in ARMS.values())}) == 1 + len(ARMS)


@pytest.mark.parametrize("arm", ARMS)
@pytest.mark.parametrize("seconds", ["0", "1e9"])
def test_interrupted_again_and_again(arm: str, seconds: str, tmp_path: Path, calm: Calm) -> None:
    rng, run, stops = random.Random(f"{arm} {seconds}"), tmp_path / "run", 0
    words = (*ARMS[arm], f"train.checkpoint_seconds={seconds}")
    while tiny.train(run, *words, stopping=tiny.after(rng.randint(1, 5))) == "interrupted":
        stops += 1
        found = tiny.status(run)
        assert (found["status"], found["reason"]) == ("interrupted", "stopped; the same command goes on")
    assert stops >= 2
    assert tiny.result(run) == calm(*ARMS[arm])
    assert not (run / "checkpoint").exists()
    resumed = tiny.status(run)["environment"]["resumed"]
    assert len(resumed) == stops and all(r["changed"] == {} for r in resumed)


@pytest.mark.parametrize("step", [1, 5, 6, 12])
def test_interrupted_at_one_step(step: int, tmp_path: Path, calm: Calm) -> None:
    """In the middle of an epoch, at its last batch (6), after the last update of all (12)."""
    assert tiny.train(tmp_path / "run", *ARMS["batch"], stopping=tiny.after(step)) == "interrupted"
    assert tiny.status(tmp_path / "run")["step"] == step
    assert tiny.train(tmp_path / "run", *ARMS["batch"]) == "done"
    assert tiny.result(tmp_path / "run") == calm(*ARMS["batch"])


def test_a_run_says_since_when_its_results_were_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In UTC: kept when it goes on; another when it starts anew; none if it had none."""
    hours = iter(range(10, 24))
    zone = datetime.timezone(datetime.timedelta(hours=2))

    def now(where: datetime.tzinfo) -> datetime.datetime:
        return datetime.datetime(2026, 11, 26, next(hours), 5, 7, 999, zone).astimezone(where)

    clock = SimpleNamespace(datetime=SimpleNamespace(now=now), UTC=datetime.UTC)
    monkeypatch.setattr(directory, "datetime", clock)
    words = (EVERY_STEP,)
    run = directory.place(tmp_path / "runs", tiny.spec(*words))
    assert tiny.train(run, *words, stopping=tiny.after(3)) == "interrupted"
    assert tiny.status(run)["began"] == "2026-11-26T08:05:07Z"
    assert tiny.train(run, *words) == "done" and tiny.status(run)["began"] == "2026-11-26T08:05:07Z"
    assert [found.began for found in Runs(tmp_path).find([tiny.spec(*words)])] == ["2026-11-26T08:05:07Z"]
    assert tiny.train(run, *words, "eval.samples=2") == "done"
    assert tiny.status(run)["began"] == "2026-11-26T09:05:07Z", "it was repeated"
    other = tmp_path / "other"
    assert tiny.train(other, *words, stopping=tiny.after(3)) == "interrupted"
    older = {key: value for key, value in tiny.status(other).items() if key != "began"}
    (other / "run.json").write_text(json.dumps(older))
    assert tiny.train(other, *words) == "done" and "began" not in tiny.status(other)


def test_dropout_is_that_of_the_update_whenever_it_is_computed(tmp_path: Path) -> None:
    sizes = [f"model.{name}=4" for name in ("embedding_size", "hidden_size", "last_hidden_size", "dense_size")]
    words = ["model=imdb_rnn", "data=made_reviews", "data.fraction=0.2", *sizes, "train.epochs=2", "norm=batch_layer"]
    (given,), (other,) = (train_specs([*words, *more], False) for more in ((), ("seed=2",)))
    calm, stopped = tmp_path / "calm", tmp_path / "stopped"
    assert ensure_run(given, RunDirectory(calm)) == "done"
    for calls in (3, 7):  # of 8 updates an epoch
        assert ensure_run(given, RunDirectory(stopped), stopping=tiny.after(calls)) == "interrupted"
    assert ensure_run(given, RunDirectory(stopped)) == "done"
    assert tiny.result(stopped) == tiny.result(calm)
    assert ensure_run(other, RunDirectory(tmp_path / "other")) == "done"
    assert tiny.result(tmp_path / "other") != tiny.result(calm)


def test_what_was_written_after_the_checkpoint_is_written_anew(tmp_path: Path, calm: Calm) -> None:
    run = tmp_path / "run"
    tiny.train(run, stopping=tiny.after(7))
    with open(run / "curve.jsonl", "ab") as curve:
        curve.write(b'{"epoch": 1, "split": "test", "torn')
    assert tiny.train(run) == "done"
    assert tiny.result(run) == calm()


# --- another schema --------------------------------------------------------------------------------------------------


def contents(run: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}


@pytest.mark.parametrize("schema", [2, 4, 6])
def test_a_run_of_another_schema_is_refused_and_nothing_of_it_is_changed(schema: int, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert tiny.train(run, EVERY_STEP, stopping=tiny.after(8)) == "interrupted"
    files.write_json(run / "run.json", tiny.status(run) | {"schema": schema})
    before = contents(run)
    for words in ((), ("train.epochs=3",), ("eval.reshuffles=1",)):
        with pytest.raises(NormbenchError, match=f"schema {schema}") as caught:
            tiny.train(run, *words)
        assert caught.value.code == 4 and contents(run) == before


@pytest.mark.parametrize("progress", [{"step": 1}, {"step": 1, "schema": 1}, {"step": 1, "schema": 3}])
def test_a_checkpoint_of_another_schema_is_not_gone_on_with(progress: dict, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert tiny.train(run, EVERY_STEP, stopping=tiny.after(1)) == "interrupted"
    checkpoint.write(run, progress, {})
    before = contents(run)
    with pytest.raises(NormbenchError, match=f"schema {progress.get('schema')}, .* 2") as caught:
        tiny.train(run)
    assert caught.value.code == 4 and contents(run) == before


# --- longer and shorter ----------------------------------------------------------------------------------------------


HABITS = {  # what somebody asks for after the tiny run, and how many directories there are then
    "more epochs": (("train.epochs=3",), 2),
    "fewer epochs": (("train.epochs=1",), 1),
    "another evaluation": (("eval.also_after=[3]",), 2),
    "another seed": (("seed=2",), 2),
    "the same twice": ((), 1),
}


@pytest.mark.parametrize("habit", HABITS)
def test_five_habits_give_the_right_curve_and_lose_nothing(habit: str, tmp_path: Path, calm: Calm) -> None:
    words, directories = HABITS[habit]
    root, spec = tmp_path / "runs", tiny.spec(*words)
    first = directory.place(root, tiny.spec())
    assert tiny.train(first) == "done"
    before = tiny.result(first)
    lacking = Runs(tmp_path).of(spec) is None
    assert lacking == (directories == 2)
    if lacking:
        tiny.train(directory.place(root, spec), *words)
    again = Runs(tmp_path).of(spec)
    assert Curve(map(json.loads, calm(*words)[0].splitlines())) == again.records
    folders = [path for path in first.parent.iterdir() if path.is_dir()]
    assert len(folders) == directories and before in map(tiny.result, folders)
    assert Runs(tmp_path).retrained([spec]) == []


def test_a_run_is_trained_anew_under_the_next_free_name(tmp_path: Path, calm: Calm) -> None:
    run = tmp_path / "run.1"
    for number, epochs in enumerate((1, 2, 3)):
        assert tiny.train(run, f"train.epochs={epochs}") == "done"
        assert {path.name for path in tmp_path.iterdir()} == {"run.1", *(f"run.1.old-{n + 1}" for n in range(number))}
    assert tiny.result(tmp_path / "run.1.old-2") == calm()


def test_an_unfinished_run_with_other_evaluations_is_renamed(tmp_path: Path, calm: Calm) -> None:
    assert tiny.train(tmp_path / "run", EVERY_STEP, stopping=tiny.after(4)) == "interrupted"
    assert tiny.train(tmp_path / "run", "eval.also_after=[3]") == "done"
    assert tiny.result(tmp_path / "run") == calm("eval.also_after=[3]")
    assert (tmp_path / "run.old-1" / "checkpoint").is_dir()


def test_a_shorter_run_goes_on_with_a_longer_unfinished_one_as_far_as_it_is_asked(tmp_path: Path) -> None:
    """Not with another length, and not from the start: where it ends it is evaluated."""
    run, asked = tmp_path / "run", []
    words = "eval.every=4", EVERY_STEP
    assert tiny.train(run, "train.epochs=8", *words, stopping=tiny.after(9)) == "interrupted"
    with pytest.raises(NormbenchError, match="already at step 9 of a longer one"):
        tiny.train(run, "train.epochs=1", *words)
    assert tiny.train(run, "train.epochs=2", *words, stopping=lambda: bool(asked.append(1))) == "done"
    assert len(asked) == 3 and tiny.status(run)["epochs"] == 2


@pytest.mark.parametrize("unit", [("train.epochs={}", "eval.every=4"), ("train.epochs=0", "train.steps={}")])
def test_one_that_diverged_is_so_of_every_length(unit: tuple[str, str], tmp_path: Path) -> None:
    long, short = ([word.format(n) for word in unit] for n in (8, 2))
    results = tmp_path
    specs = [tiny.spec("optim.lr=1e30", *words) for words in (long, short)]
    run = directory.place(results / "runs", specs[0])
    assert tiny.train(run, "optim.lr=1e30", *long) == "diverged"
    assert tiny.train(run, "optim.lr=1e30", *short) == "diverged"
    found = Runs(results)
    assert [found.state(spec) for spec in specs] == ["diverged", "diverged"]
    never = {"stopping": lambda: pytest.fail("it was trained again")}
    assert [tiny.train(run, "optim.lr=1e30", *words, **never) for words in (long, short)] == ["diverged"] * 2


def test_a_refusal_leaves_the_progress_of_an_interrupted_run(tmp_path: Path, calm: Calm) -> None:
    run = directory.place(tmp_path / "runs", tiny.spec())
    assert tiny.train(run, EVERY_STEP, stopping=tiny.after(4)) == "interrupted"
    before = contents(run)
    with pytest.raises(NormbenchError, match=r"monitor\.split=vaild"):
        tiny.train(run, "monitor.split=vaild")
    assert contents(run) == before
    content = tiny.status(run)  # as after kill -9: what it says of the progress is old
    (run / "run.json").write_text(json.dumps(content | {"status": "running", "step": 0}))
    otherwise = tiny.spec("eval.unit=updates")
    assert Runs(tmp_path).retrained([otherwise]) == [otherwise]
    assert Runs(tmp_path).retrained([tiny.spec()]) == []
    assert tiny.train(run) == "done" and tiny.result(run) == calm()


def test_what_training_alone_can_refuse_is_a_failed_run_with_its_reason(tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = "norm=weight", "norm.init=data", "train.batch_size=1"
    with pytest.raises(NormbenchError) as refused:
        tiny.train(run, *words)
    assert tiny.status(run)["status"] == "failed" and tiny.status(run)["reason"] == str(refused.value)


def test_a_longer_run_is_not_thrown_away_for_a_shorter_one(tmp_path: Path, calm: Calm) -> None:
    """Where the longer one cannot be read (its status is lost), its checkpoint still says how far it is."""
    run = tmp_path / "run"
    assert tiny.train(run, "train.epochs=3", stopping=tiny.after(14)) == "interrupted"
    (run / "run.json").unlink()
    with pytest.raises(NormbenchError, match="already at step 14 of a longer one, beyond the 12 asked for"):
        tiny.train(run)
    assert tiny.train(run, "train.epochs=3") == "done"
    assert tiny.result(run) == calm("train.epochs=3")


# --- one writer ------------------------------------------------------------------------------------------------------


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with RunDirectory(run).writing():
        assert directory.is_locked(run)
        with pytest.raises(NormbenchError, match=r"is being written by process \d+ on this machine since") as caught:
            tiny.train(run)
        assert caught.value.code == 5
    assert not directory.is_locked(run)
    assert tiny.train(run) == "done"


def test_a_run_resumed_elsewhere_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run"
    tiny.train(run, stopping=tiny.after(3))
    here = environment.environment()
    monkeypatch.setattr(environment, "environment", lambda model, device: here | {"torch": "9.9"})
    assert tiny.train(run) == "done"
    found = tiny.status(run)["environment"]
    assert found["torch"] == here["torch"] and found["resumed"] == [{"step": 3, "changed": {"torch": "9.9"}}]


def test_processors_of_one_name_are_distinguished(monkeypatch: pytest.MonkeyPatch) -> None:
    first = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 26\nmodel\t\t: 2\nmodel name\t: AMD EPYC\n"
    text = f"{first}stepping\t: 1\n\nprocessor\t: 1\nmodel\t\t: 3\n"
    monkeypatch.setattr(environment, "open", lambda path: io.StringIO(text), raising=False)
    found = environment.environment()
    assert found["processor"] == "AMD EPYC"
    assert found["processor_signature"] == "vendor_id AuthenticAMD, cpu family 26, model 2, stepping 1"


def test_the_copy_of_the_data_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, load = tmp_path / "run", loop.datasets.load

    def copied(deviations: list[str]) -> None:
        copy = {"sha256": "0", "deviations": deviations}
        monkeypatch.setattr(loop.datasets, "load", lambda *a, **k: replace(load(*a, **k), copy=copy))

    copied(["3 images are approximate"])
    tiny.train(run, stopping=tiny.after(5))
    copied([])
    tiny.train(run)
    found = tiny.status(run)["environment"]
    assert found["data"] == {"sha256": "0", "deviations": ["3 images are approximate"]}
    assert [r["changed"] for r in found["resumed"]] == [{"data": {"sha256": "0", "deviations": []}}]


def test_a_run_that_was_killed_at_its_very_end_is_tidied_by_the_next_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    real = checkpoint.clear

    def killed(folder: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(checkpoint, "clear", killed)
    with pytest.raises(KeyboardInterrupt):
        tiny.train(run, EVERY_STEP)
    assert list((run / "checkpoint").iterdir())
    monkeypatch.setattr(checkpoint, "clear", real)
    assert tiny.train(run, EVERY_STEP) == "done"
    assert not (run / "checkpoint").exists()


@pytest.mark.parametrize("change", ["cut", "flip"])
def test_a_curve_that_was_changed_is_not_gone_on_with(change: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert tiny.train(run, EVERY_STEP, stopping=tiny.after(8)) == "interrupted"
    content = (run / "curve.jsonl").read_bytes()
    rest = b"" if change == "cut" else bytes([content[50] ^ 1]) + content[51:]
    (run / "curve.jsonl").write_bytes(content[:50] + rest)
    with pytest.raises(NormbenchError, match=r"curve\.jsonl .* changed by hand") as caught:
        tiny.train(run, EVERY_STEP)
    assert caught.value.code == 4
