"""A user's --config-dir: any slip in it is one line that names the file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import yaml

from normbench import data as datasets
from normbench.config import compose, grammar, plan
from normbench.config.spec import Spec
from normbench.errors import NormbenchError
from normbench.models import base as models
from normbench.train import clipping

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
    assert {choice.name for choice in spec.sites.values()} == {"mine"}


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


def test_choices_from_torchs_table_serve_a_model_of_ones_own_and_are_not_replaced(tmp_path: Path):
    text = (compose.conf_dir() / "model" / "mnist_mlp.yaml").read_text().replace("name: mnist_mlp", "name: own")
    own = text.replace("/optim: adam", "/optim: sgd\n  - override /schedule: cosine")
    folder = _own(tmp_path, "model", "own", f"{own}\nschedule:\n  T_max: 9\n")
    (spec,) = plan.train_specs(["model=own", "data=digits"], False, folder)
    assert spec.config["optim"]["momentum"] == 0 and spec.config["schedule"]["T_max"] == 9
    _own(folder, "optim", "rprop", {**spec.config["optim"], "name": "rprop"})
    plan.forget()
    with pytest.raises(NormbenchError, match=r"rprop\.yaml: there is a shipped optim=rprop"):
        plan.train_specs([*WORDS, "optim=rprop"], False, folder)


def test_a_model_without_a_monitor_is_monitored_by_its_first_that_falls(tmp_path: Path):
    text = (compose.conf_dir() / "model" / "mnist_mlp.yaml").read_text().replace("name: mnist_mlp", "name: own")
    for metrics, more, metric in (
        ("[r2, mse]\n    rising: [r2]", "", "mse"),
        ("[mse, nll]", "", "nll"),
        ("[r2, mse]\n    rising: [r2]", "monitor: {metric: r2}", "r2"),
    ):
        own = text.replace("metrics: [nll, error]", f"metrics: {metrics}").replace("    shares: [error]\n", "")
        folder = _own(tmp_path, "model", "own", f"{own}\n{more}\n")
        plan.forget()
        assert compose.compose(grammar.parse(["model=own", "data=digits"]), folder)["monitor"]["metric"] == metric
    with pytest.raises(NormbenchError, match=r"Add monitor\.goal=max"):
        plan.train_specs(["model=own", "data=digits"], False, folder)


def _without(*keys: str) -> dict:
    node = yaml.safe_load(yaml.safe_dump(GOOD))
    inner = node
    for key in keys[:-1]:
        inner = inner[key]
    del inner[keys[-1]]
    return node


def _declaring(**facts: object) -> dict:
    return {**GOOD, "declares": {**DECLARES, "options": {}, **facts}}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({**GOOD, "name": "other"}, "must say name: mine"),
        (_without("name"), "'name' must be given"),
        ("name: mine\n  sites: [", "mine"),
        ("- a\n- b\n", "must hold keys and values"),
        ({**GOOD, "declares": {**DECLARES, "options": {"x": "float"}}, "x": 1.0}, "declares.options.x: 'float' "),
        ({**GOOD, "declares": {**DECLARES, "file": "nowhere.py"}}, "nowhere.py"),
        ({**GOOD, "foo": 1}, "norm.foo is not an option: declares.options has no line for it"),
        (
            _declaring(options={"eps": {"type": "float"}}) | {"epz": 1},
            "norm.epz is not an option: declares.options has",
        ),
        (_declaring(options={"eps": {"type": "float"}}), "norm.eps is declared but has no value"),
        (_declaring(options={"eps": {"type": "real"}}), "declares.options.eps.type: 'real' "),
        (_declaring(options={"eps": {"type": "int", "minimum": 1}}), "declares.options.eps: 'minimum' is not a key."),
        (_declaring(kinds=["preactivation"]), "declares.kinds[0]: 'preactivation' is not possible. Did you mean 'pre_"),
        (_declaring(axes=["bach", "feature"]), "declares.axes[0]: 'bach' is not possible. Did you mean 'batch'?"),
        (_declaring(groups="num"), "declares: groups: 'num' "),
        (_declaring(mode_dependent="num"), "declares: mode_dependent: 'num' "),
        (_declaring(apart={"tme": {}}), "declares.apart: 'tme' is not possible. Did you mean 'time'?"),
        (_declaring(apart={"time": {"num": 1}}), "declares: apart.time: 'num' "),
        ({**GOOD, "preceding_bias": "kep"}, "preceding_bias: 'kep' is not possible. Did you mean 'keep'?"),
        (_declaring(options={"x": {"type": "bool"}}) | {"x": "no"}, "mine.yaml: norm.x=no is not true or false"),
    ],
)
def test_a_faulty_normalizer_yaml_is_one_line(tmp_path: Path, content: object, says: str):
    folder = _own(tmp_path, "norm", "mine", content)
    for word in ("norm=mine", "norm.sites={hidden:mine}"):
        with pytest.raises(NormbenchError) as error:
            plan.train_specs([*WORDS, word], False, folder)
        said = str(error.value)
        assert "\n" not in said and error.value.code == 2
        assert f"{tmp_path}/norm/mine.yaml" in said and says in said


EXPERIMENT = """
base: [model=mnist_mlp, data=digits, "model.hidden_sizes=[8]", train.epochs=1]
arms: {none: [norm=none], rms: [norm=rms]}
axes: {train.batch_size: [100, 50]}
conditions: [{when: {arm: rms, train.batch_size: 50}, set: [norm.eps=1e-6]}]
controls: {low: [optim.lr=1e-4]}
fidelities: {paper: {set: []}}
"""


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("base: [model=mnist_mlp, train.epochs: 1]", "base[1]: {'train.epochs': 1} "),
        ("arms: {none: norm=none}", "arms.none: 'norm=none' "),
        ("arms: {none: null}", "arms.none: null "),
        ("arms: {none: [norm]}", "arms.none[0]: 'norm' "),
        ("arms: {none: [norm=none], no: [norm=rms]}", "arms: false "),
        ("arms: {none: ['norm=['], rms: []}", "arms.none: 'norm=[' "),
        ("arms: {none: ['norm=none,rms'], rms: []}", "arms.none: 'norm=none,rms' "),
        ("arms: {none: [norm=none, norm.p=1], rms: []}", "arm none, train.batch_size=100: norm.p "),
        ("axes: {train.batchsize: [100]}", "train.batchsize is not an option. Did you mean 'train.batch_size'?"),
        ("axes: {train.batch_size: []}", "axes.train.batch_size: [] "),
        ("axes: {train.batch_size: [100, 50, 100]}", "axes.train.batch_size: 100 "),
        ("axes: {train.batch_size: [100.5, 50]}", "train.batch_size=100.5: train.batch_size=100.5 "),
        ("axes: {train.batch_size: [{}, 50]}", "axes.train.batch_size[0]: {} "),
        ("axes: {train.batch_size: ['100', 50]}", "axes.train.batch_size[0]: '100' is read as 100"),
        ("axes: {seed: [1, 2]}", "axes: 'seed' "),
        ("axes: {model.init: ['1,2'], train.batch_size: [50]}", "axes.model.init[0]: '1,2' "),
        ("conditions: [{when: {}, set: [1]}]", "conditions[0].set[0]: 1 "),
        ("conditions: [{when: {}, set: ['norm=[']}]", "conditions[0]: set: 'norm=[' "),
        ("conditions: [{when: {arm: [rsm]}, set: []}]", "conditions[0].when: no arm=rsm. Did you mean 'rms'?"),
        ("conditions: [{when: {control: lwo}, set: []}]", "when: no control=lwo. Did you mean 'low'?"),
        ("conditions: [{when: {train.batch_size: 33}, set: []}]", "when: no train.batch_size=33. Choose from: 100, 50"),
        ("conditions: [{when: {data.name: digit}, set: []}]", "conditions[0].when: data=digit is not a data set."),
        ("conditions: [{when: {arm: none, train.epoch: 1}, set: []}]", "when: 'train.epoch' is not a key. Did you"),
        ("conditions: [{when: {fidelity: paper}, set: []}]", "when: 'fidelity' is not a key"),
        ("conditions: [{when: {arm: []}, set: []}]", "conditions[0].when: arm: [] "),
        ("controls: {low: null}", "controls.low: null "),
        ("fidelities: {papre: {set: []}}", "fidelities: 'papre' is not possible. Did you mean 'paper'?"),
        ("fidelities: {paper: {set: [], at_mots: 1}}", "'at_mots' is not a key. Did you mean 'at_most'"),
        ("fidelities: {paper: {set: [], at_most: 0}}", "fidelities.paper.at_most: 0 "),
        ("fidelities: {1: {set: []}}", "fidelities: 1 "),
        ("limits: [{when: {1: 2}, at_most: 1}]", "limits[0].when: 1 "),
        ("limits: [{when: {amr: none}, at_most: 1}]", "limits[0].when: 'amr' is not a key. Did you mean 'arm'?"),
        ("limits: [{when: {arm: theirs}, at_most: 1}]", "limits[0].when: no arm=theirs. Choose from: none, rms."),
        ("limits: [{when: {}, at_most: -1}]", "limits[0].at_most: -1 "),
        ("seeds: [{when: {}, from: 5, to: 4}]", "seeds[0]: to: 4 "),
        ("seeds: [{when: {}, from: 0, to: 4}]", "seeds[0].from: 0 "),
        ("seeds: [{when: {}, from: true, to: 4}]", "seeds[0].from: true "),
    ],
)
def test_a_faulty_experiment_is_one_line_that_names_its_file(tmp_path: Path, line: str, says: str):
    rest = [other for other in EXPERIMENT.splitlines() if other.split(":")[0] != line.split(":")[0]]
    folder = _own(tmp_path, "experiment", "mine", "\n".join([*rest, line]))
    place = f"{tmp_path}/experiment/mine.yaml: "
    with pytest.raises(NormbenchError) as error:
        plan.artifact_specs("mine", "paper", 1, controls=True, config_dir=folder)
    said = str(error.value)
    assert said.startswith(place) and says in said and said.count(place) == 1 and error.value.code == 2
    with pytest.raises(NormbenchError) as error:  # one run of it, without a word about axes
        plan.train_specs(["experiment=mine", "arm=none"], False, folder)
        plan.artifact_specs("mine", "paper", 1, controls=True, config_dir=folder)  # what this run has no part in
    assert str(error.value).startswith(place)


def test_what_the_users_own_words_do_wrong_is_not_the_experiments_file(tmp_path: Path):
    folder = _own(tmp_path, "experiment", "mine", EXPERIMENT)
    assert len(plan.artifact_specs("mine", "paper", 1, controls=True, config_dir=folder)) == 8
    with pytest.raises(NormbenchError, match=r"^norm\.p is not an option"):
        plan.train_specs(["experiment=mine", "arm=none", "train.batch_size=50", "norm.p=1"], False, folder)


def test_a_condition_may_ask_for_an_option_that_not_all_arms_have(tmp_path: Path):
    text = EXPERIMENT.replace("{arm: rms, train.batch_size: 50}", "{norm.eps: 1.0e-8}")
    specs = plan.artifact_specs("mine", "paper", 1, config_dir=_own(tmp_path, "experiment", "mine", text))
    assert {(spec.arm, spec.config["norm"].get("eps")) for spec in specs} == {("none", None), ("rms", 1e-6)}


def test_a_choice_of_ones_own_that_is_not_there_is_told_where_it_would_lie(tmp_path: Path):
    folder = _own(tmp_path, "norm", "mine", GOOD)
    with pytest.raises(
        NormbenchError, match=r"Did you mean 'rms'\?.* one's own: --config-dir DIR, with DIR/norm/rsm\.yaml"
    ):
        plan.train_specs([*WORDS, "norm=rsm"], False)
    with pytest.raises(NormbenchError, match=rf"Did you mean 'mine'\?.*; {tmp_path}/norm/mien\.yaml is not there\)"):
        plan.train_specs([*WORDS, "norm=mien"], False, folder)
    (spec,) = plan.train_specs([*WORDS, "norm=mine"], False, folder)
    with pytest.raises(NormbenchError, match=r"one's own: --config-dir DIR, with DIR/norm/mine\.yaml"):  # rerun, sample
        compose.restore(compose.stored_form(spec.config))


@pytest.mark.parametrize(
    ("word", "character"),
    [("norm=größe", "ö"), ("norm=layer,größe", "ö"), ("norm='größe'", "ö"), ("experiment=a(b)", "("), ("arm=é", "é")],
)
def test_a_name_that_no_command_can_say_is_told_so(tmp_path: Path, word: str, character: str):
    folder = _own(tmp_path, "norm", "größe", {**GOOD, "name": "größe"})
    with pytest.raises(NormbenchError, match="a name has letters a to z, digits, _, - and / alone") as error:
        plan.train_specs([*WORDS, word], True, folder)
    assert f"'{character}' is none of them" in str(error.value) and word.split("=")[0] in str(error.value)


@pytest.mark.parametrize(
    ("group", "of", "name"),
    [
        ("model", "mnist_mlp", "mine"),
        ("model", "mnist_mlp", "base"),
        ("clip", "global", "mine"),
        ("data", "digits", "mine"),
    ],
)
def test_a_choice_whose_code_is_not_there_is_told_so(tmp_path: Path, group: str, of: str, name: str):
    text = (Path(plan.__file__).parents[2] / "conf" / group / f"{of}.yaml").read_text()
    folder = _own(tmp_path, group, name, text.replace(f"name: {of}", f"name: {name}"))
    words = [word for word in WORDS if not word.startswith(group)]
    (spec,) = plan.train_specs([*words, f"{group}={name}", *(["clip.at=1"] if group == "clip" else [])], False, folder)
    with pytest.raises(NormbenchError, match=f"^{group}={name} (has no code|is not a data set)") as error:
        datasets.function(spec.config["data"])
        model = models.build(spec.config, spec.sites)
        clipping.Clipping(spec.config, model, torch.optim.SGD(model.parameters()))
    assert error.value.code == 2 and "\n" not in str(error.value)


def test_a_file_changed_between_plan_and_worker_is_refused(tmp_path: Path):
    folder = _own(tmp_path, "norm", "mine", {**GOOD, "declares": {**DECLARES, "file": "mine.py"}})
    (folder / "norm" / "mine.py").write_text("first = 1\n")
    (spec,) = plan.train_specs([*WORDS, "norm=mine"], False, folder)
    message, planned = json.loads(json.dumps(spec.to_json())), spec.id
    assert Spec.from_json(message).id == planned
    (folder / "norm" / "mine.py").write_text("second = 2\n")
    assert spec.id == planned  # the plan keeps its name
    with pytest.raises(NormbenchError, match=f"{planned}: {folder}/norm/mine.py was edited"):
        Spec.from_json(message)
