"""`normbench embed-eval`: evaluates sentence vectors from files, functions and runs."""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any

from rich.console import Console

from normbench import data
from normbench.commands import format
from normbench.commands.terminal import Table, cell, say
from normbench.errors import NormbenchError, unknown
from normbench.runs import files
from normbench.sentences import sets
from normbench.sentences.rows import Files, encoded
from normbench.sentences.sets import Labelled

BAG = "bag-of-words"
SIZE, SEED = 2400, 1  # of a bag of words


@dataclass(frozen=True)
class Column:
    """A metric of a set, as a column of the table."""

    set: str
    metric: str
    factor: int = 1
    digits: int = 3

    def text(self, record: Mapping[str, Any]) -> str:
        return f"{self.factor * record[self.metric]:.{self.digits}f}"


COLUMNS = {
    "SICK r": Column("sick", "pearson"),
    "ρ": Column("sick", "spearman"),
    "MSE": Column("sick", "mse"),
    **{name.upper(): Column(name, "accuracy", 100, 1) for name in sets.CLASSIFIED},
}


@dataclass(frozen=True)
class Request:
    """The options of the command."""

    words: Sequence[str]
    sets: str | None
    nested: bool
    weights: str | None
    expand: Path | None
    size: int | None
    seed: int | None
    threads: int
    json: Path | None


@dataclass
class Source:
    """Vectors: `rows(set)` for the sets `names`, and the records of their evaluation."""

    title: str
    rows: Callable[[Labelled], Any]
    names: Sequence[str] = sets.ALL
    of_run: bool = False
    records: list[dict[str, Any]] = field(default_factory=list)


def write_sentences(folder: Path, names: str | None, console: Console) -> int:
    """Write one UTF-8 file for each part of each set, a line for each sentence."""
    found = [sets.read(name, data.root()) for name in _names(names)]
    if folder.exists() and not folder.is_dir():
        raise NormbenchError(f"--write-sentences {folder} is not a folder. Name one, or one that is to be made.")
    folder.mkdir(parents=True, exist_ok=True)
    for given in found:
        for stem, sentences in given.sentences.items():
            text = "".join(f"{sentence}\n" for sentence in sentences)
            files.atomic_write(folder / f"{stem}.txt", text.encode())
            empty = f", {sentences.count('')} of them empty" if "" in sentences else ""
            say(console, f"{folder / stem}.txt  {len(sentences)} sentences{empty}")
    say(console, "a sentence ends at a line feed alone. A row for each line, numpy.save('DIR/mr.npy', rows) and so "
                 "on; then: normbench embed-eval DIR")  # fmt: skip
    return 0


def run(request: Request, results: Path, config_dir: Path | None, console: Console) -> int:
    """Evaluate every source on every set that it has; results before an error are still shown and written."""
    _refuse(request)
    names = _names(request.sets)
    for name in names:  # before anything is imported or computed
        sets.read(name, data.root())
    sources = [source(word, request, results, config_dir) for word in request.words]
    _refuse_sources(sources, names, request)
    import torch

    torch.set_num_threads(min(request.threads, os.cpu_count() or 1))
    try:
        for each in sources:
            _evaluate(each, [name for name in names if name in each.names], request.nested, console)
    finally:
        done = [each for each in sources if each.records]
        if done:
            _show_table(done, request.nested, console)
            if request.json:
                rows = [{"vectors": each.title, "records": each.records} for each in done]
                files.write_json(request.json, {"schema": 1, "nested": request.nested, "rows": rows})
    return 0


def _refuse(request: Request) -> None:
    """NormbenchError for options that are impossible whatever the words name."""
    if not request.words:
        raise NormbenchError("embed-eval needs vectors: a folder, module:name, a run, bag-of-words or tf-idf. "
                             "(normbench embed-eval --help)")  # fmt: skip
    for name, value in (("size", request.size), ("seed", request.seed)):
        if value is not None and BAG not in request.words:
            raise NormbenchError(f"--{name} {value} is of {BAG}, which is not among {', '.join(request.words)}.")
    if request.json and (request.json.is_dir() or not request.json.absolute().parent.is_dir()):
        raise NormbenchError(f"--json {request.json} is not a file in a folder that is there.")
    if request.expand and not request.expand.is_file():
        raise NormbenchError(f"--expand {request.expand} is not there: a file of word vectors.")


def _refuse_sources(sources: Sequence[Source], names: Sequence[str], request: Request) -> None:
    """NormbenchError for requested sets that a source lacks, and options that no source takes."""
    for each in sources:
        if lacking := [name for name in names if name not in each.names] if request.sets else []:
            raise NormbenchError(f"{each.title} has no vectors of {', '.join(lacking)}.")
    for option, value in (("weights", request.weights), ("expand", request.expand)):
        if value is not None and not any(each.of_run for each in sources):
            raise NormbenchError(f"--{option} {value} is of a run, and none is among {', '.join(request.words)}.")


def _names(given: str | None) -> list[str]:
    """The sets of --sets, by default all."""
    names = [name.strip().lower() for name in given.split(",")] if given else list(sets.ALL)
    for name in names:
        if name not in sets.ALL:
            raise unknown(f"--sets {name} is not a set of sentences.", name, sets.ALL)
    return list(dict.fromkeys(names))


def _evaluate(each: Source, names: Sequence[str], nested: bool, console: Console) -> None:
    from normbench.sentences import scored
    from normbench.sentences.folds import COSTS, PARTS

    for name in names:
        began = time.monotonic()
        (one,) = scored(each.rows, data.root(), nested, [name])
        record = one.record | ({} if one.at_edge is None else {"c_at_edge": one.at_edge})
        each.records.append(record)
        numbers = "  ".join(f"{title} {column.text(record)}" for title, column in COLUMNS.items() if column.set == name)
        say(console, f"{each.title}: {numbers}  ({format.duration(time.monotonic() - began)})")
        if 2 * (one.at_edge or 0) > PARTS:
            ends = f"{COSTS[0]:g} or {COSTS[-1]:g}"
            say(console, f"  in {one.at_edge} of {PARTS} parts the best C is the smallest or largest tried, {ends}: "
                         "vectors of another length may do better")  # fmt: skip


def _show_table(done: Sequence[Source], nested: bool, console: Console) -> None:
    from normbench.sentences.folds import FIXED

    table = Table("vectors", *COLUMNS, whole=tuple(COLUMNS))
    for each in done:
        by_name = {record["split"]: record for record in each.records}
        numbers = [column.text(by_name[column.set]) if column.set in by_name else "" for column in COLUMNS.values()]
        table.add_row(cell(each.title), *numbers)
    how = "C by nested tenfold cross-validation" if nested else f"C = {FIXED:g}, tenfold cross-validation"
    say(console, f"\nSICK's relatedness; accuracy in %, {how}")
    console.print(table)


# --- sources of vectors -----------------------------------------------------------------------------------------------


def source(word: str, request: Request, results: Path, config_dir: Path | None) -> Source:
    """The vectors that a word names."""
    from normbench.sentences import yardsticks

    if word == BAG:
        size = SIZE if request.size is None else request.size
        seed = SEED if request.seed is None else request.seed
        encode = yardsticks.bag_of_words(size, seed)
        title = f"{word}, {size} numbers, seed {seed}"
        return Source(title, lambda given: encoded(encode, given, word))
    if word == "tf-idf":
        return Source(word, lambda given: encoded(yardsticks.tf_idf, given, word))
    folder = Path(word)
    if folder.is_dir() and not (folder / "config.yaml").exists():
        found = Files(folder)
        return Source(word, found, found.names)
    if ":" in word:
        encode = function(word)
        return Source(word, lambda given: encoded(encode, given, word))
    from normbench.library.sentences import encoder

    further = None
    if request.expand:
        sentences = (sentence for name in _names(request.sets) for sentence in sets.read(name, data.root()).all)
        further = request.expand, sentences
    try:
        encode = encoder(word, results, request.weights, config_dir, further)
    except NormbenchError as error:
        if not str(error).startswith("no run"):
            raise
        raise NormbenchError(f"{word} is neither a folder of vectors nor module:name, bag-of-words or tf-idf; and "
                             f"{error}") from None  # fmt: skip
    title = f"run {word}, words of {request.expand.name}" if request.expand else f"run {word}"
    return Source(title, lambda given: encoded(encode, given, word), of_run=True)


def function(word: str) -> Callable[[list[str], bool], Any]:
    """Import `module:name`, also from the working directory; its exceptions become a NormbenchError.

    The working directory stays on sys.path: the function may import further modules when it is called.
    """
    module, _, name = word.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        encode = attrgetter(name)(importlib.import_module(module))
    except ModuleNotFoundError as error:
        raise NormbenchError(f"{word}: there is no module {error.name}, here or installed.") from None
    except (Exception, SystemExit) as error:  # the module's own code
        raise NormbenchError(f"{word}: importing {module} raised {_describe_exception(error)}") from None
    if not callable(encode):
        raise NormbenchError(f"{word} is not a function but of type {type(encode).__name__}.")

    def called(sentences: list[str], eos: bool) -> Any:
        try:
            return encode(sentences)
        except (Exception, SystemExit) as error:  # the function's own
            raise NormbenchError(f"{word} raised {_describe_exception(error)}") from None

    return called


def _describe_exception(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:200]}" if text else f"{type(error).__name__}."
