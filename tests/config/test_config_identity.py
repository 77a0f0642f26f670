"""The run id: everything that changes the training maths, and nothing else."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import child
import pytest
import tiny
from hypothesis import given, settings
from hypothesis import strategies as st

from normbench.config import compose, identity, plan
from normbench.config.spec import Spec
from normbench.data import files as data_files
from normbench.errors import NormbenchError

LN = "05fb4d3344a7"  # ln2016/fig6 at batch size 128, seed 1, as it is published


def test_the_order_of_words_does_not_count() -> None:
    words = ["norm=batch", "norm.eps=1e-3", "optim.lr=0.01", "seed=4"]
    assert tiny.spec(*words).id == tiny.spec(*reversed(words)).id


@pytest.mark.parametrize(
    "word",
    [
        "norm.sites=null",
        "norm.sites=hidden",
        "norm.sites=[hidden]",
        "norm.sites=[hidden.0]",
        "norm.sites=hidden.*",
        "norm.sites={hidden:layer}",
        "norm.sites={hidden:{}}",
        "norm.sites={hidden:null}",
        "norm.sites={hidden:{eps:1e-5}}",
        "norm.sites={hidden:{name:layer}}",
        "norm.sites={hidden:{preceding_bias:site}}",
        "norm.sites={*:{name:none},hidden:{name:layer}}",
        "norm.sites={hidden.0:layer,logits:none}",
    ],
)
def test_one_normalizer_at_one_site_is_one_run_however_written(word: str) -> None:
    assert tiny.spec("norm=layer", word).id == tiny.spec("norm=layer").id


@pytest.mark.parametrize("sites", [[], {}, {"hidden": "none"}], ids=str)
def test_without_sites_every_normalizer_is_none_and_so_nobody_trains_it_as_another(sites: Any) -> None:
    config = {**tiny.spec("norm=layer").config}
    config["norm"] = {**config["norm"], "sites": sites}
    assert plan.resolved(config, "adhoc", "", "adhoc").id == tiny.spec("norm=none").id
    word = f"norm.sites={sites}".replace("'", "").replace(" ", "")
    with pytest.raises(NormbenchError, match="norm=layer would stand nowhere"):
        tiny.spec("norm=layer", word)


@pytest.mark.parametrize(
    "word",
    [
        "norm.sites=[hidden.weight]",
        "norm.sites={hidden.weight:weight,hidden:none}",
        "norm.sites={*.weight:{},logits:none}",
    ],
)
def test_a_weights_normalizer_alone_is_one_run_however_written(word: str) -> None:
    sites = tiny.spec("norm=weight", word).sites
    if "*" not in word:
        assert tiny.spec("norm=weight", word).id == tiny.spec("norm=weight").id
    else:  # `logits: none` is of its activations
        assert sites.keys() == {"hidden.0", "logits"}


def test_a_second_normalizer_on_the_weight_is_another_run_and_in_its_label() -> None:
    both = tiny.spec("norm=layer", "norm.sites={hidden:layer,hidden.weight:weight}")
    assert both.id not in (tiny.spec("norm=layer").id, tiny.spec("norm=weight").id)
    assert both.id == tiny.spec("norm=weight", "norm.sites={hidden:layer,hidden.0.weight:{}}").id
    assert both.arm == "mnist_mlp-layer-weight"


def test_a_normalizer_of_sites_is_that_normalizer() -> None:
    assert tiny.spec("norm=none", "norm.sites={hidden:layer}").id == tiny.spec("norm=layer").id


@pytest.mark.parametrize(
    "word",
    [
        "train.epochs=7",
        "train.checkpoint_seconds=1",
        "train.keep=[]",
        "launcher=pool",
        "launcher.jobs=1",
        "logger=wandb",
        "optim.lr=1e-3",
        "optim.lr=0.001",
    ],
)
def test_length_and_place_do_not_count(word: str) -> None:
    assert tiny.spec("norm=layer", word).id == tiny.spec("norm=layer").id


def test_experiment_and_fidelity_do_not_count() -> None:
    (of_experiment,) = plan.train_specs(["experiment=ln2016/fig6", "arm=ln", "seed=1"], False)
    (bare,) = plan.train_specs(["model=mnist_mlp", "norm=layer", "train.epochs=3"], False)
    (reduced,) = plan.train_specs(["experiment=ln2016/fig6", "arm=ln", "fidelity=reduced"], False)
    assert of_experiment.id == bare.id == reduced.id == LN


RECALL = ("model=recall_lstm", "data.length=10", "model.hidden_size=8")
PRESETS = {
    "recurrent_batch": (
        *("norm=batch", "norm.stats=per_step", "norm.gain_init=0.1"),
        "norm.sites={lstm.input:{bias:false},lstm.hidden:{bias:false},lstm.cell:{}}",
    ),
    "gate_layer": ("norm=group", "norm.sites={lstm:{num_groups:4},lstm.cell:{num_groups:1}}"),
}


@pytest.mark.parametrize("name", [n for n in compose.choices("norm") if "like" in compose.declaration("norm", n)])
def test_a_preset_has_the_id_of_what_it_stands_for_and_its_own_name(name: str) -> None:
    (preset,) = plan.train_specs([*RECALL, f"norm={name}"], False)
    (written,) = plan.train_specs([*RECALL, *PRESETS[name]], False)
    assert preset.id == written.id and preset.arm == f"recall_lstm-{name}"
    assert identity.run_id(compose.restore(compose.stored_form(preset.config))) == preset.id
    (at_one,) = plan.train_specs([*RECALL, "norm=layer", f"norm.sites={{lstm.cell:{name}}}"], False)
    assert at_one.arm == f"recall_lstm-{name}" and at_one.sites["lstm.cell"] == preset.sites["lstm.cell"]
    (other,) = plan.train_specs([*RECALL, f"norm={name}", "norm.eps=1e-3"], False)
    assert other.id != preset.id and other.sites["lstm.input"].options["eps"] == 1e-3


def test_a_preset_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "norm").mkdir()
    file = tmp_path / "norm" / "mine.yaml"
    file.write_text("{name: mine, eps: 1e-3, declares: {like: gate_layer, title: t, at: {cell: {bias: false}}}}")
    (spec,) = plan.train_specs([*RECALL, "norm=mine"], False, tmp_path)
    found = {path: (c.name, c.options["num_groups"], c.options["bias"]) for path, c in spec.sites.items()}
    assert found == {
        "lstm.input": ("group", 4, True),
        "lstm.hidden": ("group", 4, True),
        "lstm.cell": ("group", 1, False),
    }
    refused = {
        "like: gate_layr": "norm=gate_layr is not a normalizer",
        "like: layer, at: {cell: {bais: false}}": "bais",
    }
    for declared, words in refused.items():
        plan.forget()
        file.write_text(f"{{name: mine, declares: {{{declared}}}}}")
        with pytest.raises(NormbenchError, match=words):
            plan.train_specs([*RECALL, "norm=mine"], False, tmp_path)
    plan.forget()


def different(group: str, name: str) -> list[str]:
    """For every option of a choice one word that gives it another value."""
    node, words = compose.choice(group, name), []
    node = node.get(group, node)
    for option, spec in compose.declaration(group, name)["options"].items():
        if not spec.get("hashed", True):
            continue
        value = node[option]
        if spec.get("list"):
            new: Any = [*value, *(value[-1:] or spec.get("choices", [0.25])[:1])] if option != "betas" else [0.8, 0.99]
        elif spec["type"] == "bool":
            new = str(not value).lower()
        elif "choices" in spec:
            new = next(c for c in spec["choices"] if c != value)
        elif option == compose.declaration(group, name).get("groups"):
            new = 3 - min(value, 2)  # 1 or 2: both divide these numbers of features
        else:
            new = (
                (value + 1 if value != spec.get("max") else value - 1) if spec["type"] == "int" else value * 0.5 or 0.25
            )
        words.append(f"{group}.{option}={new}".replace(" ", ""))
    return words


def served() -> list[str]:
    """The normalizers that can stand in a network without space; the rule is one for all of them."""
    return [norm for norm in compose.choices("norm") if not compose.declaration("norm", norm).get("needs")]


@pytest.mark.parametrize("norm", served())
def test_every_option_of_the_maths_counts(norm: str) -> None:
    """Taken from the declarations, so a new option is covered by being there."""
    words = ["seed=2", "train.batch_size=100", *different("model", "mnist_mlp"), *different("data", "digits")]
    words += [*different("optim", "adam"), *different("norm", norm)]
    if norm != "none":
        facts = compose.declaration("norm", norm)
        policy = "keep" if facts.get("recentres") and facts.get("own_shift", True) else "drop"
        words += [f"norm.preceding_bias={policy}"]
        if facts["kinds"] != ["block"]:  # the logits are none
            words += ["norm.sites=[logits]", "norm.sites=[hidden,logits]"]
    usual = (f"norm={norm}", "optim.weight_decay=0.1")  # without it there is nothing that decay_norms leaves out
    ids = {word: tiny.spec(*usual, word).id for word in words}
    assert len({tiny.spec(*usual).id, *ids.values()}) == len(words) + 1, ids


def edited(file: Path, *pairs: tuple[str, str]) -> None:
    text = file.read_text()
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    file.write_text(text)
    plan.forget()


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The shipped choices, to be edited."""
    folder = tmp_path / "conf"
    shutil.copytree(compose.conf_dir(), folder)
    monkeypatch.setattr(compose, "conf_dir", lambda: folder)
    plan.forget()
    yield folder
    monkeypatch.undo()
    plan.forget()


NEW = "new: {type: float}"
LATER = {  # by the option that came later: the file of a component, and what it has then
    "norm.new": ("norm/layer.yaml", ("name: layer", "name: layer\nnew: 0.5"), ("  options:", f"  options:\n    {NEW}")),
    "optim.new": ("optim/adam.yaml", ("name: adam", "name: adam\nnew: 0.5"), ("  options:", f"  options:\n    {NEW}")),
    "data.new": (
        "data/digits.yaml",
        ("name: digits", "name: digits\nnew: 0.5"),
        ("  options:", f"  options:\n    {NEW}"),
    ),
    "model.new": (
        "model/mnist_mlp.yaml",
        ("  name: mnist_mlp", "  name: mnist_mlp\n  new: 0.5"),
        ("    options:", f"    options:\n      {NEW}"),
    ),
    "train.new": ("config.yaml", ("\ntrain:", "\ntrain:\n  new: 0.5"), ("  options:", f"  options:\n    train.{NEW}")),
}


@pytest.mark.parametrize("option", LATER)
def test_an_option_that_comes_later_changes_no_id(option: str, conf: Path) -> None:
    """With its default a run is the old one, which lacks the option, and with another value it is not."""
    before = tiny.spec("norm=layer")
    file, *pairs = LATER[option]
    edited(conf / file, *pairs)
    part, _, key = option.partition(".")
    spec = tiny.spec("norm=layer")
    assert spec.config[part][key] == 0.5 and spec.id == before.id
    assert tiny.spec("norm=layer", f"{option}=0.25").id != before.id
    restored = compose.restore(before.stored_config())
    assert restored[part][key] == 0.5 and identity.run_id(restored) == before.id and spec.is_of(before.stored_config())
    if part == "norm":
        assert tiny.spec("norm=none", "norm.sites={hidden:layer}").id == before.id
        assert spec.accepts(before.stored_config())


def test_an_option_at_its_default_is_not_hashed() -> None:
    """That is the value of the component's own file, as the number that it stands for."""
    maths = tiny.spec("norm=layer", "norm.eps=1e-5", "norm.gain_init=1", "optim.lr=0.01").maths
    assert maths["sites"]["hidden.0"]["options"] == {} and maths["optim"]["options"] == {"lr": 0.01}
    assert maths["model"]["options"] == {"hidden_sizes": [8]} and maths["data"]["options"] == {}
    assert maths["train"] == {"maths": 1, "batch_size": 210}, "a model's file gives it, so it is no default"
    (spec,) = plan.train_specs(["model=imdb_rnn", "data=made_reviews"], False)
    model = compose.choice("model", "imdb_rnn")
    set_there = {key: value for key, value in model["optim"].items() if value != compose.defaults("optim", "adam")[key]}
    assert set_there and set_there.items() <= spec.maths["optim"]["options"].items()


def test_a_presets_values_are_hashed_as_what_it_stands_for() -> None:
    (spec,) = plan.train_specs([*RECALL, "norm=recurrent_batch"], False)
    assert spec.maths["sites"]["lstm.input"] == {
        **{"name": "batch", "maths": 1, "kind": "pre_activation", "keep_bias": True},
        "options": {"stats": "per_step", "gain_init": 0.1, "bias": False},
    }


def test_every_option_of_a_choice_of_ones_own_is_hashed(tmp_path: Path) -> None:
    (tmp_path / "norm").mkdir()
    shipped = (compose.conf_dir() / "norm" / "rms.yaml").read_text()
    (tmp_path / "norm" / "mine.yaml").write_text(shipped.replace("name: rms", "name: mine", 1))
    spec = tiny.spec("norm=mine", config_dir=tmp_path)
    assert spec.maths["sites"]["hidden.0"]["options"] == dict(compose.defaults("norm", "rms"))
    assert tiny.spec("norm=rms").maths["sites"]["hidden.0"]["options"] == {}
    assert compose.defaults("norm", "mine") == {}


@pytest.mark.parametrize(
    ("group", "words"), [("clip", "clip=global clip.at"), ("schedule", "schedule=step schedule.step_size")]
)
def test_the_choice_none_is_not_hashed(group: str, words: str) -> None:
    spec = tiny.spec()
    assert group not in spec.maths and tiny.spec(f"{group}=none").id == spec.id
    first, second = (tiny.spec(*f"{words}={value}".split()) for value in (1, 2))
    assert len({spec.id, first.id, second.id}) == 3
    stored = json.loads(json.dumps(first.stored_config()))
    assert identity.run_id(compose.restore(stored)) == first.id


def test_the_sum_of_a_set_is_declared() -> None:
    """It is made of what the YAML has of the set, and never of what lies on this disk."""
    counted = {"none": 0, "batches": 0, "texts": 0, "other": 0}
    for name in compose.choices("data"):
        facts = compose.declaration("data", name)
        if "files_of" in facts:
            assert "sha256" not in facts
            continue
        files, official = facts.get("files") or {}, facts.get("batches")
        texts = files and {Path(file).suffix for file in files} <= {".tsv"}
        kind = "batches" if official else "texts" if texts else "other"  # those of arrays and rows need the files
        kind = "none" if facts["sha256"] == "none" else kind
        counted[kind] += 1
        if kind in ("batches", "texts"):
            assert facts["sha256"] == data_files.checksum(official or [*files.values()]), name
    assert all(counted.values()), counted


def test_data_and_maths_versions_count() -> None:
    config = tiny.spec("norm=layer").config
    first = identity.run_id(config)
    for path in (
        ("declares", "maths"),
        ("model", "declares", "maths"),
        ("data", "declares", "maths"),
        ("optim", "declares", "maths"),
        ("norm", "declares", "maths"),
    ):
        changed = json.loads(json.dumps(config))
        node = changed
        for key in path[:-1]:
            node = node[key]
        node[path[-1]] += 1
        assert identity.run_id(changed) != first, path
    changed = json.loads(json.dumps(config))
    changed["data"]["declares"]["sha256"] = "0" * 64
    assert identity.run_id(changed) != first


def test_titles_and_sources_do_not_count() -> None:
    config = json.loads(json.dumps(tiny.spec("norm=layer").config))
    first = identity.run_id(config)
    for group in ("model", "data", "optim", "norm"):
        config[group]["declares"] |= {"title": "another", "source": "another"}
    assert identity.run_id(config) == first


WORDS = st.fixed_dictionaries(
    {},
    optional={
        "seed": st.integers(0, 10**9),
        "train.batch_size": st.integers(2, 1200),
        "optim.lr": st.floats(0, 10, allow_nan=False),
        "optim.eps": st.floats(0, 1, allow_nan=False),
        "model.activation": st.sampled_from(["relu", "tanh", "sigmoid"]),
        "model.hidden_sizes": st.lists(st.integers(1, 10**6), min_size=1, max_size=4),
        "norm.gain_init": st.floats(-1e30, 1e30, allow_nan=False),
        "norm.affine": st.booleans(),
        "norm.eps_mode": st.sampled_from(["in", "out"]),
        "norm.sites": st.sampled_from(
            ["[hidden]", "[logits]", "[hidden,logits]", "{hidden:layer}", "{logits:{eps:0.5}}"]
        ),
        "train.epochs": st.integers(1, 10**6),
    },
)


def made(words: dict[str, Any]) -> Spec:
    return tiny.spec("norm=layer", *(f"{k}={str(v).lower() if isinstance(v, bool) else v}" for k, v in words.items()))


@settings(max_examples=100)
@given(WORDS, WORDS)
def test_canonical_form_and_ids(words: dict[str, Any], others: dict[str, Any]) -> None:
    spec, other = made(words), made(others)
    maths = spec.maths
    text = identity.canonical(maths)
    assert identity.canonical(json.loads(text)) == text
    assert (spec.id == other.id) == (maths == other.maths)
    stored = json.loads(json.dumps(compose.stored_form(spec.config)))
    restored = compose.restore(stored)
    assert identity.run_id(restored) == spec.id
    assert compose.stored_form(restored) == stored


def test_ids_hold_in_another_process_and_folder(tmp_path: Any) -> None:
    import os
    import subprocess
    import sys

    code = (
        "from normbench.config.plan import experiment_spec as e\n"
        "print(e('ln2016/fig6', 'ln', 'paper', ['train.batch_size=128', 'seed=1']).id)"
    )
    environment = os.environ | {"PYTHONPATH": child.path(), "PYTHONHASHSEED": "5"}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stdout.strip() == LN, done.stderr


def test_the_usual_evaluation_of_a_stored_run_is_known_however_it_was_written() -> None:
    asked = tiny.spec("norm=batch_layer", "norm.configuration=TTTT")
    for words, same in (
        (("norm=batch_layer", "norm.configuration=TTTT"), True),
        (("norm=layer", "norm.sites={hidden:{name:batch_layer,configuration:TTTT}}"), True),
        (("norm=batch_layer", "norm.configuration=FFFF"), False),
        (("norm=layer", "norm.sites={hidden:batch_layer}"), False),
    ):
        spec = tiny.spec(*words)
        stored = compose.stored_form(spec.config)
        assert asked.id == spec.id and asked.accepts(stored) is same, words
    stored = compose.stored_form(asked.config)
    for norm in ({**stored["norm"], "colour": "green"}, {**stored["norm"], "name": "of_another_version"}, {}):
        assert not asked.accepts({**stored, "norm": norm}), "it is repeated"


def test_what_a_worker_gets_says_nothing_of_the_launcher() -> None:
    """A plan is named by it: the same runs asked for with other words for the batch system are the same plan."""
    words = ["model=mnist_mlp", "data=digits", "norm=none", "seed=1", "launcher=slurm"]
    first, second = (
        plan.train_specs([*words, *more], False)[0] for more in ((), ("launcher.options=['--begin=now']",))
    )
    assert first.to_json() == second.to_json()
