"""SIGKILL commands that write at random instants, and let the same command go on: is the end the same to the byte?

    python scripts/faults/kills.py [--kills 60] [--seed 1] [--only publish]       prints a JSON list, a row a command

Each command runs in a forked child on a copy of the same folder, is killed after a random time, some of them once more,
and is then run to its end; a kill that came late met no process any more. Counted are folders that then differ from an
undisturbed one, in any file's name or content: what was left over is such a file. Of the battery it is what it writes
beside its runs.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import hashlib
import io
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from normbench.battery import scorecard
from normbench.battery.adopt import adopt
from normbench.papers import artifact as artifacts
from normbench.papers import publish as publishing
from normbench.runs import pack
from normbench.web import battery_page, report

ROOT = Path(__file__).resolve().parents[2]
NAME, FIDELITY = "ln2016/geometry", "paper"


@dataclass(frozen=True)
class Command:
    """`before` makes the folder that it finds, `act` is the command."""

    before: Callable[[Path], None]
    act: Callable[[Path], None]


def published(folder: Path) -> None:
    shutil.copytree(ROOT / "results" / NAME / FIDELITY, folder / NAME / FIDELITY)


def fewer_runs(folder: Path) -> None:
    """As it was published before the last runs: another pack, other verdicts, tables and figure."""
    published(folder)
    plan = artifacts.Plan(artifacts.load(NAME), FIDELITY)
    path = folder / NAME / FIDELITY / pack.NAME
    runs = pack.read(path).runs
    shutil.rmtree(path.parent)
    path.parent.mkdir()
    publishing.publish(plan, runs[: len(runs) // 2], folder)


def publish_all(folder: Path) -> None:
    runs = pack.read(ROOT / "results" / NAME / FIDELITY / pack.NAME).runs
    notes = publishing.publish(artifacts.Plan(artifacts.load(NAME), FIDELITY), runs, folder).notes
    if notes:
        sys.exit(str(notes))


def site(folder: Path) -> None:
    report.build(folder)


def page_of_battery(folder: Path) -> None:
    adopted = adopt(str(ROOT / "examples" / "own_normalizer" / "norm" / "centre.yaml"), None, folder / "own")
    card = scorecard.content(
        [], {}, [], norm=adopted.name, title="", source="", file="centre.py", derived="", measured={}, fidelity="smoke",
        command="", promises={"kept": 3}, table1={}, notes=[],
    )  # fmt: skip
    battery_page.write(card, [], folder / "battery" / adopted.name / "page")
    scorecard.write(card, folder / "battery" / adopted.name)


def tree(folder: Path) -> dict[str, str]:
    """Every file and folder below, with the hash of its content."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in sorted(folder.rglob("*"))
        if path.name != ".normbench.lock"
    }  # fmt: skip


def child(act: Callable[[], None]) -> int:
    sys.stdout.flush()
    process = os.fork()
    if process:
        return process
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            act()
    except BaseException:
        import traceback

        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def whole(act: Callable[[], None]) -> float:
    """Run it to its end in a child; its seconds."""
    started = time.monotonic()
    if os.waitpid(child(act), 0)[1]:
        sys.exit("the command failed")
    return time.monotonic() - started


def hit(act: Callable[[], None], seconds: float) -> bool:
    """Kill it after that long; whether it was still there."""
    process = child(act)
    time.sleep(seconds)
    os.kill(process, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(process, 0)[1])


def kill(command: Command, kills: int, draw: random.Random, aside: Path) -> dict[str, Any]:
    """So many kills of it; what was found."""
    before, calm = aside / "before", aside / "calm"
    before.mkdir(parents=True)
    command.before(before)
    command.act(Path(shutil.copytree(before, aside / "warm")))  # here, for what is imported late
    shutil.copytree(before, calm)
    seconds = whole(lambda: command.act(calm))
    expected = tree(calm)
    counts = {"kills": 0, "late": 0, "another end": 0, "left over": 0}
    while counts["kills"] < kills:
        folder = Path(shutil.copytree(before, aside / "killed"))
        act = functools.partial(command.act, folder)
        for _ in range(draw.choice((1, 1, 2))):
            counts["kills" if hit(act, seconds * 1.1 * draw.random()) else "late"] += 1
        whole(act)
        ended = tree(folder)
        if ended != expected:
            strange = {name for name in ended if name not in expected}
            counts["left over" if strange else "another end"] += 1
            print({name for name in expected | ended if expected.get(name) != ended.get(name)}, file=sys.stderr)
        shutil.rmtree(folder)
    return counts | {"seconds undisturbed": round(seconds, 2)}


def commands() -> dict[str, Command]:
    return {
        "publish": Command(fewer_runs, publish_all),
        "report": Command(published, site),
        "battery": Command(lambda folder: None, page_of_battery),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=60, help="of each command")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", help="this command (repeatable)")
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as aside:
        for name, command in commands().items():
            if given.only and name not in given.only:
                continue
            draw = random.Random(f"{given.seed} {name}")
            rows.append({"command": name, **kill(command, given.kills, draw, Path(aside) / name.replace(" ", "-"))})
    print(json.dumps(rows, indent=1))
    return 1 if sum(row["another end"] + row["left over"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
