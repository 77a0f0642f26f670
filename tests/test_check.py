"""The checks by implementations of their own: the prediction interval, what is compared, and their formulas."""

from __future__ import annotations

import gzip
import json
import math
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts" / "check"
CELL = ("ln", {"train.batch_size": 4})


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch):
    yield from load(monkeypatch, "published")


@pytest.fixture
def formulas(monkeypatch: pytest.MonkeyPatch):
    yield from load(monkeypatch, "formulas")


def load(monkeypatch: pytest.MonkeyPatch, name: str):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    yield __import__(name)
    sys.modules.pop(name)


def write_pack(results: Path, losses: list[Any]) -> None:
    """Runs of one arm with one loss each, and one of a control, which is not compared."""
    runs = [
        {"arm": "ln", "axes": CELL[1], "control": control, "status": "done", "records": [
            {"epoch": 1, "split": "test", "mode": "eval", "nll": nll},
            {"epoch": 1, "split": "test", "mode": "eval", "variant": {"configuration": "TTTT"}, "nll": "nan"},
        ]}
        for nll, control in [*((nll, "") for nll in losses), (9.0, "lr-high")]
    ]  # fmt: skip
    pack = results / "paper" / "fig" / "paper" / "runs.jsonl.gz"
    pack.parent.mkdir(parents=True)
    with gzip.open(pack, "wt") as file:
        file.writelines(json.dumps(line) + "\n" for line in [{"sha256": "ab" * 32}, *runs])


def test_prediction_interval_and_p_are_those_of_scipy(published):
    values = [1.0, 1.2, 0.9, 1.4, 1.1, 1.3]
    for log in (False, True):
        scaled, back = (np.log(values), np.exp) if log else (np.array(values), float)
        low, high = stats.t.interval(0.99, 5, scaled.mean(), scaled.std(ddof=1) * math.sqrt(7 / 6))
        found = published.compare(values, 1.5, log)
        assert [found["low"], found["mean"], found["high"]] == pytest.approx(
            [back(low), back(scaled.mean()), back(high)]
        )
        assert published.compare(values, found["high"], log)["p"] == pytest.approx(0.01)
        assert published.compare(values, found["mean"], log)["p"] == pytest.approx(1)
    # by chance, as often as it says
    draws = np.random.default_rng(1).normal(size=(4000, 6))
    outside = sum(published.compare(list(row[:5]), row[5], False)["p"] < 0.2 for row in draws[:1000])
    assert 150 < outside < 250


def test_without_spread_nothing_is_judged_but_nan(published):
    assert published.compare([0.0] * 5, 0.01, False)["p"] is None
    assert published.compare([1.0, 1.1, 1.2, 1.3, math.nan], 1.0, True)["p"] is None
    assert published.compare([math.nan] * 5, math.nan, True)["p"] == 1
    assert published.compare([math.nan] * 5, 1.0, True)["p"] == 0
    assert published.compare([1.0, 1.1, 1.2, 1.3, 1.4], math.nan, True)["p"] == 0
    assert published.compare([1.0] * 5, math.nan, True)["p"] == 0


@pytest.mark.parametrize(("ours", "code"), [(1.1, 0), (20.0, 1), (math.nan, 1)])
def test_a_miss_is_reported_and_fails(published, tmp_path: Path, monkeypatch, capsys, ours: float, code: int):
    write_pack(tmp_path, [1.0, 1.2, 0.9, 1.4, 1.1])
    monkeypatch.setattr(sys, "argv", ["x.py", "--results", str(tmp_path), "--output", str(tmp_path / "check")])

    def train(*_: Any) -> list[dict[str, Any]]:
        place = {"epoch": 1, "split": "test", "mode": "eval"}
        return [place | {"nll": ours, "error": 0.5}, place | {"variant": {"configuration": "TTTT"}, "nll": math.nan}]

    cells = [CELL, ("ln", {"train.batch_size": 128})]
    assert published.main("", "x", "X", "paper/fig", cells, 1, train) == code
    content = json.loads((tmp_path / "check" / "x.json").read_text())
    assert [row["judgement"].split(";")[0] for row in content["rows"]] == ["OUTSIDE" if code else "inside", "inside"]
    assert [row["n"] for row in content["rows"]] == [5, 5]  # nobody else has its error
    page = (tmp_path / "check" / "x.md").read_text()
    assert f"2 numbers of 1 runs: {code} outside" in page and ("OUTSIDE" in page) == bool(code)
    assert "ln, batch size 128: left out, fewer than 5 published runs" in capsys.readouterr().out


def test_a_miss_that_further_draws_do_not_have_does_not_fail(published, tmp_path: Path, monkeypatch):
    write_pack(tmp_path, [1.0, 1.2, 0.9, 1.4, 1.1])
    monkeypatch.setattr(sys, "argv", ["x.py", "--results", str(tmp_path), "--output", str(tmp_path / "check")])
    losses = iter([20.0, *np.linspace(0.8, 1.4, 10)])

    def train(*_: Any) -> list[dict[str, Any]]:
        return [{"epoch": 1, "split": "test", "mode": "eval", "nll": next(losses)}]

    assert published.main("", "x", "X", "paper/fig", [CELL], 1, train) == 0
    assert next(losses, None) is None
    page = (tmp_path / "check" / "x.md").read_text()
    assert "1 outside of that of level 1 - 0.01/k, 0 of them in further draws too" in page
    assert "OUTSIDE; 10 more draws by ranks: p = 0." in page


def test_a_single_miss_of_many_is_shown_but_does_not_fail(published):
    def row(p: float) -> Any:
        return published.Row("a", 1, "test nll", 1.0, 1.0, 0.9, 1.1, 5, p)

    many = [row(0.5)] * 9
    assert published.far_out([*many, row(0.005)]) == []
    assert "10 numbers of 1 runs: 1 outside" in published.summary([*many, row(0.005)])
    assert published.far_out([*many, row(0.0009)]) == [row(0.0009)]


def naive(x: np.ndarray, axes: tuple[int, ...] | int, eps: float) -> np.ndarray:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def test_formulas_of_layer_and_batch_normalization(formulas):
    x = np.random.default_rng(1).normal(2, 3, (4, 5, 6))
    given = torch.from_numpy(x)
    layer = formulas.LayerNorm(6, 1e-3, 0.5).double()
    np.testing.assert_allclose(layer(given).detach(), 0.5 * naive(x, 2, 1e-3), rtol=1e-12)
    pooled = formulas.BatchNorm(6, 1e-3, 0.1).double()
    np.testing.assert_allclose(pooled(given).detach(), naive(x, (0, 1), 1e-3), rtol=1e-9)
    np.testing.assert_allclose(pooled.variance[0], 0.9 + 0.1 * x.var((0, 1), ddof=1), rtol=1e-12)
    pooled.eval()
    running = (x - pooled.mean.numpy()) / np.sqrt(pooled.variance.numpy() + 1e-3)
    np.testing.assert_allclose(pooled(given).detach(), running, rtol=1e-12)

    each = formulas.BatchNorm(6, 0.0, 0.1, steps=5, gain=0.1, unbiased=True, unbiased_running=False).double()
    centred = x - x.mean(0)
    np.testing.assert_allclose(each(given).detach(), 0.1 * centred / x.std(0, ddof=1), rtol=1e-6)
    np.testing.assert_allclose(each.variance, 0.9 + 0.1 * x.var(0), rtol=1e-12)
    each.eval()
    assert torch.equal(each(given[:, 2], 7), each(given[:, 2], 4))  # the last serves
    assert torch.equal(each(given[:, 2], 3), each(given[:, [0, 0, 0, 2]])[:, 3])
    single = formulas.BatchNorm(6, 1e-3, 0.01)
    assert not single(torch.ones(1, 6)).any() and single.variance[0, 0] == pytest.approx(0.99)


def test_formulas_of_batch_layer_normalization(formulas):
    draw = np.random.default_rng(1)
    batches, other = draw.normal(1, 2, (3, 4, 2, 6)), draw.normal(1, 2, (4, 2, 6))
    bln = formulas.BatchLayerNorm(6, 4).double()
    bln.begin_epoch()
    for x in batches:
        expected = ((1 - 0.2501) * naive(x, 0, 1e-3) + 0.2499 * naive(x, 2, 1e-3)) / math.sqrt(6)
        np.testing.assert_allclose(bln(torch.from_numpy(x)).detach(), expected, rtol=1e-9)
    bln.end_epoch()
    bln.eval()
    bln.letters = "TFFT"
    mean_b, variance_f = batches.mean(1).mean(0), 4 / 3 * batches.var(3, keepdims=True).mean(0)
    of_batch = (other - mean_b) / np.sqrt(other.var(0) + 1e-3)
    of_features = (other - other.mean(2, keepdims=True)) / np.sqrt(variance_f + 1e-3)
    expected = (0.7499 * of_batch + 0.2499 * of_features) / math.sqrt(6)
    np.testing.assert_allclose(bln(torch.from_numpy(other)).detach(), expected, rtol=1e-9)
    # batch 1: 0 times infinity for batches, infinity for features
    one = formulas.BatchLayerNorm(6, 1).double()
    one.begin_epoch()
    one(torch.from_numpy(other))  # evaluated as four batches of one
    one.end_epoch()
    one.eval()
    for letters, finite in (("FFFF", True), ("TFFT", True), ("FTFF", False)):
        one.letters = letters
        assert bool(one(torch.from_numpy(other)).isfinite().all()) is finite


@pytest.mark.parametrize(("name", "b1", "b2"), [("KerasAdam", 0.9, 0.999), ("KirosAdam", 0.1, 0.001)])
def test_adams(formulas, name: str, b1: float, b2: float):
    p = torch.nn.Parameter(torch.tensor([1.0, -2.0], dtype=torch.float64))
    adam, m, v, expected = getattr(formulas, name)([p], 0.01), 0.0, 0.0, np.array([1.0, -2.0])
    for t, gradient in enumerate(np.array([[1.0, 1e-7], [-0.5, 2e-7]]), 1):
        p.grad = torch.from_numpy(gradient)
        adam.step()
        m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
        expected = expected - 0.01 * math.sqrt(1 - b2**t) / (1 - b1**t) * m / (np.sqrt(v) + 1e-8)
    np.testing.assert_allclose(p.detach(), expected, rtol=1e-12)


def test_formulas_of_clipping(formulas):
    gradients = [torch.tensor([3.0]), torch.tensor([4.0, 0.0])]
    assert not formulas.clip(gradients, 5.0) and gradients[0].item() == 3
    assert formulas.clip(gradients, 2.5)
    assert [g.tolist() for g in gradients] == [[1.5], [2.0, 0.0]]


def test_the_scripts_import_nothing_of_normbench():
    # four simulate what normbench says, one has what it imports; the others train its model beside their own
    names = ("judge_null", "looks", "target", "tasks", "stores", "transformer", "convpool_cnn")
    beside = {SCRIPTS / f"{name}.py" for name in names}
    for script in {*SCRIPTS.glob("*.py")} - beside:
        lines = script.read_text().splitlines()
        found = [line for line in lines if line.strip().startswith(("import ", "from ")) and "normbench" in line]
        assert not found, script


@pytest.fixture
def equal(monkeypatch: pytest.MonkeyPatch):
    yield from load(monkeypatch, "equal")


def update_of(equal: Any, monkeypatch: pytest.MonkeyPatch, loss: Any, **gradients: list[float]) -> list[Any]:
    """The comparison of one arm, a loss of weights a = 3 and b = (1, 2) beside these gradients of normbench's."""
    weights = {"a": [3.0], "b": [1.0, 2.0]}
    arrays = {f"weight.{name}": np.array(weight) for name, weight in weights.items()}
    arrays |= {f"gradient.{name}": np.array(gradient) for name, gradient in gradients.items()}
    monkeypatch.setattr(equal, "of_normbench", lambda *_: {name: a.copy() for name, a in arrays.items()} | {
        "batch.x": np.array(2.0), "drawn.0": np.array(5.0), "loss": np.array(39.0)})  # fmt: skip
    initial = {name: torch.tensor(weight) for name, weight in weights.items()}
    return list(equal.compare("paper/fig", "paper", ["ln"], lambda arm: initial, loss))


def test_an_update_is_compared_array_by_array(equal, monkeypatch):
    def loss(arm, weights, batch, drawn):
        return batch["x"] * weights["a"][0] ** 2 + drawn[0] * weights["b"].sum() + 6

    found = update_of(equal, monkeypatch, loss, a=[12.0], b=[5.0, 5.0 - 1e-9])
    assert [each.what for each in found] == 2 * ["loss", "gradient of a", "gradient of b"]
    assert [each.judgement for each in found] == 2 * ["equal", "equal", "DIFFERENT"]
    assert found[2].difference == pytest.approx(2e-10) and found[2].size == 2
    assert "6 arrays of 1 arms" in equal.summary(found) and "2 NOT equal" in equal.summary(found)
    assert equal.table(found).count("DIFFERENT") == 4  # of both weights the worst, and the array itself
    assert "equal (bound 1e-10)" in equal.summary(found[:2])


def test_a_gradient_of_rounding_alone_is_held_against_the_largest(equal, monkeypatch):
    def loss(arm, weights, batch, drawn):
        return 13 * weights["a"][0] + 3e-17 * weights["b"].sum()

    assert {each.judgement for each in update_of(equal, monkeypatch, loss, a=[13.0], b=[1e-17, 0.0])} == {"equal"}
    unequal = update_of(equal, monkeypatch, loss, a=[13.0], b=[1e-10, 0.0])
    assert [each.judgement for each in unequal][:3] == ["equal", "equal", "DIFFERENT"]


def test_other_parameters_are_refused(equal, monkeypatch):
    with pytest.raises(SystemExit, match="ln: other parameters"):
        monkeypatch.setattr(equal, "of_normbench", lambda *_: {"weight.a": np.zeros(2)})
        list(equal.compare("paper/fig", "paper", ["ln"], lambda arm: {"a": torch.zeros(3)}, lambda *_: None))


def test_nan_is_not_equal_and_zero_is_only_zero(equal):
    assert [equal.one("ln", 0.0, "", ours, theirs).judgement for ours, theirs in ((0, 0), (0.1, 0), (math.nan, 1))] == [
        "equal", "DIFFERENT", "DIFFERENT"
    ]  # fmt: skip
    assert "1 NOT equal" in equal.summary([equal.one("ln", 0.0, "a", [1.0, math.nan], [1.0, 2.0])])
    with pytest.raises(SystemExit, match="ln: a has the shape"):
        equal.one("ln", 0.0, "a", [1.0], [[1.0, 1.0]])


def test_two_updates_are_compared_with_what_an_optimizer_does(equal):
    """Parameter p = 3, p^2 x on batches 1 and 2, steps of 0.1 that are clipped at 4: 3, then 2.6, then 2.2."""
    network = torch.nn.ParameterDict({"p": torch.nn.Parameter(torch.zeros((), dtype=torch.float64))})

    def update(loss: torch.Tensor) -> None:
        (gradient,) = torch.autograd.grad(loss, [network["p"]])
        network["p"].data -= 0.1 * gradient.clamp(max=4)

    def found(**other: float) -> list[Any]:
        numbers = {"initial.q": 3, "loss.1": 9, "gradient.q": 6, "loss.2": 13.52, "updated.q": 2.2, "metric.m": 4.4}
        theirs = {name: np.array(float(number)) for name, number in (numbers | other).items()}
        updates = equal.updates(
            "ln", network, lambda k: network["p"] ** 2 * (k + 1), update, lambda: {"m": 2 * network["p"].item()},
            lambda name, array: {"p": array}, theirs,
        )  # fmt: skip
        return [equal.one("data", None, "words", 7, 7), *updates]

    same = found()
    assert [each.what for each in same][1:] == [
        "loss of update 1", "gradient of p", "loss of update 2", "p after 2 updates", "m after 2 updates"
    ]  # fmt: skip
    assert {each.judgement for each in same} == {"equal"} and equal.rule(same) == equal.TWO
    assert "6 arrays of 1 arms" in equal.summary(same) and "two updates" in equal.summary(same)
    assert equal.table(same).splitlines()[2:] == [
        "| data |  | 1 |  |  | 0 | equal |",
        f"| ln | initial | 5 | 9 | 9 | {max(each.difference for each in same):.2g} | equal |",
    ]
    unclipped = found(**{"updated.q": 1.5})
    assert [each.what for each in unclipped if each.judgement == "DIFFERENT"] == ["p after 2 updates"]


@pytest.mark.parametrize(("apart", "code"), [(1e-11, 0), (1e-9, 1)])
def test_updates_and_equal_weights_are_reported(published, tmp_path: Path, monkeypatch, apart: float, code: int):
    write_pack(tmp_path, [1.0, 1.2, 0.9, 1.4, 1.1])
    pack = tmp_path / "paper" / "fig" / "paper" / "runs.jsonl.gz"
    lines = gzip.decompress(pack.read_bytes()).replace(b'"epoch": 1', b'"epoch": 0.3, "step": 250')
    pack.unlink()
    (tmp_path / "paper" / "fig" / "proxy").mkdir()
    (tmp_path / "paper" / "fig" / "proxy" / "runs.jsonl.gz").write_bytes(gzip.compress(lines))
    argv = ["x.py", "--updates", "250", "--results", str(tmp_path), "--output", str(tmp_path / "check")]
    monkeypatch.setattr(sys, "argv", argv)
    same = published.equal.Equal("ln", 0.05, "gradient of a", 1.0, 1.0 + apart, 7, apart)

    def train(arm: str, axes: Any, updates: int, root: Any) -> list[dict[str, Any]]:
        return [{"epoch": updates, "split": "test", "mode": "eval", "nll": 1.1}]

    options = {"fidelity": "proxy", "unit": "update", "equals": lambda: [same]}
    doc = "X: python x.py\n\nA model\nof ours."
    assert published.main(doc, "x", "X", "paper/fig", [CELL], 500, train, **options) == code
    content = json.loads((tmp_path / "check" / "x.json").read_text())
    assert content["unit"] == "update" and content["command"].endswith("x.py --updates 250")
    assert [row["epoch"] for row in content["rows"]] == [250]
    assert [each["judgement"] for each in content["equal"]] == ["DIFFERENT" if code else "equal"]
    page = (tmp_path / "check" / "x.md").read_text()
    assert "| arm | update | number |" in page and published.equal.RULE in page and "\nA model of ours.\n" in page


def test_a_loss_of_densities_is_not_compared_by_its_logarithm(published):
    theirs = {(1, f"test {name}"): [1.0, 1.2, 0.9, 1.4, 1.1] for name in ("bound", "line_nll")}
    record = {"epoch": 1, "split": "test", "mode": "eval", "bound": 1.1, "line_nll": -1.0}
    bound, line_nll = published.rows(theirs, ("ln", {}), [record])
    assert bound.mean == pytest.approx(math.exp(np.log(theirs[1, "test bound"]).mean()))
    assert line_nll.mean == pytest.approx(1.12) and math.isfinite(line_nll.p)


# what the scripts have as constants, of the embedded data
SMOKE: dict[str, tuple[str, dict[str, Any]]] = {
    "draw": ("ln2016/fig4", {
        "SIDE": 8, "UNITS": 32, "LATENT": 8, "GLIMPSES": 4, "READ": 2, "WRITE": 3,
        "MATRICES": {"window.read": 5, "window.write": 5, "latent": 16, "patch": 9},
        "LSTMS": {"encoder": 40, "decoder": 8},
    }),
    "attentive_reader": ("ln2016/fig2", {"WORDS": 24, "UNITS": 16, "ENTITIES": 6}),
    "handwriting": ("ln2016/fig5", {
        "UNITS": 48, "WINDOWS": 4, "MIXTURES": 5, "SYMBOLS": 13, "LSTMS": {"first": 16, "second": 64, "third": 64},
        "LINEAR": {"window": (12, 48), "output": (30, 144), "lift": (1, 144)},
    }),
}  # fmt: skip


@pytest.mark.thinned(0)
@pytest.mark.parametrize("name", SMOKE)
def test_a_small_update_is_that_of_normbench(equal, monkeypatch, name: str):
    monkeypatch.syspath_prepend(str(SCRIPTS / "theirs"))
    monkeypatch.setattr(equal, "of_normbench", lambda _, *words: arrays.update(*words[:3], float(words[3])))
    script, arrays = __import__(name), __import__("arrays")
    try:
        artifact, constants = SMOKE[name]
        for constant, value in constants.items():
            monkeypatch.setattr(script, constant, value)
        monkeypatch.setattr(
            equal, "MOVED", (0.05,)
        )  # initial attention is all but linear, and its gradients cancel out
        found = list(equal.compare(artifact, "smoke", script.ARMS, script.initial, script.update))
    finally:
        for module in (name, "arrays", "published"):
            sys.modules.pop(module, None)
    assert {each.cell for each in found} == set(script.ARMS)
    assert [each for each in found if each.difference > 1e-10] == []


@pytest.mark.thinned(0)
@pytest.mark.parametrize("most", [2.0, 1.0])
def test_two_small_updates_are_those_of_normbench(equal, monkeypatch, most: float):
    """Of order embeddings; clipped at 1 in place of 2, gradients are still equal, and weights are not."""
    monkeypatch.syspath_prepend(str(SCRIPTS / "theirs"))
    script, arrays = __import__("order_embeddings"), __import__("arrays")
    try:
        for constant, value in {"WORD": 32, "UNITS": 64, "MOST": most}.items():
            monkeypatch.setattr(script, constant, value)
        numbers = {str(number): number for number in range(2, 38)}
        images = torch.randn(8, 64, generator=torch.Generator().manual_seed(1)).abs().double()
        captions = [
            [[str(2 + (7 * image + 3 * place) % 36) for place in range(k)] for k in (3, 4)] for image in range(8)
        ]
        tensors = {"evaluated.image": images}
        batches = [(images, *script.padded([image[place] for image in captions], numbers)) for place in (0, 1)]
        for number, batch in enumerate(batches):
            names = (f"{number}.image", f"{number}.captions", f"{number}.captions_mask")
            tensors |= dict(zip(names, batch, strict=True))
        words, mask = script.padded([[*first, "", *second] for first, second in captions], numbers | {"": 0})
        given = {name: tensor.numpy() for name, tensor in tensors.items()}
        given |= {"evaluated.captions": words.numpy(), "evaluated.captions_mask": mask.numpy()}
        for arm in script.ARMS:
            theirs = arrays.updates("ln2016/fig1", "smoke", arm, ["data.fold=8"], given)
            network = script.Network(arm, 38, 64).double()
            update = partial(script.update, network, script.KirosAdam(network.parameters(), 1e-3))
            test = partial(script.test, network, images, captions, numbers, 8)
            loss = [partial(network, *batch) for batch in batches]
            found = list(equal.updates(arm, network, lambda k, of=loss: of[k](), update, test, script.ours, theirs))
            unequal = [each.what for each in found if each.judgement != "equal"]
            assert not unequal if most == 2 else "gru.U after 2 updates" in unequal, unequal
            assert not [what for what in unequal if "gradient" in what]
    finally:
        for module in ("order_embeddings", "arrays", "published", "formulas"):
            sys.modules.pop(module, None)
