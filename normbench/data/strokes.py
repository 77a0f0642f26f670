"""Sets of handwriting as points of a pen: how lines become examples, and IAM-OnDB."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from normbench.data import Dataset, Scale, files
from normbench.data.examples import Ragged, Split
from normbench.errors import BadInput

OTHER = "<other>"  # every symbol that the alphabet lacks; its number follows the alphabet's


@dataclass(frozen=True)
class Lines:
    """Lines of writing with what was written, the points of all one after another.

    `moves` (points, 2): of each line first the pen's place, then differences, in whole units, y downwards. `ends`
    (points,): 1 for the last point before the pen is lifted. `lengths` (lines,): points of each.
    """

    moves: np.ndarray
    ends: np.ndarray
    lengths: np.ndarray
    texts: Sequence[str]


def splits(lines: Lines, parts: Mapping[str, np.ndarray], points: int, alphabet: str) -> tuple[dict[str, Split], Scale]:
    """Parts of these lines, `train` among them, each line with its first `points` points and its whole text.

    `strokes` (n, 3) float32: (Δx, Δy, end). Offsets are standardized, each coordinate by mean and deviation of all
    offsets that the training lines have so far as they are used. A line's first point says where on the sheet it begins
    and is no offset: it is (0, 0, end), and counts for neither. `characters` (U,) int64.
    """
    cut = {part: _cut(lines, rows, points) for part, rows in parts.items()}
    values, offsets = cut["train"]
    deltas = np.delete(values[:, :2], offsets[:-1], 0)
    mean, deviation = deltas.mean(0, dtype=np.float64), deltas.std(0, dtype=np.float64)
    numbers = {symbol: number for number, symbol in enumerate(alphabet)}
    made = {}
    for part, (values, offsets) in cut.items():
        values[:, :2] = (values[:, :2] - mean) / deviation
        values[offsets[:-1], :2] = 0
        texts = [lines.texts[row] for row in parts[part].tolist()]
        made[part] = Split(
            strokes=Ragged(torch.from_numpy(values), torch.from_numpy(offsets)),
            characters=Ragged.of(torch.tensor([numbers.get(s, len(alphabet)) for s in text]) for text in texts),
            index=torch.from_numpy(parts[part]),
        )
    return made, Scale(tuple(mean.tolist()), tuple(deviation.tolist()))


def _cut(lines: Lines, rows: np.ndarray, points: int) -> tuple[np.ndarray, np.ndarray]:
    """The first `points` points of each of the lines (places, 3) float32, and where they begin, as in `Ragged`."""
    lengths = lines.lengths.astype(np.int64)
    starts, counts = (lengths.cumsum() - lengths)[rows], lengths[rows].clip(max=points)
    offsets = np.concatenate([np.zeros(1, np.int64), counts.cumsum()])
    places = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], counts)
    values = np.empty((len(places), 3), np.float32)
    values[:, :2], values[:, 2] = lines.moves[places], lines.ends[places]
    return values, offsets


# --- IAM-OnDB ---------------------------------------------------------------------------------------------------------


def iam_ondb(config: Mapping[str, Any], root: Path, seed: int = 0) -> Dataset:
    """Lines as `splits` gives them, in the files' order; nothing depends on the seed.

    `strokes.npz`: `dxy` int16 (points, 2), of each line first the pen's place on the sheet, then differences, y
    downwards; `eos`, packed bits, 1 for the last point before the pen is lifted; `length` int32, points of each line.
    `sentences.tsv`: for each line its id (a01-000u-01), a tab and what was written (the part CSR of the owners' text).

    Parts `train` and `test`, of whole forms: by the owners' lists where these lie beside the files, else drawn, and in
    every run the same. `copy` says which.
    """
    facts, (npz, tsv) = config["declares"], files.paths(config, root)
    rows = tsv.read_text("utf-8").removesuffix("\n").split("\n")
    ids, texts = zip(*(row.split("\t", 1) for row in rows), strict=True)
    with np.load(npz, allow_pickle=False) as arrays:
        ends = np.unpackbits(arrays["eos"], count=len(arrays["dxy"]))
        lines = Lines(arrays["dxy"], ends, arrays["length"], texts)
    forms = np.array([line.rsplit("-", 1)[0] for line in ids])
    listed, sums = _read_lists(facts, root, set(forms.tolist()))
    belongs = listed or random_parts(forms.tolist(), **facts["split"])
    parts = {part: np.flatnonzero(np.isin(forms, sorted(names))) for part, names in belongs.items()}
    for part, chosen in parts.items():
        if not len(chosen):
            raise BadInput(f"{files.as_text(npz.parent)} has no line of the forms that are there to {part}.")
    others = len(ids) - sum(map(len, parts.values()))
    remark = f"IAM-OnDB: {len(parts['train'])} lines train, {len(parts['test'])} test, of " + (
        "the forms in the owners' lists" + (f", which leave out {others} of those here" if others else "")
        if listed
        else "forms drawn here, and a writer may be in both: the owners' lists are not at hand"
    )
    copy = {"sha256": files.checksum(sums | facts["files"]), "deviations": [remark]}
    alphabet, names = facts["alphabet"], ", ".join(name for given in facts["lists"].values() for name in given)
    made, scale = splits(lines, parts, int(config["points"]), alphabet)
    note = remark if listed else f"{remark} (below {files.as_text(root)}: {names})"
    return Dataset(str(config["name"]), made, (note,), copy, [*alphabet, OTHER], scale)


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


def _read_lists(facts: Mapping[str, Any], root: Path, forms: set[str]) -> tuple[dict[str, set[str]], dict[str, str]]:
    """Which of these forms each part has by the owners' lists, and the lists' sums; both empty where there are none.

    Where all lists but those of the part `rest` lie there, as they are passed on, that part has all other forms.
    """
    lists, rest = facts["lists"], facts["rest"]
    present = {name: root / name for names in lists.values() for name in names if (root / name).is_file()}
    if not present:
        return {}, {}
    parts: dict[str, set[str]] = {}
    for part, names in lists.items():
        lacking = [name for name in names if name not in present]
        if lacking and (part != rest or len(lacking) < len(names)):
            raise BadInput(
                f"{files.as_text(root / lacking[0])} is missing: of the owners' lists of forms all are used or none. "
                "Place it beside the others, or move those away."
            )
        parts[part] = {form for name in names if name in present for form in present[name].read_text("utf-8").split()}
    trained = set().union(*(named for part, named in parts.items() if part != rest))
    parts[rest] = parts[rest] or forms - trained
    if twice := parts[rest] & trained:
        raise BadInput(f"{min(twice)} is in the owners' lists for {rest} and in others. Place the owners' lists there.")
    return parts, {name: files.digest(path) for name, path in present.items()}
