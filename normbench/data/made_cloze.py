"""Cloze questions made here: who does what, and one of these sentences with a blank. Embedded: no files, no network."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from normbench.data import Dataset, cloze, content
from normbench.data.cloze import BLANK, ENTITY
from normbench.data.examples import Ragged, Split
from normbench.errors import NormbenchError
from normbench.streams import stream

SENTENCE = 4  # an entity, a verb, an object and a full stop
CHECKED = {"words": 24, "entities": 6, "length": 20}  # of the declared checksum
Question = tuple[list[int], list[int], int]  # document, question, answer


def load(config: Mapping[str, Any], root: Path, seed: int = 0) -> Dataset:
    """Documents of two or more sentences; the question is one of them, its entity the blank. Numbers as in `cloze`.

    A sentence is `entity verb object .`, the question `blank verb object`. No two sentences of a document have the same
    verb and object; the same entity, verb or object they may have. All drawn by the seed. `root` is not used: there are
    no files. NormbenchError when numpy's random numbers are not the declared ones, or too few word numbers are left
    beside the entities.
    """
    facts, words, entities = config["declares"], int(config["words"]), int(config["entities"])
    if words < (least := ENTITY + entities + 5):
        raise NormbenchError(
            f"data.words={words} is too small for data.entities={entities}: at least {least}, for two verbs, two "
            f"objects and a full stop besides."
        )
    found = hashlib.sha256()
    for question in _draw(0, "check", 100, **CHECKED):
        found.update(np.array([*question[0], *question[1], question[2]], "<i8").tobytes())
    content.check_made("the questions of data=made_cloze", found.hexdigest(), facts["sha256"])
    splits = {}
    for part, count in facts["sizes"].items():
        documents, questions, answers = zip(
            *_draw(seed, part, count, words, entities, int(config["length"])), strict=True
        )
        splits[part] = Split(
            document=Ragged.of(map(torch.tensor, documents)),
            question=Ragged.of(map(torch.tensor, questions)),
            answer=torch.tensor(answers),
        )
    first = ENTITY + entities
    verbs = (words - first - 1) // 2
    vocabulary = [".", *(f"verb{i}" for i in range(verbs)), *(f"object{i}" for i in range(words - first - 1 - verbs))]
    numbers = np.arange(first, words)
    names = cloze.words_by_number({word: place for place, word in enumerate(vocabulary)}, numbers, entities, words)
    return Dataset(str(config["name"]), splits, words=names.tolist())


def _draw(seed: int, part: str, count: int, words: int, entities: int, length: int) -> list[Question]:
    draw = stream(seed, "made cloze", part)
    stop, first = ENTITY + entities, ENTITY + entities + 1
    verbs = (words - first) // 2
    objects = words - first - verbs
    made = []
    for _ in range(count):
        sentences = int(draw.integers(2, min(length // SENTENCE, verbs * objects) + 1))
        verb, object_ = np.divmod(draw.choice(verbs * objects, sentences, replace=False), objects)
        # The first two of different entities, the others of any.
        who = np.concatenate([draw.choice(entities, 2, replace=False), draw.integers(0, entities, sentences - 2)])
        facts = np.stack([ENTITY + who, first + verb, first + verbs + object_, np.full(sentences, stop)], 1)
        facts = draw.permutation(facts)
        asked = facts[draw.integers(0, sentences)].tolist()
        made.append((facts.flatten().tolist(), [BLANK, *asked[1:3]], asked[0]))
    return made
