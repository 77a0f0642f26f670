"""YAML by libyaml, and configurations that were read before, say what `yaml.safe_load` does, or that it is no JSON."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from normbench import reading
from normbench.runs import yaml_text

leaves = st.one_of(
    st.text(max_size=90), st.integers(), st.floats(allow_nan=False), st.booleans(), st.none(), st.dates()
)
names = st.one_of(st.sampled_from(["config", "seed", "yes", "null", "1", "lstm.*.input"]), st.text(max_size=9))
trees = st.recursive(
    leaves, lambda t: st.one_of(st.lists(t, max_size=3), st.dictionaries(names, t, max_size=4)), max_leaves=12
)


@given(
    st.dictionaries(names, trees, max_size=2),
    st.dictionaries(names, trees, max_size=3),
    st.integers(0, 300),
    st.sampled_from(["", "\n", "&", "- ", "'", ": ", "config:\n", "  seed: 3\n"]),
)
@settings(max_examples=80, deadline=None)
def test_a_known_configuration_is_the_whole_document(
    labels: dict[str, Any], tree: dict[str, Any], place: int, put: str
) -> None:
    known = yaml_text.Configurations()
    texts = [
        yaml.safe_dump({"id": "a", **labels, "config": {"seed": seed, **tree}}, sort_keys=False) for seed in (1, 20)
    ]
    for document in (*texts, texts[0][:place] + put + texts[0][place:]):
        try:
            wanted = yaml.safe_load(document)
            reading.check_json(wanted)
        except (yaml.YAMLError, ValueError):
            with pytest.raises((yaml.YAMLError, ValueError)):
                known.load(document)
            continue
        assert known.load(document) == wanted == known.load(document)


DEEP = {
    "[": "[" * 10**5,
    "-": "- " * 10**5,
    "?": "? " * 10**5,
    "{": "a: {b: " * 10**4,
    "spaces": f"a:\n{' ' * 5000}b: 1",
}


@pytest.mark.parametrize("form", DEEP)
def test_deep_yaml_is_an_error_and_no_crash(form: str) -> None:
    for load in (yaml_text.load, yaml_text.Configurations().load):
        with pytest.raises(yaml.YAMLError):
            load(DEEP[form])


LARGE = {
    "it stands for more than 100000 values": "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
    + "".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]\n" for a, b in zip("abcde", "bcdef", strict=True)),
    "it is nested too deeply": "config: &me\n  norm: *me\n",
    "a number in it is too large": f"config:\n  norm:\n    eps: 1{'0' * 400}\n",
}


@pytest.mark.parametrize("reason", LARGE)
def test_what_a_few_lines_blow_up_is_an_error(reason: str) -> None:
    for load in (yaml_text.load, yaml_text.Configurations().load):
        with pytest.raises(yaml.YAMLError, match=f"^{reason}$"):
            load(LARGE[reason])
