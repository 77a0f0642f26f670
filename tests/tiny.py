"""The smallest complete run: a few units on the embedded digits; and short ways to train it and to read it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from normbench.config.plan import train_specs
from normbench.config.spec import Spec
from normbench.runs.directory import RunDirectory

WORDS = (
    "model=mnist_mlp",
    "data=digits",
    "model.hidden_sizes=[8]",
    "train.batch_size=210",  # of 1 200 training images: six steps, the last one of 150
    "train.epochs=2",
)


def spec(*words: str, config_dir: Path | None = None) -> Spec:
    """The tiny run with further override words; later words win."""
    (found,) = train_specs([*WORDS, *words], False, config_dir)
    return found


def train(folder: Path, *words: str, **keywords: Any) -> str:
    """Train the tiny run in `folder` and return its status."""
    from normbench.train.train_one import (
        ensure_run,  # torch is imported by the tests that train, not by those that plan
    )

    return ensure_run(spec(*words), RunDirectory(folder), **keywords)


def evaluate(model: Any, of: Spec, moment: int) -> list[dict[str, Any]]:
    """The records of one evaluation before anything was learnt."""
    from normbench import data
    from normbench.train.evaluate import Evaluation, State

    return Evaluation(model, data.load(of.config["data"]), of.config, of.sites)(State(moment, first=True))


def curve(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "curve.jsonl").read_text().splitlines()]


def status(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "run.json").read_text())


def trained_once(folder: Path) -> bool:
    """Every evaluation's time was taken once: a stretch that is trained again has its lines twice."""
    steps = [json.loads(line)["step"] for line in (folder / "timing.jsonl").read_text().splitlines()]
    return steps == sorted(set(steps))


def result(folder: Path) -> tuple[bytes, bytes]:
    """What must be equal to the last byte: the curve and the last weights."""
    return (folder / "curve.jsonl").read_bytes(), (folder / "weights" / "last.safetensors").read_bytes()


def writer(folder: Path) -> int:
    """The number of the process that writes a run."""
    (number,) = re.findall(r"^process (\d+) on", (folder / "lock").read_text())
    return int(number)


def variant(record: Mapping[str, Any]) -> str:
    """How a record's evaluation differs from the default one, in a few words: `TTFF populations=pooled shuffle=2`."""
    words = [v if k == "configuration" else f"{k}={v}" for k, v in record.get("variant", {}).items()]
    words += [f"{word}={record[key]}" for word, key in (("shuffle", "order"), ("block", "block")) if key in record]
    return " ".join(words)


def after(calls: int) -> Callable[[], bool]:
    """A `stopping` that says stop at its call number `calls`: it is asked once per step."""
    left = [calls]

    def stopping() -> bool:
        left[0] -= 1
        return left[0] <= 0

    return stopping


def wait_until(true: Callable[[], bool], seconds: float = 60.0) -> bool:
    """Poll; the limit only keeps a broken test from hanging."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if true():
            return True
        time.sleep(0.02)
    return true()
