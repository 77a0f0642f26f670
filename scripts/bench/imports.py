"""Imports of 100 runs of 10,000 points: python scripts/bench/imports.py [--runs N] [--points N] [--only WORD]

Makes up logs of each form and counts the CPU seconds (user and system) of `normbench import`, from the start to the
pack: the least of several calls. Event files and W&B's are framed as their tools do it; pyarrow writes the tables.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import harness
import numpy as np
import pyarrow as pa
from harness import Value
from pyarrow import csv, parquet

from normbench.imports import tensorboard, wandb_file

CALLS = 3
GOALS = {"csv": 5.0, "parquet": 5.0, "jsonl": 5.0, "tensorboard": 5.0, "wandb": 30.0}


def table(seed: int, points: int) -> pa.Table:
    loss = np.random.default_rng(seed).random(points)
    return pa.table({"step": np.arange(points) * 10, "valid/loss": loss})


def write_csv(folder: Path, run: int, points: int) -> None:
    csv.write_csv(table(run, points), folder / f"{arm(run)}.csv")


def write_parquet(folder: Path, run: int, points: int) -> None:
    parquet.write_table(table(run, points), folder / f"{arm(run)}.parquet")


def write_jsonl(folder: Path, run: int, points: int) -> None:
    rows = table(run, points).to_pylist()
    (folder / f"{arm(run)}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def write_tensorboard(folder: Path, run: int, points: int) -> None:
    """As torch's SummaryWriter."""
    event = tensorboard._event()
    records = []
    for number, row in enumerate(table(run, points).to_pylist()):
        message = event(wall_time=1.7e9 + number, step=row["step"])
        message.summary.value.add(tag="valid/loss", simple_value=row["valid/loss"])
        records.append(message.SerializeToString())
    (folder / arm(run)).mkdir()
    (folder / arm(run) / "events.out.tfevents.1700000000.host").write_bytes(b"".join(framed(records)))


def framed(records: list[bytes]) -> Iterator[bytes]:
    lengths = [struct.pack("<Q", len(record)) for record in records]
    for parts in zip(lengths, sums(lengths), records, sums(records), strict=True):
        yield from parts


def sums(contents: list[bytes]) -> list[bytes]:
    """The CRC of each, those of one length together."""
    crcs: dict[int, bytes] = {}
    for length in {*map(len, contents)}:
        of_length = [number for number, content in enumerate(contents) if len(content) == length]
        rows = np.frombuffer(b"".join(contents[number] for number in of_length), dtype=np.uint8).reshape(-1, length)
        crcs |= zip(of_length, (crc.tobytes() for crc in tensorboard._crc(rows).astype("<u4")), strict=True)
    return [crcs[number] for number in range(len(contents))]


def write_wandb(folder: Path, run: int, points: int) -> None:
    """As W&B offline: a record a row, in blocks of 32 KiB."""
    record = wandb_file._record()
    config = {"seed": run // 2, "norm": arm(run).split("_")[0]}
    update = [dict(key=key, value_json=json.dumps(value)) for key, value in config.items()]
    rows = [record(run=dict(run_id=f"run{run}", config=dict(update=update)))]
    for number, row in enumerate(table(run, points).to_pylist()):
        items = [dict(key=name, value_json=json.dumps(value)) for name, value in row.items()]
        items += [dict(key="_step", value_json=str(number)), dict(key="_timestamp", value_json="1.7e9")]
        rows.append(record(history=dict(item=items, step=dict(num=number))))
    rows.append(record(exit=dict(exit_code=0)))
    content = bytearray(b":W&B\xe1\xbe\x00")
    for row in rows:
        unwritten, kind = row.SerializeToString(), wandb_file.FIRST
        while unwritten or kind == wandb_file.FIRST:
            left = wandb_file.BLOCK - len(content) % wandb_file.BLOCK
            if left < wandb_file.HEAD:
                content += bytes(left)
                continue
            part, unwritten = unwritten[: left - wandb_file.HEAD], unwritten[left - wandb_file.HEAD :]
            code = kind if unwritten else wandb_file.FULL if kind == wandb_file.FIRST else wandb_file.LAST
            content += struct.pack("<IHB", zlib.crc32(part, zlib.crc32(bytes([code]))), len(part), code) + part
            kind = wandb_file.MIDDLE
    (folder / f"run-{run}").mkdir()
    (folder / f"run-{run}" / f"run-{run}.wandb").write_bytes(content)


def arm(run: int) -> str:
    return f"{'ln' if run % 2 else 'base'}_s{run // 2}"


WRITERS: dict[str, Callable[[Path, int, int], None]] = {
    "csv": write_csv,
    "parquet": write_parquet,
    "jsonl": write_jsonl,
    "tensorboard": write_tensorboard,
    "wandb": write_wandb,
}


def seconds(folder: Path, results: Path) -> float:
    """CPU seconds of one import into an empty folder."""
    shutil.rmtree(results, ignore_errors=True)
    words = [
        sys.executable,
        "-m",
        "normbench",
        "import",
        str(folder),
        "--as",
        "made",
        "--yes",
        "--results",
        str(results),
    ]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--only", default="", metavar="WORD", help="a source; nothing is published")
    parser.add_argument("--output", type=Path, default=harness.RESULTS)
    given = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    values = []
    for source, write in WRITERS.items():
        if given.only not in source:
            continue
        with tempfile.TemporaryDirectory() as folder:
            (logs := Path(folder, "logs")).mkdir()
            for run in range(given.runs):
                write(logs, run, given.points)
            least = min(seconds(logs, Path(folder, "results")) for _ in range(CALLS))
        values.append(Value(source, "CPU s", least, GOALS[source]))
        print(f"{source:<12} {least:.2f} CPU s  goal ≤ {GOALS[source]:g}: {values[-1].met}", flush=True)
    if given.only:
        return
    note = (
        f"CPU seconds (user and system) of `normbench import` of {given.runs} runs of {given.points:,} points, with "
        f"the pack that it writes: the least of {CALLS} calls."
    )
    words = [f"--runs {given.runs}"] if given.runs != 100 else []
    words += [f"--points {given.points}"] if given.points != 10_000 else []
    command = " ".join(["python scripts/bench/imports.py", *words])
    harness.publish_values("imports", "Import of curves", note, "others", command, values, given.output)


if __name__ == "__main__":
    main()
