"""Any fault in any file that people write is one line with the file, the key and, where one is unknown, the nearest."""

from __future__ import annotations

import copy
import dataclasses
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from normbench import imports
from normbench.config import compose, declaration_keys, experiment_file, plan
from normbench.errors import NormbenchError
from normbench.imports import map_keys
from normbench.papers import claims

DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
FINAL = {"kind": "final", "split": "test", "mode": "eval", "metric": "error", "variant": "TT", "better": "lower"}
PAIR: list[Any] = [[1, {"arm": "ln"}], [-1, {"arm": "bn"}]]
LEVEL = {"share": 0.5, "of": {"arm": "ln"}, "least": 0.1}
SEEDS = {"from": 6, "to": 10}


def _part(name: str, endpoint: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": name, "endpoint": endpoint, "unit": "points", "scale": "percent", **more}


def _claim(kind: str, *parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": kind, "kind": kind, "statement": "s", "quote": "q", "locator": "l", "parts": list(parts), **more}


CLAIMS: dict[str, Any] = {
    "id": "x/fig", "title": "t", "locator": "l", "experiment": "x/fig", "seeds": 5, "seen": 3,
    "looks": {"at": [5, 10], "spending": "pocock"},
    "deviations": {"paper": ["d"]}, "reference": {"a": 1},
    "amendments": [{
        "claim": "direction", "change": "c", "reason": "r",
        "looked": {"proxy": {"from": 1, "to": 5}},
    }],
    "claims": [
        _claim(
            "direction",
            _part("p", FINAL, contrast=PAIR, expect="negative", test="sign", delta={"is": 0.1, "why": "w"}),
            _part("q", {**FINAL, "kind": "time_to_level", "level": LEVEL, "clock": "step"}, contrast=PAIR,
                  expect="positive"),
            reported=[_part("r", {**FINAL, "kind": "area", "least": 0.1}, contrast=PAIR, paper=1, band=1)],
            beside=["r"], open=["rate", "init"], controls=["low"], unvaried=["init"], seeds=SEEDS,
            control_seeds={"low": {"proxy": SEEDS}}, looks=[10, 20], not_decidable={"reduced": "short"}, ours=True,
        ),
        _claim("size", _part("p", {**FINAL, "kind": "gain", "share": 0.5}, contrast=PAIR, paper=1, band=1)),
        _claim("equivalence", _part("p", {**FINAL, "kind": "chosen", "epoch": "best", "least": 0.1}, contrast=PAIR,
                                    within=1)),
        _claim("order", _part("p", FINAL, order=[{"arm": "ln"}, {"arm": "bn"}], test="t",
                              delta={"is": None, "why": "w"})),
        _claim("exact", {"id": "p", "endpoint": {"kind": "value", "key": "gap"}, "unit": "1", "cell": {"arm": "ln"},
                         "value": 1, "at_most": 2, "at_least": 0}),
    ],
}  # fmt: skip
EXPERIMENT: dict[str, Any] = {
    "title": "t", "base": ["model=mnist_mlp"], "arms": {"ln": ["norm=layer"], "none": []},
    "axes": {"train.batch_size": [4, 8]}, "conditions": [{"when": {"arm": "ln"}, "set": ["norm.eps=1e-6"]}],
    "controls": {"low": ["optim.lr=1e-4"]}, "fidelities": {"paper": {"set": [], "at_most": 2, "seconds": 1.5}},
    "limits": [{"when": {"arm": ["ln"]}, "at_most": 1}], "seeds": [{"when": {"arm": "ln"}, "from": 1, "to": 5}],
}  # fmt: skip
SPEC = {"type": "int", "list": True, "map": False, "optional": False, "length": 2, "filled": True, "min": 1, "max": 9,
        "below": 10, "choices": [1, 2], "pattern": "x", "hashed": False}  # fmt: skip
NORMALIZER: dict[str, Any] = {
    "name": "own", "sites": None, "preceding_bias": "site", "eps": [1, 2],
    "declares": {
        "title": "t", "source": "s", "maths": 1, "options": {"eps": SPEC}, "kinds": ["weight"], "axes": ["batch"],
        "needs": ["time"], "layouts": [["batch"]], "activations": ["relu"], "groups": "eps", "single_batch": "eps",
        "state": {"eps": 1}, "variants": {"eps": [1]}, "apart": {"time": {"eps": 1}}, "mode_dependent": "eps",
        "one_length": True, "recentres": True, "rescales": True, "own_shift": True, "reads_mask": True,
        "detaches": True, "approximate": True, "measured": {"a": "b"},
    },
}  # fmt: skip
MODEL: dict[str, Any] = {
    "model": {
        "name": "own",
        "declares": {
            "title": "t", "source": "s", "maths": 1, "options": {}, "default_sites": ["a"], "metrics": ["nll"],
            "shares": ["nll"], "rising": ["nll"], "reads": ["time", 1], "initial": {"a": {}}, "probe": True,
            "sites": {"a": {"kinds": ["weight"], "axes": ["batch"], "features": 1, "times": 4, "each": "x",
                            "space": [2], "bias": "drop", "mask": True, "activation": "relu"}},
            "layers": [{"layer": "a", "kind": "k", "input": [1], "output": [1], "parameters": 1, "site": ""}],
        },
    },
}  # fmt: skip
DATA: dict[str, Any] = {
    "name": "own",
    "declares": {
        "title": "t", "source": "s", "maths": 1, "format": "f", "classes": 2, "features": 3, "shape": [2],
        "sizes": {"a": 1}, "train_size": {"of": 1, "less": ["a"], "times": "b"}, "files": {"a": "0" * 32},
        "fetch": {"from": ["x"], "files": {"a": "0" * 64}}, "batches": {"a": "0" * 64}, "sha256": "x",
        "copy": "x", "megabytes": 1.5, "terms": "t", "remark": "r",
        "bring": "b", "folders": {"a": "b"}, "parts": ["a"],
        "captions": 1, "symbols": 1, "alphabet": "ab", "lists": {"a": ["b"]}, "rest": "a", "split": {"test": 1},
        "seed": 1, "refused": "r",
    },
}  # fmt: skip
MAP: dict[str, Any] = {
    "source": "csv", "run": {"path": "x"}, "columns": "(?P<arm>x)", "monitor": {"split": "valid", "metric": "loss"},
    "labels": {"arm": {"column": "norm"}, "seed": {"config": "seed"}, "control": {"hparam": "c", "zz": "b"},
               "axes": {"optim.lr": {"column": "lr"}}},
    "x": {"step": {"column": "step", "times": 10}, "epoch": {"key": "e"}},
    "series": [
        {"column": "loss", "split": {"path": "x", "validation": "valid"}, "metric": "loss", "mode": "eval",
         "goal": "min", "unit": "nats", "log": True, "x": {"step": {"event": "step"}}},
        {"tag": "a", "split": "train"}, {"key": "b", "split": "train"},
    ],
    "repeats": "rewind", "blank": "missing", "length": "equal",
}  # fmt: skip
OF_CHOICES = ("sizes", "files", "batches", "folders", "lists", "split", "initial",
              "measured", "state", "variants", "apart")  # fmt: skip
ANY = {"reference", "initial", "measured", "space"}  # may have any map
NULL = {
    *("is", "options", "groups", "single_batch", "state", "variants", "mode_dependent", *ANY),
}
# by kind: its place in a --config-dir, a file that has every key, what reads it, and keys below which names are free
FILES: dict[str, tuple[str, dict[str, Any], Callable[[Path, Path], Any], tuple[str, ...]]] = {
    "claims": (
        "papers/x/fig.yaml",
        CLAIMS,
        lambda folder, path: claims.load(path),
        ("reference", "deviations", "contrast", "order", "of", "cell", "control_seeds", "not_decidable", "looked"),
    ),
    "experiment": (
        "experiment/x/fig.yaml",
        EXPERIMENT,
        lambda folder, path: experiment_file.load("x/fig", folder),
        ("arms", "axes", "controls", "fidelities", "when"),
    ),
    "normalizer": ("norm/own.yaml", NORMALIZER, lambda folder, path: compose.choice("norm", "own", folder), OF_CHOICES),
    "model": ("model/own.yaml", MODEL, lambda folder, path: compose.declaration("model", "own", folder), OF_CHOICES),
    "map": ("maps/own.yaml", MAP, lambda folder, path: imports.read_map(path), ("axes", "control", "split")),
    "data": ("data/own.yaml", DATA, lambda folder, path: compose.declaration("data", "own", folder), OF_CHOICES),
}


def _content(kind: str) -> dict[str, Any]:
    return copy.deepcopy(FILES[kind][1])


def _refusal(kind: str, folder: Path, content: Any) -> str:
    """The line for such a file, checked for what every line has; "" where it is taken."""
    name, _, read, _ = FILES[kind]
    (path := folder / name).parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.dump(content, Dumper=DUMPER))
    plan.forget()
    try:
        read(folder, path)
    except NormbenchError as error:
        line = str(error)
        assert error.code == 2 and "\n" not in line and str(path) in line and len(line) < 500, line
        return line
    return ""


def _keys(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for key in node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ():
        if isinstance(node, dict):
            yield (*path, key)
        yield from _keys(node[key], (*path, key))


def _at(node: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        node = node[key]
    return node


def _named(kind: str) -> list[tuple[Any, ...]]:
    """The places of all keys that a model names."""
    free = FILES[kind][3]
    found = [path for path in _keys(_content(kind)) if not {*free} & {*path[:-1]}]
    if free == OF_CHOICES:
        found = [path for path in found if "declares" in path[:-1] and path[-2] not in ("options", "sites")]
    return found


@pytest.mark.parametrize("kind", FILES)
def test_a_whole_file_is_taken(kind: str, tmp_path: Path) -> None:
    assert _refusal(kind, tmp_path, _content(kind)) == ""


@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_is_cut_or_none_is_one_line(kind: str, tmp_path: Path) -> None:
    text = yaml.safe_dump(_content(kind), default_flow_style=True)
    for content in (text[: len(text) // 2], "- a\n", "\x00", "a: [", "", f"a: {'x' * 2**21}"):
        assert _refusal(kind, tmp_path, content), content[:20]


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("place", ["pipe", "link", "large"])
def test_something_else_in_its_place_is_one_line(kind: str, place: str, tmp_path: Path) -> None:
    name, _, read, _ = FILES[kind]
    (path := tmp_path / name).parent.mkdir(parents=True)
    if place == "large":
        path.touch()
        os.truncate(path, 2 << 30)
    else:
        os.mkfifo(path) if place == "pipe" else path.symlink_to("/dev/zero")
    with pytest.raises(NormbenchError) as caught:
        read(tmp_path, path)
    assert "\n" not in str(caught.value) and name.removesuffix(".yaml").split("/", 1)[1] in str(caught.value)


@pytest.mark.parametrize("kind", FILES)
def test_a_key_that_is_unknown_is_named_with_the_nearest(kind: str, tmp_path: Path) -> None:
    for path in _named(kind):
        content = _content(kind)
        node = _at(content, path[:-1])
        node[f"{path[-1]}y"] = node.pop(path[-1])
        line = _refusal(kind, tmp_path, content)
        nobody_knows = path[-1] == "kind" and ": 'kind' must be given." in line  # which keys there are without it
        assert nobody_knows or f": '{path[-1]}y' is not a key. Did you mean '{path[-1]}'?" in line, (path, line)


@pytest.mark.slow
@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize(
    ("wrong", "taken"),
    [
        ([{}], ANY),
        (None, NULL),
        pytest.param(float("nan"), ANY, marks=pytest.mark.slow),
        pytest.param({"a": {}}, ANY, marks=pytest.mark.slow),
    ],
)
def test_a_value_of_another_type_is_named_with_its_key(wrong: Any, taken: set, kind: str, tmp_path: Path) -> None:
    for path in _named(kind):
        content = _content(kind)
        _at(content, path[:-1])[path[-1]] = wrong
        line = _refusal(kind, tmp_path, content).partition(FILES[kind][0])[2]
        assert str(path[-1]) in line or path[-1] in taken or "unexpected character" in line, (path, line)


@pytest.mark.slow
@pytest.mark.parametrize("kind", FILES)
def test_a_key_that_is_missing_is_named_or_may_be(kind: str, tmp_path: Path) -> None:
    needed = set()
    for path in _named(kind):
        content = _content(kind)
        del _at(content, path[:-1])[path[-1]]
        if line := _refusal(kind, tmp_path, content):
            needed.add(path[-1])
            depends = " is not possible" in line or "norm.eps=" in line  # another key names something below it
            assert path[-1] in line or depends, line
    assert needed


def _classes(module: ModuleType) -> list[type]:
    """Those whose fields are keys of a file that this module reads."""
    classes = [value for value in vars(module).values() if isinstance(value, type)]
    return [each for each in classes if dataclasses.is_dataclass(each) and each.__module__ == module.__name__]


def _keys_of(kind: Any) -> set[str]:
    if kind is map_keys.Label:
        return {*map_keys.PLACES}
    return {field.name.removesuffix("_") for field in dataclasses.fields(kind) if "hidden" not in field.metadata}


ROOT = Path(__file__).parents[1] / "examples"
OWN_CLAIMS, OWN_OPTIMIZER = ROOT / "own_claims", ROOT / "own_optimizer"
NORMALIZER_KEYS = (
    declaration_keys.NormalizerFile,
    declaration_keys.Normalizer,
    declaration_keys.SameAs,
    declaration_keys.Option,
)
MODEL_KEYS = declaration_keys.ModelFile, declaration_keys.Network, declaration_keys.Site, declaration_keys.Layer
OTHER_NAMES = {"smoke", "sizes", "rates", "eps_in", "new", "optim"}  # of fidelities, options and choices
# by an example: what reads it, and the classes whose keys it shows
EXAMPLES: dict[str, tuple[Callable[[Path], Any], Sequence[type]]] = {
    "own_claims/experiment/mine/rms.yaml": (
        lambda path: experiment_file.load("mine/rms", OWN_CLAIMS),
        _classes(experiment_file),
    ),
    "own_claims/papers/mine/rms.yaml": (claims.load, _classes(claims)),
    "imports/lightning.yaml": (imports.read_map, _classes(map_keys)),
    "own_normalizer/norm/centre.yaml": (
        lambda path: compose.choice("norm", "centre", ROOT / "own_normalizer"),
        NORMALIZER_KEYS,
    ),
    "own_model/model/residual.yaml": (
        lambda path: compose.choice("model", "residual", ROOT / "own_model"),
        MODEL_KEYS,
    ),
    "own_data/data/wine.yaml": (
        lambda path: compose.choice("data", "wine", ROOT / "own_data"),
        (declaration_keys.Data, declaration_keys.TrainSize, declaration_keys.Fetch),
    ),
    "own_optimizer/optim/heavy_ball.yaml": (
        lambda path: compose.choice("optim", "heavy_ball", OWN_OPTIMIZER),
        (declaration_keys.Optimizer,),
    ),
    "own_optimizer/schedule/halving.yaml": (
        lambda path: compose.choice("schedule", "halving", OWN_OPTIMIZER),
        (declaration_keys.Schedule,),
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_read_and_shows_every_key(name: str) -> None:
    read, classes = EXAMPLES[name]
    assert read(ROOT / name)
    text, keys = (ROOT / name).read_text(), {key for each in classes for key in _keys_of(each)}
    assert not keys - {*re.findall(r"(\w+):\s", text)}
    rare = {*re.findall(r"^ *# +(?:- )?(\w+): ", text, re.MULTILINE)}
    assert not rare - keys - OTHER_NAMES, "a comment shows a key that no class has"


@pytest.mark.parametrize("name", ["own_claims/experiment/mine/rms.yaml", "imports/lightning.yaml"])
def test_an_example_with_its_rare_keys_is_read(name: str, tmp_path: Path) -> None:
    text = re.sub(r"^( *)# (?=(?:- \{|\w+:(?: |$)))", r"\1", (ROOT / name).read_text(), flags=re.MULTILINE)
    (path := tmp_path / name).parent.mkdir(parents=True)
    path.write_text(
        re.sub(r"^columns: ", "#columns: ", text, flags=re.MULTILINE)
    )  # the other form of a table is `long`
    if "experiment" in name:
        experiment = experiment_file.load("mine/rms", tmp_path / "own_claims")
        assert experiment.conditions and experiment.limits and experiment.seeds and experiment.axes
    else:
        map = imports.read_map(path)
        assert map.long and map.length and map.repeats and map.series[2].x


def test_every_class_of_a_component_has_an_example() -> None:
    shown = {each for _, classes in EXAMPLES.values() for each in classes}
    bases = {base for each in shown for base in each.__mro__}
    assert {*_classes(declaration_keys)} <= bases
