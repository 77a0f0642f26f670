"""Probes: exact numbers, written like any run."""

from __future__ import annotations

import math
from pathlib import Path

import judged
import numpy as np
import pytest
import torch

from normbench.config import compose, plan
from normbench.config.spec import Spec
from normbench.core.streams import stream
from normbench.errors import NormbenchError
from normbench.papers import artifact as artifacts
from normbench.papers.bln2022.probes import bln_weights
from normbench.runs import directory
from normbench.runs.directory import RunDirectory
from normbench.train import probes
from normbench.train.train_one import ensure_run

TABLE1 = artifacts.load("ln2016/table1")
ARMS = plan.experiment("ln2016/table1").arms


def arm(experiment: str, name: str, *words: str) -> Spec:
    return plan.experiment_spec(experiment, name, "paper", words)


def numbers(spec: Spec) -> dict[str, float]:
    """All numbers of a probe that stand by themselves."""
    found = [record for record in probes.compute(spec) if record["epoch"] == 0]
    return {key: value for record in found for key, value in record.items() if isinstance(value, float)}


@pytest.mark.parametrize("name", ["batch", "weight", "layer"])
@pytest.mark.parametrize("seed", [1, 2])
def test_table_1_is_as_printed(name: str, seed: int):
    found = numbers(arm("ln2016/table1", name, f"seed={seed}"))
    for column, invariant in zip(TABLE1.reference["columns"], TABLE1.reference[name], strict=True):
        assert (found[column] <= 1e-9) if invariant else (found[column] >= 1e-3), column


def test_statements_of_the_text_about_the_table():
    layer, inputs = numbers(arm("ln2016/table1", "layer")), numbers(arm("ln2016/table1", "layer-inputs"))
    none, batch = numbers(arm("ln2016/table1", "none")), numbers(arm("ln2016/table1", "batch"))
    assert inputs["W_rescale"] > 1e-3 and inputs["W_recenter"] > 1e-3 and inputs["case_recenter"] < 1e-9
    assert layer["case_recenter"] > 1e-3  # shifting one case's features is no invariance of the summed inputs
    assert none["affine"] < 1e-12 and batch["affine"] < 1e-9 < layer["affine"]
    assert none["W_rescale"] == pytest.approx(1.5)  # (2.5 - 1) / 1


@pytest.mark.parametrize("seed", [1, 2])
def test_gradients_of_a_normalized_layer(seed: int):
    """RMSNorm 4.2: a layer without normalization has none of it, pRMSNorm all but eq. 9 and the equality with LN."""
    found = {name: numbers(arm("rms2019/gradients", name, f"seed={seed}")) for name in ("none", "layer", "rms", "prms")}
    scaled = [f"{name}_by_{change}" for name in ("W", "gain", "shift") for change in ("inputs", "weights")]
    assert all(value > 1e-3 for value in found["none"].values())
    for name in ("layer", "rms", "prms"):
        assert all(found[name][key] < 1e-9 for key in scaled), name
    assert found["rms"]["eq9"] < 1e-9 < 1e-3 < min(found["layer"]["eq9"], found["prms"]["eq9"])
    assert found["rms"]["zero_mean"] < 1e-9 < 1e-3 < found["prms"]["zero_mean"]


def test_the_printed_numbers_of_rmsnorm():
    found = numbers(arm("rms2019/arithmetic", "printed"))
    assert found["none_less_rms"] == pytest.approx(0.13) and found["layer_less_none"] == pytest.approx(1.53)
    assert found["least_saved"] == pytest.approx(100 * 17 / 248)  # Table 4
    assert found["most_saved"] == pytest.approx(100 * 7.68 / 12.02)  # Table 8
    assert found["brackets_off"] == pytest.approx(15.1 - 100 * 59 / 392)  # Table 6, nearest to another digit


@pytest.mark.parametrize("family", ["gaussian", "bernoulli", "categorical"])
@pytest.mark.parametrize("name", ["none", "batch", "weight", "layer"])
def test_the_exact_fisher_matrix_is_the_hessian_of_the_divergence(name: str, family: str):
    found = numbers(arm("ln2016/geometry", name, f"model.family={family}"))
    assert found["kl"] < 1e-9
    if name == "none":
        assert found["eq12"] < 1e-9 and found["gain_data"] > 1e-3
        return
    assert (found["eq13"] < 1e-9) == (found["cross"] < 1e-9) == (name != "layer")
    assert found["gain_weights"] < 1e-9 and (found["gain_data"] < 1e-9) == (name != "weight")
    pre = "all" if name == "layer" else "one"
    for key, ratio in (("loss", 1.0), ("gradient", 0.5), ("curvature", 0.25), ("angle", 0.25)):
        assert found[f"twice_{pre}_{key}"] == pytest.approx(ratio, rel=1e-9)


def test_a_doubled_unit_halves_its_coupling_to_the_others():
    found = numbers(arm("ln2016/geometry", "batch", "model.family=categorical"))
    assert found["twice_one_coupling"] == pytest.approx(0.5, rel=1e-9)
    assert not [key for key in numbers(arm("ln2016/geometry", "batch")) if "coupling" in key]


def test_a_series_has_a_record_per_multiple():
    records = [r for r in probes.compute(arm("ln2016/geometry", "layer")) if r["epoch"] > 0]
    assert [r["epoch"] for r in records] == list(range(1, 9))
    assert [r["all_angle"] for r in records] == pytest.approx([1 / s**2 for s in range(1, 9)], rel=1e-9)
    assert math.isclose(records[0]["one_angle"], 1.0)


def test_every_probe_stands_with_a_paper():
    """And a model of one's own that is declared as one has no code."""
    names = [name for name in compose.choices("model") if compose.is_probe(name)]
    assert names and all(callable(probes.probe(name)) for name in names)
    with pytest.raises(NormbenchError, match="model=mine"):
        probes.probe("mine")


def test_a_probe_is_written_like_any_run(tmp_path: Path):
    spec = arm("ln2016/table1", "layer")
    run = RunDirectory(tmp_path / "run")
    assert ensure_run(spec, run) == "done"
    curve = run.curve.read_bytes()
    (record,) = directory.curve(directory.read(run.path))
    assert record["split"] == "probe" and record["W_rescale"] < 1e-9
    assert directory.read_json(run.path)["status"] == "done"
    assert ensure_run(spec, run) == "done" and run.curve.read_bytes() == curve


def test_a_probe_that_is_killed_as_it_is_computed_again_is_what_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    spec, run = arm("ln2016/table1", "layer"), RunDirectory(tmp_path / "run")
    assert ensure_run(spec, run) == "done"

    def killed(spec: Spec) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(probes, "compute", killed)
    longer = arm("ln2016/table1", "layer", "train.epochs=2")
    assert longer.id == spec.id
    with pytest.raises(KeyboardInterrupt):
        ensure_run(longer, run)
    assert directory.read_json(run.path)["status"] == "done" and ensure_run(spec, run) == "done"


@pytest.mark.parametrize("name", ["ln2016/table1", "ln2016/geometry", "ln2016/properties"])
def test_claims_of_the_probes_are_decided(name: str):
    from dataclasses import replace

    from normbench.runs.run import Run

    artifact = artifacts.load(name)
    runs = [
        Run(s.id, seed=1, status="done", epochs=s.epochs, records=probes.compute(s), **s.labels())
        for s in plan.artifact_specs(artifact.experiment, "paper", 1)
    ]
    verdicts = {claim.id: claim.verdict for claim in judged.judge(artifact, runs, "paper").claims}
    wanted = {
        "ln2016/table1": {"LN-T1": "holds · exact", "LN-T1b": "fails · exact", "LN-T1c": "fails · exact",
                          "LN-T1e": "holds · exact", "LN-T1d": "holds · exact", "LN-T2": "holds · exact"},
        "ln2016/geometry": {"LN-H2": "holds · exact", "LN-H2b": "fails · exact", "LN-H3": "holds · exact",
                            "LN-H13": "fails · exact"},
        "ln2016/properties": {f"OV-{i}": "holds · exact" for i in range(1, 18)}
                             | {f"OV-{i}": "fails · exact" for i in range(5, 10)},
    }  # fmt: skip
    assert verdicts == wanted[name]
    assert artifacts.table(artifact, [replace(run, control="") for run in runs])


def test_slopes_of_the_dynamics_are_reported_at_both_activations():
    from normbench.runs.run import Run

    artifact = artifacts.load("ln2016/dynamics")
    cell = "model.radius=1.5", "model.drive=first"
    slopes = {("none", ""): 0.5, ("ln", ""): 0.25, ("none", "relu"): 2.0, ("ln", "relu"): 1.0}
    runs = [
        Run(s.id, seed=s.seed, status="done", epochs=s.epochs,
                  records=[{"step": 0, "split": "train", "mode": "eval",
                            "magnitude_slope": slopes[s.arm, s.control] + s.seed / 10}], **s.labels())
        for s in plan.artifact_specs(artifact.experiment, "paper", 2, [*cell, "none", "ln"], True, None, False)
        if s.control in ("", "relu")
    ]  # fmt: skip
    parts = artifacts.reported(artifact, runs)
    means = [part.effect for control in ("", "relu") for part in parts[control]]
    assert means == pytest.approx([0.65, 0.40, 2.15, 1.15])


@pytest.mark.parametrize("experiment", ["ln2016/table1", "ln2016/properties"])
def test_every_normalizer_that_can_stand_there_has_a_row(experiment: str):
    from normbench.config import compose
    from normbench.norms.sites import declared, refusal

    site = declared(arm(experiment, "none").config)["layer"]
    able = {n for n in compose.choices("norm") if not refusal(site, compose.declaration("norm", n))}
    arms = [arm(experiment, name) for name in plan.experiment(experiment).arms]
    assert {spec.config["norm"]["name"] for spec in arms} == able
    rest = set(compose.choices("norm")) - able
    without_time = experiment == "ln2016/properties"  # the overview's site serves all others
    assert all("time" in compose.declaration("norm", n).get("needs", ()) for n in rest) or not without_time


@pytest.mark.parametrize("name", plan.experiment("ln2016/properties").arms)
def test_properties_agree_with_what_each_normalizer_declares(name: str):
    """Between 1e-9 and 1e-3 there is no word; alone and in one mode only where its YAML says so, whatever the draws."""
    from normbench.papers.ln2016 import properties

    for seed in (1, 2):
        spec = arm("ln2016/properties", name, f"seed={seed}")
        found = numbers(spec)
        assert all(found[key] <= 1e-9 or found[key] >= 1e-3 for key in properties.COLUMNS), found
        (choice,) = spec.sites.values() or (None,)
        if name != "spectral":  # another step of the power method changes nothing when it has converged
            alone = max(found[key] for key in ("others", "others_gradient", "modes")) <= 1e-9
            assert alone != bool(choice and choice.mode_dependent)
        assert found["others_evaluation"] <= 1e-9
        if spec.config["norm"]["declares"].get("rescales") and name != "streaming":  # its past keeps the old scale
            assert found["scaled"] <= 1e-9


def test_rows_that_follow_from_the_formulas():
    """Not in the paper: batch layer normalization keeps what both of its parts keep, RMSNorm lacks the mean."""
    expected = {"batch_layer": "100100", "rms": "100101", "none": "000000", "spectral": "100000"}
    expected |= {"power": "100101", "power-alone": "101100"}  # RMSNorm before it, and batch normalization but the mean
    for name, row in expected.items():
        found = numbers(arm("ln2016/table1", name))
        assert "".join(str(int(found[c] <= 1e-9)) for c in TABLE1.reference["columns"]) == row, name


def series(spec: Spec) -> tuple[dict[str, float], dict[str, list[float]]]:
    records = [record for record in probes.compute(spec) if record["epoch"]]
    return numbers(spec), {key: [record[key] for record in records] for key in ("magnitude", "gradient")}


def test_a_linear_recurrence_has_the_slope_of_its_radius():
    """An input at the first step alone, so small that ReLU and tanh are linear there: powers of one matrix."""
    words = ("model.drive=first", "model.hidden_size=4", "model.steps=60", "seed=1001")
    for radius in (0.5, 0.9):
        slopes, _ = series(arm("ln2016/dynamics", "none", *words, f"model.radius={radius}"))
        assert slopes["magnitude_slope"] == pytest.approx(math.log(radius), abs=0.1)
        assert slopes["gradient_slope"] == pytest.approx(-math.log(radius), abs=0.15)
        assert slopes["gradient_slope_size"] == abs(slopes["gradient_slope"])


def test_layer_normalization_of_the_sum_does_not_see_the_radius():
    """LN 2016, 3.1: invariant to re-scaling all of the summed inputs; after the first step these are W_hh h alone."""
    found = {}
    for radius in (0.5, 2.0):
        words = (f"model.radius={radius}", "model.drive=first", "norm.eps=0", "seed=1001", "model.steps=20")
        found[radius] = series(arm("ln2016/dynamics", "ln", *words))[1]
    assert found[0.5]["gradient"] == pytest.approx(found[2.0]["gradient"], rel=1e-6)
    small, large = (found[radius]["magnitude"] for radius in (0.5, 2.0))
    assert small[0] == pytest.approx(large[0])
    assert [4 * value for value in small[1:]] == pytest.approx(large[1:], rel=1e-6)


def test_correlations_are_those_of_differences():
    """By finite differences in place of a gradient, and pair by pair."""
    words = ("model.inputs=3", "model.hidden_size=4", "train.batch_size=6", "seed=1001")
    for activation, f in (("relu", lambda a: np.maximum(a, 0)), ("tanh", np.tanh)):
        for change in ("update", "case"):
            spec = arm("ln2016/correlation", activation, *words, f"model.change={change}")

            def draw(name: str, *shape: int, seed: int = spec.seed) -> np.ndarray:
                return stream(seed, "probe", name).standard_normal(shape)

            W, U, x = draw("first", 4, 3) / 3**0.5, draw("second", 4, 4) / 2, draw("x", 6, 3)
            v, y = draw("v", 4) / 2, draw("y", 6)

            def loss(W: np.ndarray, f=f, U=U, x=x, v=v, y=y) -> float:
                return float(((f(f(x @ W.T) @ U.T) @ v - y) ** 2).mean())

            g = np.zeros_like(W)
            for place in np.ndindex(*W.shape):
                step = np.zeros_like(W)
                step[place] = 1e-6
                g[place] = (loss(W + step) - loss(W - step)) / 2e-6
            after = W - 0.01 * np.linalg.norm(W) / np.linalg.norm(g) * g
            changes = f(x @ after.T) - f(x @ W.T) if change == "update" else np.diff(f(x @ W.T), axis=0)
            a = changes @ U.T
            wanted = np.mean([abs(np.corrcoef(a[:, i], a[:, j])[0, 1]) for i in range(4) for j in range(i)])
            assert numbers(spec)["correlation"] == pytest.approx(wanted, rel=1e-5), (activation, change)


def test_open_choices_of_the_dynamics_change_what_they_say():
    words = ("model.steps=10", "model.hidden_size=8", "seed=1001")

    def found(*more: str) -> dict[str, list[float]]:
        return series(arm("ln2016/dynamics", "none", *words, *more))[1]

    assert found("model.radius=0.5", "model.radius_power=2") == found("model.radius=0.25")
    default, weak = found(), found("model.input_std=1e-4")
    assert weak["magnitude"][0] == pytest.approx(1e-4 * default["magnitude"][0])
    linear = found("model.input_std=1e-5")["gradient"]  # tanh is linear there: gradients see W_hh alone
    assert weak["gradient"] == pytest.approx(linear) and default["gradient"] != pytest.approx(linear)


def test_the_dynamics_are_trained_to_recall(monkeypatch: pytest.MonkeyPatch):
    losses: list[float] = []
    backward = torch.Tensor.backward
    monkeypatch.setattr(torch.Tensor, "backward", lambda loss: (losses.append(float(loss)), backward(loss)))
    probes.compute(arm("ln2016/dynamics", "none", "model.steps=10", "model.updates=200", "seed=1001"))
    assert len(losses) == 200
    assert np.mean(losses[150:]) < 0.5 * np.mean(losses[:10])


def test_gradients_of_the_dynamics_are_those_of_differences():
    """The loss changes along a step of h_1 as ||dL/dh_1|| says: here for one sequence and one unit, by hand."""
    words = ("model.hidden_size=2", "model.inputs=1", "model.steps=3", "train.batch_size=1", "seed=1001")
    spec = arm("ln2016/dynamics", "none", *words, "model.radius=1.5")

    def draw(name: str, *shape: int) -> np.ndarray:
        return stream(spec.seed, "probe", name).standard_normal(shape)

    W = draw("recurrent", 2, 2)
    W *= 1.5 / np.abs(np.linalg.eigvals(W)).max()
    U, x, v = draw("inputs", 2, 1), draw("x", 3, 1, 1)[:, 0], draw("readout", 2)

    def loss(h: np.ndarray, t: int) -> float:
        for s in range(t, 3):
            h = np.tanh(W @ h + U @ x[s])
        return float(v @ h)

    first = np.tanh(U @ x[0])
    steps = [(loss(first + 1e-6 * e, 1) - loss(first - 1e-6 * e, 1)) / 2e-6 for e in np.eye(2)]
    _, found = series(spec)
    assert found["gradient"][0] == pytest.approx(np.hypot(*steps), rel=1e-6)
    assert found["magnitude"][0] == pytest.approx(np.abs(U @ x[0]).mean())
    assert found["magnitude"][1] == pytest.approx(np.abs(W @ first + U @ x[1]).mean())


def test_a_weight_that_is_no_number_is_in_every_extreme(monkeypatch: pytest.MonkeyPatch) -> None:
    real = bln_weights._normalized
    monkeypatch.setattr(bln_weights, "_normalized", lambda x, *by: real(x, *by) * (math.nan if len(x) == 3 else 1.0))
    (spec,) = plan.train_specs(["model=bln_weights", "norm=batch_layer", "train.epochs=4"], False)
    found = numbers(spec)
    assert all(math.isnan(found[key]) for key in ("residual", "formula", "smallest", "largest", "least_growth"))


# --- state_gradient ---------------------------------------------------------------------------------------------------


def state_gradient(gain: float, *words: str) -> list[dict]:
    spec = plan.experiment_spec("rbn2016/fig1", "permuted", "smoke", ["seed=2", f"norm.gain_init={gain}", *words])
    return probes.compute(spec)


def test_gradients_of_states_are_those_of_a_network_written_out():
    """h_t = tanh(gain * standardized(h_{t-1} + x_t w)), with the probe's own draws, by functions of torch alone."""
    from torch.nn.functional import batch_norm, cross_entropy

    from normbench import data

    numbers, *curve = state_gradient(0.3)
    config = compose.choice("data", "sequential_digits") | {"permute": True}
    split = data.load(config, seed=2).splits["train"]
    rows = torch.from_numpy(stream(2, "probe", "images").permutation(len(split))[:100])
    x, targets = split["inputs"][rows].double(), split["targets"][rows]
    inputs = torch.linalg.qr(probes.draw(2, "inputs", 32, 1)).Q[:, 0]
    readout = torch.linalg.qr(probes.draw(2, "readout", 32, 10)).Q
    states = [(0.1 * probes.draw(2, "initial state", 100, 32)).requires_grad_()]
    for t in range(64):
        summed = states[-1] + x[:, t] * inputs
        states.append((0.3 * batch_norm(summed, None, None, training=True, eps=1e-5)).tanh())
    cross_entropy(states[-1] @ readout, targets).backward(inputs=states)
    norms = [float(h.grad.norm(dim=1).mean()) for h in states[1:] if h.grad is not None]
    assert [record["epoch"] for record in curve] == [1, 28, 56, 64]
    assert [record["gradient"] for record in curve] == pytest.approx([norms[t - 1] for t in (1, 28, 56, 64)])
    assert numbers["decades"] == pytest.approx(math.log10(norms[0] / norms[-1]))


def test_the_expected_derivative_of_tanh_is_that_of_the_trapezoid_rule():
    z = torch.linspace(-12, 12, 100_001, dtype=torch.float64)
    density = torch.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    for gain in (0.1, 0.5, 1.0):
        (numbers, *_) = state_gradient(gain)
        wanted = float(torch.trapezoid(density / torch.cosh(gain * z) ** 2, z))
        assert numbers["derivative"] == pytest.approx(wanted, abs=1e-7)
        assert numbers["derivative_rise"] < 0
