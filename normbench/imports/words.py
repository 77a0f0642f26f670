"""Words in names: of splits, of seeds, of clocks."""

from __future__ import annotations

import re

SPLITS = {"train": "train", "training": "train", "test": "test", "eval": "valid"} | dict.fromkeys(
    ("val", "valid", "validation"), "valid"
)
CLOCKS = {
    **dict.fromkeys(("step", "steps", "global_step", "iteration", "iterations", "iter", "update", "updates"), "step"),
    **dict.fromkeys(("trainer/global_step", "train/global_step"), "step"),
    **dict.fromkeys(("epoch", "epochs", "train/epoch"), "epoch"),
}
NOT_CURVES = {"_step", "_runtime", "_timestamp", "wall_time", "time", "timestamp", "seed", "run_id", "total_flos"}
WORD = "|".join(sorted(SPLITS, key=len, reverse=True))
SPLIT = re.compile(rf"(?:^|(?<=[^A-Za-z]))({WORD})(?=$|[^A-Za-z])", re.IGNORECASE)
FOLDER = rf"^(.+?)(?:/(?:{WORD}))?$"  # of a path, what is not the split
SEED = re.compile(r"[-_./ ]?seed[-_= ]?(\d+)|_s(\d+)(?=$|/)", re.IGNORECASE)


def is_clock(name: str) -> bool:
    """Whether a name is that of a clock, of a time or of an id, and so of no metric."""
    return name.lower() in CLOCKS or name in NOT_CURVES


def split_of(name: str) -> str:
    """The split whose word a name has; "" where it has none, or those of two splits."""
    found = {SPLITS[word.lower()] for word in SPLIT.findall(name)}
    return found.pop() if len(found) == 1 else ""


def bare(name: str) -> str:
    """`loss` of `val_loss` and `loss/train`: a name without the word of its split."""
    return re.sub(r"^[^A-Za-z0-9]+|[^A-Za-z0-9)%]+$", "", SPLIT.sub("", name)).replace("//", "/") or name


def seed_of(path: str) -> str:
    """The one seed that a path names, "" where there is none or several."""
    found = {one or other for one, other in SEED.findall(path)}
    return found.pop() if len(found) == 1 else ""
