"""Hydra gets the shipped choices as their files have them, each read once; and what comes beside them."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest
import yaml
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from omegaconf import OmegaConf

from normbench import reading
from normbench.config import choice_file, compose, experiment_keys, grammar, plan, shipped
from normbench.errors import NormbenchError


@pytest.mark.parametrize("name", compose.choices("experiment"))
def test_every_shipped_experiment_has_the_keys_that_one_may_have(name: str) -> None:
    experiment_keys.check(compose.choice_path("experiment", name), compose.choice("experiment", name), None)


@pytest.mark.parametrize("model", compose.choices("model"))
def test_what_is_declared_may_stay_outside(model: str) -> None:
    words = [f"model={model}", "schedule=cosine"]  # which has no file of its own
    found = shipped.composed(words, own=False)
    assert found == shipped.composed(words, own=True) and found["schedule"] == compose.choice("schedule", "cosine")
    assert found["model"]["declares"]["title"] and found["declares"]["options"]


def test_it_is_what_hydra_composes_by_itself(tmp_path: Path) -> None:
    words = ["model=mnist_mlp", "norm=batch", "optim=keras_adam", "clip=global", "launcher=pool"]
    found = shipped.composed(words, own=False)
    shutil.copytree(compose.conf_dir(), tmp_path / "conf")  # not the shipped folder: our source stands aside
    with initialize_config_dir(str(tmp_path / "conf"), version_base="1.3"):
        plain = hydra_compose("config", overrides=words)
    assert found == OmegaConf.to_container(plain)


def test_each_file_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: Counter[str] = Counter()
    real = reading.read
    monkeypatch.setattr(reading, "read", lambda path, most: (opened.update([str(path)]), real(path, most))[1])
    compose.forget()
    plan.train_specs(["model=mnist_mlp,lenet5", "norm=none,batch,layer", "seed=range(3)"], True)
    assert opened[str(compose.conf_dir() / "norm" / "layer.yaml")] == 1 and set(opened.values()) == {1}


def test_a_file_that_was_changed_is_read_anew(tmp_path: Path) -> None:
    (tmp_path / "norm").mkdir()
    text = (compose.conf_dir() / "norm" / "layer.yaml").read_text().replace("name: layer", "name: own")
    seen = []
    for eps in ("1.0e-5", "2.0e-5"):
        (tmp_path / "norm" / "own.yaml").write_text(text.replace("eps: 1.0e-5", f"eps: {eps}"))
        compose.forget()
        seen.append(compose.compose(grammar.parse(["model=mnist_mlp", "norm=own"]), tmp_path)["norm"]["eps"])
    assert seen == [1e-5, 2e-5]


def test_a_broken_file_that_was_mended_is_read_anew(tmp_path: Path) -> None:
    (tmp_path / "norm").mkdir()
    text = (compose.conf_dir() / "norm" / "layer.yaml").read_text()
    for broken in ("a: [", "a: 1\na: 2"):
        (tmp_path / "norm" / "own.yaml").write_text(broken)
        with pytest.raises(NormbenchError, match=r"own\.yaml cannot be read"):
            compose.choice("norm", "own", tmp_path)
        (tmp_path / "norm" / "own.yaml").write_text(text.replace("name: layer", "name: own"))
        assert compose.choice("norm", "own", tmp_path)["name"] == "own"
        compose.forget()


def test_what_is_composed_once_is_never_written_into(tmp_path: Path) -> None:
    """By what the choices give each other later."""
    words = grammar.parse(["model=skip_thoughts", "data=book_corpus"])
    first = compose.compose(words)
    compose._chosen.cache_clear()
    assert compose.compose(words) == first


@pytest.mark.parametrize(
    "text",
    ["a: 1e-3", "a: -1E+5", "a: 1_0e2", "a: .5e+3", "a: 1.5e3", "a: e3", "a: 1e", "a: 1__0e3", "a: 0x1e3", "a: yes",
     "a: 1:30", "a: .inf", "1: a\n'1': b", "a: ???", "", "a: [1e3, {b: 2e-1}]"],
)  # fmt: skip
def test_yaml_is_read_as_omegaconf_reads_it(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(text)
    assert repr(choice_file.content(tmp_path / "x.yaml")) == repr(OmegaConf.to_container(OmegaConf.create(text)))


@pytest.mark.parametrize("text", ["a: 1\na: 2", "b: {a: 1, a: 1}"])
def test_no_key_stands_twice(text: str, tmp_path: Path) -> None:
    (tmp_path / "norm").mkdir()
    (tmp_path / "norm" / "own.yaml").write_text(text)
    with pytest.raises(yaml.YAMLError, match="duplicate key a"):
        choice_file.content(tmp_path / "norm" / "own.yaml")
    with pytest.raises(NormbenchError, match=r"own\.yaml cannot be read"):
        compose.choice("norm", "own", tmp_path)


@pytest.mark.parametrize("model", ["mnist_mlp", "lenet5", "imdb_rnn", "attentive_reader", "skip_thoughts"])
def test_a_normalizer_that_is_put_in_is_as_hydra_merges_it(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for norm in ("none", "layer", "batch", "batch_layer"):
        selection = (("model", model), ("norm", norm))
        put_in = compose._compose_groups.__wrapped__(selection, None)
        with monkeypatch.context() as patched:
            patched.setattr(compose, "ALONE", "")
            assert compose._compose_groups.__wrapped__(selection, None) == put_in
