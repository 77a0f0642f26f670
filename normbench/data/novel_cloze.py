"""Cloze questions from novels, made as those of CNN: who was it, in a sentence that follows those of the document?

1. A word is letters, with apostrophes between them but for a final `'s`, which stands alone; digits; or one other sign.
   All are taken in small letters.
2. Names of a novel: words of two letters and more that are capitalized at least NAMED times within a sentence (after a
   word, comma or semicolon), and in small letters at most SMALL times as often as capitalized; titles, days, months,
   Roman numerals and "I'm" are none. Each is one entity wherever it stands capitalized, so in its possessive too.
3. Every sentence with a name is a question, if it has QUESTION words and no more than the document may have: one of its
   names, drawn, is the blank wherever it stands in it, since a second mention would tell the answer.
4. The document is the sentences with a name right before it, as many whole ones as have `length` words in all. It must
   hold the answer and at least `candidates` entities.
5. Each question has entity numbers of its own, drawn, so that they say nothing of the name.
6. Of n novels n * 2 // 19 are held out for each of validation and test, as a hash of their names has it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from normbench.data import Dataset, array_cache, books, check, cloze, content, files, made_of
from normbench.data.array_cache import Arrays
from normbench.data.cloze import BLANK, ENTITY
from normbench.data.words import Numbers, ranked
from normbench.errors import NormbenchError
from normbench.streams import stream

TOKEN = re.compile(r"'s\b|[^\W\d_]+(?:'(?!s\b)[^\W\d_]+)*|\d+|[^\w\s]|_")
NAMED, SMALL, QUESTION = 5, 0.1, 8
FORM = 2  # of the arrays in the cache
_NO_NAMES = (
    "mr mrs ms miss messrs mme mlle madame mademoiselle monsieur dr sir lord lady captain colonel major general doctor "
    "professor reverend rev st master mistress uncle aunt monday tuesday wednesday thursday friday saturday sunday "
    "january february march april may june july august september october november december"
)
NO_NAMES = frozenset(_NO_NAMES.split())
NO_NAME = re.compile(r".|i'.*|(?:xl|l?x{0,3})(?:ix|iv|v?i{0,3})")


def load(config: Mapping[str, Any], root: Path, seed: int = 0) -> Dataset:
    """Questions from the novels of data=books below `root`; NormbenchError when these are missing or damaged.

    Numbers as in `cloze`. `questions` of those of the training novels, and as many as declared of the other novels',
    are used, spread evenly. Nothing depends on the seed. They are cached.
    """
    check(config, root)
    (path,) = files.paths(made_of(config), root)
    options = {key: config[key] for key in ("words", "entities", "length", "candidates")}
    if options["words"] <= (least := ENTITY + options["entities"]):
        raise NormbenchError(
            f"data.words={options['words']} is too small for data.entities={options['entities']}: more than {least}."
        )
    found = files.digest(path, "sha256")
    maths = int(config["declares"]["maths"])
    target = files.cache("novel_cloze") / f"{content.checksum([found, maths, options, FORM])[:32]}.npz"
    arrays, notes = array_cache.arrays(
        target, lambda: _build(path, **options), "The questions are made anew for every process."
    )
    sizes = {"train": int(config["questions"]), **config["declares"]["sizes"]}
    for part, wanted in sizes.items():
        if (there := len(arrays[f"{part}_answer"])) < wanted:
            key = "data.questions" if part == "train" else f"questions for {part}"
            raise NormbenchError(
                f"{key}={wanted} are more than there are: {there} with data.length={options['length']} and "
                f"data.candidates={options['candidates']}."
            )
    splits = {part: cloze.split(arrays, part, count) for part, count in sizes.items()}
    copy = {"sha256": found, "deviations": []}
    return Dataset(str(config["name"]), splits, notes, copy, arrays["words"].tolist())


@dataclass
class _Novel:
    """The sentences with a name of one novel, one after another."""

    words: np.ndarray  # (places,) of small-letter words
    named: np.ndarray  # (places,) where a name stands
    ends: np.ndarray  # (sentences,)


def _build(path: Path, words: int, entities: int, length: int, candidates: int) -> Arrays:
    sentences = dict(books.sentences(path))
    belongs = {name: part for part, names in books.parts(list(sentences)).items() for name in names}
    vocabulary = _Vocabulary()
    novels, counts = {}, np.zeros(0, np.int64)
    for name in cloze.with_progress(list(sentences), "novels"):
        novels[name], seen = vocabulary.read(sentences.pop(name))
        if belongs[name] == "train":
            counts = np.pad(counts, (0, len(seen) - len(counts))) + seen
    counts = np.pad(counts, (0, len(vocabulary.small) - len(counts)))
    numbers = ranked(counts, ENTITY + entities, words)
    arrays: Arrays = {"words": cloze.words_by_number(vocabulary.small, numbers, entities, words)}
    for part in ("train", "valid", "test"):
        texts: dict[str, list[np.ndarray]] = {kind: [] for kind in cloze.TEXTS}
        answers = []
        for name in cloze.with_progress([name for name in novels if belongs[name] == part], f"questions for {part}"):
            for document, question, answer in _questions(name, novels[name], numbers, entities, length, candidates):
                texts["document"].append(document)
                texts["question"].append(question)
                answers.append(answer)
        arrays |= cloze.packed(part, texts, answers)
    return arrays


class _Vocabulary:
    """All words so far, as written and in small letters, with facts on each."""

    def __init__(self) -> None:
        self.written, self.small = Numbers(), Numbers()
        self.facts = np.zeros((0, 4), np.int32)

    def read(self, texts: list[str]) -> tuple[_Novel, np.ndarray]:
        """A novel's sentences with names, and how often each word in small letters stands in it beside the names."""
        sentences = [TOKEN.findall(text) for text in texts]
        lengths = np.array(list(map(len, sentences)))
        ends = lengths.cumsum()
        starts = ends - lengths
        tokens = np.fromiter(map(self.written.__getitem__, itertools.chain.from_iterable(sentences)), np.int64)
        del sentences
        small, capital, letters, before = self._facts()[tokens].T
        within = np.append(0, before[:-1])
        within[starts[lengths > 0]] = 0
        inside, capitals, smalls = (
            np.bincount(small[chosen == 1], minlength=len(self.small))
            for chosen in (capital * within, capital, letters - capital)
        )
        names = (inside >= NAMED) & (smalls <= SMALL * capitals)
        named = names[small] & (capital == 1)
        counts = np.bincount(small[~named], minlength=len(self.small))
        mentions = np.concatenate([[0], named.cumsum()])
        with_name = mentions[ends] > mentions[starts]
        rows = np.repeat(with_name, lengths)
        return _Novel(small[rows].astype(np.int32), named[rows], lengths[with_name].cumsum()), counts

    def _facts(self) -> np.ndarray:
        """Of every word as written: its number in small letters, perhaps a name?, letters?, may stand before a name?"""
        new = []
        for word in itertools.islice(self.written, len(self.facts), None):
            small, letters = word.lower(), word[0].isalpha()
            name = word[0].isupper() and small not in NO_NAMES and not NO_NAME.fullmatch(small)
            new.append((self.small[small], name, letters, letters or word in ",;"))
        self.facts = np.concatenate([self.facts, np.array(new, np.int32).reshape(-1, 4)])
        return self.facts


def _questions(
    book: str, novel: _Novel, numbers: np.ndarray, entities: int, length: int, candidates: int
) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
    """Document, question and answer of every sentence of which rules 3 to 5 make a question."""
    draw = stream(0, "novel cloze", book)
    starts = np.concatenate([[0], novel.ends[:-1]])
    begins = starts[np.searchsorted(starts, starts - length)]
    coded, names = numbers[novel.words], novel.words[novel.named].tolist()
    before = np.concatenate([[0], novel.named.cumsum()]).tolist()  # names before a place
    places = zip(begins.tolist(), starts.tolist(), novel.ends.tolist(), draw.random(len(starts)).tolist(), strict=True)
    for begin, start, end, chance in places:
        mentioned, asked = (
            set(names[before[begin] : before[start]]),
            list(dict.fromkeys(names[before[start] : before[end]])),
        )
        blank, both = asked[int(chance * len(asked))], dict.fromkeys(names[before[begin] : before[end]])
        if (
            not QUESTION <= end - start <= length
            or len(mentioned) < candidates
            or blank not in mentioned
            or len(both) > entities
        ):
            continue
        ids = dict(zip(both, (ENTITY + draw.permutation(entities)).tolist(), strict=False))
        text = coded[begin:end].copy()
        text[novel.named[begin:end]] = [ids[name] for name in names[before[begin] : before[end]]]
        question = text[start - begin :]
        question[question == ids[blank]] = BLANK
        yield text[: start - begin], question, ids[blank]
