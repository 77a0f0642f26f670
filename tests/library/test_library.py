"""`from normbench import ...`: normalizers and recurrent layers as modules, runs as data frames."""

from __future__ import annotations

import copy
import doctest
import math
import runpy
from collections import Counter
from importlib import import_module
from pathlib import Path

import child
import fake
import pandas
import pytest
import tiny
import torch
from torch import nn

import normbench
from normbench import GRU, LSTM, NormbenchError, create_norm, load_runs
from normbench.config import compose, plan
from normbench.norms import modes
from normbench.runs import pack

ROOT = Path(__file__).parents[2]
OWN = ROOT / "examples" / "own_normalizer" / "norm"
LAYOUTS = {"batch feature": (4, 8), "batch time feature": (4, 3, 8), "batch feature space space": (4, 8, 2, 3)}


PACKAGE = ROOT / "normbench"
EXAMPLES = sorted(path for path in PACKAGE.rglob("*.py") if ">>> " in path.read_text())


@pytest.mark.parametrize("path", EXAMPLES, ids=[str(path.relative_to(PACKAGE)) for path in EXAMPLES])
def test_examples_in_docstrings(path: Path) -> None:
    found = doctest.testmod(import_module(".".join(path.relative_to(ROOT).with_suffix("").parts)))
    assert found.failed == 0 and found.attempted >= 1


def test_the_package_is_typed_and_light() -> None:
    assert (Path(normbench.__file__).parent / "py.typed").is_file()
    assert set(normbench._HOME) < set(dir(normbench))
    code = "import sys, normbench, normbench.cli\nprint({'torch', 'pandas'} & set(sys.modules))"
    assert child.run("-c", code) == "set()\n"
    with pytest.raises(AttributeError, match="create_nrom"):
        _ = normbench.create_nrom


@pytest.mark.parametrize("name", compose.choices("norm"))
def test_every_normalizer_by_name(name: str) -> None:
    facts = compose.declaration("norm", name)
    of_weights = set(facts["kinds"]) <= {"weight", "block"}
    for axes, shape in LAYOUTS.items():
        if set(facts.get("needs", ())) - set(axes.split()) or (of_weights and "space" in axes):
            continue
        space = shape[2:] if "space" in axes else ()
        norm = create_norm(
            name, 8, axes=axes, space=space, **({"inputs": 8, "activation": "tanh"} if of_weights else {})
        )
        x = torch.randn(shape, requires_grad=True)
        y = norm(x)
        y.square().sum().backward()
        assert y.shape == x.shape and torch.isfinite(y).all() and x.grad is not None


def test_a_plain_average_of_all_batches_is_refused_with_the_way_out() -> None:
    for given in ({"name": "batch", "momentum": None}, "ghost_batch"):
        with pytest.raises(NormbenchError, match=r"momentum=None.*update_bn"):
            create_norm(given, 8, momentum=None)


def test_presets_in_recurrent_layers() -> None:
    """Each site has the values of its name: four gates or two, and the cell as a whole."""
    for layer, wanted in ((LSTM, {4: 2, 1: 1}), (GRU, {2: 2, 1: 2})):
        norms = [*modes.normalizers(layer(4, 8, "gate_layer"))]
        assert Counter(norm.num_groups for norm in norms) == wanted
    assert [norm.bias is None for norm in modes.normalizers(LSTM(4, 8, "recurrent_batch"))] == [True, True, False]


@pytest.mark.parametrize("name", compose.choices("norm"))
def test_nan_at_padding_reaches_no_weight(name: str) -> None:
    declares = compose.declaration("norm", name)
    if not {"batch", "time", "feature"} <= set(declares["axes"]) or declares.get("one_length") or declares.get("needs"):
        pytest.skip("it takes no mask of steps")
    options = {"stats": "sequence"} if name == "batch" else {}
    linear = (
        {"inputs": 4, "activation": "relu"} if "weight" in declares["kinds"] or "block" in declares["kinds"] else {}
    )
    norm = create_norm(name, 4, axes="batch time feature", **options, **linear).double()
    x, mask = torch.randn(3, 5, 4, dtype=torch.float64), torch.ones(3, 5, dtype=torch.bool)
    mask[1, 3:] = False
    found = []
    for padding in (0.0, math.nan, math.inf):
        given = torch.where(mask[..., None], x, padding).requires_grad_()
        other = copy.deepcopy(norm)
        other(given, mask)[mask].square().sum().backward()
        found.append([given.grad[mask], *(p.grad for p in other.parameters())])
    for changed in found[1:]:
        for ours, theirs in zip(found[0], changed, strict=True):
            torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("axes", ["batch time feature", "time batch feature", "batch feature time"])
def test_a_mask_has_the_order_of_the_axes(axes: str) -> None:
    norm, x = (
        create_norm("layer", 4, axes=axes),
        torch.zeros([{"batch": 3, "time": 5, "feature": 4}[a] for a in axes.split()]),
    )
    shape = (5, 3) if axes.startswith("time") else (3, 5)
    norm(x, torch.ones(shape, dtype=torch.bool))
    for wrong in (torch.ones(shape[::-1]), torch.ones(15), [5, 3, 1]):
        with pytest.raises(NormbenchError, match="mask must be"):
            norm(x, wrong)


def test_it_is_the_same_normalizer_with_its_options() -> None:
    x = torch.randn(5, 8)
    torch.testing.assert_close(create_norm("layer", 8, eps=0.1)(x), nn.LayerNorm(8, eps=0.1)(x))
    torch.testing.assert_close(create_norm({"name": "layer", "eps": 0.1}, 8)(x), nn.LayerNorm(8, eps=0.1)(x))
    assert not list(create_norm("batch", 8, affine=False).parameters())
    block = create_norm("layer", 8, inputs=8, activation="relu")
    torch.testing.assert_close(block(x), torch.relu(nn.LayerNorm(8)(block.linear(x))))
    assert block.linear.bias is None and create_norm("none", 8, inputs=8).linear.bias is not None


def test_one_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text((OWN / "centre.py").read_text().replace('"centre"', '"mine"'))
    x = torch.randn(4, 6)
    for path in (OWN / "centre.yaml", OWN / "centre.py", tmp_path / "mine.py"):
        torch.testing.assert_close(create_norm(str(path), 6, bias=False)(x), x - x.mean(1, keepdim=True))
    with pytest.raises(NormbenchError, match=r"mine.bais is not an option. Did you mean 'mine.bias'"):
        create_norm(str(tmp_path / "mine.py"), 6, bais=False)


@pytest.mark.parametrize(
    ("message", "arguments", "options"),
    [
        ("norm=layr is not a normalizer. Did you mean 'layer'?", ("layr", 8), {}),
        ("layer.esp is not an option. Did you mean 'layer.eps'?", ("layer", 8), {"esp": 1}),
        ("layer.eps=-1.0 is too small", ("layer", 8), {"eps": -1}),
        ("layer.sites is not an option", ("layer", 8), {"sites": ["hidden"]}),
        ("names no normalizer", ({"eps": 1e-3}, 8), {}),
        ("layer.esp is not an option", ({"name": "layer", "esp": 1e-3}, 8), {}),
        ("nowhere.py", ("nowhere.py", 8), {}),
        ("features=0 must be at least 1", ("layer", 0), {}),
        ("features='64' must be a whole number, at least 1", ("layer", "64"), {}),
        ("features=6.5 must be a whole number", ("layer", 6.5), {}),
        ("channel is not an axis", ("layer", 8), {"axes": "batch channel"}),
        ("must have the feature axis once", ("layer", 8), {"axes": "batch batch feature"}),
        ("instance cannot serve 'instance': it needs space axes", ("instance", 8), {}),
        ("num_groups=3 does not divide", ("group", 8), {"num_groups": 3}),
        ("create_norm('spectral', 8, inputs=N)", ("spectral", 8), {}),
        ("activation=sin is not possible", ("layer", 8), {"inputs": 2, "activation": "sin"}),
        ("activation=relu belongs to a linear map", ("layer", 8), {"activation": "relu"}),
        ("its last axis is the feature", ("weight", 8), {"inputs": 2, "axes": "batch feature space space"}),
        ("has 2 space axes", ("layer", 8), {"axes": "batch feature space space", "space": (2,)}),
    ],
)
def test_what_cannot_be_is_one_line(message: str, arguments: tuple, options: dict) -> None:
    with pytest.raises(NormbenchError) as error:
        create_norm(*arguments, **options)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("options", "shape", "message"),
    [
        ({}, (3, 5, 64), "batch: x must be (batch, 64), not (3, 5, 64). For other axes give axes="),
        ({}, (3, 5), "batch: x must be (batch, 64), not (3, 5)."),
        ({"inputs": 7}, (3, 64), "batch: x must be (batch, 7), not (3, 64)."),
        ({"axes": "batch feature space space"}, (3, 64, 5), "x must be (batch, 64, space, space), not (3, 64, 5)."),
    ],
)
def test_an_input_with_other_axes_is_one_line(options: dict, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(NormbenchError) as error:
        create_norm("batch", 64, **options)(torch.randn(shape))
    assert message in str(error.value)
    assert create_norm("weight", 64, inputs=7)(torch.randn(3, 5, 7)).shape == (3, 5, 64), "a linear map of any axes"


@pytest.mark.parametrize(
    ("norm", "sites", "there"),
    [
        ("layer", None, {"input", "hidden", "cell"}),
        ("layer", ["cell"], {"cell"}),
        ("weight", None, {"input", "hidden"}),
        ("batch_layer", None, {"input"}),
        ({"name": "batch", "stats": "per_step"}, ["hidden", "cell"], {"hidden", "cell"}),
        ("none", None, set()),
        (str(OWN / "centre.yaml"), None, {"input", "hidden", "cell"}),
    ],
)
def test_an_lstm_has_its_normalizer_where_it_is_asked_for(norm, sites, there: set[str]) -> None:
    layer = LSTM(4, 6, norm, sites, num_layers=2, bidirectional=True)
    assert [set(cell.norms) for cell in layer.cells] == [there] * 4
    outputs, _ = layer(torch.randn(3, 5, 4))
    outputs.sum().backward()
    assert outputs.shape == (3, 5, 12)


def test_a_recurrent_layer_that_cannot_be_is_one_line() -> None:
    for message, norm, sites in (
        ("norm=layr is not a normalizer", "layr", None),
        ("layer.esp is not an option", {"name": "layer", "esp": 1}, None),
        ("has no site 'cel'. Did you mean 'cell'?", "layer", ["cel"]),
        ("weight cannot serve 'cell'", "weight", ["cell"]),
        ("instance cannot serve 'input'", "instance", None),
        ("Take norm.stats=per_step", "batch", None),
    ):
        with pytest.raises(NormbenchError) as error:
            LSTM(4, 6, norm, sites)
        assert message in str(error.value)
    with pytest.raises(NormbenchError, match="LSTM has no option input_droput"):
        LSTM(4, 6, input_droput=0.5)
    with pytest.raises(NormbenchError, match="sequences of one length"):
        LSTM(4, 6, "batch_layer")(torch.randn(2, 3, 4), torch.ones(2, 3, dtype=torch.bool))


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Two published runs and one that was trained since."""
    packed = [fake.record(tiny.spec("norm=layer", f"seed={seed}"), value=0.1 * seed) for seed in (1, 2)]
    pack.write(tmp_path / "p" / "a" / "paper" / pack.NAME, packed)
    fake.directory(tmp_path / "runs", tiny.spec("norm=batch", "optim.lr=0.01"))
    return tmp_path


def test_runs_come_with_their_configuration_and_metrics(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = load_runs(results=results)
    assert isinstance(runs, pandas.DataFrame) and len(runs) == 3 and runs["run"].is_unique
    assert list(runs["norm"]) == ["batch", "layer", "layer"]
    assert set(runs["model"]) == {"mnist_mlp"} and set(runs["model.hidden_sizes"]) == {"[8]"}
    assert set(runs["optim.lr"]) == {0.01, 0.001} and set(runs["train.batch_size"]) == {210}
    assert runs["norm.momentum"].isna().sum() == 2  # layer normalization has none
    published = runs[runs["norm"] == "layer"].set_index("seed")["last test nll"]
    assert published.to_dict() == pytest.approx({1: 0.1 / 3, 2: 0.2 / 3})
    assert "best test nll" not in runs  # what is monitored, NLL on validation, these curves do not have
    monkeypatch.setenv("NORMBENCH_RESULTS", str(results))
    assert load_runs().equals(runs)


def test_the_best_is_where_the_monitor_says(tmp_path: Path) -> None:
    spec = tiny.spec("monitor.split=test")
    record = fake.record(spec)
    records = [dict(r) for r in record.records]
    records[-2]["nll"] = "NaN"  # the last evaluation is no number
    pack.write(tmp_path / "p" / "a" / "paper" / pack.NAME, [fake.record(spec, records=records)])
    row = load_runs(results=tmp_path).iloc[0]
    assert math.isnan(row["last test nll"]) and row["best test nll"] == 0.25


def test_words_that_choose_nothing_are_one_line(results: Path, tmp_path: Path) -> None:
    with pytest.raises(NormbenchError, match="Did you mean 'layer'"):
        load_runs("norm=layr", results=results)
    with pytest.raises(NormbenchError, match=rf"below {tmp_path}/nowhere\. Another folder: results= or NORMBENCH_RES"):
        load_runs("norm=layer", results=tmp_path / "nowhere")
    with pytest.raises(NormbenchError, match=r"\['norm=layer'\] is no text: words stand alone"):
        load_runs(["norm=layer"], results=results)  # type: ignore[arg-type]  what is refused


def test_records_are_the_exports_rows(results: Path) -> None:
    curves = load_runs("norm=layer", results=results, records=True)
    assert len(curves) == 2 * len(fake.lines(2)) and {"run", "split", "mode", "step", "nll"} <= set(curves.columns)
    assert set(curves["run"]) == set(load_runs("norm=layer", results=results)["run"])


def test_a_damaged_run_is_left_out_with_a_warning(results: Path) -> None:
    (results / "p" / "b" / "paper").mkdir(parents=True)
    (results / "p" / "b" / "paper" / pack.NAME).write_bytes(b"no pack")
    with pytest.warns(UserWarning, match="damaged"):
        assert len(load_runs(results=results)) == 3


def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    specs = plan.artifact_specs("ln2016/fig6", "paper", 1, ["train.batch_size=128"], limited=False)
    records = [record | {"error": record["nll"]} for record in fake.lines(2)]
    runs = [fake.record(spec, 2, records=records) for spec in specs]
    pack.write(tmp_path / "ln2016" / "fig6" / "paper" / pack.NAME, runs)
    monkeypatch.setenv("NORMBENCH_RESULTS", str(tmp_path))
    monkeypatch.chdir(ROOT)
    runpy.run_path(str(ROOT / "examples" / "library.py"), run_name="__main__")
    output = capsys.readouterr().out
    assert "(4, 12, 32)" in output and "Did you mean 'layer'" in output and "records of" in output
    assert "batch after 5 epochs: torch.Size([2, 10])" in output
