"""An artifact's file: one YAML with the claims about a figure or table, built into `claims.Artifact`."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from normbench import reading
from normbench.config.plan import place_text
from normbench.config.validation import Model, Range, validate
from normbench.errors import BadInput
from normbench.papers import claim_keys as keys
from normbench.papers import claims
from normbench.papers.claims import format_cell
from normbench.papers.rules import FEWEST, canonical_sha256

LARGEST = 1 << 20  # bytes
LOGGED = {"locator": "", "experiment": "", "seeds": FEWEST, "reference": {}}  # of claims that have no experiment


def load(path: Path) -> claims.Artifact:
    """Read and check one artifact. NormbenchError with one line that names the file, the claim and the key."""
    try:
        data = reading.load_yaml(reading.read(path, LARGEST).decode())
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise BadInput(f"{path} cannot be read: {error}") from None
    return built(data, path)


def built(data: Any, path: Path) -> claims.Artifact:
    """The artifact of a file's content, checked as by `load`."""
    given = validate(keys.Artifact, data, path)
    if not given.experiment and given.seeds is not None and given.seeds < FEWEST:
        raise BadInput(f"{path}: seeds: {given.seeds} must be at least {FEWEST}: no verdict rests on fewer.")
    values = {**LOGGED, "id": path.stem, "title": path.stem, **_given(given)}
    # of the experiments' models lower is better where a claim says nothing; of foreign logs the map may say
    values["claims"] = tuple(_claim(claim, "lower" if given.experiment else "") for claim in given.claims)
    values["deviations"] = {fidelity: tuple(texts) for fidelity, texts in (given.deviations or {}).items()}
    values["runs"] = tuple(given.runs or ())
    values["amendments"] = tuple(map(_amendment, given.amendments or ()))
    return claims.Artifact(**values, claims_sha256=canonical_sha256(data["claims"]), path=path)


def _amendment(given: keys.Amendment) -> dict[str, Any]:
    """As verdicts have it."""
    read: dict[str, Any] = {"claim": given.claim, "change": given.change, "reason": given.reason}
    if given.looked:
        read["looked"] = {fidelity: seeds.model_dump(by_alias=True) for fidelity, seeds in given.looked.items()}
    return read


def _claim(given: keys.AnyClaim, better: str) -> claims.Claim:
    values = {"quote": "", "locator": "", **_given(given)}
    values |= {key: tuple(value) for key, value in values.items() if isinstance(value, list)}
    values["parts"] = tuple(part for entry in given.parts for part in _parts(given.kind, entry, better))
    values["reported"] = tuple(
        part for e in given.reported or () for part in _parts(keys.kind_of(_given(e)), e, better)
    )
    values["seeds"] = _ranges(given.seeds or {})
    values["control_seeds"] = {name: _ranges(seeds) for name, seeds in (given.control_seeds or {}).items()}
    return claims.Claim(**values)


def _ranges(seeds: Mapping[str, Range]) -> dict[str, range]:
    return {fidelity: range(given.first, given.last + 1) for fidelity, given in seeds.items()}


def _parts(kind: str, given: keys.Part, better: str) -> list[claims.Part]:
    """The comparisons of an entry."""
    values = {**_given(given), "kind": kind, "endpoint": _endpoint(given.endpoint, better)}
    if isinstance(given, keys.Tested) and given.delta:
        values["delta"] = {"is": given.delta.size, "why": given.delta.why}
    if isinstance(given, keys.Exact):
        cell = values.pop("cell", {})
        return [claims.Part(contrast=((1.0, cell),), scale="linear", **values)]
    if isinstance(given, keys.Order):
        values |= {"kind": "direction", "expect": "negative"}
        pairs = pairwise(values.pop("order"))
        return [
            claims.Part(**values | {"id": f"{given.id}: {_below(low, high)}", "contrast": ((1.0, low), (-1.0, high))})
            for low, high in pairs
        ]
    values["contrast"] = tuple((float(weight), cell) for weight, cell in values["contrast"])
    return [claims.Part(**values)]


def _below(low: claims.Cell, high: claims.Cell) -> str:
    """'bln below bn, batch size 25': what both share is said once."""
    shared = {key: value for key, value in low.items() if key != "arm" and high.get(key) == value}
    own = ({key: value for key, value in cell.items() if key not in shared} for cell in (low, high))
    text = " below ".join(format_cell(cell).removeprefix("arm ") for cell in own)
    return ", ".join([text, place_text(shared)] if shared else [text])


def _endpoint(given: Model, better: str) -> claims.Endpoint:
    values = {"better": better, **_given(given)}
    if isinstance(level := values.get("level"), keys.Level):
        values = {**values, "level": None, **_given(level)}
    for key in values.keys() & {"level", "least", "share"}:
        values[key] = values[key] if values[key] is None else float(values[key])
    return claims.Endpoint(**values)


def _given(model: Model) -> dict[str, Any]:
    """Keys and values that the file has."""
    return {key: value for key, value in model if key in model.model_fields_set}
