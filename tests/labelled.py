"""Small sets of labelled sentences in the real files' form, whose words tell the labels, declared as such."""

from __future__ import annotations

import copy
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from normbench.config import compose
from normbench.sentences import sets

ROWS = {"mr": 60, "cr": 44, "subj": 50, "mpqa": 41}
EMPTY = {"cr": 3, "mpqa": 7}  # the row without a text
PAIRS = {"train": 40, "trial": 12, "test": 20}


def write(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write them below `folder`, and let the choices `data=sentence_eval` and `data=sick` declare these files."""
    draw = np.random.default_rng(0)
    (folder / "sentence_eval").mkdir(parents=True)
    tables = {}
    for name, count in ROWS.items():
        lines = ["label\ttext"]
        for row in range(count):
            label = int(draw.random() < 0.4)
            words = draw.choice([f"w{k}" for k in range(12 * label, 12 * label + 24)], 5)
            text = " ".join(["caf\u00e9\u0085", *words])
            lines.append(f"{label}\t{'' if EMPTY.get(name) == row else text}")
        tables[name] = lines
    for part, count in PAIRS.items():
        lines = ["pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"]
        for row in range(count):
            a = [f"W{k}" for k in draw.choice(30, 6)]
            same = int(draw.integers(0, 7))
            b = a[:same] + [f"x{k}" for k in draw.choice(30, 6 - same)]
            lines.append(f"{row}\t{' '.join(a)}\t{' '.join(b)}\t{1 + 4 * same / 6:.1f}\tNEUTRAL")
        tables[f"sick_{part}"] = lines
    sums = {}
    for stem, lines in tables.items():
        path = folder / "sentence_eval" / f"{stem}.tsv"
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
        sums[f"sentence_eval/{stem}.tsv"] = hashlib.sha256(path.read_bytes()).hexdigest()
    real = compose.choice

    def choice(group: str, name: str, extra: Path | None = None) -> Any:
        found = copy.deepcopy(real(group, name, extra))
        if (group, name) in (("data", "sentence_eval"), ("data", "sick")):
            found["declares"]["files"] = {path: sums[path] for path in found["declares"]["files"]}
        return found

    monkeypatch.setattr(sets.compose, "choice", choice)
    return folder


def vectors(sentences: list[str]) -> np.ndarray:
    """Counts of the words' last letters, and a 1."""
    return np.array([[sum(w.endswith(d) for w in s.split()) for d in "0123456789"] + [1.0] for s in sentences])
