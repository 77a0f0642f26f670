"""Reads an experiment's file. `experiment_keys` has its keys; the tests alone validate the shipped ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from normbench.config import compose, grammar
from normbench.config.grammar import Override
from normbench.errors import BadInput, NormbenchError


def load(name: str, config_dir: Path | None = None) -> compose.Config:
    """Arms, axes, conditions, fidelities and the rest from `conf/experiment/NAME.yaml`, every key of them given."""
    node, path = compose.choice("experiment", name, config_dir), compose.choice_path("experiment", name, config_dir)
    if not compose.is_shipped(path):
        from normbench.config import experiment_keys

        experiment_keys.check(path, node, config_dir)
    return {"title": name, "axes": {}, "conditions": [], "controls": {}, "base": [], "limits": [], "seeds": [], **node}


@contextmanager
def naming(path: Path, place: str) -> Iterator[None]:
    """What is wrong with an experiment's words comes with its file and place."""
    try:
        yield
    except NormbenchError as error:
        line = str(error) if str(error).startswith(f"{path}: ") else f"{path}: {place}: {error}"
        raise type(error)(line) from None


def parse(path: Path, key: str, words: Sequence[str]) -> list[Override]:
    """The words of a place in the file, each with one value."""
    with naming(path, key):
        parsed = grammar.parse(words)
    for override in parsed:
        if override.is_sweep_override():
            raise BadInput(
                f"{path}: {key}: '{override.input_line}' has several values. An axis has, or an arm for each; "
                "a list is KEY=[a,b]."
            )
    return parsed
