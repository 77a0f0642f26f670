"""The shipped choices are composed as Hydra would, each file read once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import yaml
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from omegaconf import OmegaConf

from normbench.config import choice_file, compose, grammar, plan
from normbench.errors import NormbenchError
from normbench.files import reading


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("norm=batch", "clip=global", "launcher=pool"), ("norm=layer", "logger=wandb")])
@pytest.mark.parametrize("model", compose.choices("model"))
def test_they_are_composed_as_hydra_composes_them(model: str, words: tuple[str, ...], tmp_path: Path) -> None:
    for path, node in compose.torch_choices().items():  # those that have no file of their own
        listed = tmp_path / path.relative_to(compose.conf_dir())
        listed.parent.mkdir(exist_ok=True)
        listed.write_text(yaml.safe_dump(node))
    asked = [f"model={model}", *words]
    with initialize_config_dir(str(compose.conf_dir()), version_base="1.3"):
        overrides = [*asked, f"hydra.searchpath=[file://{tmp_path}]"]
        merged = OmegaConf.to_container(hydra_compose("config", overrides=overrides))
    found = compose._unchecked(grammar.parse(asked), None)
    for config in (merged, found):
        assert isinstance(config, dict)
        del config["data"]["declares"]  # in which names of other sets are replaced by what these declare
    assert found == merged


def test_what_is_not_understood_of_a_models_defaults_is_refused(tmp_path: Path) -> None:
    text = (compose.conf_dir() / "model" / "mnist_mlp.yaml").read_text()
    path = tmp_path / "model" / "own.yaml"
    path.parent.mkdir()
    for entry in ("mnist_mlp", "/dta: mnist", "optional /data: mnist", "/data@model: mnist", "{}", "5"):
        path.write_text(text.replace("name: mnist_mlp", "name: own").replace("/data: mnist", entry))
        plan.forget()
        with pytest.raises(NormbenchError, match=r"own\.yaml: defaults: .* is no choice\. Write /GROUP: NAME"):
            compose.compose(grammar.parse(["model=own"]), tmp_path)


def test_a_models_file_sets_parts_and_choices_alone(tmp_path: Path) -> None:
    text = (compose.conf_dir() / "model" / "mnist_mlp.yaml").read_text().replace("name: mnist_mlp", "name: own")
    path = tmp_path / "model" / "own.yaml"
    path.parent.mkdir()
    for more, says in (
        ("evl: {every: 2}", "'evl' is not a key. Did you mean 'eval'?"),
        ("declares: {}", "'declares' is not a key."),
        ("eval: 2", "eval: 2 must be a map"),
        ("clip:", "clip must be a map"),
    ):
        path.write_text(f"{text}\n{more}\n")
        plan.forget()
        with pytest.raises(NormbenchError) as caught:
            compose.compose(grammar.parse(["model=own"]), tmp_path)
        assert f"{path}: {says}" in str(caught.value)


def test_each_file_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: Counter[str] = Counter()
    real = reading.read
    monkeypatch.setattr(reading, "read", lambda path, most: (opened.update([str(path)]), real(path, most))[1])
    plan.forget()
    plan.train_specs(["model=mnist_mlp,lenet5", "norm=none,batch,layer", "seed=range(3)"], True)
    assert opened[str(compose.conf_dir() / "norm" / "layer.yaml")] == 1 and set(opened.values()) == {1}


def test_a_file_that_was_changed_is_read_anew(tmp_path: Path) -> None:
    (tmp_path / "norm").mkdir()
    text = (compose.conf_dir() / "norm" / "layer.yaml").read_text().replace("name: layer", "name: own")
    seen = []
    for eps in ("1.0e-5", "2.0e-5"):
        (tmp_path / "norm" / "own.yaml").write_text(text.replace("eps: 1.0e-5", f"eps: {eps}"))
        plan.forget()
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
        plan.forget()


def test_what_is_composed_once_is_never_written_into(tmp_path: Path) -> None:
    """By what the choices give each other later."""
    words = grammar.parse(["model=skip_thoughts", "data=book_corpus"])
    first = compose.compose(words)
    compose._chosen.cache_clear()
    assert compose.compose(words) == first


@pytest.mark.parametrize(
    "text",
    ["a: 1e-3", "a: -1E+5", "a: 1_0e2", "a: .5e+3", "a: 1.5e3", "a: e3", "a: 1e", "a: 1__0e3", "a: 0x1e3", "a: yes",
     "a: 1:30", "a: .inf", "1: a", "'1': b", "a: ???", "", "a: [1e3, {b: 2e-1}]"],
)  # fmt: skip
def test_yaml_is_read_as_omegaconf_reads_it(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(text)
    assert repr(choice_file.content(tmp_path / "x.yaml")) == repr(OmegaConf.to_container(OmegaConf.create(text)))


def test_a_models_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "own.yaml").write_text("model: [1")
    with pytest.raises(NormbenchError, match=r"model/own\.yaml cannot be read"):
        compose.compose(grammar.parse(["model=own", "data=digits"]), tmp_path)


@pytest.mark.parametrize("text", ["a: 1\na: 2", "b: {a: 1, a: 1}"])
def test_no_key_stands_twice(text: str, tmp_path: Path) -> None:
    (tmp_path / "norm").mkdir()
    (tmp_path / "norm" / "own.yaml").write_text(text)
    with pytest.raises(NormbenchError, match="duplicate key a"):
        choice_file.content(tmp_path / "norm" / "own.yaml")
    with pytest.raises(NormbenchError, match=r"own\.yaml cannot be read"):
        compose.choice("norm", "own", tmp_path)
