"""Event files of TensorBoard and offline files of W&B, record by record."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from normbench.imports import tensorboard, wandb_file


def event_file(messages: Iterable[Any]) -> bytes:
    return b"".join(_framed(message.SerializeToString()) for message in messages)


def _framed(record: bytes) -> bytes:
    head = len(record).to_bytes(8, "little")
    return head + _sum(head) + record + _sum(record)


def _sum(content: bytes) -> bytes:
    return tensorboard._crc(np.frombuffer(content, dtype=np.uint8)[None]).astype("<u4").tobytes()


def wandb_content(*records: bytes) -> bytes:
    """Records that are shorter than a block together."""
    content = bytearray(wandb_file.MAGIC + bytes([0, 0, wandb_file.VERSION]))
    for record in records:
        kind = bytes([wandb_file.FULL])
        content += struct.pack("<IH", zlib.crc32(record, zlib.crc32(kind)), len(record)) + kind + record
    return bytes(content)


def history(step: int, **values: str) -> bytes:
    """A row of W&B's history, with values as JSON."""
    record = wandb_file._record()()
    record.history.step.num = step
    for key, text in values.items():
        record.history.item.add(key=key, value_json=text)
    return bytes(record.SerializeToString())


def configuration(*entries: tuple[list[str], str]) -> bytes:
    """W&B's record of a run, with values of its configuration as JSON, below nested keys."""
    record = wandb_file._record()()
    for keys, text in entries:
        record.run.config.update.add(nested=keys, value_json=text)
    return bytes(record.SerializeToString())
