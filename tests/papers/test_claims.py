"""Claims files: what loads, what is refused and where the message points."""

import copy
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from ruled import written

import normbench.papers
from normbench.config import FIDELITIES
from normbench.core.keys import Range
from normbench.errors import NormbenchError
from normbench.papers import artifact as artifacts
from normbench.papers.claims import Looks, _below, canonical_sha256, load

FINAL = {"kind": "final", "split": "test", "mode": "eval", "metric": "error"}
GAIN = {"kind": "gain", "split": "mr", "mode": "along", "metric": "accuracy"}
TIME = {"kind": "time_to_level", "split": "train", "mode": "eval", "metric": "nll", "level": 0.01}
PAIR = [[1, {"arm": "ln"}], [-1, {"arm": "bn"}]]


def part(name: str = "p", **more: Any) -> dict[str, Any]:
    return {"id": name, "endpoint": FINAL, "contrast": PAIR, "scale": "percent", "unit": "points", **more}


def claim(kind: str, *parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    texts = {"statement": "s", "quote": "q", "locator": "l"}
    return {"id": "C1", "kind": kind, **texts, "parts": list(parts), **more}


def artifact(*claims: dict[str, Any], **more: Any) -> dict[str, Any]:
    texts = {"id": "fig", "title": "t", "locator": "l", "experiment": "x/fig"}
    return {**texts, "seeds": 5, "deviations": {"paper": ["d"]}, "claims": list(claims), **more}


SOUND = artifact(claim("direction", part(expect="negative"), open=["rate"], controls=["lr-low"]))


def test_fig6_reads_as_written() -> None:
    loaded = load(Path(normbench.papers.__file__).parent / "ln2016" / "fig6.yaml")
    first = loaded.claims[0]
    assert (loaded.seeds, first.id, first.controls) == (5, "LN-F1", ("lr-low", "lr-high", "tanh", "he-uniform"))
    assert first.seeds == {"paper": Range(6, 10)}
    assert [part.endpoint.level for part in first.reported[:3]] == [0.1, 0.03, 0.01]
    assert first.parts[0].contrast[1] == (-1.0, {"arm": "bn-all", "train.batch_size": 128})
    assert str(first.reported[2].endpoint) == "epochs to train NLL 0.01 (evaluation mode)"
    assert len(loaded.claims[2].parts[0].contrast) == 4


def test_all_kinds_load(tmp_path: Path) -> None:
    order = {key: value for key, value in part("o").items() if key != "contrast"}
    order["order"] = [{"arm": "bln"}, {"arm": "bn"}, {"arm": "ln"}]
    exact = {"id": "e", "endpoint": {"kind": "value", "key": "gap"}, "unit": "", "at_most": 1e-9}
    exact["unit"] = "relative"
    claims = [
        claim("direction", part(expect="negative")),
        claim("size", part(paper=-1.5, band=1), part("plain", paper=2, band=0.5)),
        claim(
            "equivalence",
            part(within=0.1),
            reported=[part("r", expect="positive"), part("s", paper=1, band=1)],
            beside="s",
        ),
        claim("order", {**order, "test": "sign"}, ours=True, looks=[10, 20]),
        claim("exact", exact),
        claim("direction", not_decidable="the images cannot be had"),
        claim("direction", not_decidable={"reduced": "too short"}),
    ]
    loaded = load(written(tmp_path, artifact(*({**c, "id": f"C{i}"} for i, c in enumerate(claims))))).claims
    assert [c.kind for c in loaded] == ["direction", "size", "equivalence", "order", "exact", "direction", "direction"]
    assert loaded[5].not_decidable == dict.fromkeys(FIDELITIES, "the images cannot be had")
    assert loaded[6].not_decidable == {"reduced": "too short"} and not loaded[0].not_decidable
    assert [p.kind for p in loaded[2].reported] == ["direction", "size"]
    assert [p.id for p in loaded[3].parts] == ["o: bln below bn", "o: bn below ln"]
    assert all(p.kind == "direction" and p.expect == "negative" for p in loaded[3].parts)
    assert loaded[4].parts[0].at_most == 1e-9
    assert (loaded[2].beside, loaded[2].ours) == (("s",), False)
    assert (loaded[3].ours, loaded[3].looks) == (True, Looks((10, 20))) and loaded[0].looks is None
    of_file = {**artifact(*({**c, "id": f"C{i}"} for i, c in enumerate(claims))), "looks": [5, 10]}
    assert [c.looks and c.looks.at for c in load(written(tmp_path, of_file)).claims[2:5]] == [(5, 10), (10, 20), None]
    with pytest.raises(NormbenchError, match="'looks'"):
        load(written(tmp_path, artifact({**claims[4], "id": "C4", "looks": [5, 10]})))
    assert {p.test for p in loaded[3].parts} == {"sign"} and loaded[0].parts[0].test == "t"
    assert (loaded[1].parts[1].paper, loaded[1].parts[1].band) == (2, 0.5)


def edit(*path: Any, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(data: Any) -> None:
        for key in path[:-1]:
            data = data[key]
        if to is None:
            del data[path[-1]]
        else:
            data[path[-1]] = to

    return change


PART = ("claims", 0, "parts", 0)
AT_PART = "claims[0] C1: parts[0] p: "
AMENDED = {"claim": "C1", "change": "x", "reason": "y", "looked": {"from": 1, "to": 5}}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (edit("seeds", to=True), "seeds: true "),
        (edit("deviations", to={"papier": []}), "deviations: 'papier' is not possible. Did you mean 'paper'?"),
        (edit("amendments", to=[AMENDED | {"claim": "C"}]), "amendments[0].claim: 'C' "),
        (
            edit("claims", 0, "kind", to="directions"),
            "C1: kind: 'directions' is not possible. Did you mean '",
        ),
        (edit("claims", 0, "parts", to=[]), "claims[0] C1: 'parts' is empty"),
        (edit("claims", 0, "controls", to=[]), "claims[0] C1: 'open' names choices that"),
        (edit("claims", 0, "open", to=[]), "claims[0] C1: 'controls' has settings, but 'open' does not"),
        (edit("claims", 0, "kind", to="equivalence"), f"{AT_PART}'expect' is not a key."),
        (edit(*PART, "within", to=0.1), f"{AT_PART}'within' is not a key."),
        (edit(*PART, "contrast", to=[[1]]), f"{AT_PART}contrast[0]: [1] must be longer"),
        (edit(*PART, "contrast", to=[[0, {"arm": "ln"}]]), f"{AT_PART}contrast[0]: its weight "),
        (
            edit(*PART, "contrast", 0, 1, to={"arm": False}),
            f"{AT_PART}contrast[0][1]: 'arm' has the value false",
        ),
        (
            edit(*PART, "endpoint", to={**FINAL, "kind": "finale"}),
            f"{AT_PART}endpoint.kind: 'finale' ",
        ),
        (edit(*PART, "endpoint", to={**FINAL, "level": 0.1}), f"{AT_PART}endpoint: 'level' is not a key."),
        (
            edit(*PART, "endpoint", to={**TIME, "level": "1e-2"}),
            f"{AT_PART}endpoint.level: '1e-2' must be a number",
        ),
        (edit(*PART, "endpoint", to={**TIME, "level": {"share": 0.5}}), f"{AT_PART}endpoint.level: 'of' must be given"),
        (edit(*PART, "endpoint", to={**GAIN, "share": 1}), f"{AT_PART}endpoint.share: 1 "),
        (edit(*PART, "endpoint", to={**TIME, "level": {"share": 1.5, "of": "best"}}), "endpoint.level.share: 1.5 "),
        (
            edit(*PART, "endpoint", to={**TIME, "level": {"share": 0.5, "of": {"arm": "wn"}}}),
            f"{AT_PART}endpoint.level.of: arm wn is not compared here",
        ),
        (
            edit("claims", 0, "reported", to=[{"id": "e", "endpoint": FINAL, "unit": "u", "at_most": 1.0}]),
            "claims[0] C1: reported[0] e: endpoint",
        ),
        (
            edit("claims", 0, "unvaried", to=["rat"]),
            "C1: unvaried: 'rat' is not possible. Did you mean 'rate'?",
        ),
        (edit("claims", 0, "looks", to=[10, 5]), "claims[0] C1: looks.at: [10, 5] "),
        (edit("claims", 0, "looks", to=[3, 5]), "claims[0] C1: looks.at: [3, 5] "),
        (edit("claims", 0, "looks", to=[5]), "claims[0] C1: looks.at: [5] "),
        (edit("looks", to={"at": [5, 10], "spending": "pocok"}), "looks.spending: 'pocok' "),
        (edit("claims", 0, "beside", to="q"), "claims[0] C1: beside: 'q' "),
        (edit("claims", 0, "control_seeds", to={"lr": {"from": 1, "to": 5}}), "claims[0] C1: control_seeds: 'lr' "),
        (edit("claims", 0, "seeds", to={"smok": {"from": 1, "to": 5}}), "C1: seeds: 'smok' is not possible. Did you"),
        (edit("claims", 0, "seeds", to={"smoke": {"from": 1, "to": 0}}), "claims[0] C1: seeds.smoke.to: 0 "),
        (edit(*PART, "delta", to={"is": 0, "why": "w"}), f"{AT_PART}delta.is: 0 "),
        (edit("claims", 0, "reported", to=[part("r", paper=1, band=0)]), "reported[0] r: band: 0 "),
        (edit("claims", 0, "reported", to=[part("p", expect="negative")]), "claims[0] C1: id 'p' is used twice"),
    ],
)
def test_bad_files_are_refused_in_one_line_with_the_place(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], named: str
) -> None:
    data = copy.deepcopy(SOUND)
    load(written(tmp_path, data))
    change(data)
    with pytest.raises(NormbenchError) as caught:
        load(written(tmp_path, data))
    message = str(caught.value)
    assert "\n" not in message and message.startswith(f"{tmp_path / 'fig.yaml'}: ") and named in message, message


def test_what_contradicts_itself_is_refused(tmp_path: Path) -> None:
    direction = claim("direction", part(expect="negative"))
    with pytest.raises(NormbenchError, match="'C1' is used twice"):
        load(written(tmp_path, artifact(direction, direction)))
    exact = {"id": "e", "endpoint": {"kind": "value", "key": "gap"}, "unit": "relative"}
    with pytest.raises(NormbenchError, match=r"parts\[0\] e: one of 'value', 'at_most', 'at_least' must be given"):
        load(written(tmp_path, artifact(claim("exact", exact))))
    with pytest.raises(NormbenchError, match="an exact claim has none"):
        load(written(tmp_path, artifact(claim("exact", {**exact, "value": 1}, open=["a"], controls=["b"]))))
    sizes = claim("size", part(paper=1, band=1), open=["a"], controls=["b"])
    with pytest.raises(NormbenchError, match="a number of the paper's is one of its own setting"):
        load(written(tmp_path, artifact(sizes)))
    with pytest.raises(NormbenchError, match="'no_worse' of the part 'p' must be"):
        load(written(tmp_path, artifact(claim("equivalence", part(within=0.1, kind="no_worse")))))
    order = {"id": "o", "endpoint": FINAL, "order": [{"arm": "ln"}], "scale": "linear", "unit": "1"}
    with pytest.raises(NormbenchError, match=r"parts\[0\] o: order: "):
        load(written(tmp_path, artifact(claim("order", order))))


def test_the_hash_covers_the_claims_and_nothing_else(tmp_path: Path) -> None:
    original = load(written(tmp_path, SOUND)).claims_sha256
    other = {**SOUND, "title": "another", "seeds": 7, "amendments": [{"claim": "C1", "change": "x", "reason": "y"}]}
    assert load(written(tmp_path, other)).claims_sha256 == original
    path = tmp_path / "fig.yaml"
    path.write_text("# a comment\n" + yaml.safe_dump(SOUND, sort_keys=False, default_flow_style=True), encoding="utf-8")
    assert load(path).claims_sha256 == original
    changed = copy.deepcopy(SOUND)
    changed["claims"][0]["parts"][0]["expect"] = "positive"
    assert load(written(tmp_path, changed)).claims_sha256 != original


def _values(whole: st.SearchStrategy[int]) -> st.SearchStrategy[Any]:
    return st.recursive(
        st.none() | st.booleans() | whole | st.text(max_size=5) | st.floats(allow_nan=False, allow_infinity=False),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=8,
    )


_json = _values(st.integers())
_storable = _values(st.integers(-(10**300), 10**300))  # beyond a float the file is refused before any claim is read


@given(st.lists(st.dictionaries(st.text(max_size=5), _json, max_size=4), max_size=3))
def test_the_hash_does_not_depend_on_the_order_of_keys(claims: list[dict[str, Any]]) -> None:
    again = [dict(reversed(entry.items())) for entry in claims]
    assert canonical_sha256(claims) == canonical_sha256(again)


@given(st.sampled_from(["claims", "seeds", "deviations", "amendments", "reference"]), _json)
def test_any_value_anywhere_loads_or_is_refused_cleanly(tmp_path_factory: Any, key: str, value: Any) -> None:
    folder = tmp_path_factory.mktemp("claims")
    try:
        load(written(folder, {**SOUND, key: value}))
    except NormbenchError as error:
        assert "\n" not in str(error)


@given(st.sampled_from(["id", "endpoint", "contrast", "scale", "unit", "expect"]), _storable)
def test_any_value_inside_a_part_loads_or_is_refused_cleanly(tmp_path_factory: Any, key: str, value: Any) -> None:
    folder, data = tmp_path_factory.mktemp("claims"), copy.deepcopy(SOUND)
    data["claims"][0]["parts"][0][key] = value
    try:
        load(written(folder, data))
    except NormbenchError as error:
        assert "claims[0] C1: " in str(error)


def test_a_number_beyond_any_float_is_refused_with_the_file(tmp_path: Path) -> None:
    with pytest.raises(NormbenchError) as caught:
        load(written(tmp_path, {**SOUND, "reference": {"a": 10**400}}))
    assert str(tmp_path) in str(caught.value) and "a number in it is too large" in str(caught.value)


def test_what_a_pair_of_an_order_shares_is_said_once() -> None:
    low, high = ({"arm": arm, "train.batch_size": 25} for arm in ("bln", "bn"))
    assert _below(low, high) == "bln below bn, batch size 25"
    assert _below(low, {**low, "train.batch_size": 1}) == "bln at train.batch_size 25 below bln at train.batch_size 1"


@pytest.mark.parametrize(
    ("limits", "more", "said"),
    [
        (
            "[{when: {arm: none, train.batch_size: 1}, at_most: 4}]",
            {},
            "claim C1: part 'p': mine plans 4 of the 5 seeds that arm none at train.batch_size 1 needs at paper. See",
        ),
        (
            "[{when: {control: low, arm: ln}, at_most: 0}]",
            {},
            "mine plans 0 of the 5 seeds that arm ln at train.batch_size 1 needs under the control low at paper.",
        ),
        (
            "[]\nseeds: [{when: {arm: ln}, from: 3, to: 7}]",
            {},
            "mine plans 3 of the 5 seeds that the comparison of all its cells needs at paper. See",
        ),
        (
            "[]\nseeds: [{when: {fidelity: smoke}, from: 6, to: 9}]",
            {"seeds": {"smoke": {"from": 6, "to": 10}}},
            "mine plans 4 of the 5 seeds that arm ln at train.batch_size 1 needs at smoke. See the arms",
        ),
        ("[]", {"seeds": {"proxy": {"from": 1, "to": 5}}}, "seeds: mine has no proxy. Choose from: paper, smoke."),
        ("[]\nseeds: [{when: {fidelity: smoke}, from: 6, to: 10}]", {"seeds": {"smoke": {"from": 6, "to": 10}}}, None),
        ("[]", {"test": "sign"}, "mine plans 5 of the 6 seeds that arm ln at train.batch_size 1 needs at paper."),
        ("[]", {"scale": "linear"}, "no smallest effect for error on the scale linear. Declare one in the part: delta"),
        ("[]", {"scale": "linear", "delta": {"is": None, "why": "w"}}, None),
        ("[]", {}, None),
        ("[{when: {train.batch_size: 2}, at_most: 0}]", {}, None),
    ],
)
def test_a_claim_that_the_planned_runs_cannot_decide_is_refused(
    tmp_path: Path, limits: str, more: dict[str, Any], said: str | None
) -> None:
    node = """
        title: t
        base: [model=mnist_mlp, data=digits]
        arms: {none: [norm=none], ln: [norm=layer]}
        axes: {train.batch_size: [1, 2]}
        controls: {low: [optim.lr=1e-4]}
        fidelities: {paper: {set: []}, smoke: {set: []}}
        limits: """
    place = tmp_path / "experiment" / "mine.yaml"
    place.parent.mkdir()
    place.write_text(f"{textwrap.dedent(node)}{limits}\n")
    pair = [[1, {"arm": "ln", "train.batch_size": 1}], [-1, {"arm": "none", "train.batch_size": 1}]]
    whole, more = {key: more[key] for key in more.keys() & {"seeds"}}, {k: v for k, v in more.items() if k != "seeds"}
    opened = claim(
        "direction", part(expect="negative", contrast=pair, **more), open=["rate"], controls=["low"], **whole
    )
    (tmp_path / "papers").mkdir()
    written(tmp_path / "papers", artifact(opened, experiment="mine"))
    if said is None:
        assert artifacts.load("fig", tmp_path).claims
        return
    with pytest.raises(NormbenchError, match=re.escape(said)):
        artifacts.load("fig", tmp_path)


def test_a_control_that_the_experiment_does_not_have_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, {**SOUND, "experiment": "ln2016/fig6", "claims": [{**SOUND["claims"][0], "controls": ["lr-lo"]}]})
    monkeypatch.setattr(artifacts, "HERE", tmp_path)
    with pytest.raises(NormbenchError, match=r"'lr-lo' is none of ln2016/fig6\. Did you mean 'lr-low'"):
        artifacts.load("fig")
