"""Shared by sets of pen strokes: lines cut to a length, offsets standardized, and a number for every symbol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from normbench.data import Scale
from normbench.data.examples import Ragged, Split

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
