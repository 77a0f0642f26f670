"""The accuracy on cloze questions of rules that count and compare words and learn nothing.

A rule gives scores to the entities of the document, or only to those that are not in the question if there are any (not
`random` and `frequent`); if several have the highest score, each counts with its probability.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from normbench import data
from normbench.config.spec import Spec
from normbench.data.cloze import BLANK, ENTITY, TEXTS
from normbench.data.examples import Split

FAR = 8  # Hermann et al. 2015: a word counts no farther than this
# document, question, places of mentions, the entity of each (0, 1, ...), number of entities -> scores of the entities
Rule = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray, int], np.ndarray]


def compute(spec: Spec) -> list[dict[str, Any]]:
    """The accuracy of every rule on each held-out split, and the number of candidates.

    `random`: any entity. `frequent`: the most frequent one in the document; `not_in_question`: the most frequent one
    not in the question. The question's blank is laid upon a mention in the document: `distance` sums over the
    question's words the distance from their place there to the nearest equal word, FAR at most (Hermann et al. 2015,
    without coreference); `window` sums over the words under the question that occur anywhere in it
    log(1 + 1/(their number in the document)) (Richardson et al. 2013). The score of an entity is that of its best
    mention. `answerable`: the share of questions whose document has the answer; `candidates`: entities of a document,
    mean; `count`: questions.
    """
    splits = data.load(spec.config["data"], seed=spec.seed).splits
    entities = int(spec.config["data"]["entities"])
    return [{"split": part, **rates(split, entities)} for part, split in splits.items() if part != "train"]


def rates(split: Split, entities: int) -> dict[str, float]:
    """The shares (0 to 1) of a part, `candidates` and `count`."""
    names = ("random", "frequent", "not_in_question", *RULES, "answerable", "candidates")
    sums = dict.fromkeys(names, 0.0)
    texts = [[row.numpy() for row in split[kind].values.split(split[kind].lengths.tolist())] for kind in TEXTS]
    for document, question, answer in zip(*texts, split["answer"].tolist(), strict=True):
        places = np.flatnonzero((document >= ENTITY) & (document < ENTITY + entities))
        entities_there, whose, mentions = np.unique(document[places], return_inverse=True, return_counts=True)
        free = ~np.isin(entities_there, question)
        free |= not free.any()
        often = mentions.astype(np.float64)
        scores = {"random": 0 * often, "frequent": often, "not_in_question": np.where(free, often, -np.inf)}
        for name, rule in RULES.items():
            scores[name] = np.where(free, rule(document, question, places, whose, len(entities_there)), -np.inf)
        right = entities_there == answer
        for name, score in scores.items():
            best = score == score.max(initial=-np.inf)
            sums[name] += right[best].sum() / max(best.sum(), 1)
        sums["answerable"] += right.any()
        sums["candidates"] += len(entities_there)
    return {name: float(value / len(split)) for name, value in sums.items()} | {"count": len(split)}


def _distance(
    document: np.ndarray, question: np.ndarray, places: np.ndarray, whose: np.ndarray, count: int
) -> np.ndarray:
    """Minus the sum of distances, of each entity's best mention."""
    words = np.flatnonzero(question > BLANK)
    shifted = places + (words - np.flatnonzero(question == BLANK)[0])[:, None]  # (words, mentions)
    apart = np.abs(shifted[:, :, None] - np.arange(len(document)))
    apart[question[words, None, None] != document + 0 * apart] = FAR
    return _best(-apart.min(-1, initial=FAR).sum(0), whose, count)


def _window(
    document: np.ndarray, question: np.ndarray, places: np.ndarray, whose: np.ndarray, count: int
) -> np.ndarray:
    """The sum of weights of the words in the window, of each entity's best mention."""
    _, which, counts = np.unique(document, return_inverse=True, return_counts=True)
    weights = np.log1p(1 / counts)[which] * np.isin(document, question[question > BLANK])
    sums = np.concatenate([[0], weights.cumsum()])
    start = places - np.flatnonzero(question == BLANK)[0]
    first, last = (np.clip(edge, 0, len(document)) for edge in (start, start + len(question)))
    return _best(sums[last] - sums[first], whose, count)


def _best(scores: np.ndarray, whose: np.ndarray, count: int) -> np.ndarray:
    best = np.full(count, -np.inf)
    np.maximum.at(best, whose, scores)
    return best


RULES: dict[str, Rule] = {"distance": _distance, "window": _window}
