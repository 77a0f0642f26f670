"""How a map of keys is read into a class, and where a message points."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest

from normbench.core import keys
from normbench.core.keys import NULL, Before, Count, Range, Text, above, at_most, below, hidden, longer, of, one_of
from normbench.errors import NormbenchError


@dataclass(frozen=True)
class Level:
    share: Annotated[float, above(0), at_most(1)]


@dataclass(frozen=True)
class Number:
    kind: Literal["final", "gain", "time"]
    split: Text
    share: Annotated[float, below(1)] = of("gain")
    least: float = of("gain", "time", default=0.5)
    level: float | Level = of("time")
    of_: Text | None = None


@dataclass(frozen=True)
class Claim:
    id: Text
    numbers: Annotated[tuple[Number, ...], longer(1)]

    def check(self, given: Any) -> None:
        keys.check_ids([number.split for number in self.numbers])


Fidelity = Annotated[str, one_of("paper", "smoke")]
AtPaper = Before(lambda given: {"paper": given} if "from" in given else given)


@dataclass(frozen=True)
class File:
    claims: tuple[Claim, ...]
    term: tuple[Count, Mapping[Text, Any]] | None = None
    mode: Annotated[str, one_of("eval", "train")] = "eval"
    ours: bool = False
    free: Annotated[Mapping[Text, Any] | None, NULL] = None
    seeds: Annotated[Mapping[Fidelity, Range], AtPaper] = field(default_factory=dict)
    path: str = hidden("")


FINAL = {"kind": "final", "split": "test"}
WHOLE: dict[str, Any] = {
    "claims": [{"id": "C1", "numbers": [
        {**FINAL, "of": "x"}, {"kind": "gain", "split": "a", "share": 0},
        {"kind": "time", "split": "b", "level": {"share": 1}}, {"kind": "time", "split": "c", "level": 2, "least": 3},
    ]}],
    "term": [1, {"arm": 2}], "ours": True, "free": None, "seeds": {"from": 6, "to": 10},
}  # fmt: skip


def test_a_map_becomes_its_class() -> None:
    file = keys.load(File, WHOLE, "x.yaml")
    final, gain, relative, absolute = file.claims[0].numbers
    assert (final.of_, final.share, final.least, gain.share, gain.least) == ("x", None, 0.5, 0, 0.5)
    assert relative.level == Level(1) and absolute.level == 2 and absolute.least == 3
    assert type(gain.share) is type(absolute.level) is int, "a whole number stays whole"
    assert file.term == (1, {"arm": 2}) and file.free is None and file.seeds == {"paper": Range(6, 10)}
    assert (file.mode, file.ours, file.path) == ("eval", True, "")
    with pytest.raises(dataclasses.FrozenInstanceError):
        file.mode = "train"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("modes", "x", "'modes' is not a key. Did you mean 'mode'?"),
        ("path", "x", "'path' is not a key."),
        ("mode", "trian", "mode: 'trian' is not possible. Did you mean 'train'?"),
        ("mode", 1, "mode: 1 must be a text."),
        ("mode", None, "mode: null must be a text."),
        ("term", None, "term: null must be a list."),
        ("term", [1], "term: [1] must be longer."),
        ("term", [1, {}, 2], "term: [1, {}, 2] must be shorter."),
        ("term", [0, {}], "term[0]: 0 must be at least 1."),
        ("term", [True, {}], "term[0]: true must be a whole number."),
        ("term", [1, {2: 3}], "term[1]: 2 must be a name"),
        ("ours", 1, "ours: 1 must be true or false."),
        ("free", [], "free: [] must be a map of keys or null."),
        ("seeds", {"papr": {"from": 1, "to": 2}}, "seeds: 'papr' is not possible. Did you mean 'paper'?"),
        ("seeds", {"smoke": {"from": 1}}, "seeds.smoke: 'to' must be given."),
        ("seeds", {"from": 2, "to": 1}, "seeds.paper: to: 1 must be at least 2"),
        ("claims", {}, "claims: {} must be a list."),
        ("claims", [3], "claims[0]: 3 must be a map of keys."),
        ("claims", [{"id": "C1"}], "claims[0] C1: 'numbers' must be given."),
        ("claims", [{"id": "C1", "numbers": []}], "claims[0] C1: numbers: [] must be longer, at least 1."),
        ("claims", [{"id": "", "numbers": [FINAL]}], "claims[0] : id: '' must be longer, at least 1."),
        ("claims", [{"id": "C1", "numbers": [FINAL, FINAL]}], "claims[0] C1: id 'test' is used twice."),
    ],
)
def test_a_fault_is_one_line_with_the_value_and_its_path(key: str, value: Any, line: str) -> None:
    with pytest.raises(NormbenchError) as caught:
        keys.load(File, {**WHOLE, key: value}, "x.yaml")
    assert str(caught.value).startswith(f"x.yaml: {line}") and caught.value.code == 2


@pytest.mark.parametrize(
    ("number", "line"),
    [
        ({"split": "test"}, "'kind' must be given."),
        ({**FINAL, "kind": "fnal"}, "kind: 'fnal' is not possible. Did you mean 'final'?"),
        ({**FINAL, "kind": []}, "kind: [] is not possible."),
        ({**FINAL, "share": 0.5}, "'share' is not a key."),
        ({**FINAL, "kind": "gain"}, "'share' must be given."),
        ({**FINAL, "kind": "gain", "share": None}, "share: null must be a number"),
        ({**FINAL, "kind": "gain", "share": 1}, "share: 1 must be below 1."),
        ({**FINAL, "kind": "gain", "share": 0, "least": math.nan}, "least: nan must be a number"),
        ({**FINAL, "kind": "gain", "share": 0, "least": -math.inf}, "least: -inf must be a number"),
        ({**FINAL, "kind": "gain", "share": 0, "least": 10**400}, "least: 1000"),
        ({**FINAL, "kind": "time", "level": "1e-2"}, "level: '1e-2' must be a number (YAML wants 1.0e-2"),
        ({**FINAL, "kind": "time", "level": True}, "level: true must be a number"),
        ({**FINAL, "kind": "time", "level": {"shar": 1}}, "level: 'shar' is not a key. Did you mean 'share'?"),
        ({**FINAL, "kind": "time", "level": {"share": 0}}, "level.share: 0 must be above 0."),
        ({**FINAL, "kind": "time", "level": {"share": 1.5}}, "level.share: 1.5 must be at most 1."),
    ],
)  # fmt: skip
def test_a_kind_has_keys_of_its_own(number: dict[str, Any], line: str) -> None:
    with pytest.raises(NormbenchError) as caught:
        keys.load(File, {"claims": [{"id": "C1", "numbers": [number]}]}, "x.yaml", "See x.", key="top")
    start, _, rest = str(caught.value).partition("top.claims[0] C1: numbers[0]")
    assert start == "x.yaml: " and rest.lstrip(".: ").startswith(line) and rest.endswith(" See x."), rest
