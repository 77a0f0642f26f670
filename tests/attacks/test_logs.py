"""Logs of strangers: whatever they hold, there is one line that names the file, in bounded time and memory."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from binary_logs import configuration, event_file, history, wandb_content
from pyarrow import parquet

from normbench import imports
from normbench.errors import NormbenchError
from normbench.imports import log, tables, tensorboard, wandb_file
from normbench.papers.claims import load

DEEP = 5_000  # levels: beyond any recursion
GOOD = "step,train_loss\n1,0.5\n2,0.4\n"


def tensor(**fields: object) -> bytes:
    """An event file with one tensor."""
    message = tensorboard._event()(wall_time=1.0, step=1)
    message.summary.value.add(tag="train/loss", tensor=fields)
    return event_file([message])


def scalars(count: int) -> bytes:
    """An event file with so many tags."""
    message = tensorboard._event()(wall_time=1.0, step=1)
    for number in range(count):
        message.summary.value.add(tag=f"train/{number}", simple_value=1.0)
    return event_file([message])


def parquet_file(path: Path, table: pa.Table) -> None:
    parquet.write_table(table, path, store_schema=False)


def new_keys(count: int) -> list[dict[str, int]]:
    return [{f"k{number}": 1, "step": number} for number in range(count)]


CONTENTS: dict[str, tuple[str, bytes]] = {  # by what is wrong: a file and what it holds
    "lines that are deep": ("a_s1.jsonl", b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"\n"),
    "a deep line in pieces": ("a_s1.jsonl", b'{"a":\n' * DEEP + b"1" + b"}" * DEEP + b"\n"),
    "lines with ever new keys": ("a_s1.jsonl", "\n".join(map(json.dumps, new_keys(99))).encode() + b"\n"),
    "states with ever new keys": ("trainer_state.json", json.dumps({"log_history": new_keys(99)}).encode()),
    "rows of W&B with ever new keys": (
        "run-a.wandb",
        wandb_content(*(history(number, **{f"k{number}": "1"}) for number in range(99))),
    ),
    "more columns than are read": ("a_s1.csv", (",".join(f"c{n}" for n in range(99)) + "\n").encode()),
    "more cells than are read": ("a_s1.csv", b"step,train_loss\n" + b"1,2\n" * 999),
    "a gz that unpacks to more than is read": ("a_s1.csv.gz", gzip.compress(b"step,a\n" + b"1,2\n" * 99_999)),
    "more tags than are read": ("events.out.tfevents.1", scalars(99)),
    "a pack of bad deflate": ("runs.jsonl.gz", gzip.compress(os.urandom(999))[:20] + b"\xff" * 99),
    "no protobuf": ("run-a.wandb", wandb_content(b"\xff\xff\xff")),
    "a length that no record has": ("run-a.wandb", wandb_content(b"\x0a" + b"\xff" * 10 + b"\x01")),
    "a configuration that is no JSON": ("run-a.wandb", wandb_content(configuration((["a"], "{")))),
    "a deep configuration": ("run-a.wandb", wandb_content(configuration((["a"], "[" * DEEP + "]" * DEEP)))),
    "a key below a number": ("run-a.wandb", wandb_content(configuration((["a"], "1"), (["a", "b"], "2")))),
    "a configuration of many keys": ("run-a.wandb", wandb_content(configuration((["a"] * 3_000, "2")))),
    "half a character in a configuration": (
        "run-a.wandb",
        wandb_content(configuration((["a"], '"\\ud83d"')), *(history(n, **{"train/loss": "1"}) for n in (1, 2))),
    ),
    "a value that closes the list": ("run-a.wandb", wandb_content(history(0, a="1],[2"))),
    "two values in one": ("run-a.wandb", wandb_content(history(0, a="1,2"), history(1, a=" "))),
    "a value that is no JSON": ("run-a.wandb", wandb_content(history(0, a="x"))),
    "a deep value": ("run-a.wandb", wandb_content(history(0, a="[" * 4_000 + "]" * 4_000))),
    "a number of 5,000 digits": ("run-a.wandb", wandb_content(history(0, a="1" * 5_000))),
    "a tensor of three bytes": ("events.out.tfevents.1", tensor(dtype=1, content=b"abc")),
    "a half that is negative": ("events.out.tfevents.1", tensor(dtype=19, half_val=[-1])),
}


@pytest.mark.parametrize("wrong", CONTENTS)
def test_a_log_is_refused_by_its_name(wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (log, tables, tensorboard, wandb_file):
        for name, least in (("MOST_COLUMNS", 50), ("MOST_CELLS", 1_500), ("UNPACKED", 200_000)):
            monkeypatch.setattr(module, name, least, raising=False)
    name, content = CONTENTS[wrong]
    (path := tmp_path / "bn_s1" / name).parent.mkdir()
    path.write_bytes(content)
    refused(path.parent, name)


def refused(folder: Path, name: str) -> str:
    """The line of the error with which an import of the folder ends."""
    with pytest.raises(NormbenchError) as caught:
        imports.read([folder], "x")
    line = str(caught.value)
    assert caught.value.code == 2 and name in line and "\n" not in line and len(line) < 1_000
    return line


@pytest.mark.parametrize("name", ["runs.jsonl.gz", "bn_s1.csv", "events.out.tfevents.1"])
def test_a_pipe_is_no_log(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)
    refused(tmp_path, str(tmp_path))


@pytest.mark.parametrize(
    ("limit", "table"),
    [
        ("MOST_CELLS", lambda: pa.table({"step": pa.array(range(2_000)), "train_loss": pa.array([0.0] * 2_000)})),
        ("MOST_TEXT", lambda: pa.table({"step": pa.array(range(2_000)), "note": pa.array(["x" * 500] * 2_000)})),
    ],
)
def test_equal_values_of_parquet_are_counted_before_they_are_read(
    limit: str, table: Callable[[], pa.Table], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (log, tables):
        monkeypatch.setattr(module, limit, 1_000, raising=False)
    parquet_file(tmp_path / "a_s1.parquet", table())
    refused(tmp_path, "a_s1.parquet")


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("step,train_loss\n1,0.25\n2,0.125\n")
    (logs := tmp_path / "logs").mkdir()
    (logs / "ln_s1.csv").write_text(GOOD)
    (logs / "bn_s1.csv").symlink_to(secret)
    refused(logs, "bn_s1.csv")


def test_a_row_of_another_length_is_not_quoted(tmp_path: Path) -> None:
    (tmp_path / "bn_s1.csv").write_text(GOOD + "root:x:0,0,root,token-1234\n3,0.3\n")
    line = refused(tmp_path, "bn_s1.csv")
    assert "line 4" in line and "token" not in line


MERGED = "base: &base {step: {column: step}}\nx: {<<: *base}\n"


def test_merge_keys_are_refused_in_maps_and_claims(tmp_path: Path) -> None:
    (path := tmp_path / "own.yaml").write_text(MERGED)
    for read in (imports.read_map, load):
        with pytest.raises(NormbenchError) as caught:
            read(path)
        assert str(path) in str(caught.value) and "<<" in str(caught.value)


def test_many_claims_in_flow_style_are_not_deep(tmp_path: Path) -> None:
    end = {"kind": "final", "split": "valid", "metric": "loss", "better": "lower"}
    contrast = [[1, {"arm": "a"}], [-1, {"arm": "b"}]]
    part = {"id": "p", "endpoint": end, "contrast": contrast, "scale": "linear", "unit": "nats", "expect": "negative"}
    claims = [
        {"id": f"C{number}", "kind": "direction", "statement": "a is better", "parts": [part]} for number in range(700)
    ]
    (path := tmp_path / "claims.yaml").write_text(json.dumps({"claims": claims}))
    assert len(load(path).claims) == 700


def test_lists_of_parquet_are_left_out_with_a_word(tmp_path: Path) -> None:
    lists = pa.array([[0.0] * 9, [1.0]])
    table = pa.table({"step": [1, 2], "train_loss": [0.5, 0.4], "histogram": lists, "note": ["a", "b"]})
    parquet_file(tmp_path / "a_s1.parquet", table)
    assert "histogram" in "".join(imports.read([tmp_path], "x").notes)
