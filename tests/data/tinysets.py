"""Every data set that has files, as small ones of its form: `write(NAME, root)` gives what declares them."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import idxfiles
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from normbench import data
from normbench.config import compose
from normbench.core.streams import stream
from normbench.data import files as data_files
from normbench.data import imdb as imdb_reader
from normbench.errors import NormbenchError

Config = dict[str, Any]
WRITERS: dict[str, Callable[..., Config]] = {}
TITLES = [f"Author_Novel{i}_18{i:02}" for i in range(20)]
NAMES = ("Anna", "Bob", "Clara", "Dora", "Emil", "Frank")
FORMS = ("a01-000u", "a01-001", "b02-010z", "c03-007a", "d04-111")  # of 1, 2, 3, 1, 2 lines
IDS = [f"{form}-0{i}" for form, n in zip(FORMS, (1, 2, 3, 1, 2), strict=True) for i in range(1, n + 1)]
TEXTS = ["A move.", "x & y", 'he said, "no"', "Zoé's 12", "q", "to be", "or not", "A-Z", "end"]
CIFAR = {"train-0-of-2": ("train", 0, 40), "train-1-of-2": ("train", 40, 60), "test-0-of-1": ("test", 0, 30)}
BATCHES = {
    "data_batch_1.bin": ("train", 0, 30),
    "data_batch_2.bin": ("train", 30, 60),
    "test_batch.bin": ("test", 0, 30),
}


def write(name: str, root: Path, held: str = "") -> Config:
    """`held`: a word that the texts of all but the training part have besides."""
    return WRITERS[name](root, held)


def refused(config: Config, root: Path) -> str:
    with pytest.raises(NormbenchError) as caught:
        data.load(config, root)
    assert caught.value.code == 2 and str(caught.value).isprintable()
    return str(caught.value)


def sha(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def declaring(name: str, root: Path, files: Iterable[str], **facts: Any) -> Config:
    """The set's configuration with these files as the declared ones; facts: what it declares otherwise."""
    config = compose.choice("data", name)
    return config | {"declares": _own(config["declares"], root, files) | facts}


def _own(declares: Config, root: Path, files: Iterable[str]) -> Config:
    """The declarations with these files as the only ones."""
    sums = {file: sha(root / file) for file in files}
    return {key: value for key, value in declares.items() if key != "fetch"} | {"files": sums}


def parquet(path: Path, **columns: list[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)


def mnist(root: Path, held: str = "") -> Config:
    made = idxfiles.contents()
    idxfiles.write(root, made)
    return compose.choice("data", "mnist") | idxfiles.declare(made)


def sequential_mnist(root: Path, held: str = "") -> Config:
    config = compose.choice("data", "sequential_mnist")
    sizes = {"train": idxfiles.TRAIN - 10, "valid": 10, "test": idxfiles.TEST}
    return config | {"declares": config["declares"] | {"files_of": mnist(root), "sizes": sizes}}


def binarized_mnist(root: Path, held: str = "") -> Config:
    sizes, path = {"train": 5, "valid": 3, "test": 4}, root / "binarized_mnist/binarized_mnist.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(0)
    np.savez_compressed(path, **{part: draw.integers(0, 256, (rows, 98), np.uint8) for part, rows in sizes.items()})
    return declaring("binarized_mnist", root, ["binarized_mnist/binarized_mnist.npz"], sizes=sizes)


def pictures() -> dict[str, np.ndarray]:
    draw = np.random.default_rng(3)
    made = {part: draw.integers(0, 256, (n, 32, 32, 3), dtype=np.uint8) for part, n in (("train", 60), ("test", 30))}
    made["train"][:, 5, 5, 1] = 77  # never varies
    return made


def packed(images: np.ndarray, kind: str = "PNG") -> list[dict[str, Any]]:
    rows = []
    for image in images:
        body = io.BytesIO()
        Image.fromarray(image).save(body, kind, lossless=True)
        rows.append({"bytes": body.getvalue(), "path": None})
    return rows


def cifar10(
    root: Path, held: str = "", made: dict[str, np.ndarray] | None = None, approximate: Any = (), kind: str = "PNG"
) -> Config:
    given, official = made or pictures(), {}
    for name, (part, first, last) in CIFAR.items():
        rows = range(first, last)
        parquet(
            root / f"cifar10/plain_text/{name}.parquet",
            img=packed(given[part][first:last], kind),
            label=[place % 10 for place in rows],
            exact=[place not in approximate for place in rows],
        )
    for name, (part, first, last) in BATCHES.items():
        records = [bytes([i % 10]) + pictures()[part][i].transpose(2, 0, 1).tobytes() for i in range(first, last)]
        official[name] = hashlib.sha256(b"".join(records)).hexdigest()
    files = [f"cifar10/plain_text/{name}.parquet" for name in CIFAR]
    config = declaring("cifar10", root, files, batches=official, sizes={"train": 60, "test": 30})
    return config | {"held_out": 20, "fraction": 1.0}


TRAIN = ["The film, the FILM: the best!<br />It's great", "so bad\tthe worst film", "bad bad bad", "it's so so"]
TEST = ["An unseen best film", "Worst of the worst"]


def imdb(root: Path, held: str = "", train: list[str] = TRAIN, test: list[str] = TEST) -> Config:
    parts = {"train": train, "test": [f"{text} {held}".strip() for text in test]}
    files = {part: f"imdb/plain_text/{part}-00000-of-00001.parquet" for part in parts}
    sums = []
    for part, reviews in parts.items():
        labels = [int(place >= len(reviews) / 2) for place in range(len(reviews))]
        parquet(root / files[part], text=reviews, label=labels)
        sums.append(imdb_reader._sum(list(zip(reviews, labels, strict=True))))
    sizes = {part: len(reviews) for part, reviews in parts.items()}
    config = declaring("imdb", root, files.values(), sizes=sizes, sha256=data_files.checksum(sums))
    return config | {"held_out": 1, "fraction": 1.0, "length": 6, "words": 12}


def strokes() -> list[tuple[list[tuple[int, int]], list[int]]]:
    """Lines of 2 to 12 points, far out on the sheet: moves, the pen's place first, and ends of strokes."""
    draw, lines = stream(1, "lines"), []
    for length in (2, 12, 5, 7, 3, 9, 4, 6, 8):
        moves = draw.integers(-30, 90, (length, 2))
        moves[0] += 5000
        lines.append(([(int(x), int(y)) for x, y in moves], (draw.random(length) < 0.3).astype(int).tolist()))
    return lines


def iam_ondb(root: Path, held: str = "") -> Config:
    (root / "iam_ondb").mkdir(parents=True, exist_ok=True)
    lines = strokes()
    np.savez_compressed(
        root / "iam_ondb/strokes.npz",
        dxy=np.array([move for moves, _ in lines for move in moves], np.int16),
        eos=np.packbits(np.array([end for _, ends in lines for end in ends], np.uint8)),
        length=np.array([len(moves) for moves, _ in lines], np.int32),
    )
    table = "".join(f"{line}\t{text}\n" for line, text in zip(IDS, TEXTS, strict=True))
    (root / "iam_ondb/sentences.tsv").write_text(table, encoding="utf-8")
    config = declaring("iam_ondb", root, ["iam_ondb/strokes.npz", "iam_ondb/sentences.tsv"], sizes={})
    return config | {"declares": config["declares"] | {"split": {"test": 4, "seed": 1}}}


def flickr8k_captions(root: Path, held: str = "") -> Config:
    splits = ["train"] * 8 + ["dev"] * 2 + ["test"] * 3 + [""]
    rows = [[f"A dog runs{c}, word{i % 3} number {c} of two dogs" for c in range(5)] for i in range(len(splits))]
    captions = [[f"{c} {held if of == 'test' else ''}" for c in five] for of, five in zip(splits, rows, strict=True)]
    parquet(root / "flickr8k_captions/captions.parquet", split=splits, captions=captions)
    return declaring("flickr8k_captions", root, ["flickr8k_captions/captions.parquet"], sizes={})


def coco(root: Path, held: str = "") -> Config:
    words = [["a", "dog"], ["two", "dogs"], ["one"], ["x", "y"], ["z"], ["too", "many"]]
    splits = ["train", "restval", "val", "val", "val", "test", "test", "test"]
    entries = [
        {
            "filename": f"{i}.png",
            "filepath": "all",
            "split": split,
            "sentences": [{"tokens": [*w, f"w{i}", *([held] if held and split == "test" else [])]} for w in words],
        }
        for i, split in enumerate(splits)
    ]
    (root / "coco").mkdir(parents=True, exist_ok=True)
    (root / "coco/dataset_coco.json").write_text(json.dumps({"images": entries}))
    np.save(root / "coco/features.npy", np.random.default_rng(0).random((8, 4096)).astype(np.float32))
    config = compose.choice("data", "coco")
    return config | {"fold": 2, "declares": config["declares"] | {"sizes": {"train": 2, "valid": 2, "test": 3}}}


ARTICLE = (
    "the mayor of @entity1 spoke . it rained ! @entity0 won the race in @entity1 ? nobody knew . "
    "@entity2 saw the Race . @entity0 slept . the race of @entity2 was won by @entity0"
)
QUESTION = "@placeholder won the race in @entity1 ."
PLACES = {"train": "training", "valid": "validation", "test": "test"}


def question(
    document: str = ARTICLE, asked: str = QUESTION, answer: str = "@entity0", entities: str = "@entity0:A"
) -> str:
    return "\n\n".join(["http://example/story", document, asked, answer, entities]) + "\n"


def cnn_cloze(root: Path, held: str = "") -> Config:
    other = question("@entity7 met @entity4 .", "who met @placeholder", "@entity4")
    parts = {
        "train": [question(), other],
        "valid": [question(asked=f"unseen @placeholder won {held} .")],
        "test": [question(asked=f"@placeholder {held} {held} won .")],
    }
    for part, bodies in parts.items():
        for number, body in enumerate(bodies):
            path = root / "cnn/questions" / PLACES[part] / f"{number}.question"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(body)
    config = declaring("cnn_cloze", root, [], sizes={part: len(bodies) for part, bodies in parts.items()})
    return config | {"words": 100, "entities": 8}


def _books(root: Path, sentences: Callable[[int, str], list[str]], held: str) -> None:
    """Twenty novels, in the place of data=books; the word is in those that are not trained on."""
    from normbench.data.triples import parts

    own = {title: sentences(i, held if parts(TITLES)[title] != "train" else "") for i, title in enumerate(TITLES)}
    books, texts = [t for t in own for _ in own[t]], [text for texts in own.values() for text in texts]
    parquet(root / "books/sentences.parquet", book=books, text=texts)


def of_books(name: str, root: Path, **facts: Any) -> Config:
    config = compose.choice("data", name)
    books = config["declares"]["files_of"]
    books = books | {"declares": _own(books["declares"], root, ["books/sentences.parquet"])}
    return config | {"declares": config["declares"] | {"files_of": books} | facts}


def novel_cloze(root: Path, held: str = "") -> Config:
    def sentences(i: int, word: str) -> list[str]:
        draw, own = stream(1, "novel", i), "x" * (i + 1)
        return [
            "Then {} gave {}'s old {} to {}, who did not want {}.".format(
                *draw.permutation(NAMES)[:2], own, who, word or "it"
            )
            for who in draw.choice(NAMES, 40)
        ]

    _books(root, sentences, held)
    config = of_books("novel_cloze", root, sizes={"valid": 20, "test": 30})
    return config | {"words": 60, "entities": 10, "length": 40, "questions": 300}


def novel_triples(root: Path, held: str = "") -> Config:
    def sentences(i: int, word: str) -> list[str]:
        return [f"{'un' * (k % 3)}said {i:02} {word} ." for k in range(12)]

    _books(root, sentences, held)
    config = of_books("novel_triples", root, sizes={"valid": 5, "test": 5})
    return config | {"triples": 100, "words": 40}


def novel_text(root: Path, held: str = "") -> Config:
    def sentences(i: int, word: str) -> list[str]:
        draw, own = stream(1, "text", i), f"{i:02}{word}"
        return [" ".join([own, *draw.choice(NAMES, 5), f"{k}é."]) for k in range(12)]

    _books(root, sentences, held)
    config = of_books("novel_text", root, sizes={"valid": 5, "test": 5})
    return config | {"windows": 100, "characters": 30, "length": 40}


def lines(book: int, count: int = 9, word: str = "") -> str:
    return "".join(f"book {book} , line {chr(97 + i)} {word} .\n" for i in range(count))


def book_corpus(root: Path, held: str = "") -> Config:
    from normbench.data.triples import parts

    names = [f"{i:02}.txt" for i in range(19)]
    (root / "bookcorpus").mkdir(parents=True, exist_ok=True)
    for i, name in enumerate(names):
        word = held if parts(names)[name] != "train" else ""
        (root / "bookcorpus" / name).write_text(lines(i, word=word) + "\n", encoding="utf-8")
    config = declaring("book_corpus", root, [], sizes={"valid": 3, "test": 3})
    return config | {"words": 40}


WRITERS |= {
    make.__name__: make
    for make in (
        mnist, binarized_mnist, cifar10, imdb, iam_ondb, flickr8k_captions, coco, cnn_cloze, novel_cloze, novel_triples,
        book_corpus, novel_text, sequential_mnist,
    )
}  # fmt: skip
