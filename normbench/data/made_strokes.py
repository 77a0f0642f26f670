"""Short words in a hand made here: letters as curves, slanted, sized and shaken. Embedded: it needs no files."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from normbench.data import Dataset, content, strokes
from normbench.streams import stream

# Letter -> how wide it is, and its strokes: points that a curve goes through, in tenths of the height of an "o" from
# where the letter begins on the line, upwards; a point that is there twice is a corner.
BOWL = "8,8 4,10 0,5 3,0 7,3"
ARCH = "0,0 0,0 1,6 4,10 7,7 7,1 8,0"
LETTERS = {
    "a": (9, f"{BOWL} 8,10 8,10 8,2 10,0"),
    "c": (8, "8,8 5,10 0,5 4,0 8,2"),
    "d": (9, f"{BOWL} 8,19 8,19 8,2 10,0"),
    "e": (8, "1,5 5,5 8,7 5,10 0,5 4,0 8,2"),
    "h": (8, f"0,19 0,10 {ARCH}"),
    "i": (3, "1,10 1,2 3,0", "1,15 2,14"),
    "l": (4, "1,19 1,2 4,0"),
    "m": (13, f"0,10 {ARCH.removesuffix('7,1 8,0')}6,0 6,0 7,6 10,10 12,7 12,1 13,0"),
    "n": (8, f"0,10 {ARCH}"),
    "o": (9, "5,10 0,5 4,0 9,5 5,10 6,9"),
    "t": (6, "3,17 3,3 5,0 7,2", "0,11 6,11"),
    "u": (9, "0,10 0,3 3,0 7,4 8,10 8,10 8,2 10,0"),
}
WORD = (3, 6)  # letters
UNIT = 100.0  # height of an "o"
STEP = 0.3  # between points, of that height
FINE = 12  # places of a curve between two of its points


def load(config: Mapping[str, Any], root: Path, seed: int = 0) -> Dataset:
    """Lines as `strokes.splits` gives them: a word each, its letters drawn with equal chances.

    Every word has a slant, a size, a slope and gaps of its own, every letter is bent a little and every point shaken.
    Like a set that was collected, it is the same in every run: all is drawn by the declared seed. `root` is not used.
    NormbenchError when numpy's random numbers are not the declared ones.
    """
    declares = config["declares"]
    sizes = {part: int(size) for part, size in declares["sizes"].items()}
    draw = stream(declares["seed"], "made strokes")
    lines = _join([_word(draw) for _ in range(sum(sizes.values()))])
    found = hashlib.sha256(lines.moves.astype("<i8").tobytes() + lines.ends.tobytes() + " ".join(lines.texts).encode())
    content.check_made(f"the lines of data={config['name']}", found.hexdigest(), declares["sha256"])
    ends = np.cumsum(list(sizes.values()))
    parts = {part: np.arange(end - sizes[part], end) for part, end in zip(sizes, ends.tolist(), strict=True)}
    splits, scale = strokes.splits(lines, parts, int(config["points"]), "".join(LETTERS))
    return Dataset(str(config["name"]), splits, words=[*LETTERS, strokes.OTHER], scale=scale)


Word = tuple[str, list[np.ndarray]]  # its text, and the pen's places (points, 2) of each stroke


def _word(draw: np.random.Generator) -> Word:
    text = "".join(draw.choice(list(LETTERS), draw.integers(WORD[0], WORD[1] + 1)))
    slant, slope, size = draw.normal(0.2, 0.15), draw.normal(0, 0.04), draw.uniform(0.8, 1.25) * UNIT
    begin, made = draw.uniform(10, 20, 2) * UNIT, []
    at = 0.0
    for letter in text:
        width, curves = _curves(letter)
        wide = draw.uniform(0.85, 1.15)
        for points, basis in curves:
            bent = basis @ (points + draw.normal(0, 0.04, points.shape))
            x, y = _even(bent * [wide, 1]).T
            places = np.stack([at + x + slant * y, slope * (at + x) + y], 1) + draw.normal(0, 0.015, (len(x), 2))
            made.append(np.rint(begin + size * places * [1, -1]).astype(np.int64))
        at += width * wide + draw.uniform(0.25, 0.5)
    return text, made


@functools.cache
def _curves(letter: str) -> tuple[float, list[tuple[np.ndarray, np.ndarray]]]:
    """The letter's width; of each stroke its points (P, 2), and what makes a curve of them by product (places, P)."""
    width, *paths = LETTERS[letter]
    curves = []
    for stroke in paths:
        points = np.array([[float(n) / 10 for n in point.split(",")] for point in str(stroke).split()])
        curves.append((points, _catmull_rom(len(points))))
    return float(width) / 10, curves


def _catmull_rom(count: int) -> np.ndarray:
    """Weights (places, count) of the points that a uniform Catmull-Rom spline goes through, whose ends count twice."""
    t = np.arange(FINE)[:, None] / FINE
    weights = (
        np.concatenate([2 * t**2 - t - t**3, 2 - 5 * t**2 + 3 * t**3, t + 4 * t**2 - 3 * t**3, t**3 - t**2], 1) / 2
    )
    made = np.zeros(((count - 1) * FINE + 1, count))
    for place in range(count - 1):
        for column, weight in zip(range(place - 1, place + 3), weights.T, strict=True):
            made[place * FINE : (place + 1) * FINE, min(max(column, 0), count - 1)] += weight
    made[-1, -1] = 1
    return made


def _even(curve: np.ndarray) -> np.ndarray:
    """Points about `STEP` apart along a curve, its ends among them."""
    far = np.concatenate([[0.0], np.hypot(*np.diff(curve, axis=0).T).cumsum()])
    at = np.linspace(0, far[-1], max(2, round(far[-1] / STEP) + 1))
    return np.stack([np.interp(at, far, curve[:, axis]) for axis in (0, 1)], 1)


def _join(words: list[Word]) -> strokes.Lines:
    places = [np.concatenate(curves) for _, curves in words]
    moves = [np.diff(line, axis=0, prepend=np.zeros_like(line[:1])) for line in places]
    ends = [np.arange(len(stroke)) == len(stroke) - 1 for _, curves in words for stroke in curves]
    lengths = np.array(list(map(len, moves)))
    return strokes.Lines(np.concatenate(moves), np.concatenate(ends).astype(np.uint8), lengths, [t for t, _ in words])
