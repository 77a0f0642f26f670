"""`normbench check --config-dir`: what models and data sets of one's own promise, and what they break."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import sklearn.datasets  # noqa: F401  # examples/own_data reads it

from normbench.check import own_files
from normbench.cli import main

EXAMPLES = Path(__file__).parents[2] / "examples"
LAYER, PREDICT = 'NormedLinear(features, *sites(f"block.{i}"), F.relu)', "    def predict(self"
LOGITS, INPUTS = "        self.logits = nn.Linear(features, classes)\n", "        x = inputs\n"
SITE = "      block.2: *block\n"
EVALUATE = """    def evaluate(self, inputs, targets):
        values = super().evaluate(inputs, targets)
        return {**values, %s}

"""
MODEL = {  # the change of residual.py or .yaml: the ending, old, new; and what is said
    "a site that is not built": ("yaml", "      block.1: *block\n", "      block.1: *block\n" + SITE, "block.2"),
    "a site without its normalizer": ("py", LAYER, LAYER.replace('f"block.{i}"', '"block.0"'), "block.1"),
    "a normalizer that is passed by": (
        *("py", "zip(self.block, self.back, strict=True)", "[(self.block[0], self.back[0])]"),
        "block.1",
    ),
    "a parameter without a gradient": ("py", LOGITS, f"{LOGITS}        self.more = nn.Linear(2, 2)\n", "more.weight"),
    "a gradient that is always zero": ("py", "x + back(block(x))", "x + 0 * back(block(x))", "back.0.weight"),
    "metrics that are not the loss": ("py", PREDICT, EVALUATE % "'nll': 2 * values['nll']" + PREDICT, "nll"),
    "a metric of the whole batch": ("py", PREDICT, EVALUATE % "'error': values['error'].mean()" + PREDICT, "error"),
    "a metric that is not declared": ("py", PREDICT, EVALUATE % "'loss': values['nll']" + PREDICT, "loss"),
    "draws that depend on the arm": (
        *("py", LOGITS, f"{LOGITS}        self.shift = nn.Parameter(torch.ones(1) * len([*self.parameters()]))\n"),
        "shift",
    ),
    "state outside of buffers": (
        *("py", INPUTS, "        vars(self)['passes'] = vars(self).get('passes', 0) + self.training\n"
          "        x = inputs * (1 + self.passes / 10)\n"),
        "interrupted",
    ),
    "code that fails": ("py", INPUTS, "        x = inputs.items\n", "residual.py, line"),
}  # fmt: skip
DATA = {
    "another order at each reading": (
        "py",
        'stream(seed, "wine")',
        "__import__('numpy').random.default_rng()",
        "read again",
    ),
    "values that are no numbers": ("py", ".float()", ".float() / 0", "infinity"),
    "another type": ("py", ".float()", "", "float64"),
    "more classes than are declared": ("yaml", "classes: 3", "classes: 2", "2 classes"),
    "no split for training": ("py", '"train": order', '"training": order', "train"),
    "another size than is declared": ("yaml", "of: 178", "of: 179", "declares.train_size is 101"),
    "another shape than is declared": ("yaml", "features: 13", "features: 12", "declares.features is 12"),
}


def broken(tmp_path: Path, example: str, name: str, change: tuple[str, str, str, str]) -> list[tuple[str, str]]:
    """What is found, kinds and texts, once a file of the example is changed."""
    folder = shutil.copytree(EXAMPLES / example, tmp_path / example)
    for path in folder.glob("*/autoencoder.*"):
        path.unlink()
    (path,) = folder.glob(f"*/{name}.{change[0]}")
    text = path.read_text()
    assert change[1] in text
    path.write_text(
        text.replace(change[1], change[2], 1).replace("import torch.nn.f", "import torch\nimport torch.nn.f")
    )
    return [(finding.kind, finding.text) for finding in own_files.check(folder, {})]


@pytest.mark.parametrize("what", MODEL)
def test_what_a_model_breaks_is_named(what: str, tmp_path: Path) -> None:
    ((kind, text),) = broken(tmp_path, "own_model", "residual", MODEL[what])
    assert kind == "contract" and MODEL[what][3] in text


@pytest.mark.parametrize("what", DATA)
def test_what_a_data_set_breaks_is_named(what: str, tmp_path: Path) -> None:
    ((kind, text),) = broken(tmp_path, "own_data", "wine", DATA[what])
    assert kind == "contract" and DATA[what][3] in text


def test_examples_of_two_splits_are_counted_and_files_that_are_missing_are_no_fault(tmp_path: Path) -> None:
    change = ("py", '"valid": order[test : test + valid]', '"valid": order[test : test + valid + 2]', "")
    assert broken(tmp_path / "a", "own_data", "wine", change) == [
        ("shared", "2 examples of split train are in valid, too")
    ]
    change = ("yaml", "files: {}", "files: {wine.csv: null}", "")
    ((kind, text),) = broken(tmp_path / "b", "own_data", "wine", change)
    assert kind == "unknown" and "wine.csv" in text


@pytest.mark.parametrize("example", ["own_model", "own_data", "own_normalizer"])
def test_the_examples_keep_it(example: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    seen: dict[str, int] = {}
    assert not [*own_files.check(EXAMPLES / example, seen)]
    assert seen == {"own_model": {"own models": 2}, "own_data": {"own data sets": 1}, "own_normalizer": {}}[example]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("classes", "code"), [(3, 0), (2, 4)])
def test_the_command_names_the_file_without_any_results(classes: int, code: int, tmp_path: Path, capfd) -> None:
    folder = shutil.copytree(EXAMPLES / "own_data", tmp_path / "mine")
    path = folder / "data" / "wine.yaml"
    path.write_text(path.read_text().replace("classes: 3", f"classes: {classes}"))
    with pytest.raises(SystemExit) as ended:
        main(["check", "--config-dir", str(folder), "--results", str(tmp_path / "no")])
    out = capfd.readouterr().out
    assert int(ended.value.code or 0) == code and "1 own data set" in out and (str(path) in out) == bool(code)
