"""IAM-OnDB: lines of handwriting as points of a pen, with their texts; training and test lines of different forms."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from normbench.data import Dataset, check, content, files, strokes
from normbench.errors import NormbenchError

FORM = re.compile(r"[a-z]\d\d-\d+[a-z]?")
Sums = dict[str, str]  # by file


def load(config: Mapping[str, Any], root: Path, seed: int = 0) -> Dataset:
    """Lines as `strokes.splits` gives them, in the files' order; NormbenchError for missing or damaged files.

    Parts `train` and `test`, of whole forms: by the owners' lists where these lie beside the files, else drawn, and in
    every run the same. `copy` says which. Nothing depends on the seed.
    """
    check(config, root)
    npz, tsv = files.paths(config, root)
    rows = content.text(tsv).decode("utf-8").removesuffix("\n").split("\n")
    ids, texts = zip(*(row.split("\t", 1) for row in rows), strict=True)
    with np.load(npz, allow_pickle=False) as arrays:
        ends = np.unpackbits(arrays["eos"], count=len(arrays["dxy"]))
        lines = strokes.Lines(arrays["dxy"], ends, arrays["length"], texts)
    forms = np.array([line.rsplit("-", 1)[0] for line in ids])
    listed, sums = _read_lists(config, root, set(forms.tolist()))
    belongs = listed or random_parts(forms.tolist(), **config["declares"]["split"])
    parts = {part: np.flatnonzero(np.isin(forms, sorted(names))) for part, names in belongs.items()}
    for part, chosen in parts.items():
        if not len(chosen):
            raise NormbenchError(f"{files.as_text(npz.parent)} has no line of the forms that are there to {part}.")
    remark = _describe_split(parts, len(ids), bool(listed))
    copy = {"sha256": content.checksum(files.sums(config, root) | sums), "deviations": [remark]}
    alphabet = config["declares"]["alphabet"]
    splits, scale = strokes.splits(lines, parts, int(config["points"]), alphabet)
    note = remark if listed else f"{remark} (below {files.as_text(root)}: {', '.join(_lists(config))})"
    return Dataset(str(config["name"]), splits, (note,), copy, [*alphabet, strokes.OTHER], scale)


def random_parts(forms: list[str], test: int, seed: int) -> dict[str, set[str]]:
    """Forms to train and to test, of the form of each line: those that fit into `test` lines, in an order by `seed`.

    It is that of a hash of their names, so that a copy with a form more or less has much the same parts.
    """
    counts = dict(zip(*np.unique(forms, return_counts=True), strict=True))
    parts: dict[str, set[str]] = {"train": set(), "test": set()}
    left = test
    for form in sorted(counts, key=lambda form: hashlib.sha256(f"{seed} {form}".encode()).digest()):
        part = "test" if counts[form] <= left else "train"
        left -= int(counts[form]) if part == "test" else 0
        parts[part].add(str(form))
    return parts


def _read_lists(config: Mapping[str, Any], root: Path, forms: set[str]) -> tuple[dict[str, set[str]], Sums]:
    """Which of these forms each part has by the owners' lists, and the lists' sums; both empty where there are none.

    Where all lists but those of the part `rest` lie there, as they are passed on, that part has all other forms.
    """
    lists: Mapping[str, list[str]] = config["declares"]["lists"]
    rest = config["declares"]["rest"]
    names = _lists(config)
    lacking = [
        name for name in names if not os.path.lexists(files.find(root, name))
    ]  # a dead link is one that was meant
    if len(lacking) == len(names):
        return {}, {}
    as_rest = lacking == lists[rest]
    if lacking and not as_rest:
        raise NormbenchError(
            f"{files.as_text(root / lacking[0])} is missing: of the owners' lists of forms all are used or none. "
            "Place it beside the others, or move those away."
        )
    parts: dict[str, set[str]] = {part: set() for part in lists}
    for part, given in lists.items():
        for name in given if not (as_rest and part == rest) else ():
            try:
                named = content.text(files.find(root, name)).decode().split()
            except (OSError, UnicodeDecodeError) as error:
                raise NormbenchError(f"{files.as_text(root / name)} cannot be read: {error}.") from None
            if not named:
                raise NormbenchError(f"{files.as_text(root / name)} names no form: it is empty. Bring it anew.")
            before = set().union(*parts.values())
            for form in named:
                if not FORM.fullmatch(form):
                    raise NormbenchError(
                        f"{files.as_text(root / name)} names '{form[:50]}', which is no form (a01-000u)."
                    )
                if form in before:
                    raise NormbenchError(f"{files.as_text(root / name)} names {form}, as another of the lists does.")
            parts[part].update(named)
    if as_rest:
        parts[rest] = forms - set().union(*parts.values())
    return parts, {name: content.of(files.find(root, name)) for name in names if name not in lacking}


def _lists(config: Mapping[str, Any]) -> list[str]:
    """Paths of the owners' lists below the data folder."""
    return [name for given in config["declares"]["lists"].values() for name in given]


def _describe_split(parts: Mapping[str, np.ndarray], count: int, listed: bool) -> str:
    """A line on how the lines were split, for the user and for the run's records."""
    sizes = f"{len(parts['train'])} lines train, {len(parts['test'])} test"
    if not listed:
        return f"IAM-OnDB: {sizes}, of forms drawn here, and a writer may be in both: the owners' lists are not at hand"
    others = count - sum(map(len, parts.values()))
    return f"IAM-OnDB: {sizes}, of the forms in the owners' lists" + (
        f", which leave out {others} of those here" if others else ""
    )
