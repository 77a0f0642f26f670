"""Words that need no Hydra: Hydra reads the same in them, and the shipped experiments have no others."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from normbench.config import compose, grammar
from normbench.errors import NormbenchError

PIECES = (
    *("1", "-2", "0.5", "1e-3", ".5", "5.", "+5", "007", "1_0", "-0", "1E5", "e5", "true", "False", "null", "NaN"),
    *("inf", "-inf", "a", "b-c", "lstm.*.cell", "x/y.py", "'x y'", "''", "'", '"', "[", "]", "{", "}", ",", ":", " "),
    *("=", "-", "(", ")", "\\", "$", "\t", "é", "a:b", "range(1,3)", "~", "@"),
)


def typed(value: Any) -> Any:
    """A value in which 1, 1.0 and True are different, and NaN is itself."""
    if isinstance(value, list):
        return [typed(item) for item in value]
    if isinstance(value, dict):
        return [(key, typed(item)) for key, item in value.items()]
    return type(value), repr(value)


def agrees(word: str) -> bool:
    """Whether the word needs no Hydra, which reads the same then."""
    plain = grammar._plain(word)
    if plain is not None:
        hydra = grammar._by_hydra(word)
        assert (plain.key_or_group, plain.input_line) == (hydra.key_or_group, hydra.input_line)
        assert typed(plain.value()) == typed(hydra.value()) and not hydra.is_sweep_override()
    return plain is not None


def words(node: Any) -> set[str]:
    """All that look like an override in an experiment's file."""
    if isinstance(node, dict):
        return {word for value in node.values() for word in words(value)}
    if isinstance(node, list):
        return {word for value in node for word in words(value)}
    return {node} if isinstance(node, str) and "=" in node and " " not in node.partition("=")[0] else set()


def test_the_words_of_all_experiments_need_no_hydra() -> None:
    named = {word for path in (compose.conf_dir() / "experiment").rglob("*.yaml")
             for word in words(yaml.safe_load(path.read_text()))}  # fmt: skip
    assert len(named) > 150 and [word for word in sorted(named) if not agrees(word)] == []


@given(st.lists(st.sampled_from(PIECES), max_size=8))
def test_a_word_that_needs_no_hydra_means_the_same_to_hydra(pieces: list[str]) -> None:
    agrees("norm.sites=" + "".join(pieces))


@pytest.mark.parametrize("key", ["norm", "optim.lr", "a.b.c", "+norm", "~norm", "norm@x", "", "1", "a..b", "$a", "a/b"])
def test_keys_too(key: str) -> None:
    agrees(f"{key}=1")


@pytest.mark.parametrize(
    "word",
    ["norm=none,layer", "seed=range(1,3)", "a=[x", "a={1:x}", "a=", "a=inf", 'a="x"', "a=[b:c]", "a=b c", "a={'b':1}"],
)
def test_what_only_hydra_can_read_is_left_to_it(word: str) -> None:
    assert grammar._plain(word) is None


def test_a_value_is_made_anew() -> None:
    (override,) = grammar.parse(["norm.sites=[hidden]"])
    override.value().append("logits")
    assert override.value() == ["hidden"]


def test_what_none_can_read_is_one_line() -> None:
    with pytest.raises(NormbenchError, match=r"\[x"):
        grammar.parse(["norm.sites=[x"])
