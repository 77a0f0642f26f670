"""The benchmarks measure what they say; how fast anything is is no test's business."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import labelled
import numpy as np
import pytest
import torch
from devices import has_kernel
from smallest import SMALL, small

from normbench.battery.cost import interleave
from normbench.config import identity
from normbench.runs.directory import RunDirectory
from normbench.train.train_one import ensure_run

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts" / "bench"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import harness
    import loop

    monkeypatch.setitem(loop.STEPS["mnist_mlp"], 4, 3)
    monkeypatch.setitem(loop.STEPS["lenet5"], 25, 3)
    yield harness, loop
    for name in ("harness", "loop"):
        sys.modules.pop(name)


def test_rounds_are_interleaved_and_the_first_is_not_counted():
    calls: list[str] = []
    seconds = interleave({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, rounds=3)
    assert "".join(calls) == "abbaabba"
    assert [len(side) for side in seconds.values()] == [3, 3]


def test_a_row_is_the_median_of_the_rounds_ratios(bench):
    harness, _ = bench
    row = harness.row("x", [1.0, 4.0, 3.0], [1.0, 2.0, 2.0], units=2, goal=1.4)
    assert (row.ratio, row.low, row.high) == (1.5, 1.0, 2.0)  # ratios 1, 2, 1.5
    assert (row.ours_ms, row.reference_ms, row.rounds) == (1500.0, 1000.0, 3)
    assert row.met == "median above, rounds on both sides"
    assert harness.row("x", [3.0, 3.0], [1.0, 1.0], 1, goal=1.4).met == "missed"
    assert harness.row("x", [1.0, 1.0], [1.0, 1.0], 1, goal=1.0).met == "met"
    assert harness.row("x", [1.0, 1.0], [1.0, 1.0], 1).met == ""


def test_a_benchmark_is_published_as_a_page_and_json(bench, tmp_path: Path):
    harness, _ = bench
    rows = [harness.row("one", [2.0, 2.0], [1.0, 1.0], 1, 2.5)]
    harness.publish("b", "A title", "python b.py", rows, tmp_path)
    assert "| one | 2.000 | 2.000 to 2.000 |" in (tmp_path / "b.md").read_text()
    content = json.loads((tmp_path / "b.json").read_text())
    assert content["rows"][0]["ratio"] == 2.0 and harness.machine().split(";")[0] in content["machine"]


@pytest.mark.slow
@pytest.mark.parametrize(("model", "batch_size"), [("mnist_mlp", 4), ("lenet5", 25)])
@pytest.mark.parametrize("norm", ["none", "batch", "layer"])
def test_both_loops_train_the_same_model(bench, tmp_path: Path, model: str, batch_size: int, norm: str):
    _, loop = bench
    row = loop.compare(model, norm, batch_size, 2, tmp_path)
    assert row.rounds == 2 and row.ratio > 0


@pytest.mark.slow
def test_a_bare_loop_that_computes_something_else_is_refused(bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    _, loop = bench
    real = loop.Bare.__init__
    monkeypatch.setattr(loop.Bare, "__init__", lambda self, n, data, w, lr: real(self, n, data, w, 3 * lr))
    with pytest.raises(SystemExit, match="compute different losses"):
        loop.compare("mnist_mlp", "layer", 4, 2, tmp_path)


@pytest.fixture
def rnn(bench):
    import rnn

    yield rnn
    sys.modules.pop("rnn")


def test_recurrent_rows_compare_the_same_work(rnn):
    """The scripted cell and ours with the same weights; rows for all sides of a small shape of both cells."""
    if not has_kernel():
        pytest.skip("there is no C compiler here")
    ours, scripted = rnn.normed(rnn.LSTM, 3, 4), rnn.ScriptedLSTM(3, 4)
    (cell,) = ours.cells
    with torch.no_grad():
        for name in ("weight_ih", "weight_hh", "bias"):
            getattr(scripted, name).copy_(getattr(cell, name))
    x, zero = torch.randn(2, 5, 3), torch.zeros(2, 4)
    torch.testing.assert_close(ours(x)[0], scripted(x, zero, zero))
    for layer in (rnn.LSTM, rnn.GRU):
        shape = rnn.Shape("small", layer, 5, 2, 3, 4, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)
        assert shape.operations == 2 * 5 * 2 * layer.cell.gates * 4 * (3 + 4)
        rows = list(rnn.compare(shape, 2, has_jax=False))
        assert all(row.ratio > 0 and row.rounds == 2 for row in rows)
        assert len({row.case for row in rows}) == len(rows) == (9 if layer is rnn.LSTM else 8)
    assert rnn.feedback("small", 5, 2, 3, 4, 1.0, 2).ratio > 0
    assert all(row.ratio > 0 for row in rnn.batch_normed("small", 5, 4, 3, 4, 1.3, 2))


@pytest.mark.slow
def test_generative_models_and_their_ports_compute_the_same(bench):
    import generative

    names = ["ln / none", *(f"{arm}{how} / port" for arm in ("none", "ln") for how in ("", " without kernel"))]
    draw_rows, written = generative.draw("x", "smoke", 2), generative.handwriting(12, 2, "smoke")
    assert [row.case for row in draw_rows] == [f"DRAW, x: {name}" for name in names]
    assert [row.case for row in written] == [f"handwriting, 12 points: {name}" for name in names]
    assert all(row.ratio > 0 and row.reference_ms == 2 for row in generative.writing(2, "smoke"))
    for module in ("generative", "ports"):
        sys.modules.pop(module)


def test_drawn_pictures_are_judged_by_arm(bench, tmp_path: Path):
    import samples

    spec = small("draw", "train.steps=2", "train.epochs=0", "eval.strides={train: 0, valid: 0}")
    for seed in (1, 2):
        own = replace(spec.with_seed(seed), arm="ln")
        assert ensure_run(own, RunDirectory(tmp_path / "runs" / "x" / f"ln.s{seed}.{own.id}")) == "done"
    ((arm, models),) = samples.arms(tmp_path / "runs").items()
    assert arm == "ln" and [seed for seed, _ in models] == [1, 2]
    pictures = [[canvas for canvas, _ in model.eval().dream(1, 3)][-1] for _, model in models]
    assert pictures[0].shape == (3, 64) and not torch.equal(*pictures)
    sure = samples.top(SimpleNamespace(predict_proba=lambda x: np.array([[0.2, 0.8], [0.6, 0.4]])), np.zeros((2, 64)))
    assert sure == pytest.approx(0.7)
    grey = samples.binarized(np.full((1, 20_000), 0.3), "x")
    assert set(np.unique(grey)) == {0, 1} and grey.mean() == pytest.approx(0.3, abs=0.02)
    assert np.array_equal(grey, samples.binarized(np.full((1, 20_000), 0.3), "x"))
    sys.modules.pop("samples")


def test_language_rows_are_of_updates_of_one_batch(bench):
    import language

    assert [row.case for row in language.compare("x", "ln2016/fig1", "smoke", {"ln": 1.1}, language.captioned, 2)] == [
        "x: ln / none"
    ]
    given = language.asked(language.experiment_spec("ln2016/fig2", "none", "smoke", ["seed=1"]), 12)
    assert given.tensors["document"].shape[1] == 12 and given.size == 50
    split = language.around(language.experiment_spec("ln2016/fig3", "none", "smoke", ["seed=1"]), 16)
    assert split.tensors["sentence"].shape == (64, 16) and bool(split.tensors["sentence_mask"].all())
    assert set(split.tensors["next_mask"].sum(1).tolist()) <= set(range(3, 31))
    assert language.softmax_loss(2, words=50, hidden=8).rounds == 2
    names = [row.case for row in language.recurrence(2, hidden=8, features=6, steps=5, batch=3)]
    assert names == ["GRU of 8 with LN / nn.GRU", "encoding by 8 with LN / nn.GRU"]
    sys.modules.pop("language")


@pytest.mark.parametrize("model", ["char_lm", "vit"])
@pytest.mark.parametrize("norm", ["none", "layer", "rms", "dyt"])
def test_transformers_are_compared_with_the_same_in_plain_pytorch(
    bench, model: str, norm: str, monkeypatch: pytest.MonkeyPatch
):
    import transformer

    words = (*SMALL[model], "model.placement=pre")
    rows = list(transformer.compare(model, norm, False, 2, *words))
    assert [row.case for row in rows] == [f"{model}, {norm}: ours / plain"] and rows[0].ratio > 0
    assert "g++" in transformer.reasons(rows)[0]
    real = transformer.Block.forward
    monkeypatch.setattr(transformer.Block, "forward", lambda self, x: real(self, x).roll(1, -1))
    with pytest.raises(SystemExit, match="compute different losses"):
        list(transformer.compare(model, norm, False, 2, *words))
    sys.modules.pop("transformer")


@pytest.fixture
def imdb(bench):
    import imdb

    yield imdb
    sys.modules.pop("imdb")


IMDB = ("data=made_reviews", "model.embedding_size=6", "model.hidden_size=5", "model.last_hidden_size=4")


@pytest.mark.parametrize("batch", [3, 1])
@pytest.mark.parametrize("per_gate", [True, False])
def test_the_loop_over_words_is_our_network(imdb, batch: int, per_gate: bool, monkeypatch: pytest.MonkeyPatch):
    rows = list(imdb.compare(batch, per_gate, 2, *IMDB))
    assert [row.rounds for row in rows] == [2, 2] if per_gate else [2]
    real = imdb.Loop.copy
    monkeypatch.setattr(imdb.Loop, "copy", lambda self, ours: [real(self, ours), self.cells[1].bias_ih.data.add_(1)])
    with pytest.raises(SystemExit, match="compute different things"):
        list(imdb.compare(batch, per_gate, 2, *IMDB))


def test_made_up_runs_are_whole_and_of_tasks(bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import made_runs

    for name, value in {"NORMS": ("none", "layer"), "RATES": (0.01,), "SEEDS": 2}.items():
        monkeypatch.setattr(made_runs, name, value)
    from normbench.compare.groups import tasks
    from normbench.runs.table import Runs

    first = [*islice(made_runs.specs(8), 5)]
    assert len({spec.id for spec in first}) == 5 and all(identity.run_id(spec.config) == spec.id for spec in first)
    made_runs.write(tmp_path, first, 8)
    runs, notes = Runs(tmp_path).finished()
    assert notes == [] and {len(run.records) for run in runs} == {8}
    assert [len(task.runs) for task in tasks(runs)] == [4, 1]
    sys.modules.pop("made_runs")


def test_sentence_rows_are_of_the_sets_and_agree_with_scikit_learn(bench, tmp_path: Path, monkeypatch):
    from normbench.sentences import relatedness

    monkeypatch.setattr(relatedness, "EPOCHS", 2)
    folder = labelled.write(tmp_path / "data")
    import sentences

    found = {(row.case, row.unit): row for row in sentences.values(folder, 6)}
    assert found["MR, 6 numbers, nested", "s"].goal == 90
    parts = [found[f"{name}, 6 numbers, nested", "s"].value for name in ("MR", "CR", "SUBJ", "MPQA")]
    assert found["MR, CR, SUBJ and MPQA, 6 numbers, nested", "s"].value == pytest.approx(sum(parts))
    assert {("SICK, 6 numbers", "CPU s"), ("MR, 12 numbers, nested", "s")} < found.keys()
    otherwise = [row for (case, _), row in found.items() if case.endswith("decided otherwise")]
    assert [(row.value, row.unit) for row in otherwise] == [(0, "of 6")] * 3
    assert all(row.value < 1e-2 for (case, _), row in found.items() if case.endswith("apart at most"))
    sys.modules.pop("sentences")


def test_values_are_published_with_their_goals(bench, tmp_path: Path):
    harness, _ = bench
    rows = [harness.Value("a", "s", 2.0, 1.0, 3.0), harness.Value("b", "MB", 1.0)]
    assert rows[0].met == "missed" and harness.Value("a", "s", 1.0, 1.0).met == "met"
    harness.publish_values("v", "Title", "Note.", "Other", "python v.py", rows, tmp_path)
    assert "| a | 2.00 | s | ≤ 1, missed | 3.00 |\n| b | 1.00 | MB |  |  |" in (tmp_path / "v.md").read_text()
    assert json.loads((tmp_path / "v.json").read_text())["rows"][0]["reference"] == 3.0


def test_published_benchmarks_are_whole():
    published = sorted((SCRIPTS.parents[1] / "results" / "bench").glob("*.json"))
    for path in published:
        content = json.loads(path.read_text())
        assert content["schema"] == 1 and content["rows"] and content["machine"]
        assert (SCRIPTS.parents[1] / content["command"].split()[1]).is_file()
        assert path.with_suffix(".md").is_file()
    assert [path.stem for path in published if path.stem == "loop"] == ["loop"]


def test_blocks_differ_in_their_norm_alone(bench):
    import block

    x, outputs = torch.randn(1, 5, 64), {}
    for name, norm in block.NORMS.items():
        torch.manual_seed(1)
        outputs[name] = block.Block(64, norm)(x)
    torch.testing.assert_close(outputs["RMSNorm"], outputs["RMSNorm of several operations"], rtol=1e-4, atol=1e-4)
    assert (outputs["DyT"] - outputs["none"]).abs().max() > 0.01
    rows = [*block.compare(64, 5, False, lambda steps: interleave(steps, 2))]
    assert [row.case.partition(":")[0] for row in rows] == [
        f"width 64, {p}, eager" for p in block.PASSES for _ in range(4)
    ]
    sys.modules.pop("block")
