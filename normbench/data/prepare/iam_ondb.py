"""IAM-OnDB: from an XML file a line and a text file a form to arrays of pen moves and a table of what was written."""

from __future__ import annotations

import re
import xml.parsers.expat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from normbench.data import archive, files
from normbench.data.prepare.parts import Wrong

STROKES, TEXT = "lineStrokes-all.tar.gz", "ascii-all.tar.gz"
LINE = re.compile(r"(?:[\w.-]+/)*(([a-z]\d\d-\d+[a-z]?)-(\d+))\.xml")
FORM = re.compile(r"(?:[\w.-]+/)*([a-z]\d\d-\d+[a-z]?)\.txt")
MOST_SHOWN = 3  # of the odd files


def prepare(sources: Path, out: Path, declares: Mapping[str, Any]) -> str:
    """Write `iam_ondb/strokes.npz` and `iam_ondb/sentences.tsv` below `out`, by form and line.

    Keys: `dxy` int16, for each line first the pen's absolute position, then differences (x rightwards, y downwards);
    `eos` packed bits, 1 for the last point before the pen is lifted; `length` points a line. Text: what was really
    written (the CSR part). A form whose stroke files do not match its text lines, or that has an odd file, is left out.
    Returns a remark on what was found.
    """
    texts: dict[str, list[str]] = {}
    odd: dict[str, Wrong] = {}  # by form
    text, stroke = (files.find(sources, name) for name in (TEXT, STROKES))
    for name, body in archive.members(text, FORM.fullmatch):
        try:
            texts[_id(FORM, name, 1)] = _lines(body.decode("utf-8"))
        except UnicodeDecodeError:
            odd[_id(FORM, name, 1)] = Wrong(f"{name} is not UTF-8")
    strokes: dict[str, dict[str, tuple[np.ndarray, np.ndarray]]] = {}
    for name, body in archive.members(stroke, LINE.fullmatch):
        form = _id(LINE, name, 2)
        try:
            strokes.setdefault(form, {})[_id(LINE, name, 1)] = _moves(name, body)
        except Wrong as error:
            odd[form] = error
    rows, moves, ends, left_out = [], [], [], []
    for form in sorted(strokes):
        lines = sorted(strokes[form], key=files.by_number)
        if form in odd or len(lines) != len(texts.get(form, [])):
            left_out.append(form)
            continue
        for line, written in zip(lines, texts[form], strict=True):
            rows.append(f"{line}\t{written}\n")
            move, end = strokes[form][line]
            moves.append(move)
            ends.append(end)
    reasons = f" ({'; '.join(map(str, list(odd.values())[:MOST_SHOWN]))})" if odd else ""
    if not rows:
        raise Wrong(f"{STROKES} and {TEXT} have no line in common{reasons}")
    (out / "iam_ondb").mkdir(parents=True)
    (out / "iam_ondb" / "sentences.tsv").write_text("".join(rows), encoding="utf-8", newline="\n")
    np.savez_compressed(
        out / "iam_ondb" / "strokes.npz",
        dxy=np.concatenate(moves),
        eos=np.packbits(np.concatenate(ends)),
        length=np.array([len(move) for move in moves], np.int32),
    )
    return f"lines: {len(rows)}, forms left out: {len(left_out)}{reasons}"


def _id(pattern: re.Pattern[str], name: str, group: int) -> str:
    match = pattern.fullmatch(name)
    assert match is not None  # `wanted` let it through
    return match[group]


def _lines(text: str) -> list[str]:
    """The lines below `CSR:`, as written, blank ones left out."""
    _, _, written = text.partition("CSR:")
    lines = [line.strip() for line in written.splitlines()]
    return [line.replace("\t", " ") for line in lines if line]


def _moves(name: str, body: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Moves (N, 2) and which of them end a stroke, from one stroke file."""
    points: list[tuple[int, int]] = []
    ends: list[int] = []

    def start(tag: str, values: dict[str, str]) -> None:
        if tag == "Point":
            points.append((int(values["x"]), int(values["y"])))

    def end(tag: str) -> None:
        if tag == "Stroke" and points:
            ends.append(len(points) - 1)

    parser = xml.parsers.expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = start, end
    try:
        parser.Parse(body, True)
    except (xml.parsers.expat.ExpatError, KeyError, ValueError) as error:
        raise Wrong(f"{name} is not a stroke file ({error})") from None
    if len(points) < 2:
        raise Wrong(f"{name} has too few points ({len(points)}): a line has at least 2")
    last = np.zeros(len(points), np.uint8)
    last[ends] = 1
    moves = np.diff(np.array(points, np.int64), axis=0, prepend=np.zeros((1, 2), np.int64))
    if np.abs(moves).max() > np.iinfo(np.int16).max:
        raise Wrong(f"{name} has a pen move of more than {np.iinfo(np.int16).max} units")
    return moves.astype(np.int16), last
