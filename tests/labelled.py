"""Small sets of labelled sentences in the real files' form, whose words tell the labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np

ROWS = {"mr": 60, "cr": 44, "subj": 50, "mpqa": 41}
EMPTY = {"cr": 3, "mpqa": 7}  # the row without a text
PAIRS = {"train": 40, "trial": 12, "test": 20}


def write(folder: Path) -> Path:
    """Write them below `folder`, and return it."""
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
    for stem, lines in tables.items():
        path = folder / "sentence_eval" / f"{stem}.tsv"
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
    return folder


def vectors(sentences: list[str]) -> np.ndarray:
    """Counts of the words' last letters, and a 1."""
    return np.array([[sum(w.endswith(d) for w in s.split()) for d in "0123456789"] + [1.0] for s in sentences])
