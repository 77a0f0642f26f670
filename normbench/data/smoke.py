"""All embedded sets: scikit-learn's digits, and small stand-ins for the papers' sets that are drawn here.

A function a set, of the set's name, as `data.load` calls it; `root` is not used, for there are no files. Whole numbers
as far as possible: the same bits on every machine. Each compares a sample with the sha256 that its YAML declares, and
raises NormbenchError where numpy or scikit-learn give something else.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from normbench.core.streams import stream
from normbench.data import Dataset, captions, characters, cloze, images, imdb, strokes, triples
from normbench.data.cloze import BLANK, ENTITY, check_words
from normbench.data.examples import Ragged, Split
from normbench.data.words import END
from normbench.errors import BadInput
from normbench.files import scratch

Config = Mapping[str, Any]


def _check(config: Config, *drawn: bytes | np.ndarray) -> None:
    checksum, declared = hashlib.sha256(b"".join(map(bytes, drawn))).hexdigest(), config["declares"]["sha256"]
    if checksum != declared:
        raise BadInput(
            f"data={config['name']} is not the declared set (sha256 {checksum[:8]}… instead of {declared[:8]}…): "
            "numpy's random numbers or scikit-learn's digits are others. Reinstall numpy and scikit-learn."
        )


# --- digits -----------------------------------------------------------------------------------------------------------

# the parts as data=digits has them by default, for the sets that are made of these
BOUNDS = {"valid": slice(0, 197), "train": slice(197, 1397), "test": slice(1397, 1797)}
WHITE = 16  # the largest grey value
SIDE, ENLARGED, PICTURES = 32, 3, 4  # pictures of each digit
INK, PAPER, NOISE = (96, 256), (0, 160), 40


def embedded() -> tuple[np.ndarray, np.ndarray]:
    """Images (1797, 64) float64 and labels (1797,) int64 as scikit-learn's `load_digits(return_X_y=True)` gives them.

    Read from its file: the import of scikit-learn takes longer than many a run.
    """
    spec = importlib.util.find_spec("sklearn")
    assert spec is not None and spec.origin is not None
    rows = np.loadtxt(Path(spec.origin).parent / "datasets" / "data" / "digits.csv.gz", delimiter=",")
    return rows[:, :-1], rows[:, -1].astype(np.int64)


def digits(config: Config, root: Path, seed: int = 0) -> Dataset:
    """scikit-learn's 1797 digits of 8 x 8; inputs are grey values / 16. `seed` is not used.

    The first `valid` images are the validation part, the last `test` the test part, the rest the training part.
    """
    grey, labels = embedded()
    _check(config, grey.astype("<f8"), labels.astype("<i8"))
    inputs, targets = torch.from_numpy((grey / WHITE).astype(np.float32)), torch.from_numpy(labels)
    valid, test, rows = int(config["valid"]), int(config["test"]), len(targets)
    bounds = {"train": slice(valid, rows - test), "valid": slice(0, valid), "test": slice(rows - test, rows)}
    splits = {part: Split(inputs=inputs[rows], targets=targets[rows]) for part, rows in bounds.items()}
    return Dataset(str(config["name"]), splits)


def binarized_digits(config: Config, root: Path, seed: int = 0) -> Dataset:
    """The digits with every pixel black or white, drawn once by its grey value: `inputs` (N, 64) of 0 and 1."""
    grey, _ = embedded()
    bits = (stream(0, "binarized digits").integers(0, WHITE, grey.shape) < grey).astype(np.uint8)
    _check(config, bits)
    inputs = torch.from_numpy(bits.astype(np.float32))
    return Dataset(str(config["name"]), {part: Split(inputs=inputs[rows]) for part, rows in BOUNDS.items()})


def coloured_digits(config: Config, root: Path, seed: int = 0) -> Dataset:
    """The digits as colour images of CIFAR-10's size, standardized by the training pictures.

    Pictures of one digit are all in the same part. Training and validation use a `fraction` of their pictures, which
    the seed chooses.
    """
    pictures, labels = coloured()
    _check(config, pictures, labels)
    rows = np.arange(len(labels)).reshape(-1, PICTURES)
    by = images.moments(pictures[rows[BOUNDS["train"]].ravel()])
    splits = {}
    for part in ("train", "valid", "test"):
        chosen = rows[BOUNDS[part]].ravel()
        if part != "test":
            chosen = stream(seed, "subset", part).permutation(chosen)[: round(len(chosen) * config["fraction"])]
            if not len(chosen):
                raise BadInput(f"data.fraction={config['fraction']} leaves no {part} images.")
        splits[part] = images.standardized(pictures, labels, chosen, by)
    return Dataset(str(config["name"]), splits)


def coloured() -> tuple[np.ndarray, np.ndarray]:
    """Pictures (7188, 32, 32, 3) uint8, four of each digit in turn, and labels (7188,) uint8.

    A digit of 24 x 24 at a random place, its colour and the background's drawn independently of its class: the digit is
    the brighter one as a rule, by much or little, but not in every channel; uniform noise on every value.
    """
    grey, labels = embedded()
    draw = stream(0, "coloured digits")
    count = len(grey) * PICTURES
    shape = grey.reshape(-1, 8, 8).astype(np.int32).repeat(ENLARGED, 1).repeat(ENLARGED, 2).repeat(PICTURES, 0)
    place = draw.integers(0, SIDE - shape.shape[1] + 1, (count, 2))
    colour = draw.integers(*INK, (count, 1, 1, 3)).astype(np.int32)
    background = draw.integers(*PAPER, (count, 1, 1, 3)).astype(np.int32)
    ink = np.zeros((count, SIDE, SIDE, 1), np.int32)
    for canvas, digit, (y, x) in zip(ink, shape, place, strict=True):
        canvas[y : y + len(digit), x : x + len(digit), 0] = digit
    pictures = background + ink * (colour - background) // WHITE
    pictures += draw.integers(-NOISE, NOISE + 1, pictures.shape, dtype=np.int32)
    return pictures.clip(0, 255).astype(np.uint8), labels.astype(np.uint8).repeat(PICTURES)


# --- recall -----------------------------------------------------------------------------------------------------------


def recall(config: Config, root: Path, seed: int = 0) -> Dataset:
    """Sequences of symbols, one of them marked: that symbol is the target. Parts train, valid, test, `test 2x`, ...

    Inputs (N, T, symbols + 1): a symbol in one-hot form and the marker's bit; targets (N,). All drawn by the seed.
    Where `asked` is `later`, two are marked, and the later one is the target.
    """
    facts = config["declares"]
    symbols, length, sizes = int(facts["classes"]), int(config["length"]), facts["sizes"]
    if config["asked"] == "later" and length < 2:
        raise BadInput(f"data.length={length} has no two places to mark: data.asked=later takes 2 or more.")
    _check(config, *(drawn.astype("<i8") for drawn in _sequences(0, "check", 100, 10, symbols)))
    parts = [(part, int(sizes[part]), length) for part in ("train", "valid", "test")]
    parts[0] = ("train", round(sizes["train"] * config["fraction"]), length)
    # longer sequences than the trained ones, as parts of their own
    parts += [(f"test {times}x", int(sizes["test"]), times * length) for times in (2, 4)]
    splits = {}
    for part, count, steps in parts:
        sequences, places = _sequences(seed, part, count, steps, symbols)
        marked = places[None]
        if config["asked"] == "later":  # a second place, never the first one
            further = stream(seed, "recall", part, "second").integers(1, steps, count)
            marked = np.stack([places, (places + further) % steps])
        rows = np.arange(count)
        inputs = np.zeros((count, steps, symbols + 1), dtype=np.float32)
        np.put_along_axis(inputs, sequences[..., None], 1.0, -1)
        inputs[rows, marked, symbols] = 1.0
        targets = sequences[rows, marked.max(axis=0)]
        splits[part] = Split(inputs=torch.from_numpy(inputs), targets=torch.from_numpy(targets))
    return Dataset(str(config["name"]), splits)


def _sequences(seed: int, part: str, count: int, steps: int, symbols: int) -> tuple[np.ndarray, np.ndarray]:
    """Symbols (count, steps) and the marked place of each sequence (count,)."""
    draw = stream(seed, "recall", part)
    return draw.integers(0, symbols, (count, steps)), draw.integers(0, steps, count)


# --- reviews ----------------------------------------------------------------------------------------------------------

NOT = imdb.FIRST
GOOD, BAD, NEUTRAL = range(NOT + 1, NOT + 9), range(NOT + 9, NOT + 17), range(NOT + 17, NOT + 61)
OPINIONS = (1, 3, 5)  # of a review: an odd number, so that one side wins
NEGATED = 0.25  # of the opinions


def made_reviews(config: Config, root: Path, seed: int = 0) -> Dataset:
    """Sequences of words as `data=imdb` has them; target 1 where more opinions are good than bad, negations counted.

    Inputs (N, length) int64: padding, a start, and neutral words between one, three or five opinions; a `not` right
    before an opinion turns it. All drawn by the seed.
    """
    _check(config, *(drawn.astype("<i8") for drawn in _reviews(0, "check", 100, 20)))
    splits = {}
    for part, size in config["declares"]["sizes"].items():
        count = round(size * config["fraction"]) if part == "train" else int(size)
        reviews, good = _reviews(seed, part, count, int(config["length"]))
        splits[part] = Split(inputs=torch.from_numpy(reviews), targets=torch.from_numpy(good))
    return Dataset(str(config["name"]), splits)


def _reviews(seed: int, part: str, count: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Reviews (count, length) and whether each is good (count,), both int64."""
    draw = stream(seed, "made reviews", part)
    reviews, good = np.zeros((count, length), np.int64), np.zeros(count, np.int64)
    for row in range(count):
        opinions, score = [], 0
        for _ in range(draw.choice(OPINIONS)):
            likes, turned = draw.random() < 0.5, draw.random() < NEGATED
            word = int(draw.choice(GOOD if likes else BAD))
            opinions.append([NOT, word] if turned else [word])
            score += 1 if likes != turned else -1
        used = sum(map(len, opinions))
        neutral = [[int(word)] for word in draw.choice(NEUTRAL, draw.integers(0, length - used))]
        order = draw.permutation(len(opinions) + len(neutral))
        review = [imdb.START, *(word for place in order for word in [*opinions, *neutral][place])]
        reviews[row, length - len(review) :], good[row] = review, score > 0
    return reviews, good


# --- captions ---------------------------------------------------------------------------------------------------------

SHOWN, FILLER_WORDS = 24, 12  # things, a word each, and words that say nothing
IN_IMAGE, IN_CAPTION = (3, 5), (2, 3)  # things in an image, and of them in a caption
BLUR = 0.3


def made_captions(config: Config, root: Path, seed: int = 0) -> Dataset:
    """Examples are images: `image` (N, features) float32 of length 1, and `captions`, ragged int64, END behind each.

    An image shows three to five of 24 things; its features are the sum of their directions with noise, those below zero
    cut off. A caption names two or three of them in any order, with fillers. All drawn by the seed.
    """
    facts = config["declares"]
    features, each = int(facts["features"]), int(facts["captions"])
    sample = _captions(0, "check", 50, features, each)
    _check(config, sample[0].astype("<f4").round(3), sample[1].values.numpy())
    splits = {}
    for part, size in facts["sizes"].items():
        pictures, sentences = _captions(seed, part, int(size), features, each)
        splits[part] = Split(image=captions.unit_rows(pictures, f"data={config['name']}"), captions=sentences)
    names = [*(f"thing{i}" for i in range(SHOWN)), *(f"filler{i}" for i in range(FILLER_WORDS))]
    numbers = {word: captions.FIRST + place for place, word in enumerate(names)}
    return Dataset(str(config["name"]), splits, words=captions.words_by_number(numbers))


def _captions(seed: int, part: str, count: int, features: int, each: int) -> tuple[np.ndarray, Ragged]:
    directions = stream(seed, "made captions").standard_normal((SHOWN, features))
    draw = stream(seed, "made captions", part)
    pictures, sentences = np.zeros((count, features)), []
    for row in range(count):
        things = draw.choice(SHOWN, draw.integers(IN_IMAGE[0], IN_IMAGE[1] + 1), replace=False)
        noise = BLUR * draw.standard_normal(features)
        pictures[row] = np.maximum(directions[things].sum(0) / len(things) ** 0.5 + noise, 0)
        for _ in range(each):
            named = draw.choice(things, draw.integers(IN_CAPTION[0], IN_CAPTION[1] + 1), replace=False)
            fillers = SHOWN + draw.integers(0, FILLER_WORDS, draw.integers(1, 5))
            words = draw.permutation(np.concatenate([named, fillers])) + captions.FIRST
            sentences.append([*words.tolist(), END])
    sequences = (itertools.chain(*sentences[i : i + each]) for i in range(0, len(sentences), each))
    return pictures, Ragged.of(torch.tensor(list(sequence)) for sequence in sequences)


# --- cloze questions --------------------------------------------------------------------------------------------------

SENTENCE = 4  # an entity, a verb, an object and a full stop
Question = tuple[list[int], list[int], int]  # document, question and answer


def made_cloze(config: Config, root: Path, seed: int = 0) -> Dataset:
    """Documents of two or more sentences; the question is one of them, its entity the blank. Numbers as in `cloze`.

    A sentence is `entity verb object .`, the question `blank verb object`. No two sentences of a document have the same
    verb and object; the same entity, verb or object they may have. All drawn by the seed.
    """
    words, entities, length = int(config["words"]), int(config["entities"]), int(config["length"])
    check_words(words, entities, 5)  # two verbs, two objects and a full stop
    sample = _questions(0, "check", 100, words=24, entities=6, length=20)
    _check(config, *(np.array([*document, *question, answer], "<i8") for document, question, answer in sample))
    splits = {}
    for part, count in config["declares"]["sizes"].items():
        documents, questions, answers = zip(*_questions(seed, part, count, words, entities, length), strict=True)
        splits[part] = Split(
            document=Ragged.of(map(torch.tensor, documents)),
            question=Ragged.of(map(torch.tensor, questions)),
            answer=torch.tensor(answers),
        )
    others = words - ENTITY - entities - 1
    names = [".", *(f"verb{i}" for i in range(others // 2)), *(f"object{i}" for i in range(others - others // 2))]
    return Dataset(str(config["name"]), splits, words=[*cloze.first_words(entities), *names])


def _questions(seed: int, part: str, count: int, words: int, entities: int, length: int) -> list[Question]:
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
        fact = facts[draw.integers(0, sentences)].tolist()
        made.append((facts.flatten().tolist(), [BLANK, *fact[1:3]], fact[0]))
    return made


# --- handwriting ------------------------------------------------------------------------------------------------------

# Letter -> how wide it is, and its strokes: points that a curve goes through, in tenths of the height of an "o" from
# where the letter begins on the line, upwards; a point that is there twice is a corner.
BOWL = "8,8 4,10 0,5 3,0 7,3"
ARCH = "0,0 0,0 1,6 4,10 7,7 7,1 8,0"
LETTERS = {
    "a": (9, f"{BOWL} 8,10 8,10 8,2 10,0"),
    "c": (8, "8,8 5,10 0,5 4,0 8,2"),
    "d": (9, f"{BOWL} 8,19 8,19 8,2 10,0"),
    "e": (8, "1,5 5,5 8,7 5,10 0,5 4,0 8,2"),
    "h": (8, f"0,19 0,10 {ARCH}"),
    "i": (3, "1,10 1,2 3,0", "1,15 2,14"),
    "l": (4, "1,19 1,2 4,0"),
    "m": (13, f"0,10 {ARCH.removesuffix('7,1 8,0')}6,0 6,0 7,6 10,10 12,7 12,1 13,0"),
    "n": (8, f"0,10 {ARCH}"),
    "o": (9, "5,10 0,5 4,0 9,5 5,10 6,9"),
    "t": (6, "3,17 3,3 5,0 7,2", "0,11 6,11"),
    "u": (9, "0,10 0,3 3,0 7,4 8,10 8,10 8,2 10,0"),
}
UNIT, STEP = 100.0, 0.3  # the height of an "o"; of it, between points
FINE = 12  # places of a curve between two of its points


def made_strokes(config: Config, root: Path, seed: int = 0) -> Dataset:
    """Lines as `strokes.splits` gives them: a word of three to six letters each, drawn with equal chances.

    Every word has a slant, a size, a slope and gaps of its own, every letter is bent a little and every point shaken.
    Like a set that was collected, it is the same in every run: all is drawn by the declared seed.
    """
    facts = config["declares"]
    sizes = {part: int(size) for part, size in facts["sizes"].items()}
    draw = stream(facts["seed"], "made strokes")
    texts, curves = zip(*(_word(draw) for _ in range(sum(sizes.values()))), strict=True)
    places = [np.concatenate(word) for word in curves]
    lines = strokes.Lines(
        moves=np.concatenate([np.diff(line, axis=0, prepend=np.zeros_like(line[:1])) for line in places]),
        ends=np.concatenate([np.arange(len(s)) == len(s) - 1 for word in curves for s in word]).astype(np.uint8),
        lengths=np.array(list(map(len, places))),
        texts=texts,
    )
    _check(config, lines.moves.astype("<i8"), lines.ends, " ".join(texts).encode())
    ends = np.cumsum(list(sizes.values())).tolist()
    parts = {part: np.arange(end - sizes[part], end) for part, end in zip(sizes, ends, strict=True)}
    splits, scale = strokes.splits(lines, parts, int(config["points"]), "".join(LETTERS))
    return Dataset(str(config["name"]), splits, words=[*LETTERS, strokes.OTHER], scale=scale)


def _word(draw: np.random.Generator) -> tuple[str, list[np.ndarray]]:
    """A word's text, and the pen's places (points, 2) of each stroke."""
    text = "".join(draw.choice(list(LETTERS), draw.integers(3, 7)))
    slant, slope, size = draw.normal(0.2, 0.15), draw.normal(0, 0.04), draw.uniform(0.8, 1.25) * UNIT
    begin, made = draw.uniform(10, 20, 2) * UNIT, []
    at = 0.0
    for letter in text:
        width, curves = _curves(letter)
        wide = draw.uniform(0.85, 1.15)
        for points, basis in curves:
            bent = basis @ (points + draw.normal(0, 0.04, points.shape))
            x, y = _even(bent * [wide, 1]).T
            places = np.stack([at + x + slant * y, slope * (at + x) + y], 1) + draw.normal(0, 0.015, (len(x), 2))
            made.append(np.rint(begin + size * places * [1, -1]).astype(np.int64))
        at += width * wide + draw.uniform(0.25, 0.5)
    return text, made


@functools.cache
def _curves(letter: str) -> tuple[float, list[tuple[np.ndarray, np.ndarray]]]:
    """The letter's width; of each stroke its points (P, 2), and what makes a curve of them by product (places, P)."""
    width, *paths = LETTERS[letter]
    curves = []
    for stroke in paths:
        points = np.array([[float(n) / 10 for n in point.split(",")] for point in str(stroke).split()])
        curves.append((points, _catmull_rom(len(points))))
    return float(width) / 10, curves


def _catmull_rom(count: int) -> np.ndarray:
    """Weights (places, count) of the points that a uniform Catmull-Rom spline goes through, whose ends count twice."""
    t = np.arange(FINE)[:, None] / FINE
    weights = (
        np.concatenate([2 * t**2 - t - t**3, 2 - 5 * t**2 + 3 * t**3, t + 4 * t**2 - 3 * t**3, t**3 - t**2], 1) / 2
    )
    made = np.zeros(((count - 1) * FINE + 1, count))
    for place in range(count - 1):
        for column, weight in zip(range(place - 1, place + 3), weights.T, strict=True):
            made[place * FINE : (place + 1) * FINE, min(max(column, 0), count - 1)] += weight
    made[-1, -1] = 1
    return made


def _even(curve: np.ndarray) -> np.ndarray:
    """Points about `STEP` apart along a curve, its ends among them."""
    far = np.concatenate([[0.0], np.hypot(*np.diff(curve, axis=0).T).cumsum()])
    at = np.linspace(0, far[-1], max(2, round(far[-1] / STEP) + 1))
    return np.stack([np.interp(at, far, curve[:, axis]) for axis in (0, 1)], 1)


# --- stories ----------------------------------------------------------------------------------------------------------
# `the ADJECTIVE THING VERB FILLERS .`, good or bad as the adjective is. Thing and mood mostly stay; verbs are in turn.

MOODS = ("good", "fine", "glad"), ("bad", "poor", "grim")
THINGS = ("cat", "dog", "boat", "ship", "king", "maid", "tree", "rose")
VERBS = ("comes", "looks", "waits", "turns", "falls", "leaves")
FILLERS = ("now", "then", "there", "again", "once", "too", "still", "indeed")
STORY, STAYS = 50, 0.8  # triples of a story; how often thing and mood stay, each
NAMES = ["<end>", "<unknown>", "the", ".", *MOODS[0], *MOODS[1], *THINGS, *VERBS, *FILLERS]
LETTERS_OF_STORIES = " .abcdefghijklmnopqrstuvwxyz"
SHORTEST = len("the bad cat comes . ")
TASK_SIZES = {"sick_train": 160, "sick_trial": 40, "sick_test": 160, "mr": 160, "cr": 120, "subj": 160, "mpqa": 120}
Facts = tuple[int, int, int]  # mood, thing and verb


class Sentence(NamedTuple):
    """The facts that a sentence states, and its words."""

    facts: Facts
    text: str


def made_triples(config: Config, root: Path, seed: int = 0) -> Dataset:
    """Triples as in `triples`, and small downstream tasks in the files of the real ones. All drawn by the seed."""
    _check(config, "\n".join(sentence.text for sentence in story(0, "check", 100)).encode())
    numbers, splits = triples.numbered(NAMES), {}
    for part, count in config["declares"]["sizes"].items():
        told = story(seed, part, count // STORY * (STORY + 2))
        coded = [[numbers[word] for word in sentence.text.split()] for sentence in told]
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
        sentences.append(_sentence(draw, (mood, thing, verb)))
    return sentences


def _sentence(draw: np.random.Generator, facts: Facts) -> Sentence:
    mood, thing, verb = facts
    adjective = MOODS[mood][int(draw.integers(len(MOODS[mood])))]
    fillers = [FILLERS[i] for i in draw.integers(0, len(FILLERS), draw.integers(0, 5))]
    return Sentence(facts, " ".join(["the", adjective, THINGS[thing], VERBS[verb], *fillers, "."]))


def _anything(draw: np.random.Generator) -> Facts:
    mood, thing, verb = (int(draw.integers(len(words))) for words in (MOODS, THINGS, VERBS))
    return mood, thing, verb


def made_text(config: Config, root: Path, seed: int = 0) -> Dataset:
    """The same stories as characters: windows as in `characters`. All drawn by the seed."""
    _check(config, "\n".join(sentence.text for sentence in story(0, "check", 100)).encode())
    length, sizes = int(config["length"]), config["declares"]["sizes"]
    splits = {}
    for part, count in sizes.items():
        needed = count * length + 1
        text = " ".join(sentence.text for sentence in story(seed, f"text {part}", needed // SHORTEST + 1))
        numbers = characters.numbered(text[:needed], LETTERS_OF_STORIES)
        splits[part] = Split(text=torch.from_numpy(characters.windows(numbers, length)))
    return Dataset(str(config["name"]), splits, words=[characters.OTHER, *LETTERS_OF_STORIES])


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
            lines = _pairs(draw, count) if name.startswith("sick") else _labelled(draw, name, count)
            (place / f"{name}.tsv").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        yield folder


def _labelled(draw: np.random.Generator, name: str, count: int) -> Iterator[str]:
    yield "label\ttext"
    for _ in range(count):
        sentence = _sentence(draw, _anything(draw))
        mood, thing, verb = sentence.facts
        label = {"subj": thing < len(THINGS) // 2, "mpqa": verb < len(VERBS) // 2}.get(name, mood == 0)
        yield f"{int(label)}\t{' '.join(sentence.text.split()[3:5]) if name == 'mpqa' else sentence.text}"


def _pairs(draw: np.random.Generator, count: int) -> Iterator[str]:
    yield "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"
    for place in range(count):
        first, other = (_sentence(draw, _anything(draw)) for _ in range(2))
        same = draw.random(3) < 0.6
        mood, thing, verb = (int(a if keep else b) for a, b, keep in zip(first.facts, other.facts, same, strict=True))
        second = _sentence(draw, (mood, thing, verb))
        alike = sum(a == b for a, b in zip(first.facts, second.facts, strict=True))
        judged = "ENTAILMENT" if alike == 3 else "NEUTRAL"
        yield f"{place + 1}\t{first.text}\t{second.text}\t{1 + 4 * alike / 3:.1f}\t{judged}"
