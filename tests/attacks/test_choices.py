"""Choices of one's own that mean harm: one line that names the file, and no value of the environment in a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from normbench.compare import configuration
from normbench.config import plan
from normbench.config.compose import conf_dir
from normbench.errors import NormbenchError

SECRET = "NORMBENCH_TEST_SECRET"
OWN = (conf_dir() / "norm" / "layer.yaml").read_text().replace("name: layer", "name: own")
BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{b}: &{b} [{', '.join(10 * [f'*{a}'])}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)
HOSTILE: dict[str, tuple[str, str]] = {
    "a value of the environment": (OWN.replace("eps: 1.0e-5", f"eps: ${{oc.env:{SECRET}}}"), "interpolations"),
    "one for a key": (f"{OWN}\n'${{oc.env:{SECRET}}}': 1\n", "interpolations"),
    "a bomb of aliases": (BOMB + OWN, "more than 100000 values"),
    "an alias of itself": (f"{OWN}\nmore: &x [*x]\n", "too deeply"),
    "many brackets": (f"{OWN}\nmore: {'[' * 10**5}\n", "nest"),  # libyaml's own words, or ours
    "many dashes": (f"{OWN}\nmore:\n  {'- ' * 400}1\n", "too deeply"),
    "an object of Python": (f"{OWN}\nmore: !!python/object/apply:os.getcwd []\n", "python/object"),
    "a megabyte": (f"{OWN}\nmore: {'x' * 10**6}\n", "characters"),
    "ten megabytes": (f"{OWN}\nmore: {'x' * 10**7}\n", "larger than 1 MiB"),
    "a number without end": (f"{OWN}\nmore: {'9' * 10**4}\n", "more than 1000 characters"),
    "a number to base 60": (f"{OWN}\nmore: {':'.join(['1'] * 10**5)}\n", "more than 1000 characters"),
    "no whole number": (f'{OWN}\nmore: !!int ""\n', "range"),
    "no number": (f'{OWN}\nmore: !!float ""\n', "range"),
    "no time": (f'{OWN}\nmore: !!timestamp "x"\n', "groupdict"),
    "no truth": (f'{OWN}\nmore: !!bool "x"\n', "x"),
    "a number beyond all": (f"{OWN}\nmore: {':'.join(['1'] * 400)}.5\n", "large"),
}


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    monkeypatch.setenv(SECRET, "5")

    def write(text: str, name: str = "norm/own.yaml") -> Path:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="latin-1")
        return tmp_path

    return write


def refused(words: list[str], folder: Path) -> str:
    with pytest.raises(NormbenchError) as caught:
        plan.train_specs(["model=mnist_mlp", "data=digits", "train.epochs=1", *words], False, folder)
    assert caught.value.code == 2
    return str(caught.value)


@pytest.mark.parametrize("how", HOSTILE)
def test_a_hostile_choice_is_one_line(how: str, own: Callable[..., Path]) -> None:
    text, reason = HOSTILE[how]
    folder = own(text)
    line = refused(["norm=own"], folder)
    assert str(folder / "norm" / "own.yaml") in line and reason in line and len(line) < 1000


def test_one_that_another_choice_brings_along(own: Callable[..., Path]) -> None:
    model = yaml.safe_load((conf_dir() / "model" / "mnist_mlp.yaml").read_text())
    text = (conf_dir() / "model" / "mnist_mlp.yaml").read_text().replace("name: mnist_mlp", "name: mine")
    data = next(iter(d for entry in model["defaults"] if isinstance(entry, dict) for d in [entry] if "data" in str(d)))
    (key, name), *_ = data.items()
    folder = own(text.replace(f"{key}: {name}", f"{key}: bomb"), "model/mine.yaml")
    own(BOMB, "data/bomb.yaml")
    with pytest.raises(NormbenchError, match="more than 100000 values"):
        plan.train_specs(["model=mine"], False, folder)


def test_an_experiment_with_a_value_of_the_environment(own: Callable[..., Path]) -> None:
    folder = own(
        "base: [model=mnist_mlp, data=digits]\narms:\n  a: [norm=layer]\n"
        f"fidelities:\n  smoke: {{set: ['seed=${{oc.env:{SECRET}}}']}}\n",
        "experiment/own.yaml",
    )
    with pytest.raises(NormbenchError, match="interpolations"):
        plan.train_specs(["experiment=own", "arm=a"], False, folder)


@pytest.mark.parametrize("word", ["lr=" + 3000 * "[", "norm=" + 3000 * "{", "seed=&x [*x]", "seed=" + 5000 * "9"])
def test_a_hostile_filter_fits_nothing(word: str) -> None:
    assert not configuration._fits("3", word.partition("=")[2])
