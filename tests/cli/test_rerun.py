"""`normbench rerun`: what it compares with, what it prints, how it ends. That it repeats a run is in test_commands."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import fake
import pytest
import tiny
from rich.console import Console

from normbench.commands import rerun
from normbench.config.plan import train_specs
from normbench.runs import pack
from normbench.runs.record import RunRecord
from normbench.stats.rerun_diff import compare

HERE = {"processor": "EPYC", "torch": "2.9"}
PACK = Path("results") / "paper2020" / "fig" / "paper" / pack.NAME


def test_against_the_runs_of_its_pack_that_differ_in_the_seed_alone(normbench, capfd, tmp_path: Path):
    (spec, *others) = fake.specs(5)
    others.append(tiny.spec("seed=9", "optim.lr=0.5"))  # the same labels
    runs = [fake.record(spec), *(fake.record(other, value=0.5 + other.seed / 1e3) for other in others)]
    pack.write(tmp_path / PACK, runs)
    assert normbench("rerun", spec.id, "--epochs", "1", "--json") == 4
    answer = json.loads(capfd.readouterr().out)
    assert answer["word"] == "different" and answer["deterministic"] and answer["seeds"] == [1, 2, 3, 4, 5]
    assert answer["environment"]["torch"]["then"] == "2.9" and "processor" in answer["unrecorded"]
    assert answer["updates"] == {"compared": spec.steps // 2, "of": spec.steps}
    rows = {(row["split"], row["mode"], row["metric"]): row for row in answer["metrics"]}
    assert rows["test", "eval", "nll"]["values"] == 2 and rows["test", "eval", "nll"]["n"] == 5
    assert rows["valid", "eval", "nll"]["word"] == "different" and rows["valid", "eval", "nll"]["only_now"]


def test_how_much_of_a_run_is_compared_is_reported_and_more_than_it_has_is_refused(normbench, capfd, tmp_path: Path):
    (spec,) = fake.specs(1)
    pack.write(tmp_path / PACK, [fake.record(spec)])
    assert normbench("rerun", spec.id, "--epochs", "1") == 4
    out = capfd.readouterr().out
    assert f"run {spec.id}, the first {spec.steps // 2} of {spec.steps} updates: " in out
    assert out.startswith(f"{spec.id} again, to compare with {tmp_path / PACK}\n"), "published, or one's own"
    assert normbench("rerun", spec.id, "--epochs", "99999") == 2
    line = f"--epochs 99999 is more than run {spec.id} has: 2 epochs, {spec.steps} updates."
    assert line in capfd.readouterr().err


def test_a_probe_is_repeated_whole(normbench, capfd, tmp_path: Path):
    (probe,) = train_specs(["model=bln_weights", "norm=batch_layer"], False)
    pack.write(tmp_path / PACK, [fake.record(probe, epochs=1)])
    assert normbench("rerun", probe.id, "--epochs", "1") == 2
    assert "is a probe, computed whole: leave out --epochs." in capfd.readouterr().err


def output(capsys: pytest.CaptureFixture[str], then: RunRecord, now: RunRecord, others: list[RunRecord]) -> list[str]:
    rerun.show(now, compare(then, now, others), Console(width=140))
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def run(seed: int, *losses: float, **environment: Any) -> RunRecord:
    def lines(variant: dict[str, Any], loss: float) -> list[dict[str, Any]]:
        place = {"split": "test", "mode": "eval", "nll": loss} | variant
        return [{"epoch": epoch, "step": 5 * epoch, **place} for epoch in range(3)]

    ways: list[dict[str, Any]] = [{}, *({"variant": {"configuration": f"T{k}"}} for k in range(1, 16))]
    records = [record for way, loss in zip(ways, losses * 16, strict=False) for record in lines(way, loss)]
    return RunRecord("r", "e", "ln", seed, "done", 2, records=records, steps=10, environment=HERE | environment)


def test_a_line_per_metric_and_both_environments(capsys: pytest.CaptureFixture[str]):
    seeds = [run(seed, 1.0 + seed / 10) for seed in (1, 2, 3, 4)]
    now = run(1, 1.12, processor="Xeon")
    head, _, processor, _, row, how, of = output(capsys, seeds[0], now, seeds[1:])
    assert head == (
        "run r: chaotic, inside the seeds' spread; first test eval nll at epoch 0: 1.1 then, 1.12 now (0.018)"
    )
    assert processor == "processor EPYC Xeon" and how.endswith("rounding explains 1e-05")
    assert row == "test eval nll 48 1.8e-02 epoch 0 chaotic, inside the seeds' spread; 0.072 of the interval, n = 4"
    assert "seeds 1, 2, 3, 4: 95 % prediction intervals over all values compared, 99.8958 % for each" in of
    assert output(capsys, seeds[0], now, [])[4].endswith("different; no spread to compare with: n = 1")
    same = output(capsys, seeds[0], replace(seeds[0], environment=now.environment), [])
    assert same[0].startswith("run r: to the byte, 48 records, sha256 ") and same[2] == processor and len(same) == 3


def test_the_same_environment_is_no_excuse(capsys: pytest.CaptureFixture[str]):
    head, *rest = output(capsys, run(1, 1.1), run(1, 1.1 * (1 + 1e-7)), [])
    answer = "rounding in the same environment; first test eval nll at epoch 0: 1.1 then, 1.1"
    assert head.startswith(f"run r: not deterministic, {answer}") and len(rest) == 3


def test_an_environment_that_was_not_recorded_may_be_another(capsys: pytest.CaptureFixture[str]):
    now = run(1, 1.1 * (1 + 1e-7), processor_signature="model 2")
    head, *rest = output(capsys, run(1, 1.1), now, [])
    assert head.startswith("run r: rounding; first test eval nll at epoch 0: 1.1 then, 1.1")
    assert head.endswith("; the environment may be another (not recorded: processor_signature)") and len(rest) == 3
