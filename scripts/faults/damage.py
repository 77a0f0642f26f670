"""Damage a copy of a results folder at random, again and again, and count what `normbench check` names.

    python scripts/faults/damage.py [--damages 500] [--seed 1]

The copy has published artifacts, and raw runs that are trained here: finished ones with weights and outcomes, and an
interrupted one with its checkpoints. Every damage is alone, and mended before the next. It counts as named where a
finding that is no mere note has the damaged file, or its run or artifact, as its place; as harmless to others where no
finding has another place and every other run is still read.
"""

from __future__ import annotations

import argparse
import gzip
import io
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from page import ROOT, publish

from normbench.check import Check
from normbench.check.ids import Ids
from normbench.config import plan
from normbench.runs import pack, store, table, writing
from normbench.train.train_one import ensure_run

HEAVY = ("bln2022/ablation", "bln2022/table1", "bln2022/table2")  # take seconds each time they are judged
NOTHING_PROMISED = ("lock", "output.log", "figure.svg")
TINY = ("model=mnist_mlp", "data=digits", "model.hidden_sizes=[8]", "train.batch_size=210", "train.epochs=2",
        "train.keep=[best,last]", "train.checkpoint_seconds=0")  # fmt: skip
DIGITS = re.compile(rb"\d")


@dataclass
class Kept:
    """Files as they were, to be put back."""

    before: dict[Path, tuple[bytes, int]] = field(default_factory=dict)

    def take(self, path: Path) -> bytes:
        self.before[path] = path.read_bytes(), path.stat().st_mode
        return self.before[path][0]

    def restore(self) -> None:
        for path, (content, mode) in self.before.items():
            path.write_bytes(content)
            path.chmod(mode)


def folder(place: Path) -> Path:
    """The copy that is damaged."""
    for source in sorted((ROOT / "results").glob("*/*/*/verdicts.json")):
        name = source.parent.relative_to(ROOT / "results")
        if not name.as_posix().startswith(HEAVY):
            shutil.copytree(source.parent, place / name)
    for seed, norm in ((1, "none"), (2, "none"), (1, "layer"), (2, "batch"), (3, "layer")):
        (spec,) = plan.train_specs([*TINY, f"norm={norm}", f"seed={seed}"], False)
        calls = iter(range(1000))
        ensure_run(
            spec, writing.directory(place / "runs", spec), stopping=lambda c=calls, s=seed: s == 3 and next(c) > 7
        )
    return place


def byte(path: Path, draw: random.Random, copies: Kept) -> str:
    content = bytearray(copies.take(path))
    at = draw.randrange(len(content))
    content[at] ^= 1 << draw.randrange(8)
    path.write_bytes(content)
    return f"byte {at}"


def digit(path: Path, draw: random.Random, copies: Kept) -> str:
    """Another digit in a text, packed again where it was packed; in an archive of arrays another number."""
    content = copies.take(path)
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            found = dict(arrays)
        name = draw.choice([key for key, array in found.items() if array.size])
        flat = found[name].reshape(-1)
        at = draw.randrange(flat.size)
        flat[at] = 1 if flat[at] == 0 else 0
        out = io.BytesIO()
        np.savez_compressed(out, **found)
        path.write_bytes(out.getvalue())
        return f"{name} [{at}]"
    packed = path.suffix == ".gz"
    text = bytearray(gzip.decompress(content) if packed else content)
    at = draw.choice([match.start() for match in DIGITS.finditer(bytes(text))])
    text[at] = 48 + (text[at] - 48 + draw.randrange(1, 10)) % 10
    path.write_bytes(gzip.compress(bytes(text)) if packed else bytes(text))
    return f"digit {at}"


def swap(path: Path, draw: random.Random, copies: Kept, others: list[Path]) -> str:
    other = draw.choice(others)
    one, two = copies.take(path), copies.take(other)
    path.write_bytes(two)
    other.write_bytes(one)
    return f"with {other}"


def truncate(path: Path, draw: random.Random, copies: Kept) -> str:
    content = copies.take(path)
    path.write_bytes(content[: draw.randrange(len(content))])
    return f"{path.stat().st_size} of {len(content)} bytes"


def remove(path: Path, draw: random.Random, copies: Kept) -> str:
    copies.take(path)
    path.unlink()
    return "gone"


def forbid(path: Path, draw: random.Random, copies: Kept) -> str:
    copies.take(path)
    path.chmod(draw.choice([0o000, 0o200, 0o040]))
    return "not to be read"


def base(path: Path) -> Path:
    """The run, the artifact, or the file itself that a place belongs to."""
    for above in (path, *path.parents):
        if store.NAME.fullmatch(above.name) or (above / "verdicts.json").exists() or (above / "table.md").exists():
            return above
    return path


def readable(results: Path) -> Counter[str]:
    """Every run that is read, by id."""
    return Counter(run.id for run in table.finished(results)[0])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--damages", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=ROOT / "results" / "faults")
    given = parser.parse_args()
    draw, ids = random.Random(given.seed), Ids()
    with tempfile.TemporaryDirectory() as aside:
        results = folder(Path(aside) / "results")
        clean = [finding for finding in Check(results, ids).findings() if not finding.harmless]
        if clean:
            sys.exit(f"not whole before anything was damaged: {clean[0]}")
        every, runs_of = readable(results), of_places(results)
        files = sorted(p for p in results.rglob("*") if p.is_file() and p.name not in NOTHING_PROMISED)
        alike = {p: [q for q in files if q.name == p.name and q != p and q.read_bytes() != p.read_bytes()]
                 for p in files}  # fmt: skip
        textual = [p for p in files if p.suffix != ".safetensors"]
        kinds: dict[str, tuple[list[Path], Callable[[Path, Kept], str]]] = {
            "a bit flipped": (files, lambda p, k: byte(p, draw, k)),
            "a digit changed, packed again": (textual, lambda p, k: digit(p, draw, k)),
            "swapped with another's": ([p for p in files if alike[p]], lambda p, k: swap(p, draw, k, alike[p])),
            "truncated": (files, lambda p, k: truncate(p, draw, k)),
            "removed": (files, lambda p, k: remove(p, draw, k)),
            "not to be read": (files, lambda p, k: forbid(p, draw, k)),
        }
        rows = {name: {"damage": name, "times": 0, "named": 0, "others named": 0, "others not read": 0, "seconds": 0.0}
                for name in kinds}  # fmt: skip
        missed = []
        for number in range(given.damages):
            name = list(kinds)[number % len(kinds)]
            places, damage = kinds[name]
            path, copies = draw.choice(places), Kept()
            hurt = {base(path)}
            what = damage(path, copies)
            hurt = {base(p) for p in copies.before} | hurt
            started = time.process_time()
            found = [finding for finding in Check(results, ids).findings() if not finding.harmless]
            row = rows[name]
            row["seconds"] += time.process_time() - started
            inside = [f for f in found if base(f.place) in hurt]
            row["times"] += 1
            row["named"] += bool(inside)
            row["others named"] += len(inside) < len(found)
            lost = every - readable(results)
            row["others not read"] += bool(set(lost) - {run for p in hurt for run in runs_of.get(p, ())})
            if not inside or len(inside) < len(found):
                missed.append(f"{name}: {path.relative_to(results)} {what}: {found}")
            copies.restore()
        for line in missed:
            print(line)
    for row in rows.values():
        row["seconds"] = f"{row['seconds'] / max(1, row['times']):.2f} a check"
    named, others = (sum(row[key] for row in rows.values()) for key in ("named", "others named"))
    unread = sum(row["others not read"] for row in rows.values())
    summary = (
        f"{named} of {given.damages} random damages were named, at their place; another run or artifact was named by "
        f"mistake {others} times, and could not be read any more {unread} times."
    )
    publish("damage", "Random damages of a results folder", __doc__.split("\n\n", 2)[2].strip().replace("\n", " ")
            + f" Of {len(files)} files; not of bench/, check/, README.md, figures, locks and logs, which promise "
            "nothing.",
            summary, list(rows.values()), given.output)  # fmt: skip
    print(summary)
    return 0 if named == given.damages and not others and not unread else 1


def of_places(results: Path) -> dict[Path, set[str]]:
    """The ids of runs in each pack and directory."""
    found = {path.parent: {run.id for run in pack.read(path)} for path in pack.paths(results)}
    return found | {stored.path: {stored.id} for stored in store.scan(results / "runs")}


if __name__ == "__main__":
    sys.exit(main())
