"""CIFAR-10: from the binary version of the archive (the other one is pickled) to the hub's layout, as PNG."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from normbench.data import archive
from normbench.data.prepare.parts import Wrong, write_parquet

ARCHIVE = "cifar-10-binary.tar.gz"
FOLDER = "cifar-10-batches-bin/"
SIDE = 32
RECORD = 1 + 3 * SIDE * SIDE
# What makes `img` an image for `datasets`, as it writes it itself.
FEATURES = {
    "img": {"_type": "Image"},
    "label": {"dtype": "int64", "_type": "Value"},
    "exact": {"dtype": "bool", "_type": "Value"},
}


def prepare(sources: Path, out: Path, declares: Mapping[str, Any]) -> None:
    """Write `cifar10/plain_text/{train,test}-*.parquet` below `out`, images in the official order.

    Columns img (bytes: PNG, path: null; `datasets` takes it for an image), label, exact (always true). What was
    written is read again and held against the checksums of the batches, so that a PNG library's fault cannot go unseen.
    """
    batches: Mapping[str, str] = declares["sources"]["batches"]
    found = {
        name.removeprefix("./").removeprefix(FOLDER): body
        for name, body in archive.members(
            sources / ARCHIVE, lambda name: name.removeprefix("./").removeprefix(FOLDER) in batches
        )
    }
    for part in ("train", "test"):
        names = [name for name in batches if name.startswith("test") == (part == "test")]
        records = np.frombuffer(b"".join(found[name] for name in names), np.uint8).reshape(-1, RECORD)
        paths = [out / name for name in declares["files"] if Path(name).name.startswith(part)]
        # As the hub cuts a set: parts of nearly equal size, in order.
        bounds = [len(records) * cut // len(paths) for cut in range(len(paths) + 1)]
        for path, first, last in zip(paths, bounds[:-1], bounds[1:], strict=True):
            _write(path, records[first:last])
        _compare(paths, {name: (len(found[name]), batches[name]) for name in names})


def _write(path: Path, records: np.ndarray) -> None:
    import pyarrow as pa
    from PIL import Image

    images = []
    for pixels in records[:, 1:].reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1):
        packed = io.BytesIO()
        Image.fromarray(np.ascontiguousarray(pixels)).save(packed, "PNG")
        images.append({"bytes": packed.getvalue(), "path": None})
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    schema = pa.schema(
        [("img", image), ("label", pa.int64()), ("exact", pa.bool_())],
        metadata={"huggingface": json.dumps({"info": {"features": FEATURES}})},
    )
    columns = {"img": images, "label": records[:, 0].tolist(), "exact": [True] * len(records)}
    write_parquet(path, columns, schema)


def _compare(paths: Sequence[Path], batches: Mapping[str, tuple[int, str]]) -> None:
    rows = _read(paths)
    for name, (size, wanted) in batches.items():
        digest = hashlib.sha256()
        for _ in range(size // RECORD):
            digest.update(next(rows))
        if digest.hexdigest() != wanted:
            raise Wrong(f"the images of {name} do not have the published sha256 {wanted[:8]}…")


def _read(paths: Sequence[Path]) -> Iterator[bytes]:
    """The records as in the batches: a byte of label, then the red, green and blue values."""
    import pyarrow.parquet as pq
    from PIL import Image

    for path in paths:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=5000, columns=["img", "label"]):
                images, labels = batch.column("img").to_pylist(), batch.column("label").to_pylist()
                for image, label in zip(images, labels, strict=True):
                    pixels = np.asarray(Image.open(io.BytesIO(image["bytes"])).convert("RGB"))
                    yield bytes([label]) + pixels.transpose(2, 0, 1).tobytes()
