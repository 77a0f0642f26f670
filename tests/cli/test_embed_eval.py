"""`normbench embed-eval`: sentences out, vectors in, a table; and what is wrong with either in one line."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import labelled
import numpy as np
import pytest
import tiny

from normbench import encode
from normbench.errors import NormbenchError
from normbench.models.mnist_mlp import MnistMLP
from normbench.sentences import folds, relatedness, sets

EVAL = ("embed-eval", "--threads", "1")
MODULE = """
import numpy as np
class model:
    def encode(sentences):
        assert isinstance(sentences, list)
        return [[float(len(s)), float(s.count("1")), 1.0] for s in sentences]
def breaks(sentences): raise RuntimeError("no\\nmemory")
def short(sentences): return np.ones((3, 2))
def leaves(sentences): raise SystemExit(0)
def much(sentences): raise MemoryError("Unable to allocate 1 TiB")
def torchs(sentences): import torch; return torch.empty(1 << 60)
def neighbours(sentences):
    import beside
    return beside.rows(sentences)
text = "x"
"""


@pytest.fixture
def evaluate(normbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The command in an empty folder, with small sets as its data."""
    monkeypatch.setattr(relatedness, "EPOCHS", 5)
    monkeypatch.setenv("NORMBENCH_DATA", str(labelled.write(tmp_path / "data", monkeypatch)))
    (tmp_path / "mine.py").write_text(MODULE)
    (tmp_path / "leaving.py").write_text("raise SystemExit('no model')")
    (tmp_path / "beside.py").write_text("from mine import model\nrows = model.encode")
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in ("", str(tmp_path))])
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    monkeypatch.delitem(sys.modules, "beside", raising=False)
    return lambda *words: normbench(*EVAL, *words)


def save(folder: Path, names=sets.ALL) -> None:
    """What another tool makes of the files that `--write-sentences` wrote."""
    for stem in (stem for name in names for stem in sets.STEMS[name]):
        lines = (folder / f"{stem}.txt").read_text(encoding="utf-8").split("\n")[:-1]
        np.save(folder / f"{stem}.npy", labelled.vectors(lines))


def test_sentences_go_out_and_vectors_come_back(evaluate, capfd, tmp_path: Path) -> None:
    assert evaluate("--write-sentences", "out") == 0
    assert "out/cr.txt  44 sentences, 1 of them empty" in capfd.readouterr().out
    assert {path.stem for path in (tmp_path / "out").iterdir()} == {s for stems in sets.STEMS.values() for s in stems}
    assert (tmp_path / "out" / "mr.txt").read_bytes().decode().count("\n") == labelled.ROWS["mr"]
    save(tmp_path / "out")
    broken = np.load(tmp_path / "out" / "cr.npy")
    broken[labelled.EMPTY["cr"]] = np.nan  # the mean of no words
    np.save(tmp_path / "out" / "cr.npy", broken)
    capfd.readouterr()
    assert evaluate("out", "mine:model.encode", "tf-idf", "--fixed", "--json") == 0
    out, err = capfd.readouterr()
    table = err.split("accuracy in %, C = 16, tenfold cross-validation")[1].splitlines()
    assert table[1].split() == ["vectors", "SICK", "r", "ρ", "MSE", "MR", "CR", "SUBJ", "MPQA"]
    found = json.loads(out)
    assert found["nested"] is False
    assert [row["vectors"] for row in found["rows"]] == ["out", "mine:model.encode", "tf-idf"]
    for line, row in zip(table[2:], found["rows"], strict=True):
        sick, *others = row["records"]
        numbers = [f"{sick[m]:.3f}" for m in ("pearson", "spearman", "mse")]
        assert line.split()[1:] == [*numbers, *(f"{100 * record['accuracy']:.1f}" for record in others)]
    same, other = (row["records"][1]["accuracy"] for row in found["rows"][:2])
    assert same > 0.6 and same != other


def test_sets_without_files_are_left_out(evaluate, capfd, tmp_path: Path) -> None:
    evaluate("--write-sentences", "out")
    save(tmp_path / "out", ["mr", "mpqa"])
    capfd.readouterr()
    assert evaluate("out", "--fixed", "--json") == 0
    (row,) = json.loads(capfd.readouterr().out)["rows"]
    assert [record["split"] for record in row["records"]] == ["mr", "mpqa"]
    assert evaluate("out", "--sets", "mr,cr") == 2
    assert "out has no vectors of cr." in capfd.readouterr().err


def test_nested_is_what_is_done_unasked(evaluate, capfd, tmp_path: Path) -> None:
    assert evaluate("bag-of-words", "--size", "3", "--sets", "CR", "--json") == 0
    out, err = capfd.readouterr()
    assert "C by nested tenfold cross-validation" in err and json.loads(out)["nested"] is True


def test_a_choice_of_c_at_the_edge_is_reported(evaluate, capfd, tmp_path: Path) -> None:
    """The shorter the vectors, the larger the C that they need."""
    evaluate("--write-sentences", "out")
    save(tmp_path / "out", ["mr", "sick"])
    results = {}
    for length in (1, 1e-3):
        np.save(tmp_path / "out" / "mr.npy", length * np.load(tmp_path / "out" / "mr.npy"))
        capfd.readouterr()
        assert evaluate("out", "--json") == 0
        out, err = capfd.readouterr()
        (row,) = json.loads(out)["rows"]
        results[length] = [record.get("c_at_edge") for record in row["records"]], err
    given = sets.read("mr", tmp_path / "data")
    tested = folds.cross_validate(np.load(tmp_path / "out" / "mr.npy"), given.targets["mr"], nested=True)
    edges = sum(cost in (1, 256) for cost in tested.costs)
    assert results[1e-3][0] == [None, edges] and edges > 5
    assert f"in {edges} of 10 parts the best C is the smallest or largest tried, 1 or 256" in results[1e-3][1]
    assert results[1][0][1] <= 5 and "parts the best C" not in results[1][1]
    assert evaluate("out", "--fixed", "--json") == 0
    assert "c_at_edge" not in capfd.readouterr().out


BAD = [
    (("tf-idf", "--write-sentences", "out"), "--write-sentences takes no vectors, such as tf-idf."),
    (("--write-sentences", "mine.py"), "--write-sentences mine.py is not a folder. Name one, or one that is to be"),
    ((), "embed-eval needs vectors: a folder, module:name, a run"),
    (
        ("nowhere",),
        "nowhere is neither a folder of vectors nor module:name, bag-of-words or tf-idf; and no run",
    ),
    (("out", "--sets", "mrr"), "--sets mrr is not a set of sentences. Did you mean 'mr'?"),
    (("tf-idf", "--threads", "0"), "--threads 0 is not a whole number of at least 1"),
    (("bag-of-words", "--size", "0"), "--size 0 is not a whole number of at least 1"),
    (("a", "--expand", "no.txt"), "--expand no.txt is not there: a file of word vectors."),
    (("data",), "holds none of sick.npy, mr.npy, cr.npy, subj.npy, mpqa.npy"),
    (("nomodule:encode",), "nomodule:encode: there is no module nomodule, here or installed."),
    (("mine:nothing",), "importing mine raised AttributeError: module 'mine' has no attribute 'nothing'"),
    (("mine:text",), "mine:text is not a function but of type str."),
    (("mine:breaks", "--sets", "mr"), "mine:breaks raised RuntimeError: no memory"),
    (("mine:leaves", "--sets", "mr"), "mine:leaves raised SystemExit: 0"),
    (("leaving:encode",), "leaving:encode: importing leaving raised SystemExit: no model"),
    (("mine:much", "--sets", "mr"), "mine:much raised MemoryError: Unable to allocate 1 TiB"),
    (("mine:torchs", "--sets", "mr"), "mine:torchs raised RuntimeError: "),
    (
        ("tf-idf", "mine:short", "--weights", "best"),
        "--weights best is of a run, and none is among tf-idf, mine:short.",
    ),
    (("tf-idf", "--expand", "mine.py"), "--expand mine.py is of a run, and none is among tf-idf."),
    (("mine:short", "--sets", "mr"), "mine:short: 3 vectors for the 60 sentences of mr."),
]


@pytest.mark.parametrize(("words", "says"), BAD, ids=[" ".join(words) or "nothing" for words, _ in BAD])
def test_what_cannot_be_is_one_line(words, says, evaluate, capfd) -> None:
    assert evaluate(*words) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("normbench: ") and says in line


def heading(shape: str) -> bytes:
    """A file of float64 that says that it has this shape, and has one byte."""
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + b"1"


@pytest.mark.parametrize(
    ("stem", "content", "says"),
    [
        ("mr", None, "mr.npy is missing: mr takes mr.npy."),
        ("sick_trial_b", None, "sick_trial_b.npy is missing: sick takes sick_train_a.npy, sick_train_b.npy,"),
        ("mr", np.ones((59, 4)), "mr.npy: 59 vectors for the 60 sentences of mr.txt"),
        ("mr", np.full((60, 4), np.inf), "mr.npy: the vector of mr.txt, row 0 ('caf"),
        ("sick_test_a", np.full((20, 11), 1e25), "SICK: the vectors are too long for float32. Give them a length"),
        ("mr", b"no array", "mr.npy cannot be read: it is no array of numpy's"),
        ("mr", np.array([{}] * 60), "mr.npy cannot be read: it holds objects."),
        ("mr", heading("(60, 1000000000)"), "mr.npy cannot be read: it ends 479999999999 bytes early."),
        ("mr", heading("(59, 1000000000)"), "mr.npy: 59 vectors for the 60 sentences of mr.txt"),
        ("mr", heading("(60, -1)"), "mr.npy: the vectors of mr.txt have the shape (60, -1) instead of"),
        ("mr", heading("(60, 4"), "mr.npy cannot be read: it is no array of numpy's (np.save)."),
        ("mr", heading("(60, 4), [,"), "mr.npy cannot be read: it is no array of numpy's (np.save)."),
        ("mr", heading("(60, 4)")[:70], "mr.npy cannot be read: it is no array of numpy's (np.save)."),
        ("mr", b"PK\x03\x04 and no more", "mr.npy cannot be read: it is no array of numpy's (np.save)."),
        ("mr", b"", "mr.npy cannot be read: it is no array of numpy's (np.save)."),
        ("mr", os.mkfifo, "mr.npy cannot be read: it is no regular file."),
        ("mr", os.mkdir, "mr.npy cannot be read: it is no regular file."),
        ("sick_test_a", np.ones((20, 4)), "the vectors of sick have different lengths: 4, 11."),
    ],
)
def test_files_that_do_not_fit_are_one_line(stem, content, says, evaluate, capfd, tmp_path: Path) -> None:
    evaluate("--write-sentences", "out")
    save(tmp_path / "out", ["mr", "sick"])
    path = tmp_path / "out" / f"{stem}.npy"
    path.unlink()
    if callable(content):
        content(path)
    elif isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        np.save(path, content)
    asked = ("--sets", "mr") if content is None and stem == "mr" else ()
    capfd.readouterr()
    assert evaluate("out", "--fixed", *asked) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert (says if asked == () else "out has no vectors of mr.") in line


def test_what_was_done_before_an_error_is_shown_and_written(evaluate, capfd, tmp_path: Path) -> None:
    assert evaluate("tf-idf", "mine:breaks", "--sets", "cr", "--fixed", "--json") == 2
    out, err = capfd.readouterr()
    *_, last, error = err.splitlines()
    assert "tf-idf" in last and "mine:breaks raised" in error
    assert [row["vectors"] for row in json.loads(out)["rows"]] == ["tf-idf"]


def test_a_function_may_import_its_neighbour_when_called(evaluate, tmp_path: Path) -> None:
    assert str(tmp_path) not in sys.path
    assert evaluate("mine:neighbours", "--sets", "cr", "--fixed") == 0


def test_missing_data_is_reported_before_anything_is_imported(normbench, capfd) -> None:
    assert normbench(*EVAL, "nomodule:encode") == 2
    assert "Bring it with: normbench data get sick" in capfd.readouterr().err


def test_a_run_whose_model_encodes(evaluate, capfd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tiny.spec().id
    tiny.train(tmp_path / "results" / "runs" / "adhoc" / f"none.s1.{run}", "train.epochs=1", "train.keep=[last]")
    assert evaluate(run, "--sets", "cr") == 2
    assert f"run {run}: model=mnist_mlp does not encode sentences." in capfd.readouterr().err
    with pytest.raises(NormbenchError, match="does not encode sentences"):
        encode(run, ["a"])
    monkeypatch.setattr(MnistMLP, "encode", lambda self, sentences, eos, data: labelled.vectors(sentences) + eos)
    np.testing.assert_array_equal(encode(run[:6], ["w1 w2"], eos=True), labelled.vectors(["w1 w2"]) + 1)
    capfd.readouterr()
    assert evaluate(run, "--sets", "cr", "--fixed") == 0
    assert f"run {run}: CR " in capfd.readouterr().out
    (tmp_path / "a.txt").write_text("the 1 2\n")
    assert evaluate(run, "--sets", "cr", "--fixed", "--expand", "a.txt") == 2
    assert "--expand: this model has no word vectors that could be added to." in capfd.readouterr().err
