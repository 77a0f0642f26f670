"""Every model on the GPU against the CPU: python scripts/gpu/models.py [--device cpu] [--updates N] [MODEL ...]

Each model in its smallest form (`tests/smallest.py`) x {none, layer, batch per step}, from equal weights, in float32
without TF32: the losses of update 10 and of the evaluation then, and every metric after the last update; then runs that
stop half-way and go on, on the same device and on the other. Prints a line of JSON for each. The losses may differ by
1e-4 at update 10 and by 1e-2 after the last, relatively; other metrics are shown only, for a rate of few examples may
jump by one of them.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
from smallest import MODELS, small

from normbench.models.base import unlearned
from normbench.runs import directory
from normbench.runs.directory import RunDirectory
from normbench.runs.run import PLACE
from normbench.train.train_one import ensure_run

NORMS = {"none": (), "layer": ("norm=layer",), "batch": ("norm=batch", "norm.stats=per_step")}
EARLY, EARLY_APART, LATE_APART = 10, 1e-4, 1e-2
Numbers = dict[tuple[Any, ...], float]  # by step, split, mode, variant and metric


def numbers(run: Path) -> Numbers:
    values: Numbers = {}
    for record in directory.curve(directory.read(run)):
        place = tuple(str(record.get(key)) for key in ("step", "split", "mode", "variant"))
        values |= {(*place, name): float(value) for name, value in record.items() if name not in PLACE}
    return values


def apart(first: Numbers, second: Numbers, step: int, metric: str = "") -> float:
    """The largest relative difference at a step; infinite where the two do not have the same numbers there."""
    a, b = ({k: v for k, v in n.items() if k[0] == str(step) and metric in ("", k[-1])} for n in (first, second))
    if not a or a.keys() != b.keys():
        return float("inf")
    return max(abs(a[k] - b[k]) / max(abs(a[k]), abs(b[k]), 1e-30) for k in a)


def compare(model: str, norm: str, device: str, updates: int) -> dict[str, Any]:
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    # the record after update 10 has the mean loss since the one before it: that of this update
    words = (f"train.steps={updates}", "eval.unit=updates", f"eval.every={updates}")
    words += (f"eval.also_after=[{EARLY - 1},{EARLY}]", *NORMS[norm])
    with tempfile.TemporaryDirectory() as folder:

        def run(name: str, on: str, until: int = 0) -> Numbers:
            done, path = itertools.count(1), Path(folder, name)
            spec = small(model, *words, f"device={on}")
            status = ensure_run(spec, RunDirectory(path), stopping=lambda: next(done) == until)
            if status != ("interrupted" if until else "done"):
                raise SystemExit(f"{model}, {norm}: {name} on {on} is {status}")
            return numbers(path)

        curves, seconds = {}, {}
        for name, on in (("cpu", "cpu"), ("device", device)):
            began = time.monotonic()
            curves[name] = run(name, on)
            seconds[name] = time.monotonic() - began
        for name, first, second in (
            ("resumed", device, device),
            ("to cpu", device, "cpu"),
            ("from cpu", "cpu", device),
        ):
            run(name, first, until=updates // 2)
            curves[name] = run(name, second)
    spec = small(model, *words)
    loss = unlearned(spec.config, spec.sites).loss
    record: dict[str, Any] = {"step": "models", "case": f"{model}, {norm}", "device": device, "updates": updates}
    record |= {f"seconds {name}": round(value, 1) for name, value in seconds.items()}
    record["early loss"] = apart(curves["device"], curves["cpu"], EARLY, loss)
    for name, reference in (("device", "cpu"), ("resumed", "device"), ("to cpu", "cpu"), ("from cpu", "cpu")):
        record[f"{name}: loss"] = apart(curves[name], curves[reference], updates, loss)
        record[f"{name}: any metric"] = apart(curves[name], curves[reference], updates)
    late = max(value for name, value in record.items() if name.endswith(": loss"))
    return record | {"met": record["early loss"] <= EARLY_APART and late <= LATE_APART}


def quiet() -> None:
    sys.stdout = sys.stderr  # notes of runs: the output has the records alone


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=MODELS, metavar="MODEL")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--updates", type=int, default=50)
    given = parser.parse_args()
    failed = 0
    # processes of their own: eager updates of small models wait for Python, not for the GPU
    with ProcessPoolExecutor(min(6, os.cpu_count() or 1), multiprocessing.get_context("spawn"), quiet) as pool:
        cases = {
            pool.submit(compare, model, norm, given.device, given.updates): f"{model}, {norm}"
            for norm in NORMS
            for model in given.models
        }
        for case in as_completed(cases):
            try:
                record = case.result()
            except (Exception, SystemExit) as error:  # the other models are still of use
                why = f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"
                record = {"step": "models", "case": cases[case], "device": given.device, "met": False, "error": why}
            failed += not record["met"]
            print(json.dumps(record), flush=True)
    return min(failed, 1)


if __name__ == "__main__":
    raise SystemExit(main())
