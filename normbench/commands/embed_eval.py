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
from typing import Annotated, Any

from rich.console import Console

from normbench import data
from normbench.commands import format, terminal
from normbench.commands.options import ConfigDir, Json, Results, Weights, argument, flag, option
from normbench.commands.terminal import Table, cell, say
from normbench.errors import NormbenchError, unknown
from normbench.reading import place
from normbench.runs import files
from normbench.sentences import sets

BAG, TF_IDF = "bag-of-words", "tf-idf"
SIZE, SEED = 2400, 1  # of a bag of words
EPILOG = """examples:
  normbench embed-eval --write-sentences sentences      mr.txt, sick_train_a.txt and so on, a sentence a line
  normbench embed-eval vectors/ bag-of-words            mr.npy, sick_train_a.npy and so on: a row for each line
  normbench embed-eval my_module:encode                 encode(list of str) -> array; my_module:model.encode is fine
  normbench embed-eval 9573469b42be --sets mr,cr        the model of a run, with its stored weights
  normbench embed-eval bag-of-words tf-idf --size 2400  scores of untrained vectors

SICK: Pearson's r, Spearman's rho and the mean squared error of relatedness. MR, CR, SUBJ, MPQA: accuracy of logistic
regression in nested tenfold cross-validation. The sets: normbench data get sentence_eval; normbench data get sick.
"""


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


@dataclass
class Source:
    """Vectors: `encode(sentences)` or the rows of files, for the sets `names`; and the records of their evaluation."""

    title: str
    rows: Callable[[Any], Any]
    names: Sequence[str] = sets.ALL
    records: list[dict[str, Any]] = field(default_factory=list)


def command(
    words: Annotated[
        list[str],
        argument(
            "one or more sources: a folder, module:name, a run, bag-of-words, tf-idf",
            "VECTORS",
            default_factory=list,
            show_default=False,
        ),
    ],
    results: Results,
    config_dir: ConfigDir = None,
    written: Annotated[
        Path | None, option("write the sentences to be encoded", "DIR", "--write-sentences", parser=place)
    ] = None,
    asked: Annotated[
        str | None, option("only these sets, separated by commas", "NAMES", "--sets", show_default="all")
    ] = None,
    fixed: Annotated[
        bool, flag("--fixed", "use one fixed C instead of choosing it by cross-validation: much faster")
    ] = False,
    weights: Weights = None,
    expand: Annotated[
        Path | None,
        option("word vectors (word2vec, GloVe) for words that a run's vocabulary lacks", "FILE", parser=place),
    ] = None,
    size: Annotated[
        int | None, option("length of the vectors of bag-of-words", "N", min=1, show_default="2400")
    ] = None,
    seed: Annotated[int | None, option("seed of bag-of-words", "S", min=0, show_default="1")] = None,
    threads: Annotated[int, option("number of threads", "N", min=1)] = 2,
    as_json: Json = False,
) -> None:
    """Evaluate every source on every set that it has; results before an error are still shown."""
    console, names = terminal.console(stderr=as_json), _names(asked)
    if written is not None:
        if words:
            raise NormbenchError(f"--write-sentences takes no vectors, such as {words[0]}.")
        return _write_sentences(written, names, console, as_json)
    if not words:
        raise NormbenchError(
            "embed-eval needs vectors: a folder, module:name, a run, bag-of-words or tf-idf. "
            "(normbench embed-eval --help)"
        )
    kinds = {word: _kind(word) for word in words}
    for given, value, kind in (("size", size, BAG), ("seed", seed, BAG), ("weights", weights, "a run"),
                                ("expand", expand, "a run")):  # fmt: skip
        if value is not None and kind not in kinds.values():
            raise NormbenchError(f"--{given} {value} is of {kind}, and none is among {', '.join(words)}.")
    if expand and not expand.is_file():
        raise NormbenchError(f"--expand {expand} is not there: a file of word vectors.")
    read = [sets.read(name, data.root()) for name in names]  # before anything is imported or computed
    further = (expand, (sentence for one in read for sentence in one.all)) if expand else None
    sources = [
        _source(word, kind, (SIZE if size is None else size, SEED if seed is None else seed),
                lambda word: _encoder(word, results, weights, config_dir, further))
        for word, kind in kinds.items()
    ]  # fmt: skip
    for each in sources:
        if asked and (lacking := [name for name in names if name not in each.names]):
            raise NormbenchError(f"{each.title} has no vectors of {', '.join(lacking)}.")
    import torch

    torch.set_num_threads(min(threads, os.cpu_count() or 1))
    try:
        for each in sources:
            _evaluate(each, [name for name in names if name in each.names], not fixed, console)
    finally:
        if done := [each for each in sources if each.records]:
            _show_table(done, not fixed, console)
            rows = [{"vectors": each.title, "records": each.records} for each in done]
            if as_json:
                terminal.say_json({"schema": 1, "nested": not fixed, "rows": rows})


def _write_sentences(folder: Path, names: Sequence[str], console: Console, as_json: bool) -> None:
    """Write one UTF-8 file for each part of each set, a line for each sentence."""
    found = [sets.read(name, data.root()) for name in names]
    if folder.exists() and not folder.is_dir():
        raise NormbenchError(f"--write-sentences {folder} is not a folder. Name one, or one that is to be made.")
    folder.mkdir(parents=True, exist_ok=True)
    counts = {}
    for stem, sentences in (pair for given in found for pair in given.sentences.items()):
        path = folder / f"{stem}.txt"
        files.atomic_write(path, "".join(f"{sentence}\n" for sentence in sentences).encode())
        empty = f", {sentences.count('')} of them empty" if "" in sentences else ""
        say(console, f"{path}  {len(sentences)} sentences{empty}")
        counts[str(path)] = len(sentences)
    say(console, "a sentence ends at a line feed alone. A row for each line, numpy.save('DIR/mr.npy', rows) and so "
                 "on; then: normbench embed-eval DIR")  # fmt: skip
    if as_json:
        terminal.say_json({"sentences": counts})


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


def _kind(word: str) -> str:
    """What a word names: bag-of-words, tf-idf, a folder, a function or a run."""
    if word in (BAG, TF_IDF):
        return word
    if Path(word).is_dir() and not any((Path(word) / name).exists() for name in ("run.json", "config.yaml")):
        return "a folder"
    return "a function" if ":" in word else "a run"


def _source(word: str, kind: str, bag: tuple[int, int], encoder: Callable[[str], Any]) -> Source:
    """The vectors that a word names. bag: size and seed. encoder: makes one of a run."""
    from normbench.sentences import yardsticks
    from normbench.sentences.rows import Files, encoded

    if kind == "a folder":
        found = Files(Path(word))
        return Source(word, found, found.names)
    if kind == BAG:
        encode, title = yardsticks.bag_of_words(*bag), f"{word}, {bag[0]} numbers, seed {bag[1]}"
    elif kind == TF_IDF:
        encode, title = yardsticks.tf_idf, word
    elif kind == "a function":
        encode, title = function(word), word
    else:
        encode, title = encoder(word)
    return Source(title, lambda given: encoded(encode, given, word))


def _encoder(word: str, results: Path, weights: str | None, config_dir: Path | None, further: Any) -> tuple[Any, str]:
    """The encoder of a run and its title. further: word vectors, and the sentences whose words they are for."""
    from normbench.library.sentences import encoder

    try:
        encode = encoder(word, results, weights, config_dir, further)
    except NormbenchError as error:
        if not str(error).startswith("no run"):
            raise
        raise NormbenchError(
            f"{word} is neither a folder of vectors nor module:name, bag-of-words or tf-idf; and {error}"
        ) from None
    return encode, f"run {word}, words of {further[0].name}" if further else f"run {word}"


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
