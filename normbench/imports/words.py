"""Words in names: of splits, of seeds, of clocks; and what a text is that stands among numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence

from normbench.draw.text import visible

SPLITS = {"train": "train", "training": "train", "test": "test", "eval": "valid"} | dict.fromkeys(
    ("val", "valid", "validation", "dev"), "valid"
)
CLOCKS = {
    **dict.fromkeys(("step", "steps", "global_step", "iteration", "iterations", "iter", "update", "updates"), "step"),
    **dict.fromkeys(("trainer/global_step", "train/global_step"), "step"),
    **dict.fromkeys(("epoch", "epochs", "train/epoch"), "epoch"),
}
NOT_CURVES = {"_step", "_runtime", "_timestamp", "wall_time", "time", "timestamp", "seed", "run_id", "total_flos"}
SETTING = re.compile(r"(?:^|[/._ ])(?:(?:lr|learning_rate)(?:[-/].*|_?\d+)?|runtime|\w+_per_second)$")
YOLO = re.compile(r"metrics/(?:(?:precision|recall|mAP50|mAP50-95)\([A-Z]\)|accuracy_top[15])")  # on its validation set
BLANKS = {"", "none", "null", "nil", "n/a", "na", "<na>", "#n/a", "-", "--"}  # loggers write them for no measurement
DEVIATION = r"(?<!std[^A-Za-z])(?<!abs[^A-Za-z])(?<!standard[^A-Za-z])"  # what `dev` does not stand behind
WORD = "|".join(sorted(SPLITS, key=len, reverse=True)).replace("dev", f"{DEVIATION}dev")
SPLIT = re.compile(rf"(?:^|(?<=[^A-Za-z]))({WORD})(?=$|[^A-Za-z])", re.IGNORECASE)
FOLDER = rf"^(.+?)(?:/(?:{'|'.join(sorted(SPLITS, key=len, reverse=True))}))?$"  # of a path, what is not the split
SEED = re.compile(r"[-_./ ]?seed[-_= ]?(\d+)|[-_]s(\d+)(?=$|/)", re.IGNORECASE)

HINTS = {  # by the beginning of a text in the place of a number
    r"[-+]?\d+,\d+\Z": " (a decimal comma? write a point)",
    r"[-+]?[\d.]+ ?%\Z": " (a percentage? write the number alone)",
    r"\w*tensor\(|\w*[Aa]rray\(": " (log its item())",
    r"[{[]": " (JSON in a text? write its numbers as columns)",
}


def is_clock(name: str) -> bool:
    """Whether a name is that of a clock, of a time or of an id, and so of no metric."""
    return name.lower() in CLOCKS or name in NOT_CURVES


def split_of(name: str) -> str:
    """The split whose word a name has; "" where it has none, or those of two splits."""
    if YOLO.fullmatch(name):
        return "valid"
    splits = {SPLITS[word.lower()] for word in SPLIT.findall(name)}
    return splits.pop() if len(splits) == 1 else ""


def is_setting(name: str) -> bool:
    """Whether a name is of how a training goes, its learning rate or its speed, and so of nothing to compare."""
    return bool(SETTING.search(name))


def bare(name: str) -> str:
    """`loss` of `val_loss` and `loss/train`: a name without the word of its split."""
    return re.sub(r"^[^A-Za-z0-9]+|[^A-Za-z0-9)%]+$", "", SPLIT.sub("", name)).replace("//", "/") or name


def seed_of(path: str) -> str:
    """The one seed that a path names, "" where there is none or several."""
    seeds = {"".join(groups) for groups in SEED.findall(path)}  # one of both groups is empty
    return seeds.pop() if len(seeds) == 1 else ""


def number_of(word: str) -> float | None:
    """The number that a text is, NaN and Infinity too; None where it is none."""
    try:
        return None if "_" in word else float(word)
    except ValueError:
        return None


def is_blank(word: str) -> bool:
    """Whether a text stands for no measurement: None, N/A, null, -."""
    return word.strip().lower() in BLANKS


def listed(names: Sequence[str], most: int) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def excerpt(word: str) -> str:
    """The beginning of a text, in quotes."""
    word = visible(word.strip())
    return f"'{word}'" if len(word) <= 40 else f"'{word[:37]}...'"


def guess_of(word: str, name: str) -> str:
    """What a text in the place of a number may be: " (a percentage?)"; "" where nobody knows."""
    word = word.strip()
    if word == name:
        return " (the header again?)"
    return next((hint for pattern, hint in HINTS.items() if re.match(pattern, word)), "")
