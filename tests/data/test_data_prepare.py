"""What each set's `prepare` makes of small sources of the right form, and which wrong ones it refuses."""

from __future__ import annotations

import gzip
import hashlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from tars import packed

from normbench import data
from normbench.data import content, images, sentences
from normbench.data.strokes import prepare_iam_ondb


def prepare(name: str, tmp_path: Path, sources: Mapping[str, bytes], declares: Mapping[str, Any] | None = None) -> Path:
    """Prepare the set from these files; returns the folder with what was written."""
    place, out = tmp_path / "sources", tmp_path / "out"
    place.mkdir(exist_ok=True)
    for file, body in sources.items():
        (place / file).write_bytes(body)
    data.function({"name": name, "declares": {}}, "prepare_")(place, out, declares or {})
    return out


def refusal(name: str, tmp_path: Path, sources: Mapping[str, bytes], declares: Mapping[str, Any] | None = None) -> str:
    with pytest.raises(ValueError) as caught:
        prepare(name, tmp_path, sources, declares)
    return str(caught.value)


# -- MR, CR, SUBJ, MPQA

SENTENCES = {
    "rt-polarity.all": b"0 simplistic , silly . \n1 caf\xe9 \x85 fine\n",
    "custrev.all": b"1 good\n0 \n",
    "subj.all": b"0 a\n",
    "mpqa.all": b"1 b\n",
}


def test_sentence_eval(tmp_path: Path) -> None:
    folder = prepare("sentence_eval", tmp_path, SENTENCES) / "sentence_eval"
    # Latin-1, ends stripped; U+0085 within a line does not end it.
    assert (folder / "mr.tsv").read_bytes() == "label\ttext\n0\tsimplistic , silly .\n1\tcafé \u0085 fine\n".encode()
    assert (folder / "cr.tsv").read_bytes() == b"label\ttext\n1\tgood\n0\t\n"
    assert sorted(path.name for path in folder.iterdir()) == ["cr.tsv", "mpqa.tsv", "mr.tsv", "subj.tsv"]


# -- SICK


def test_sick(tmp_path: Path) -> None:
    row = b"1\tA dog .\tA cat .\t3.3\tNEUTRAL\n"
    sources = {
        "SICK_train.txt": row,
        "SICK_trial.txt": row * 2,
        "SICK_test_annotated.txt": row.replace(b"\n", b"\r\n") * 3,
    }
    folder = prepare("sick", tmp_path, sources) / "sentence_eval"
    assert [(folder / f"sick_{part}.tsv").read_bytes() for part in ("train", "trial", "test")] == [
        row,
        row * 2,
        row * 3,
    ]


# -- Flickr8k


def flickr() -> dict[str, bytes]:
    names = ["c.jpg", "a.jpg", "b.jpg", "d.jpg"]
    lines = [f"{name}#{place}\tcaption {place} of {name} ." for name in names for place in range(5)]
    # As in the official file: one image has a broken name at one of its captions.
    lines[0] = lines[0].replace("c.jpg#", "c.jpg.1#")
    return {
        "Flickr8k.token.txt": "\n".join(lines).encode() + b"\n",
        "Flickr_8k.trainImages.txt": b"b.jpg\nc.jpg\n",
        "Flickr_8k.devImages.txt": b"d.jpg\n",
        "Flickr_8k.testImages.txt": b"",
    }


def test_flickr8k_captions(tmp_path: Path) -> None:
    out = prepare("flickr8k_captions", tmp_path, flickr())
    rows = pq.read_table(out / "flickr8k_captions" / "captions.parquet").to_pylist()
    assert [(row["image"], row["split"]) for row in rows] == [
        ("c.jpg", "train"),
        ("a.jpg", ""),
        ("b.jpg", "train"),
        ("d.jpg", "dev"),
    ]
    assert rows[0]["captions"][:2] == ["caption 0 of c.jpg .", "caption 1 of c.jpg ."]
    assert all(len(row["captions"]) == 5 for row in rows)


# -- binarized MNIST

SIZES = {"train": 3, "valid": 2, "test": 1}


def amat(rows: int, seed: int) -> tuple[np.ndarray, bytes]:
    bits = np.random.default_rng(seed).integers(0, 2, (rows, 784))
    return bits, "".join(" ".join(map(str, row)) + "\n" for row in bits).encode()


def test_binarized_mnist(tmp_path: Path) -> None:
    made = {part: amat(rows, rows) for part, rows in SIZES.items()}
    sources = {f"binarized_mnist_{part}.amat": text for part, (_, text) in made.items()}
    out = prepare("binarized_mnist", tmp_path, sources, {"sizes": SIZES})
    with np.load(out / "binarized_mnist" / "binarized_mnist.npz") as arrays:
        assert sorted(arrays.files) == ["test", "train", "valid"]
        for part, (bits, _) in made.items():
            assert arrays[part].dtype == np.uint8 and arrays[part].shape == (SIZES[part], 98)
            assert (np.unpackbits(arrays[part], axis=1)[:, :784] == bits).all()


# -- IMDB


def reviews() -> dict[str, bytes]:
    return {
        "aclImdb/README": b"read me",
        "aclImdb/train/pos/10_7.txt": "très bien".encode(),
        "aclImdb/train/pos/9_10.txt": b"good",
        "aclImdb/train/neg/0_1.txt": b"bad<br />",
        "aclImdb/train/unsup/0_0.txt": b"unknown",
        "aclImdb/test/pos/0_9.txt": b"fine",
        "aclImdb/test/neg/0_2.txt": b"dull",
    }


def test_imdb(tmp_path: Path) -> None:
    sources = {"aclImdb_v1.tar.gz": packed(reviews())}
    out = prepare("imdb", tmp_path, sources, {"sizes": {"train": 3, "test": 2}}) / "imdb" / "plain_text"
    # Negative first; by the number, not by its text.
    assert pq.read_table(out / "train-00000-of-00001.parquet").to_pydict() == {
        "text": ["bad<br />", "good", "très bien"],
        "label": [0, 1, 1],
    }
    assert pq.read_table(out / "test-00000-of-00001.parquet").to_pydict() == {"text": ["dull", "fine"], "label": [0, 1]}


# -- CIFAR-10


def cifar() -> tuple[dict[str, bytes], dict[str, Any]]:
    """Batches of few images, and the declarations that go with them."""
    random = np.random.default_rng(3)
    batches = {}
    for name, rows in (("data_batch_1.bin", 4), ("data_batch_2.bin", 4), ("test_batch.bin", 3)):
        records = random.integers(0, 256, (rows, images.RECORD), dtype=np.uint8)
        records[:, 0] = np.arange(rows) % 10
        batches[name] = records.tobytes()
    declares = {
        "sizes": {"train": 8, "test": 3},
        "files": {f"cifar10/plain_text/{part}.parquet": "" for part in ("train-0-of-3", "train-1-of-3", "train-2-of-3")}
        | {"cifar10/plain_text/test-0-of-1.parquet": ""},
        "sources": {"batches": {name: hashlib.sha256(body).hexdigest() for name, body in batches.items()}},
    }
    return batches, declares


def cifar_archive(batches: Mapping[str, bytes]) -> dict[str, bytes]:
    members = {f"cifar-10-batches-bin/{name}": body for name, body in reversed(batches.items())}
    return {"cifar-10-binary.tar.gz": packed({"cifar-10-batches-bin/readme.html": b"<html>"} | members)}


def test_cifar10(tmp_path: Path) -> None:
    batches, declares = cifar()
    out = prepare("cifar10", tmp_path, cifar_archive(batches), declares) / "cifar10" / "plain_text"
    tables = [pq.read_table(path) for path in sorted(out.glob("train-*.parquet"))]
    assert [len(table) for table in tables] == [2, 3, 3]
    rows = [row for table in tables for row in table.to_pylist()]
    assert all(row["exact"] is True and row["img"]["path"] is None for row in rows)
    records = np.frombuffer(batches["data_batch_1.bin"] + batches["data_batch_2.bin"], np.uint8).reshape(8, -1)
    for row, record in zip(rows, records, strict=True):
        image = Image.open(io.BytesIO(row["img"]["bytes"]))
        assert image.format == "PNG" and image.size == (32, 32) and row["label"] == record[0]
        red = np.asarray(image)[..., 0]
        assert (red == record[1:1025].reshape(32, 32)).all()
    assert len(pq.read_table(out / "test-0-of-1.parquet")) == 3


def test_cifar10_holds_the_images_against_the_published_sums(tmp_path: Path) -> None:
    batches, declares = cifar()
    other = bytearray(batches["data_batch_2.bin"])
    other[5000] ^= 1
    archive = cifar_archive({**batches, "data_batch_2.bin": bytes(other)})
    assert "the images of data_batch_2.bin do not have the published sha256" in refusal(
        "cifar10", tmp_path, archive, declares
    )


# -- books


def test_books(tmp_path: Path) -> None:
    sources = {"B_Second_1902.txt": b"\xef\xbb\xbfTITLE\r\n\r\nOne. Two.\r\n", "A_First_1901.txt": b"Alone."}
    declares = {"sources": {"files": dict.fromkeys(sources)}}
    table = pq.read_table(prepare("books", tmp_path, sources, declares) / "books" / "sentences.parquet")
    assert table.to_pydict() == {
        "book": ["A_First_1901", "B_Second_1902", "B_Second_1902", "B_Second_1902"],
        "text": ["Alone.", "TITLE", "One.", "Two."],
    }


@pytest.mark.parametrize(
    ("text", "split"),
    [
        ("He went. She came! Why? 1842 was long ago.", ["He went.", "She came!", "Why?", "1842 was long ago."]),
        (
            '"Go on," he said. "I will." (So he did.) "Yes."',
            ['"Go on," he said.', '"I will."', "(So he did.)", '"Yes."'],
        ),
        ('"What?" he asked. "No!" cried I.', ['"What?" he asked.', '"No!" cried I.']),
        ("Mr. Hill met Dr. Lee in St. Ives. They spoke.", ["Mr. Hill met Dr. Lee in St. Ives.", "They spoke."]),
        ("It was J. H. Smith. So was I. Enough.", ["It was J. H. Smith.", "So was I.", "Enough."]),
        ("Room No. 5 it is. No. Never.", ["Room No. 5 it is.", "No.", "Never."]),
        ("Wait . . . and see... now. Éva left.", ["Wait . . . and see... now.", "Éva left."]),
        ("no end mark", ["no end mark"]),
    ],
)
def test_sentences(text: str, split: list[str]) -> None:
    assert list(sentences.sentences(text)) == split
    assert " ".join(split) == text


@given(st.lists(st.text(alphabet="aAÉéI1.!?\"')( ", min_size=1, max_size=12), max_size=8))
def test_sentences_lose_nothing(words: list[str]) -> None:
    text = " ".join(" ".join(words).split())
    found = list(sentences.sentences(text))
    assert " ".join(found) == text and all(found)


def test_paragraphs_of_long_lines() -> None:
    long = "word " * 30
    assert list(sentences.paragraphs(f"ONE\r\n{long}\r\n\r\n\u201ctwo\u201d\u2014it\u2019s\tso\u00a0\r\n")) == [
        "ONE",
        long.strip(),
        '"two" - it\'s so',
    ]


def test_paragraphs_of_wrapped_lines() -> None:
    assert list(sentences.paragraphs("\ufeffTITLE\n\n\nIt was\nlate.\n \nHe\nleft.\n")) == [
        "TITLE",
        "It was late.",
        "He left.",
    ]


# -- IAM-OnDB

XML = (
    '<?xml version="1.0" encoding="ISO-8859-1"?>\n<WhiteboardCaptureSession><StrokeSet>{strokes}</StrokeSet>'
    "</WhiteboardCaptureSession>"
)


def stroke_file(*strokes: list[tuple[int, int]]) -> bytes:
    made = "".join(
        "<Stroke>" + "".join(f'<Point x="{x}" y="{y}" time="1.0"/>' for x, y in stroke) + "</Stroke>"
        for stroke in strokes
    )
    return XML.format(strokes=made).encode()


def handwriting(first: bytes | None = None) -> tuple[dict[str, bytes], dict[str, bytes]]:
    strokes = {
        "lineStrokes/b02/b02-000/b02-000-01.xml": stroke_file([(5, 5), (6, 5)]),
        "lineStrokes/a01/a01-000/a01-000u-02.xml": stroke_file([(9, 9), (9, 8)]),
        "lineStrokes/a01/a01-000/a01-000u-01.xml": first or stroke_file([(100, 200), (103, 199)], [(90, 210)]),
        # Two lines of text and one of strokes: left out.
        "lineStrokes/c03/c03-000/c03-000z-01.xml": stroke_file([(1, 1), (2, 2)]),
    }
    texts = {
        "ascii/a01/a01-000/a01-000u.txt": b"OCR:\n\nA MOVE\nto stop\n\nCSR:\n\nA MUVE \n\nto stop\n",
        "ascii/b02/b02-000/b02-000.txt": b"OCR:\n\nx\n\nCSR:\n\nx & y\n",
        "ascii/c03/c03-000/c03-000z.txt": b"CSR:\none\ntwo\n",
    }
    return strokes, texts


def iam(strokes: Mapping[str, bytes], texts: Mapping[str, bytes]) -> dict[str, bytes]:
    return {"lineStrokes-all.tar.gz": packed(strokes), "ascii-all.tar.gz": packed(texts)}


def test_iam_ondb(tmp_path: Path) -> None:
    out = prepare("iam_ondb", tmp_path, iam(*handwriting())) / "iam_ondb"
    # What was really written, in order of the lines' names, which is not the archive's.
    assert (out / "sentences.tsv").read_text() == "a01-000u-01\tA MUVE\na01-000u-02\tto stop\nb02-000-01\tx & y\n"
    with np.load(out / "strokes.npz") as arrays:
        assert {key: arrays[key].dtype.str for key in arrays.files} == {"dxy": "<i2", "eos": "|u1", "length": "<i4"}
        assert arrays["length"].tolist() == [3, 2, 2]
        assert arrays["dxy"].tolist() == [[100, 200], [3, -1], [-13, 11], [9, 9], [0, -1], [5, 5], [1, 0]]
        assert np.unpackbits(arrays["eos"])[:7].tolist() == [0, 1, 1, 0, 1, 0, 1]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (stroke_file([(1, 1)])[:-20], "is not a stroke file (unclosed token"),
        (b"<html>", "is not a stroke file"),
        (stroke_file([(1, 1)]).replace(b'x="1"', b'x="one"'), "is not a stroke file (invalid literal"),
        (stroke_file([(1, 1)]).replace(b'x="1"', b""), "is not a stroke file ('x')"),
        (stroke_file([(1, 1)]).replace(b'x="1"', b'x="nan"'), "is not a stroke file (invalid literal"),
        (stroke_file([]), "it has too few points (0): a line has at least 2"),
        (stroke_file([(1, 1)]), "it has too few points (1): a line has at least 2"),
        (stroke_file([(0, 0), (40000, 0)]), "a pen move of more than 32767 units"),
    ],
)
def test_iam_ondb_leaves_out_the_form_of_an_odd_file_and_says_so(tmp_path: Path, body: bytes, reason: str) -> None:
    for name, packed_files in iam(*handwriting(first=body)).items():
        (tmp_path / name).write_bytes(packed_files)
    remark = prepare_iam_ondb(tmp_path, tmp_path / "out", {})
    assert remark.startswith("lines: 1, forms left out: 2 (") and reason in remark
    assert (tmp_path / "out" / "iam_ondb" / "sentences.tsv").read_text() == "b02-000-01\tx & y\n"
    strokes, texts = handwriting(first=body)
    alone = {name: content for name, content in strokes.items() if "a01" in name}
    assert reason in refusal("iam_ondb", tmp_path, iam(alone, texts))


def test_iam_ondb_leaves_out_the_form_of_a_text_in_another_encoding(tmp_path: Path) -> None:
    strokes, texts = handwriting()
    texts["ascii/a01/a01-000/a01-000u.txt"] = b"CSR:\ncaf\xe9\nb\n"
    for name, body in iam(strokes, texts).items():
        (tmp_path / name).write_bytes(body)
    remark = prepare_iam_ondb(tmp_path, tmp_path / "out", {})
    assert remark == "lines: 1, forms left out: 2 (ascii/a01/a01-000/a01-000u.txt is not UTF-8)"


def test_iam_ondb_lines_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    strokes = {f"a01-000u-{n}.xml": stroke_file([(n, 0), (n, 1)]) for n in range(1, 12)}
    texts = {"a01-000u.txt": b"CSR:\n" + b"".join(b"text %d\r\n" % n for n in range(1, 12))}
    out = prepare("iam_ondb", tmp_path, iam(strokes, texts)) / "iam_ondb"
    assert (out / "sentences.tsv").read_text() == "".join(f"a01-000u-{n}\ttext {n}\n" for n in range(1, 12))
    with np.load(out / "strokes.npz") as arrays:
        assert arrays["dxy"][::2, 0].tolist() == list(range(1, 12))


def test_iam_ondb_archives_that_a_browser_unpacked(tmp_path: Path) -> None:
    unpacked = {name.removesuffix(".gz"): gzip.decompress(body) for name, body in iam(*handwriting()).items()}
    assert (prepare("iam_ondb", tmp_path, unpacked) / "iam_ondb" / "strokes.npz").is_file()


def test_iam_ondb_archives_of_something_else(tmp_path: Path) -> None:
    assert "have no line in common" in refusal("iam_ondb", tmp_path, iam({"a.txt": b""}, {"b.xml": b""}))


# -- the sums of contents


def test_content_does_not_depend_on_how_a_file_is_packed(tmp_path: Path) -> None:
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    np.savez(tmp_path / "a.npz", x=array, y=array[0])
    np.savez_compressed(tmp_path / "b.npz", y=array[0], x=array.astype(">i2"))
    np.savez(tmp_path / "c.npz", x=array.reshape(3, 2), y=array[0])
    sums = [content.of(tmp_path / f"{name}.npz") for name in "abc"]
    assert sums[0] == sums[1] != sums[2]
    by_hand = hashlib.sha256(b"x <i2 (2, 3)\n\0\0\1\0\2\0\3\0\4\0\5\0y <i2 (3,)\n\0\0\1\0\2\0")
    assert sums[0] == by_hand.hexdigest()


def test_content_of_parquet(tmp_path: Path) -> None:
    import pyarrow as pa

    rows = {"text": ["a,\n", 'é"', None], "label": [1, 0, 1]}
    uncoded = pa.table(rows)
    pq.write_table(uncoded.replace_schema_metadata({"a": "note"}), tmp_path / "a.parquet", compression="none")
    coded = uncoded.set_column(0, "text", uncoded["text"].dictionary_encode())
    pq.write_table(coded, tmp_path / "b.parquet", row_group_size=1)
    pq.write_table(pa.table({**rows, "label": [1, 0, 0]}), tmp_path / "c.parquet")
    sums = [content.of(tmp_path / f"{name}.parquet") for name in "abc"]
    assert sums[0] == sums[1] != sums[2]
    by_hand = '["text","label"]\n["a,\\n",1]\n["é\\"",0]\n[null,1]\n'
    assert sums[0] == hashlib.sha256(by_hand.encode()).hexdigest()


@pytest.mark.parametrize("name", ["a.npz", "a.parquet"])
@pytest.mark.parametrize("body", [b"", b"PAR1 nonsense PAR1", b"PK\3\4 nonsense"])
def test_content_of_something_else(tmp_path: Path, name: str, body: bytes) -> None:
    (tmp_path / name).write_bytes(body)
    with pytest.raises(ValueError):
        content.of(tmp_path / name)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_any_damage_of_arrays_is_told_as_such(tmp_path: Path, save: Any) -> None:
    path, contents = tmp_path / "a.npz", {"a": np.arange(40), "b": np.array(["x", "yy"])}
    save(path, **contents)
    body, draw, refused = path.read_bytes(), np.random.default_rng(0), 0
    for place in [*draw.integers(0, len(body), 80), *(at + 10 for at in range(len(body)) if body[at:][:2] == b"PK")]:
        path.write_bytes(body[:place] + bytes([body[place] ^ 1 << draw.integers(8)]) + body[place + 1 :])
        try:
            content.of(path)
        except ValueError:
            refused += 1
    assert refused > 40


def test_content_never_unpickles(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.array([{"an": "object"}], dtype=object))
    with pytest.raises(ValueError, match="allow_pickle=False"):
        content.of(tmp_path / "a.npz")
