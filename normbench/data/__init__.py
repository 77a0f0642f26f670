"""Data sets: `load` gives a whole set as tensors. Importing this needs no torch."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from normbench.core import user_code
from normbench.data import files, hub
from normbench.errors import BadInput
from normbench.files import reading

if TYPE_CHECKING:
    from normbench.data.examples import Split

# The module of a set's reader, a function of the set's name. A set that is not here has a module of its own name with
# `load` in it.
MODULES = {
    **dict.fromkeys(("mnist", "binarized_mnist", "cifar10"), "images"),
    **dict.fromkeys(("coco", "flickr8k_captions"), "captions"),
    **dict.fromkeys(("cnn_cloze", "novel_cloze"), "cloze"),
    **dict.fromkeys(("novel_triples", "book_corpus"), "triples"),
    "novel_text": "characters",
    **{"imdb": "imdb", "iam_ondb": "strokes"},
    **dict.fromkeys(("sequential_mnist", "sequential_digits"), "sequential"),
    **dict.fromkeys(("digits", "binarized_digits", "coloured_digits", "recall"), "smoke"),
    **dict.fromkeys(
        ("made_captions", "made_cloze", "made_reviews", "made_strokes", "made_text", "made_triples"), "smoke"
    ),
}


class Scale(NamedTuple):
    """Undoes the standardization of features: x = mean + deviation * standardized."""

    mean: tuple[float, ...] = ()
    deviation: tuple[float, ...] = ()


@dataclass(frozen=True)
class Dataset:
    """A whole set in memory; `splits` by name, `train` among them; `notes` are lines that a user should see.

    Tensors of the sets in this package: `inputs` (N, features), (N, height, width, channels) or (N, time, features)
    float32, of words their numbers (N, time) int64; `targets` (N,) int64. Of cloze questions ragged `document` and
    `question` of word numbers int64, and `answer` (N,) int64, the word number of an entity. Of lines of writing ragged
    `strokes` (points, 3) float32, offsets of the pen and whether it is lifted then, and `characters` int64, numbers of
    symbols. Of neighbouring sentences ragged `sentence`, `next` and `previous` of word numbers int32. Of texts as
    characters `text` (N, length + 1) uint8, each but the first to be predicted from those before it.

    `words`, for sets of texts: the word, or the character, of each number.
    `tasks`, for sets of sentences: a context with a data folder that has the files of downstream tasks.
    `scale`, for sets of strokes: mean and deviation of the offsets before they were standardized.
    `copy` identifies the copy of a set whose copies differ, for the run's records: `sha256` of its content and
    `deviations` from the official set, a line each.
    """

    name: str
    splits: dict[str, Split]
    notes: tuple[str, ...] = ()
    copy: Mapping[str, Any] = field(default_factory=dict)
    words: Sequence[str] = ()
    scale: Scale = field(default_factory=Scale)
    tasks: Callable[[], AbstractContextManager[Path]] | None = None


def root() -> Path:
    """The folder of the data sets: NORMBENCH_DATA, else ./data."""
    return reading.place(os.environ.get("NORMBENCH_DATA") or "data")


def load(config: Mapping[str, Any], root: Path | None = None, seed: int = 0) -> Dataset:
    """The set that `config` names, the composed `data` node with its `declares`; NormbenchError if it is not there.

    `seed` draws the parts of a set that has no fixed ones.
    """
    reader = function(config)
    check(config, root)
    return reader(config, folder(root), seed)


def check(config: Mapping[str, Any], root: Path | None = None) -> None:
    """Raise NormbenchError for the set's first missing or damaged file, or where there is nothing at `data.source`.

    Needs no torch, so that planning can call it. Files at a source are compared with the declared content when loaded.
    """
    if config.get("source"):
        hub.parts(config, folder(root))
        return
    if lines := problems(config, root):
        raise BadInput(lines[0])


def problems(config: Mapping[str, Any], root: Path | None = None) -> list[str]:
    """One line per missing or damaged file, or empty folder, of the set; empty for a set that needs no files."""
    return files.problems(made_of(config), folder(root))


def own_checksum(config: Mapping[str, Any]) -> str:
    """Checksum of a user's set (`declares.like` or `file`): of its unpacked files, and of its YAML's facts.

    NormbenchError where a file is missing or damaged.
    """
    facts, paths = config["declares"], files.paths(config, root())
    if not all(path.is_file() for path in paths):
        check(config)
    sums = list(map(files.unpacked_digest, paths))
    return files.checksum([sums, {key: facts[key] for key in ("classes", "features", "sizes") if key in facts}])


def read_by(config: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The sets that a run reads, by its configuration: its own, and those of its downstream tasks."""
    chosen = config["data"]
    return [chosen, *(chosen["declares"].get("tasks", []) if config["eval"]["tasks"] else [])]


def made_of(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The set from whose files this one is made: its `files_of`, else itself."""
    return config["declares"].get("files_of") or config


def function(config: Mapping[str, Any]) -> Callable[..., Any]:
    """The function that reads the set, `load` in a user's own file; NormbenchError where there is none."""
    if "file" in config["declares"]:
        return user_code.function(Path(config["declares"]["file"]), "load")
    name = str(config["declares"].get("like", config["name"]))
    if name in MODULES:
        return getattr(importlib.import_module(f"{__name__}.{MODULES[name]}"), name)
    raise BadInput(f"data={name} is not a data set. (normbench list data)")


def folder(given: Path | None) -> Path:
    """The given data folder, else `root()`."""
    return root() if given is None else reading.place(given)
