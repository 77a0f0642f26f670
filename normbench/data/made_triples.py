"""Made-up stories of neighbouring sentences, and labelled sentences of the same language. Embedded: no files.

A sentence says of a thing, good or bad as its adjective is, what it does: `the ADJECTIVE THING VERB FILLERS .`, with up
to four fillers. In a story thing and mood mostly stay, and a verb is followed by the next one of its circle.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from normbench import scratch
from normbench.data import Dataset, content, triples
from normbench.streams import stream

MOODS = ("good", "fine", "glad"), ("bad", "poor", "grim")
THINGS = ("cat", "dog", "boat", "ship", "king", "maid", "tree", "rose")
VERBS = ("comes", "looks", "waits", "turns", "falls", "leaves")
FILLERS = ("now", "then", "there", "again", "once", "too", "still", "indeed")
STORY = 50  # triples
STAYS = 0.8  # how often thing and mood stay, each
CHECKED = 100  # sentences of the declared checksum
NAMES = ["<end>", "<unknown>", "the", ".", *MOODS[0], *MOODS[1], *THINGS, *VERBS, *FILLERS]
TASK_SIZES = {"sick_train": 160, "sick_trial": 40, "sick_test": 160, "mr": 160, "cr": 120, "subj": 160, "mpqa": 120}


class Sentence(NamedTuple):
    """The facts that a sentence states, and its words."""

    mood: int
    thing: int
    verb: int
    words: list[str]

    def __str__(self) -> str:
        return " ".join(self.words)


def load(config: Mapping[str, Any], root: Path, seed: int = 0) -> Dataset:
    """Triples as in `triples`, and small downstream tasks in the files of the real ones. All drawn by the seed.

    `root` is not used. NormbenchError when numpy's random numbers are not the declared ones.
    """
    declares = config["declares"]
    text = "\n".join(map(str, story(0, "check", CHECKED)))
    found = hashlib.sha256(text.encode()).hexdigest()
    content.check_made(f"the sentences of data={config['name']}", found, declares["sha256"])
    numbers, splits = triples.numbered(NAMES), {}
    for part, count in declares["sizes"].items():
        coded = [
            [numbers[word] for word in sentence.words] for sentence in story(seed, part, count // STORY * (STORY + 2))
        ]
        lengths, places = np.array(list(map(len, coded))), np.arange(len(coded))
        middle = places[(places % (STORY + 2) > 0) & (places % (STORY + 2) <= STORY)]
        splits[part] = triples.triples(np.concatenate(coded), lengths, middle, np.arange(count))
    return Dataset(str(config["name"]), splits, words=NAMES, tasks=lambda: tasks(seed))


def story(seed: int, part: str, count: int) -> list[Sentence]:
    """So many sentences of stories of STORY + 2, one after another."""
    draw, sentences = stream(seed, "made triples", part), []
    for place in range(count):
        if place % (STORY + 2) == 0:
            mood, thing, verb = _anything(draw)
        else:
            mood = mood if draw.random() < STAYS else int(draw.integers(len(MOODS)))
            thing = thing if draw.random() < STAYS else int(draw.integers(len(THINGS)))
            verb = (verb + 1) % len(VERBS)
        sentences.append(make_sentence(draw, mood, thing, verb))
    return sentences


def make_sentence(draw: np.random.Generator, mood: int, thing: int, verb: int) -> Sentence:
    adjective = MOODS[mood][int(draw.integers(len(MOODS[mood])))]
    fillers = [FILLERS[i] for i in draw.integers(0, len(FILLERS), draw.integers(0, 5))]
    return Sentence(mood, thing, verb, ["the", adjective, THINGS[thing], VERBS[verb], *fillers, "."])


# --- downstream tasks -------------------------------------------------------------------------------------------------


@contextmanager
def tasks(seed: int) -> Iterator[Path]:
    """A data folder with the files of SICK, MR, CR, SUBJ and MPQA, as long as it is asked for.

    Labels: MR and CR have the mood, SUBJ which half of the things it is, MPQA which half of the verbs, of a few words.
    SICK's pairs: as related as what they say has in common.
    """
    with scratch.folder("normbench-tasks-") as folder:
        place = folder / "sentence_eval"
        place.mkdir()
        for name, count in TASK_SIZES.items():
            draw = stream(seed, "made tasks", name)
            text = _pairs(draw, count) if name.startswith("sick") else _sentences_with_labels(draw, name, count)
            (place / f"{name}.tsv").write_text(text, encoding="utf-8")
        yield folder


def _anything(draw: np.random.Generator) -> tuple[int, int, int]:
    mood, thing, verb = (int(draw.integers(len(words))) for words in (MOODS, THINGS, VERBS))
    return mood, thing, verb


def _sentences_with_labels(draw: np.random.Generator, name: str, count: int) -> str:
    lines = ["label\ttext"]
    for _ in range(count):
        sentence = make_sentence(draw, *_anything(draw))
        label = {"subj": sentence.thing < len(THINGS) // 2, "mpqa": sentence.verb < len(VERBS) // 2}.get(
            name, sentence.mood == 0
        )
        words = sentence.words[3:5] if name == "mpqa" else sentence.words
        lines.append(f"{int(label)}\t{' '.join(words)}")
    return "\n".join(lines) + "\n"


def _pairs(draw: np.random.Generator, count: int) -> str:
    lines = ["pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"]
    for place in range(count):
        first, other = (make_sentence(draw, *_anything(draw)) for _ in range(2))
        same = draw.random(3) < 0.6
        mood, thing, verb = (int(a if keep else b) for a, b, keep in zip(first[:3], other[:3], same, strict=True))
        second = make_sentence(draw, mood, thing, verb)
        alike = sum(a == b for a, b in zip(first[:3], second[:3], strict=True))
        judged = "ENTAILMENT" if alike == 3 else "NEUTRAL"
        lines.append(f"{place + 1}\t{first}\t{second}\t{1 + 4 * alike / 3:.1f}\t{judged}")
    return "\n".join(lines) + "\n"
