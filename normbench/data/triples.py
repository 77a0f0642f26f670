"""Sets of triples of neighbouring sentences: a sentence, the one behind it, the one before it. From novels, BookCorpus.

Sentences are split and put in small letters by `words.split`; those without a word are left out before there are
neighbours. A triple is of one book, and none of its sentences has more than `length` words. With `filter=after` those
whose own sentence is that short, but not its neighbours, are taken into batches of training and then dropped from them
(code of skip-thoughts, homogeneous_data.py: batches of sources of up to 30 words, of which those with any sentence of
30 or more are dropped; of 30 words nothing is left). Word numbers: END (behind
every sentence, and padding), UNKNOWN (a rarer word), then the words of the training books from FIRST on, most frequent
first.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from normbench.data import Dataset, check, files, hub, made_of, novels
from normbench.data.examples import Shared, Split
from normbench.data.words import END, UNKNOWN, Numbers, ranked, split, with_progress, words_by_number
from normbench.errors import BadInput

FIRST = 2
PARTS = ("train", "valid", "test")
FORM = 2  # of the arrays in the cache
FEWEST_BOOKS, BLOCK = 10, 10_000  # with fewer files, so many sentences count as a book
DEVIATIONS = (
    "BookCorpus: its authors do not hand it out any more and no checksum of it is known; the sum here is of the text "
    "that was read",
    "BookCorpus: books are held out for validation and test (the code has none); a triple is of one book",
)
Arrays = files.Arrays


def novel_triples(config: Mapping[str, Any], root: Path, seed: int = 0) -> Dataset:
    """Triples from the novels of data=books below `root`.

    `triples` of those of the training novels, and as many as declared of the other novels', are used, spread evenly.
    Nothing depends on the seed. They are cached.
    """
    paths = files.paths(made_of(config), root)

    def make(**options: int) -> Arrays:
        sentences = novels.books(paths)
        return made(list(sentences), sentences.pop, parts(sentences), **options)

    counts = {"train": int(config["triples"]), **config["declares"]["sizes"]}
    copy = {"sha256": novels.checksum(paths), "deviations": []}
    return _dataset(config, root, paths, make, counts, lambda arrays: copy)


def book_corpus(config: Mapping[str, Any], root: Path, seed: int = 0) -> Dataset:
    """Triples from a user's text files of a sentence a line below `root`, a file a book, or the hub's set at `source`.

    Of fewer than ten files, and of the hub's rows, every 10 000 sentences count as a book. Books are held out as in
    `parts`. Nothing depends on the seed. The triples are cached. NormbenchError for a file that cannot be read.
    """
    if source := bool(config["source"]):
        paths = hub.parts(config, root)["train"]
    else:
        (folder,) = files.folders(config)
        paths = files.listed(config, root, folder)
    make = functools.partial(_corpus, paths, source)
    return _dataset(
        config,
        root,
        paths,
        make,
        config["declares"]["sizes"],
        lambda arrays: {"sha256": str(arrays["sha256"]), "deviations": list(DEVIATIONS)},
    )


def _dataset(
    config: Mapping[str, Any],
    root: Path,
    paths: Sequence[Path],
    make: Callable[..., Arrays],
    counts: Mapping[str, int],
    copy: Callable[[Arrays], Mapping[str, Any]],
) -> Dataset:
    options = {key: int(config[key]) for key in ("words", "length")}
    arrays, notes = files.cached(config, paths, [options, FORM], lambda: make(**options))
    made = splits(arrays, counts, str(config["filter"]))
    tasks = functools.partial(real_tasks, config, root)
    return Dataset(str(config["name"]), made, notes, copy(arrays), arrays["words"].tolist(), tasks=tasks)


def parts(titles: Iterable[str]) -> dict[str, str]:
    """Each book's part: 2 of 19 each are held out for validation and test, by a hash of their names."""
    order = sorted(titles, key=lambda name: hashlib.sha256(name.encode()).hexdigest())
    held = len(order) * 2 // 19
    return {
        book: "valid" if place < held else "test" if place < 2 * held else "train" for place, book in enumerate(order)
    }


def _corpus(paths: list[Path], of_hub: bool, words: int, length: int) -> Arrays:
    sums = hashlib.sha256()
    read: Callable[[str], Iterable[str]]
    if not of_hub and len(paths) >= FEWEST_BOOKS:
        by_name = {path.name: path for path in paths}
        titles, read = list(by_name), lambda title: _lines([by_name[title]])
    else:
        # Blocks are read in order; the last one also has the rest.
        lines = _texts(paths) if of_hub else _lines(paths)
        count = sum(1 for _ in (_texts(paths) if of_hub else _lines(paths))) // BLOCK
        titles = [f"block {place + 1}" for place in range(count)]
        read = lambda title: itertools.islice(lines, None if title == titles[-1] else BLOCK)  # noqa: E731
    if len(titles) < FEWEST_BOOKS:
        raise BadInput(
            f"{files.as_text(paths[0].parent)} has {len(titles)} times {BLOCK} sentences in {len(paths)} files: at "
            f"least {FEWEST_BOOKS} books, or as many times so many sentences, are needed to hold some out."
        )

    def sentences(title: str) -> Iterator[str]:
        for line in read(title):
            sums.update(f"{line.strip()}\n".encode())
            yield line

    return made(titles, sentences, parts(titles), words, length) | {"sha256": np.array(sums.hexdigest())}


def _texts(paths: Iterable[Path]) -> Iterator[str]:
    for path in paths:
        yield from hub.columns([path], "text")["text"]


def _lines(paths: Iterable[Path]) -> Iterator[str]:
    for path in paths:
        try:
            with path.open(encoding="utf-8-sig") as file:
                yield from file
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"{files.as_text(path)} is not UTF-8, or cannot be read ({error}).") from None


def made(
    books: Sequence[str], read: Callable[[str], Iterable[str]], belongs: Mapping[str, str], words: int, length: int
) -> Arrays:
    """Arrays for the cache: of each part all sentences of its books, and which of them are in the middle of a triple.

    `PART_dropped`: the lengths of short sentences, each with its END, between two of which one is too long.

    `read` gives the sentences of a book, by its name; `belongs` its part. NormbenchError for a book of fewer than three
    sentences, or a part without a triple.
    """
    codes = Numbers()
    by_part: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {part: [] for part in PARTS}
    counts = np.zeros(0, np.int64)
    for book in with_progress(books, "books"):
        texts = [text for sentence in read(book) if (text := split(sentence))]
        tokens = np.fromiter(map(codes.__getitem__, itertools.chain.from_iterable(texts)), np.int32)
        lengths = np.array(list(map(len, texts)), np.int32)
        if len(lengths) < 3:
            raise BadInput(f"{book} has {len(lengths)} sentences: a triple takes three. Add to it, or take it away.")
        by_part[belongs[book]].append((tokens, lengths))
        if belongs[book] == "train":
            counted = np.bincount(tokens, minlength=len(codes))
            counts = np.pad(counts, (0, len(counted) - len(counts))) + counted
    numbers = ranked(np.pad(counts, (0, len(codes) - len(counts))), FIRST, words)
    arrays: Arrays = {"words": words_by_number(codes, numbers, words, ["<end>", "<unknown>"])}
    for part in PARTS:
        arrays |= _part(part, by_part.pop(part), numbers, length)
    return arrays


def _part(part: str, books: list[tuple[np.ndarray, np.ndarray]], numbers: np.ndarray, length: int) -> Arrays:
    lengths = np.concatenate([sentences for _, sentences in books])
    short = lengths <= length
    around = short[:-2] & short[2:]
    ends = np.array([len(sentences) for _, sentences in books]).cumsum()
    edges = np.concatenate([ends - 1, ends])  # the last of a book, and the first of the next
    middle, dropped = (
        np.setdiff1d(np.flatnonzero(short[1:-1] & with_both) + 1, edges) for with_both in (around, ~around)
    )
    if not len(middle):
        raise BadInput(
            f"data.length={length}: the books for {part} have no three neighbouring sentences that short. Give more."
        )
    return {
        f"{part}_numbers": numbers[np.concatenate([tokens for tokens, _ in books])],
        f"{part}_lengths": lengths,
        f"{part}_middle": middle.astype(np.int32),
        f"{part}_dropped": lengths[dropped] + 1,
    }


def splits(arrays: Mapping[str, np.ndarray], counts: Mapping[str, int], filtered: str = "before") -> dict[str, Split]:
    """The parts, with so many triples each, spread evenly; all of a part of which no number is given.

    filtered: `data.filter`; `after`: with the same share of those that are dropped from batches of training.
    NormbenchError where there are fewer.
    """
    by_part = {}
    for part in PARTS:
        available = len(arrays[f"{part}_middle"])
        wanted = counts.get(part, available)
        check_count("triples", part, wanted, available)
        rows = np.arange(wanted) * available // wanted
        numbers, lengths, middle = (arrays[f"{part}_{kind}"] for kind in ("numbers", "lengths", "middle"))
        dropped = None
        if part == "train" and filtered == "after":
            others = arrays["train_dropped"]
            dropped = others[np.arange(share := len(others) * wanted // available) * len(others) // max(share, 1)]
        by_part[part] = triples(numbers, lengths, middle, rows, dropped)
    return by_part


def check_count(what: str, part: str, wanted: int, available: int, given: str = "") -> None:
    """NormbenchError where fewer are available than `data.WHAT` asks for, or a set declares for another part."""
    if wanted > available:
        key = f"data.{what}" if part == "train" else f"{what} for {part}"
        raise BadInput(f"{key}={wanted} are more than there are: {available}{given}.")


def triples(
    numbers: np.ndarray,
    lengths: np.ndarray,
    middle: np.ndarray,
    rows: np.ndarray,
    dropped: np.ndarray | None = None,
) -> Split:
    """Of sentences one after another those triples, by the places `middle` of the sentences that are in the middle."""
    ends = lengths.cumsum(dtype=np.int64)
    values = torch.from_numpy(np.insert(numbers, ends, END).astype(np.int32))
    offsets = torch.from_numpy(np.concatenate([np.zeros(1, np.int64), ends + np.arange(1, len(ends) + 1)]))
    at = torch.from_numpy(middle[rows].astype(np.int64))
    return Split(
        sentence=Shared(values, offsets, at),
        next=Shared(values, offsets, at + 1),
        previous=Shared(values, offsets, at - 1),
        index=torch.from_numpy(rows),
        dropped=None if dropped is None else torch.from_numpy(dropped),
    )


def different(part: Split, most: int) -> list[list[int]]:
    """Different sentences of a part's books, each with its END: at most so many, spread evenly."""
    sentences = part["sentence"]
    values, offsets = sentences.values.numpy(), sentences.offsets.numpy()
    lengths, firsts = np.diff(offsets), [np.zeros(0, np.int64)]
    for length in np.unique(lengths):  # as rows of bytes: lists of a large part's words would not fit into memory
        places = np.flatnonzero(lengths == length)
        rows = np.ascontiguousarray(values[offsets[places][:, None] + np.arange(length)])
        _, first = np.unique(rows.view(np.dtype((np.void, rows.itemsize * length))), return_index=True)
        firsts.append(places[first])
    first = np.sort(np.concatenate(firsts))
    count = min(most, len(first))
    return [values[offsets[k] : offsets[k + 1]].tolist() for k in first[np.arange(count) * len(first) // count]]


def encoded(sentence: str, numbers: Mapping[str, int]) -> list[int]:
    """The numbers of a sentence's words, without an END; none of an empty one."""
    return [numbers.get(word, UNKNOWN) for word in split(sentence)]


def numbered(words: Sequence[str]) -> dict[str, int]:
    """The number of each word of a set."""
    return {word: number for number, word in enumerate(words) if number >= FIRST and word}


@contextmanager
def real_tasks(config: Mapping[str, Any], root: Path) -> Iterator[Path]:
    """The data folder, for the files of downstream tasks below it; NormbenchError where one is missing or damaged."""
    for of in config["declares"]["tasks"]:
        check(of, root)
    yield root
