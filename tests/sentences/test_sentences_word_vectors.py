"""Vectors of words from files of other tools, and what a model that was trained without them makes of them."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from smallest import SMALL, small

from normbench import data as datasets
from normbench import encode
from normbench.config.plan import train_specs
from normbench.errors import NormbenchError
from normbench.runs.writing import RunDirectory
from normbench.sentences import word_vectors
from normbench.train.train_one import ensure_run

WORDS = ["the", "café", "of_all", "dog"]
VECTORS = np.arange(12, dtype=np.float32).reshape(4, 3) / 8


def text(heading: bool) -> bytes:
    lines = [f"{word} {' '.join(map(str, row))}" for word, row in zip(WORDS, VECTORS.tolist(), strict=True)]
    return "\n".join(["4 3", *lines] if heading else lines).encode() + b"\n"


def binary(newlines: bool) -> bytes:
    rows = (f"{word} ".encode() + row.tobytes() for word, row in zip(WORDS, VECTORS, strict=True))
    return b"4 3\n" + (b"\n" if newlines else b"").join(rows)


FORMS: dict[str, Callable[[], bytes]] = {
    "a.txt": lambda: text(True),
    "glove.txt": lambda: text(False),
    "a.vec.gz": lambda: gzip.compress(text(True)),
    "a.bin": lambda: binary(True),
    "google.bin.gz": lambda: gzip.compress(binary(False)),
}


@pytest.mark.parametrize("name", FORMS)
def test_every_form_gives_the_same(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(FORMS[name]())
    found = word_vectors.read(tmp_path / name, {"dog", "café", "cat"})
    assert set(found) == {"dog", "café"}
    np.testing.assert_array_equal(found["dog"], VECTORS[3])
    np.testing.assert_array_equal(found["café"], VECTORS[1])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"the 1 2\ndog 1\n", "line 2 has 1 numbers behind its word, not 2"),
        ("a.txt", b"the 1 two\n", "could not convert string to float: 'two'"),
        ("a.txt", b"the 1 nan\n", "the vector of 'the' holds NaN or Inf"),
        ("a.bin", binary(True)[:-3], "it ends at word 3 of 4"),
        ("a.bin", binary(True)[:6], "it ends at word 0 of 4"),
        ("a.bin", b"the 1 2\n", "its first line is not the number of words"),
        ("a.bin", b"4 99999999\n", "it ends at word 0 of 4"),
        ("a.txt.gz", b"the 1 2\n", "cannot be read: Not a gzipped file"),
        ("a.txt.gz", gzip.compress(text(True), mtime=0)[:-9], "cannot be read: Compressed file ended"),
        ("a.txt", b"", "of the model's 1 words the file has 0"),
    ],
)
def test_what_is_no_file_of_vectors_is_one_line(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(NormbenchError) as caught:
        word_vectors.fit(word_vectors.read(tmp_path / name, WORDS), {"the": np.zeros(2)})
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_the_map_is_that_of_least_squares() -> None:
    draw = np.random.default_rng(0)
    of_file = {f"w{i}": draw.standard_normal(3).astype(np.float32) for i in range(50)}
    own = {word: draw.standard_normal(2) for word in (*list(of_file)[:20], "w99")}
    x = np.stack([of_file[f"w{i}"] for i in range(20)]).astype(np.float64)
    y = np.stack([own[f"w{i}"] for i in range(20)])
    centred, of = x - x.mean(0), y - y.mean(0)  # the intercept takes up the means
    slopes = np.linalg.solve(centred.T @ centred, centred.T @ of)
    by = word_vectors.fit(of_file, own)
    np.testing.assert_allclose(by[:-1], slopes, rtol=1e-9)
    given = np.stack([of_file["w40"], of_file["w41"]])
    wanted = (given - x.mean(0)) @ slopes + y.mean(0)
    np.testing.assert_allclose(word_vectors.mapped(given, by), wanted, rtol=1e-5, atol=1e-6)
    with pytest.raises(NormbenchError, match="the file has 3: at least 4 are needed"):
        word_vectors.fit(of_file, {word: own[word] for word in ("w0", "w1", "w2")})


def test_a_model_reads_further_words_by_them(tmp_path: Path) -> None:
    """The file's space is the model's, turned: where a new word lies on a known one the two are read alike."""
    spec = small("skip_thoughts", "train.steps=2", "train.keep=[last]")
    run = tmp_path / "runs" / "x" / f"none.s1.{spec.id}"
    assert ensure_run(spec, RunDirectory(run)) == "done"
    own = load_file(run / "weights" / "last.safetensors")["embedding.weight"]
    words = datasets.load(spec.config["data"]).words
    turned = own @ np.random.default_rng(0).standard_normal((own.shape[1], own.shape[1])) + 1
    rows = {word: row for word, row in zip(words, turned, strict=False) if word}
    one, other = words[-1], words[-2]
    rows["zebra"] = rows[one]
    lines = (f"{word} {' '.join(map(str, row.tolist()))}\n" for word, row in rows.items())
    (tmp_path / "a.txt").write_text("".join(lines))
    asked = [f"{one} {other}", f"zebra {other}", f"quokka {other}"]
    without = encode(spec.id, asked, results=tmp_path)
    found = encode(spec.id, asked, results=tmp_path, expand=tmp_path / "a.txt")
    np.testing.assert_array_equal(without[1], without[2])  # unknown, both
    np.testing.assert_array_equal(found[[0, 2]], without[[0, 2]])
    np.testing.assert_allclose(found[1], found[0], atol=1e-5)
    assert abs(found[1] - without[1]).max() > 1e-3


def test_a_run_with_a_normalizer_of_ones_own_encodes_with_its_folder(tmp_path: Path) -> None:
    own = Path(shutil.copytree(Path(__file__).parents[2] / "examples" / "own_normalizer", tmp_path / "own"))
    words = [*SMALL["skip_thoughts"], "norm=centre", "train.steps=1", "train.keep=[last]"]
    (spec,) = train_specs(["model=skip_thoughts", *words], False, own)
    run = tmp_path / "runs" / "x" / f"centre.s1.{spec.id}"
    assert ensure_run(spec, RunDirectory(run)) == "done"
    assert encode(spec.id, ["a"], results=tmp_path, config_dir=own).shape[0] == 1
    with pytest.raises(NormbenchError, match="norm=centre is not"):
        encode(spec.id, ["a"], results=tmp_path)
    file = own / "norm" / "centre.py"
    file.write_text(file.read_text() + "# another one\n")
    with pytest.raises(NormbenchError, match=f"run {spec.id}: {file} was changed since the run was trained"):
        encode(spec.id, ["a"], results=tmp_path, config_dir=own)
