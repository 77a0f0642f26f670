"""CNN's cloze questions (Hermann et al. 2015), each with the most relevant sentences of its article as the document.

A sentence ends after `.`, `!` or `?`. It is as relevant as it has different words of the question, entities counted
twice, stop words and signs not at all; the `sentences` most relevant ones stay, in their order, of equally relevant
ones the first. Then the last word of document and question is left out, as the attentive reader's authors do as they
load theirs, but never the blank nor the only word. Word numbers as in `cloze`: `@entityN` has ENTITY + N; words are
those that documents and questions of the training part have more than once.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from normbench.data import Dataset, array_cache, check, cloze, content, files
from normbench.data.array_cache import Arrays
from normbench.data.cloze import BLANK, ENTITY
from normbench.data.words import Numbers, ranked
from normbench.errors import NormbenchError

PARTS = {"train": "training", "valid": "validation", "test": "test"}
BLOCKS = ("address", "document", "question", "answer", "entities")
SENTENCE = re.compile(r"(?<=\s[.!?])\s+")
MARKER = re.compile(r"@entity(\d+)")
_STOP_WORDS = (
    "a about above after again against all also am an and any are as at be because been before being below between "
    "both but by can could did do does doing down during each few for from further had has have having he her here "
    "hers him his how i if in into is it its itself just me more most my no nor not now of off on once only or other "
    "our out over own s said same says she should so some such t than that the their them then there these they this "
    "those through to too under until up very was we were what when where which while who whom why will with would "
    "you your"
)
STOP_WORDS = frozenset(_STOP_WORDS.split())
FORM = 2  # of the arrays in the cache
DEVIATIONS = (
    "CNN: the most relevant sentences are chosen by a rule of this project; that of the attentive reader's authors is "
    "not published",
    "CNN: no checksum of the archive is known; the sum here is of the question files that were read",
)


def load(config: Mapping[str, Any], root: Path, seed: int = 0) -> Dataset:
    """Questions from the files of a user's own cnn.tgz below `root`; NormbenchError when they are missing or damaged.

    Nothing depends on the seed. The arrays are cached under the files' names, sizes and times.
    """
    check(config, root)
    options = {key: config[key] for key in ("words", "entities", "sentences")}
    if options["words"] <= (least := ENTITY + options["entities"]):
        raise NormbenchError(
            f"data.words={options['words']} is too small for data.entities={options['entities']}: more than {least}."
        )
    folders = dict(zip(PARTS, (files.find(root, name, Path.is_dir) for name in files.folders(config)), strict=True))
    found = {part: files.listed(folder, ".question") for part, folder in folders.items()}
    for part, wanted in config["declares"]["sizes"].items():
        if len(found[part]) != wanted:
            raise NormbenchError(
                f"{files.as_text(folders[part])} has {len(found[part])} question files instead of {wanted}. "
                f"{files.registration(config, root)}"
            )
    maths = int(config["declares"]["maths"])
    stamps = [[(path.name, facts.st_size, facts.st_mtime_ns) for path, facts in named] for named in found.values()]
    target = files.cache("cnn_cloze") / f"{content.checksum([stamps, maths, options, FORM])[:32]}.npz"
    arrays, notes = array_cache.arrays(
        target,
        lambda: _build({part: [path for path, _ in found[part]] for part in PARTS}, **options),
        "CNN's questions are read anew for every process.",
    )
    splits = {part: cloze.split(arrays, part, len(found[part])) for part in PARTS}
    copy = {"sha256": str(arrays["sha256"]), "deviations": list(DEVIATIONS)}
    return Dataset(str(config["name"]), splits, notes, copy, arrays["words"].tolist())


def _build(paths: Mapping[str, list[Path]], words: int, entities: int, sentences: int) -> Arrays:
    codes, sums = Numbers(), hashlib.sha256()
    arrays: Arrays = {}
    for part, questions in paths.items():
        texts: dict[str, list[np.ndarray]] = {kind: [] for kind in cloze.TEXTS}
        answers = []
        for path in cloze.with_progress(questions, f"questions for {part}"):
            *both, answer = read(path, sums, entities, sentences)
            for kind, text in zip(cloze.TEXTS, both, strict=True):
                texts[kind].append(np.array([codes[word] for word in text], np.int32))
            answers.append(codes[answer])
        arrays |= cloze.packed(part, texts, answers)
    counts = sum(np.bincount(arrays[f"train_{kind}"], minlength=len(codes)) for kind in cloze.TEXTS)
    marked = {code: int(found[1]) for word, code in codes.items() if (found := MARKER.fullmatch(word))}
    counts = np.where(counts > 1, counts, 0)
    counts[[*marked, codes["@placeholder"]]] = 0
    numbers = ranked(counts, ENTITY + entities, words)
    numbers[list(marked)] = ENTITY + np.array(list(marked.values()))
    numbers[codes["@placeholder"]] = BLANK
    for part in paths:
        for kind in (*cloze.TEXTS, "answer"):
            arrays[f"{part}_{kind}"] = numbers[arrays[f"{part}_{kind}"]]
    arrays["words"] = cloze.words_by_number(codes, numbers, entities, words)
    return arrays | {"sha256": np.array(sums.hexdigest())}


def read(path: Path, sums: Any, entities: int, sentences: int) -> tuple[list[str], list[str], str]:
    """Words of the document and of the question, and the answer, of one file, whose text is added to `sums`."""
    body = content.text(path)
    sums.update(body)
    try:
        blocks = dict(zip(BLOCKS, (block.strip() for block in body.decode("utf-8").split("\n\n", 4)), strict=False))
    except UnicodeDecodeError:
        raise _wrong(path, "is not UTF-8") from None
    if lacking := [name for name in BLOCKS if not blocks.get(name)]:
        raise _wrong(path, f"has no {' and no '.join(lacking)}")
    document, question, answer = (blocks[name].lower() for name in ("document", "question", "answer"))
    if not MARKER.fullmatch(answer):
        raise _wrong(path, f"has the answer '{answer[:50]}', which is no entity")
    for marker in MARKER.finditer(f"{document} {question} {answer}"):
        if int(marker[1]) >= entities:
            raise NormbenchError(
                f"{files.as_text(path)} has {marker[0]}, beyond data.entities={entities}: give more, such as "
                f"data.entities={int(marker[1]) + 1}."
            )
    asked = question.split()
    if "@placeholder" not in asked:
        raise _wrong(path, "has no @placeholder in its question")
    chosen = relevant(document, asked, sentences)
    return chosen[:-1] or chosen, asked[:-1] if "@placeholder" in asked[:-1] else asked, answer


def relevant(document: str, question: list[str], sentences: int) -> list[str]:
    """The words of so many sentences of the document that have most of the question, in their order."""
    wanted = {word for word in question if word[-1].isalnum() and word not in STOP_WORDS and word != "@placeholder"}
    found = [sentence.split() for sentence in SENTENCE.split(document)]
    scores = [sum(2 if MARKER.fullmatch(word) else 1 for word in wanted.intersection(sentence)) for sentence in found]
    best = sorted(sorted(range(len(found)), key=lambda place: -scores[place])[:sentences])
    return [word for place in best for word in found[place]]


def _wrong(path: Path, what: str) -> NormbenchError:
    return NormbenchError(f"{files.as_text(path)} {what}: it is damaged. Unpack it again from cnn.tgz.")
