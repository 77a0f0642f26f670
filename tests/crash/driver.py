"""Trains one tiny run again and again in forked children and kills them; prints what happened as JSON.

A process of its own that has torch in memory once: each start costs a fork instead of an import.
    python driver.py FOLDER random SEED KILLS    SIGKILL after random times
    python driver.py FOLDER points STRIDE        SIGKILL at every STRIDE-th write, flush, rename or removal of a file
"""

from __future__ import annotations

import builtins
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import tiny

from normbench.config.spec import Spec
from normbench.runs.directory import RunDirectory
from normbench.train.train_one import ensure_run

WORDS = ("train.checkpoint_seconds=0", "norm=batch", "norm.also_momenta=[0.01]")
RANDOM, POINTS = ("train.epochs=8",), ("train.epochs=1", "train.batch_size=400")


def main() -> None:
    folder, kind = Path(sys.argv[1]), sys.argv[2]
    torch.set_num_threads(1)
    numbers = [int(number) for number in sys.argv[3:]]
    report = randomly(folder, *numbers) if kind == "random" else at_points(folder, *numbers)
    print(json.dumps(report))


def randomly(folder: Path, seed: int, kills: int) -> dict[str, object]:
    spec = tiny.spec(*WORDS, *RANDOM)
    undisturbed(spec, folder)
    started = time.monotonic()
    in_child(lambda: ensure_run(spec, RunDirectory(folder / "again")))
    calm = time.monotonic() - started
    rng, hit, steps = random.Random(seed), 0, []
    for kill in range(kills):
        # squared, so that many are early: before the first checkpoint, in the middle of resuming
        wait = 0.0 if kill == 0 else calm / 4 * rng.random() ** 2
        child = fork(lambda: ensure_run(spec, RunDirectory(folder / "killed")))
        time.sleep(wait)
        os.kill(child, signal.SIGKILL)
        hit += os.WIFSIGNALED(os.waitpid(child, 0)[1])
        status = folder / "killed" / "run.json"
        steps.append(json.loads(status.read_text())["step"] if status.exists() else 0)
    in_child(lambda: ensure_run(spec, RunDirectory(folder / "killed")))
    return {"kills": hit, "steps": steps}


def at_points(folder: Path, stride: int) -> dict[str, object]:
    """One run per point: killed there in its first attempt, and once more a little later in its second."""
    spec = tiny.spec(*WORDS, *POINTS)
    undisturbed(spec, folder)
    names: list[str] = []
    point = 1
    while True:
        run = RunDirectory(folder / f"at-{point}")
        if os.WIFSIGNALED(wait(fork(lambda run=run, n=point: counted(n, lambda: ensure_run(spec, run))))):
            names.append(run.path.name)
            wait(fork(lambda run=run, n=3 + point % 17: counted(n, lambda: ensure_run(spec, run))))
            in_child(lambda run=run: ensure_run(spec, run))
            point += stride
        else:
            return {"runs": names}


def undisturbed(spec: Spec, folder: Path) -> None:
    """In this very process, so that children find all that torch imports late; one thread: it may fork."""
    ensure_run(spec, RunDirectory(folder / "calm"))


def counted(last: int, then: Callable[[], object]) -> None:
    """Do `then`, but die at call number `last` of those that change what is on the disk."""
    calls = 0

    def dying(function: Callable[..., object], after: bool) -> Callable[..., object]:
        def call(*arguments: object, **keywords: object) -> object:
            nonlocal calls
            calls += 1
            if calls == last and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            result = function(*arguments, **keywords)
            if calls == last:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return call

    os.replace = dying(os.replace, after=last % 2 == 0)
    os.fsync = dying(os.fsync, after=False)
    os.unlink = dying(os.unlink, after=False)
    builtins.open = dying(builtins.open, after=True)  # for writing: an empty file is there, its content is not
    then()


def fork(then: Callable[[], object]) -> int:
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    try:
        then()
    except BaseException:
        import traceback

        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def wait(child: int) -> int:
    return os.waitpid(child, 0)[1]


def in_child(then: Callable[[], object]) -> None:
    code = os.waitstatus_to_exitcode(wait(fork(then)))
    if code:
        sys.exit(f"the child ended with {code}")


if __name__ == "__main__":
    main()
