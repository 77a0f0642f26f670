"""An artifact's claims as data: one YAML per artifact, checked key by key when it is loaded.

Kinds of claims: `direction` (the sign of an effect), `size` (against the paper's number), `equivalence` (within a
margin), `order` (ranks of several cells), `exact` (computed numbers, no seeds). Beside id, endpoint, unit a part holds

    direction    contrast: [[1, {arm: ln}], [-1, {arm: bn}]]; scale: log, percent, linear; expect: negative, positive
    size         contrast, scale, paper: the paper's number, band: how far from it one more run of ours may lie
    equivalence  contrast, scale, within: the margin in the part's unit
    order        scale, order: [{arm: bln}, {arm: bn}, {arm: ln}], smallest first
    exact        value, at_most or at_least; cell: {arm: ...} when not every run is meant

A direction's `test` is `t` (the default: Student's, of the mean) or `sign` (the exact sign test, of the median: where
a value can be censored or diverged, or has a heavy tail). Its smallest effect is that of `rules.yaml`, or its `delta`.

Endpoints are `final` (last epoch), `time_to_level` (a number, or a share of a way, see `Endpoint`), `area` (mean over
the epochs, geometric for losses), `chosen` (at `epoch`: a number, `last`, `best` for that of the default evaluation, by
what is monitored, `own` for that of the variant itself), `value`. With `chosen` a cell may name the inference
`variant`, several by patterns (`TT**|FF**`: their mean), or `best by valid`. `gain` is the last value less the one
after a `share` of the updates. At `best` and `last`, the interval covers the choice of the test examples beside the
seeds where the runs kept what each example gave.

An amendment has its claim, the change and the reason; `stated` are the numbers in it, which have to follow from the
published runs: `{part: ..., seeds: {from: 1, to: 5}, effect: -0.81, interval: [-1.53, -0.09]}`, with `control`,
`fidelity`, `level` or `test` where it is not the paper's setting, `paper`, 95 % or the part's own test.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from normbench import reading
from normbench.config import FIDELITIES
from normbench.config.plan import place_text
from normbench.errors import NormbenchError, unknown
from normbench.papers import rules
from normbench.papers.claims import BEST, MODES, Artifact, Cell, Claim, Endpoint, Part, format_cell
from normbench.stats.series import CLOCKS


def load(path: Path) -> Artifact:
    """Read and check one artifact. Raises NormbenchError with one line that names the file, the claim and the key."""
    try:
        data = reading.load_yaml(path.read_text(encoding="utf-8"), finite=False)  # a part says it better
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise NormbenchError(f"{path}: cannot be read as YAML: {error}") from None
    where = str(path)
    _keys(
        data,
        ("id", "title", "locator", "experiment", "seeds", "deviations", "claims"),
        ("reference", "amendments", "seen"),
        where,
    )
    claims = tuple(_claim(claim, where) for claim in _list(data, "claims", where))
    _refuse_twins(claims, where)
    if not isinstance(data.get("reference", {}), Mapping):
        raise NormbenchError(f"{where}: reference must be a mapping of names to values.")
    return Artifact(
        id=_text(data, "id", where),
        title=_text(data, "title", where),
        locator=_text(data, "locator", where),
        experiment=_text(data, "experiment", where),
        seeds=_count(data, "seeds", where),
        deviations=_deviations(data["deviations"], where),
        reference=data.get("reference", {}),
        amendments=_amendments(data, claims, where),
        claims=claims,
        claims_sha256=hash_claims(data["claims"]),
        seen=_count(data, "seen", where) if "seen" in data else 0,
        path=path,
    )


def hash_claims(claims: Sequence[Any]) -> str:
    """SHA-256 of the claims list as canonical JSON (keys sorted, no spaces): comments and layout do not count."""
    text = json.dumps(claims, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _below(low: Cell, high: Cell) -> str:
    """'bln below bn, batch size 25': what both share is said once."""
    shared = {key: value for key, value in low.items() if key != "arm" and high.get(key) == value}
    own = ({key: value for key, value in cell.items() if key not in shared} for cell in (low, high))
    text = " below ".join(format_cell(cell).removeprefix("arm ") for cell in own)
    return ", ".join([text, place_text(shared)] if shared else [text])


def _claim(data: Any, file: str) -> Claim:
    name = data.get("id", "?") if isinstance(data, Mapping) else "?"
    where = f"{file}: claim {name}"
    required = ("id", "kind", "statement", "quote", "locator", "parts")
    optional = ("reported", "open", "controls", "unvaried", "not_decidable", "seeds", "control_seeds", "ours", "added",
                "beside")  # fmt: skip
    _keys(data, required, optional, where)
    kind = _choice(data, "kind", tuple(_PART_KEYS), where)
    not_decidable = _not_decidable(data, where) if "not_decidable" in data else {}
    open_choices, controls = _texts(data, "open", where), _texts(data, "controls", where)
    alone = {"exact": "an exact claim has none", "size": "a number of the paper's is one of its own setting"}
    if open_choices and (kind in alone or not controls):
        reason = alone.get(kind, "without controls no word of its could be robust")
        raise NormbenchError(f"{where}: key 'open' names choices that the paper leaves open, but {reason}.")
    if controls and not open_choices:
        raise NormbenchError(f"{where}: key 'controls' has settings, but 'open' does not say what they vary.")
    unvaried = _texts(data, "unvaried", where)
    for choice in unvaried:
        if choice not in open_choices:
            raise unknown(f"{where}: unvaried '{choice}' is no choice that is 'open'.", choice, open_choices)
    parts = [part for entry in _list(data, "parts", where) for part in _parts(entry, kind, where)]
    if not parts and not not_decidable:
        raise NormbenchError(f"{where}: key 'parts' is empty: nothing would decide the claim.")
    reported = [part for entry in _list(data, "reported", where) for part in _parts(entry, _kind_of(entry), where)]
    _refuse_twins([*parts, *reported], where)
    single = isinstance(data.get("beside"), str)
    beside = (_text(data, "beside", where),) if single else _texts(data, "beside", where)
    for name in beside:
        if name not in [part.id for part in reported]:
            raise unknown(f"{where}: beside '{name}' is no reported part.", name, [part.id for part in reported])
    return Claim(
        id=_text(data, "id", where),
        kind=kind,
        statement=_text(data, "statement", where),
        quote=_text(data, "quote", where),
        locator=_text(data, "locator", where),
        parts=tuple(parts),
        reported=tuple(reported),
        open=open_choices,
        controls=controls,
        not_decidable=not_decidable,
        unvaried=unvaried,
        seeds=_seeds(data["seeds"], where) if "seeds" in data else {},
        control_seeds=_control_seeds(data["control_seeds"], controls, where) if "control_seeds" in data else {},
        ours=_flag(data, "ours", where) if "ours" in data else False,
        added=_added(data["added"], where) if "added" in data else None,
        beside=beside,
    )


def _not_decidable(data: Mapping[str, Any], where: str) -> Mapping[str, str]:
    """A reason for all fidelities, or `{reduced: why}` for some."""
    given = data["not_decidable"]
    if not isinstance(given, Mapping):
        return dict.fromkeys(FIDELITIES, _text(data, "not_decidable", where))
    _keys(given, (), FIDELITIES, f"{where}: not_decidable")
    return {fidelity: _text(given, fidelity, f"{where}: not_decidable") for fidelity in given}


def _seeds(data: Any, where: str) -> Mapping[str, range]:
    """`{from: 6, to: 10}` at `paper`, or `{proxy: {from: 6, to: 13}}`."""
    if isinstance(data, Mapping) and not data.keys() & {"from", "to"}:
        _keys(data, (), FIDELITIES, f"{where}: seeds")
        return {fidelity: _range(given, f"{where}: seeds: {fidelity}") for fidelity, given in data.items()}
    return {"paper": _range(data, f"{where}: seeds")}


def _control_seeds(data: Any, controls: Sequence[str], where: str) -> Mapping[str, Mapping[str, range]]:
    """`{lr-high: {from: 6, to: 20}}`, or `{lr-high: {proxy: {from: 6, to: 20}}}`."""
    _keys(data, (), controls, f"{where}: control_seeds")
    return {control: _seeds(given, f"{where}: control_seeds: {control}") for control, given in data.items()}


def _range(data: Any, where: str) -> range:
    _keys(data, ("from", "to"), (), where)
    first, last = data["from"], data["to"]
    if type(first) is not int or type(last) is not int or not 1 <= first <= last:
        raise NormbenchError(f"{where} go from a whole number of 1 or more to one not below it, not {data}.")
    return range(first, last + 1)


def _added(data: Any, where: str) -> tuple[int, int]:
    """`[10, 20]`."""
    if not (isinstance(data, list) and len(data) == 2 and all(type(n) is int for n in data) and 1 < data[0] < data[1]):
        raise NormbenchError(f"{where}: added are two numbers of seeds, the smaller first, not {data!r}.")
    return data[0], data[1]


# What a part of each kind must and may hold.
_COMPARED = ("id", "endpoint", "contrast", "scale", "unit")
_TESTED = ("test", "delta")
_TESTS = ("t", "sign")
_PART_KEYS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "direction": ((*_COMPARED, "expect"), _TESTED),
    "size": ((*_COMPARED, "paper", "band"), ()),
    "equivalence": ((*_COMPARED, "within"), ()),
    "order": (("id", "endpoint", "order", "scale", "unit"), _TESTED),
    "exact": (("id", "endpoint", "unit"), ("cell", "value", "at_most", "at_least")),
}
_BOUNDS = ("value", "at_most", "at_least")
_ENDPOINT_KEYS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "time_to_level": (("kind", "split", "mode", "metric", "level"), ("variant", "clock", "better")),
    "final": (("kind", "split", "mode", "metric"), ("variant", "better")),
    "area": (("kind", "split", "mode", "metric"), ("variant", "better", "least")),
    "gain": (("kind", "split", "mode", "metric", "share"), ("variant", "better")),
    "chosen": (("kind", "split", "mode", "metric", "epoch"), ("variant", "better", "least")),
    "value": (("kind", "key"), ()),
}


def _kind_of(data: Any) -> str:
    """A reported part may be of another kind than its claim; the key that only one kind has tells."""
    marks = {"paper": "size", "within": "equivalence", "order": "order", **dict.fromkeys(_BOUNDS, "exact")}
    keys = data if isinstance(data, Mapping) else {}
    return next((kind for key, kind in marks.items() if key in keys), "direction")


def _parts(data: Any, kind: str, claim: str) -> list[Part]:
    """The comparison of one entry; an order of k cells, smallest first, is its k − 1 consecutive pairs."""
    name = data.get("id", "?") if isinstance(data, Mapping) else "?"
    where = f"{claim}: part '{name}'"
    required, optional = _PART_KEYS[kind]
    _keys(data, required, optional, where, hint=f" in a part of kind {kind}")
    endpoint = _endpoint(data["endpoint"], where)
    if not isinstance(endpoint.of, str) and endpoint.of not in _cells(data):
        raise NormbenchError(f"{where}: the level is one of {format_cell(endpoint.of)}, which is not compared here.")
    if kind == "exact" and endpoint.kind != "value":
        raise NormbenchError(f"{where}: endpoint kind {endpoint.kind} does not go with a part of kind {kind}.")
    numbers = {key: _number(data, key, where) for key in ("paper", "within", "band", *_BOUNDS) if key in data}
    common: dict[str, Any] = {"id": _text(data, "id", where), "endpoint": endpoint, "unit": _text(data, "unit", where)}
    if kind == "exact":
        if not numbers:
            raise NormbenchError(f"{where}: one of the keys value, at_most, at_least is missing.")
        cell = _cell(data.get("cell", {}), where)
        return [Part(kind=kind, contrast=((1.0, cell),), scale="linear", **common, **numbers)]
    common["scale"] = _choice(data, "scale", ("log", "percent", "linear"), where)
    common["test"] = _choice(data, "test", _TESTS, where) if "test" in data else "t"
    common["delta"] = _delta(data["delta"], where) if "delta" in data else None
    if kind == "order":
        cells = [_cell(cell, where) for cell in _list(data, "order", where)]
        if len(cells) < 2:
            raise NormbenchError(f"{where}: key 'order' needs two cells or more, smallest first.")
        common.pop("id")
        return [
            Part(f"{data['id']}: {_below(low, high)}", "direction",
                 contrast=((1.0, low), (-1.0, high)), expect="negative", **common)
            for low, high in pairwise(cells)
        ]  # fmt: skip
    for key in ("within", "band"):
        if numbers.get(key, 1.0) <= 0:
            raise NormbenchError(f"{where}: {key} must be a margin above 0, not {data[key]!r}.")
    expect = _choice(data, "expect", ("negative", "positive"), where) if "expect" in data else None
    return [Part(kind=kind, contrast=_contrast(data, where), expect=expect, **common, **numbers)]


def _cells(data: Mapping[str, Any]) -> list[Any]:
    terms = data.get("contrast", data.get("order", []))
    return [term[1] if isinstance(term, list) and len(term) == 2 else term for term in terms]


def _delta(data: Any, where: str) -> Mapping[str, Any]:
    """`{is: 0.01, why: ...}`; `is: null` for an effect that has none, as one that is shifted by a threshold."""
    where = f"{where}: delta"
    _keys(data, ("is", "why"), (), where)
    _text(data, "why", where)
    if data["is"] is not None and _number(data, "is", where) <= 0:
        raise NormbenchError(f"{where}: is must be an effect above 0, or null, not {data['is']!r}.")
    return dict(data)


def _endpoint(data: Any, part: str) -> Endpoint:
    where = f"{part}: endpoint"
    if not isinstance(data, Mapping) or "kind" not in data:
        raise NormbenchError(f"{where}: key 'kind' is missing.")
    kind = _choice(data, "kind", tuple(_ENDPOINT_KEYS), where)
    _keys(data, *_ENDPOINT_KEYS[kind], where, hint=f" of kind {kind}")
    if kind == "value":
        return Endpoint(kind, key=_text(data, "key", where))
    return Endpoint(
        kind,
        split=_text(data, "split", where),
        mode=_choice(data, "mode", tuple(MODES), where),
        metric=_text(data, "metric", where),
        variant=_text(data, "variant", where) if "variant" in data else None,
        **_level(data, where),
        better=_choice(data, "better", ("lower", "higher"), where) if "better" in data else "lower",
        epoch=_epoch(data, where) if "epoch" in data else "",
        clock=_choice(data, "clock", tuple(CLOCKS), where) if "clock" in data else "epoch",
    )


def _level(data: Mapping[str, Any], where: str) -> dict[str, Any]:
    """A number, or `{share: 0.98, of: {arm: none}, least: 0.05}`, or `of: best`."""
    if not isinstance(data.get("level"), Mapping):
        numbers = {key: float(_number(data, key, where)) for key in ("level", "least", "share") if key in data}
        if not 0 <= numbers.get("share", 0) < 1:
            raise NormbenchError(f"{where}: share must be at least 0 and below 1, not {data['share']!r}.")
        return dict(numbers)
    level, where = data["level"], f"{where}: level"
    _keys(level, ("share", "of"), ("least",), where)
    if not 0 < _number(level, "share", where) <= 1:
        raise NormbenchError(f"{where}: share must be above 0 and at most 1, not {level['share']!r}.")
    least = float(_number(level, "least", where)) if "least" in level else 0.0
    of = BEST if level["of"] == BEST else _cell(level["of"], where)
    return {"share": float(level["share"]), "of": of, "least": least}


def _epoch(data: Mapping[str, Any], where: str) -> str | int:
    if type(data["epoch"]) is int and data["epoch"] >= 0:
        return int(data["epoch"])
    return _choice(data, "epoch", ("best", "own", "last"), where)


def _contrast(data: Mapping[str, Any], where: str) -> tuple[tuple[float, Cell], ...]:
    terms = []
    for term in _list(data, "contrast", where):
        if not (isinstance(term, list) and len(term) == 2 and _is_number(term[0]) and term[0] != 0):
            raise NormbenchError(f"{where}: contrast takes pairs [weight, cell], not {term!r}.")
        terms.append((float(term[0]), _cell(term[1], where)))
    if not terms:
        raise NormbenchError(f"{where}: key 'contrast' is empty.")
    return tuple(terms)


def _cell(data: Any, where: str) -> Cell:
    if not isinstance(data, Mapping) or not all(isinstance(key, str) for key in data):
        raise NormbenchError(f"{where}: a cell looks like {{arm: ln, train.batch_size: 4}}, not {data!r}.")
    for key, value in data.items():
        # YAML reads a bare off, no or 2016-07-21 as something else than the name that was meant.
        if not isinstance(value, str) and (key == "arm" or not isinstance(value, bool | int | float)):
            raise NormbenchError(f"{where}: cell key '{key}' has the value {value!r}; quote names that YAML changes.")
    return data


def _deviations(data: Any, where: str) -> dict[str, tuple[str, ...]]:
    _keys(data, (), FIDELITIES, f"{where}: deviations")
    return {fidelity: _texts(data, fidelity, f"{where}: deviations") for fidelity in data}


def _amendments(data: Mapping[str, Any], claims: Sequence[Claim], file: str) -> tuple[Mapping[str, Any], ...]:
    keys, entries = ("claim", "change", "reason"), []
    for entry in _list(data, "amendments", file):
        where = f"{file}: amendments"
        _keys(entry, keys, ("stated",), where)
        read: dict[str, Any] = {key: _text(entry, key, where) for key in keys}
        if "stated" in entry:
            amended = _choice(entry, "claim", [claim.id for claim in claims], where)
            claim = next(claim for claim in claims if claim.id == amended)
            read["stated"] = [_stated(number, claim, where) for number in _list(entry, "stated", where)]
        entries.append(read)
    return tuple(entries)


def _stated(data: Any, claim: Claim, where: str) -> dict[str, Any]:
    """As pages tell it, with the unit of its part. An effect without an interval is one whose runs give none."""
    where = f"{where}: {claim.id}: stated"
    _keys(data, ("part", "seeds", "effect"), ("interval", "control", "fidelity", "level", "test"), where)
    parts = {part.id: part for part in (*claim.parts, *claim.reported) if part.kind != "exact"}
    part = parts[_choice(data, "part", tuple(parts), where)]
    seeds = _range(data["seeds"], f"{where}: seeds")
    level = _number(data, "level", where) if "level" in data else 1 - rules.ALPHA
    if not 0 < level < 1:
        raise NormbenchError(f"{where}: level must be above 0 and below 1, not {level!r}.")
    span = data.get("interval")
    if "interval" in data and not (
        isinstance(span, list) and len(span) == 2 and all(map(_is_number, span)) and span[0] <= span[1]
    ):
        raise NormbenchError(f"{where}: interval takes its two ends, the lower first, not {span!r}.")
    return {
        "part": part.id,
        "unit": part.unit,
        "test": _choice(data, "test", _TESTS, where) if "test" in data else part.test,
        "fidelity": _choice(data, "fidelity", FIDELITIES, where) if "fidelity" in data else "paper",
        "control": _choice(data, "control", claim.controls, where) if "control" in data else "",
        "seeds": {"from": seeds[0], "to": seeds[-1]},
        "effect": _number(data, "effect", where),
        "interval": span,
        "level": level,
    }


def _keys(data: Any, required: Sequence[str], optional: Sequence[str], where: str, hint: str = "") -> None:
    if not isinstance(data, Mapping):
        raise NormbenchError(f"{where}: a mapping of keys belongs here, not {data!r}.")
    for key in data:
        if key not in (*required, *optional):
            raise unknown(f"{where}: '{key}' is not a key{hint}.", str(key), [*required, *optional])
    for key in required:
        if key not in data:
            raise NormbenchError(f"{where}: key '{key}' is missing{hint}.")


def _typed(check: Callable[[Any], bool], what: str) -> Callable[[Mapping[str, Any], str, str], Any]:
    def read(data: Mapping[str, Any], key: str, where: str) -> Any:
        if not check(data[key]):
            raise NormbenchError(f"{where}: {key} must be {what}, not {data[key]!r}.")
        return data[key]

    return read


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < float("inf")


_text = _typed(lambda value: isinstance(value, str) and bool(value.strip()), "a text")
_number = _typed(_is_number, "a number (YAML wants 1.0e-2, not 1e-2)")
_count = _typed(lambda value: type(value) is int and value > 0, "a whole number from 1")
_flag = _typed(lambda value: isinstance(value, bool), "true or false")


def _choice(data: Mapping[str, Any], key: str, choices: Sequence[str], where: str) -> str:
    if data[key] not in choices:
        raise unknown(f"{where}: {key} {data[key]!r} does not exist.", str(data[key]), choices)
    return str(data[key])


def _list(data: Mapping[str, Any], key: str, where: str) -> list[Any]:
    entries = data.get(key, [])
    if not isinstance(entries, list):
        raise NormbenchError(f"{where}: {key} must be a list, not {entries!r}.")
    return entries


def _texts(data: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    entries = _list(data, key, where)
    return tuple(_text({key: entry}, key, where) for entry in entries)


def _refuse_twins(entries: Sequence[Claim | Part], where: str) -> None:
    ids = [entry.id for entry in entries]
    for name in ids:
        if ids.count(name) > 1:
            raise NormbenchError(f"{where}: id '{name}' is used twice.")
