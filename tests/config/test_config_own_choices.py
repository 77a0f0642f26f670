"""A user's --config-dir: any slip in it is one line that names the file."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from normbench.config import compose, plan
from normbench.errors import NormbenchError

WORDS = ["model=mnist_mlp", "data=digits"]
DECLARES = {"title": "t", "source": "s", "maths": 1, "kinds": ["pre_activation"], "axes": ["batch", "feature"]}
GOOD = {"name": "mine", "sites": None, "preceding_bias": "site", "declares": DECLARES | {"options": {}}}


def _own(folder: Path, group: str, name: str, content: object) -> Path:
    path = folder / group / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return folder


@pytest.mark.parametrize("name", ["plain", "with space", "c é(1)", "a,b", "it's", "x=[1]", "50%"])
def test_any_folder_name_will_do(tmp_path: Path, name: str):
    folder = _own(tmp_path / name, "norm", "mine", GOOD)
    (spec,) = plan.train_specs([*WORDS, "norm=mine"], False, folder)
    assert {choice.name for choice in spec.sites().values()} == {"mine"}


def test_a_model_has_clipping_of_its_own_until_another_is_chosen(tmp_path: Path):
    text = (compose.conf_dir() / "model" / "mnist_mlp.yaml").read_text()
    own = text.replace("name: mnist_mlp", "name: own").replace(
        "/optim: adam", "/optim: adam\n  - override /clip: global"
    )
    folder = _own(tmp_path, "model", "own", f"{own}\nclip:\n  at: 5\noptim:\n  bias_correction: kiros\n")
    words = ["model=own", "data=digits"]
    for more, clip, optim in (
        ([], {"name": "global", "at": 5.0}, "kiros"),
        (["clip=per_tensor"], {"name": "per_tensor", "at": 5.0}, "kiros"),
        (["clip=none", "optim=sgd"], {"name": "none"}, None),
    ):
        (spec,) = plan.train_specs([*words, *more], False, folder)
        found = compose.stored_form(spec.config)
        assert found["clip"] == clip and found["optim"].get("bias_correction") == optim
        assert compose.stored_form(compose.restore(found, folder)) == found
        del found["clip"]  # a run from before there was any
        assert compose.restore(found, folder)["clip"]["name"] == "none"


def _without(*keys: str) -> dict:
    node = yaml.safe_load(yaml.safe_dump(GOOD))
    inner = node
    for key in keys[:-1]:
        inner = inner[key]
    del inner[keys[-1]]
    return node


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (_without("declares"), "declares"),
        (_without("declares", "title"), "declares.title"),
        (_without("declares", "maths"), "declares.maths"),
        (_without("declares", "kinds"), "declares.kinds"),
        (_without("declares", "axes"), "declares.axes"),
        ({**GOOD, "name": "other"}, "must say name: mine"),
        (_without("name"), "must say name: mine"),
        ("name: mine\n  sites: [", "mine"),
        ("- a list", "mine"),
        ("\t", "mine"),
        ({**GOOD, "declares": {**DECLARES, "options": {"x": "float"}}, "x": 1.0}, "declares.options.x"),
        ({**GOOD, "declares": {**DECLARES, "file": "nowhere.py"}}, "nowhere.py"),
    ],
)
def test_a_faulty_normalizer_yaml_is_one_line(tmp_path: Path, content: object, says: str):
    folder = _own(tmp_path, "norm", "mine", content)
    with pytest.raises(NormbenchError) as error:
        plan.train_specs([*WORDS, "norm=mine"], False, folder)
    assert says in str(error.value) and "\n" not in str(error.value) and error.value.code == 2


@pytest.mark.parametrize("key", ["arms", "fidelities"])
def test_an_experiment_without_its_keys_is_one_line(tmp_path: Path, key: str):
    node = {"title": "t", "base": WORDS, "arms": {"a": []}, "fidelities": {"paper": {"set": []}}}
    folder = _own(tmp_path, "experiment", "mine", node)
    assert len(plan.artifact_specs("mine", "paper", 2, extra=folder)) == 2
    del node[key]
    _own(tmp_path / "other", "experiment", "mine", node)
    with pytest.raises(NormbenchError, match=key):
        plan.experiment("mine", tmp_path / "other")


def test_a_file_changed_between_plan_and_worker_is_refused(tmp_path: Path):
    from normbench.config.identity import RunSpec

    folder = _own(tmp_path, "norm", "mine", {**GOOD, "declares": {**DECLARES, "file": "mine.py"}})
    (folder / "norm" / "mine.py").write_text("first = 1\n")
    (spec,) = plan.train_specs([*WORDS, "norm=mine"], False, folder)
    message, planned = spec.message(), spec.id
    assert RunSpec.from_message(message).id == planned
    (folder / "norm" / "mine.py").write_text("second = 2\n")
    assert spec.id == planned  # the plan keeps its name
    with pytest.raises(NormbenchError, match="another one by now"):
        RunSpec.from_message(message)
