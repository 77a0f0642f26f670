"""Sets of cloze questions: a document, a question with a blank, and the entity that fills it. From CNN and from novels.

Word numbers: END (padding) and UNKNOWN (a rarer word) of `words`, BLANK (of the question), then the entities from
ENTITY on, then the words, most frequent first. The numbers of entities carry no information. Nothing depends on the
seed; the arrays are cached.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from normbench.core.streams import stream
from normbench.data import Dataset, files, made_of, triples
from normbench.data import novels as novel_files
from normbench.data import words as of_words
from normbench.data.examples import Ragged, Split
from normbench.data.words import Numbers, ranked, with_progress
from normbench.errors import BadInput

BLANK, ENTITY = 2, 3
TEXTS = ("document", "question")
FORM = 2  # of the arrays in the cache
Config = Mapping[str, Any]


def first_words(entities: int) -> list[str]:
    """The words of the numbers before those of real words."""
    return ["<end>", "<unknown>", "<blank>", *(f"@entity{i}" for i in range(entities))]


def _options(config: Config, *names: str) -> dict[str, int]:
    options = {key: int(config[key]) for key in ("words", "entities", *names)}
    check_words(options["words"], options["entities"], 1)
    return options


def check_words(words: int, entities: int, others: int) -> None:
    """NormbenchError where `data.words` has no room for the entities and so many other words."""
    if words < (least := ENTITY + entities + others):
        raise BadInput(f"data.words={words} is too small for data.entities={entities}: at least {least}.")


def _packed(part: str, questions: Sequence[tuple[Any, Any, int]]) -> files.Arrays:
    """Questions of a part as arrays for the cache: all texts of a kind one after another, and their lengths."""
    arrays = {f"{part}_answer": np.array([answer for _, _, answer in questions], np.int32)}
    for place, kind in enumerate(TEXTS):
        texts = [np.asarray(question[place], np.int32) for question in questions]
        arrays[f"{part}_{kind}"] = np.concatenate([*texts, np.zeros(0, np.int32)])
        arrays[f"{part}_{kind}_length"] = np.array(list(map(len, texts)), np.int32)
    return arrays


def _split(arrays: files.Arrays, part: str, count: int) -> Split:
    """So many questions of a part, spread evenly over it."""
    rows = torch.arange(count) * len(arrays[f"{part}_answer"]) // count

    def texts(kind: str) -> Ragged:
        ends = arrays[f"{part}_{kind}_length"].cumsum(dtype=np.int64)
        offsets = torch.from_numpy(np.concatenate([np.zeros(1, np.int64), ends]))
        chosen = Ragged(torch.from_numpy(arrays[f"{part}_{kind}"]), offsets)[rows]
        return Ragged(chosen.values.long(), chosen.offsets)

    answer = torch.from_numpy(arrays[f"{part}_answer"])[rows].long()
    return Split(document=texts("document"), question=texts("question"), answer=answer, index=rows)


# --- CNN (Hermann et al. 2015) ----------------------------------------------------------------------------------------
# The document of a question is the most relevant sentences of its article. A sentence ends after `.`, `!` or `?`. It is
# as relevant as it has different words of the question, entities counted twice, stop words and signs not at all; the
# `sentences` most relevant ones stay, in their order, of equally relevant ones the first. Then the last word of the
# document and of the question is left out, as the attentive reader's authors do as they load theirs, but never the
# blank nor the only word. `@entityN` has the number ENTITY + N; words are those that documents and questions of the
# training part have more than once.

PARTS = ("train", "valid", "test")
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
DEVIATIONS = (
    "CNN: the most relevant sentences are chosen by a rule of this project; that of the attentive reader's authors is "
    "not published",
    "CNN: no checksum of the archive is known; the sum here is of the question files that were read",
)


def cnn_cloze(config: Config, root: Path, seed: int = 0) -> Dataset:
    """Questions from the files of a user's own cnn.tgz below `root`; NormbenchError for missing or damaged ones."""
    options = _options(config, "sentences")
    paths = {}
    for part, folder in zip(PARTS, files.folders(config), strict=True):
        paths[part] = files.listed(config, root, folder)
        if len(paths[part]) != (wanted := config["declares"]["sizes"][part]):
            raise BadInput(
                f"{files.as_text(root / folder)} has {len(paths[part])} question files instead of {wanted}. "
                f"{files.remedy(config, root, folder)}."
            )
    arrays, notes = files.cached(
        config, [*itertools.chain(*paths.values())], [options, FORM], lambda: _cnn(paths, **options)
    )
    splits = {part: _split(arrays, part, len(paths[part])) for part in PARTS}
    copy = {"sha256": str(arrays["sha256"]), "deviations": list(DEVIATIONS)}
    return Dataset(str(config["name"]), splits, notes, copy, arrays["words"].tolist())


def _cnn(paths: Mapping[str, list[Path]], words: int, entities: int, sentences: int) -> files.Arrays:
    codes, sums = Numbers(), hashlib.sha256()
    arrays: files.Arrays = {}
    for part, paths_of_part in paths.items():
        questions = []
        for path in with_progress(paths_of_part, f"questions for {part}"):
            document, question, answer = cnn_question(path, sums, entities, sentences)
            questions.append(([codes[w] for w in document], [codes[w] for w in question], codes[answer]))
        arrays |= _packed(part, questions)
    counts = sum(np.bincount(arrays[f"train_{kind}"], minlength=len(codes)) for kind in TEXTS)
    marked = {code: int(match[1]) for word, code in codes.items() if (match := MARKER.fullmatch(word))}
    counts = np.where(counts > 1, counts, 0)
    counts[[*marked, codes["@placeholder"]]] = 0
    numbers_of = ranked(counts, ENTITY + entities, words)
    numbers_of[list(marked)] = ENTITY + np.array(list(marked.values()))
    numbers_of[codes["@placeholder"]] = BLANK
    for part in paths:
        for kind in (*TEXTS, "answer"):
            arrays[f"{part}_{kind}"] = numbers_of[arrays[f"{part}_{kind}"]]
    arrays["words"] = of_words.words_by_number(codes, numbers_of, words, first_words(entities))
    return arrays | {"sha256": np.array(sums.hexdigest())}


def cnn_question(path: Path, sums: Any, entities: int, sentences: int) -> tuple[list[str], list[str], str]:
    """Words of the document and of the question, and the answer, of one file, whose text is added to `sums`."""
    body = path.read_bytes()
    sums.update(body)
    try:
        _, document, question, answer, _ = (block.strip() for block in body.decode("utf-8").lower().split("\n\n", 4))
    except ValueError as error:
        raise BadInput(f"{files.as_text(path)} is damaged ({error}). Unpack it again from cnn.tgz.") from None
    query = question.split()
    highest = max(int(number) for number in MARKER.findall(f"{document} {question} {answer}"))
    if highest >= entities:
        raise BadInput(
            f"{files.as_text(path)} has @entity{highest}, beyond data.entities={entities}: give more, such as "
            f"data.entities={highest + 1}."
        )
    chosen = relevant(document, query, sentences)
    return chosen[:-1] or chosen, query[:-1] if "@placeholder" in query[:-1] else query, answer


def relevant(document: str, question: list[str], sentences: int) -> list[str]:
    """The words of so many sentences of the document that have most of the question, in their order."""
    wanted = {word for word in question if word[-1].isalnum() and word not in STOP_WORDS and word != "@placeholder"}
    texts = [sentence.split() for sentence in SENTENCE.split(document)]
    scores = [sum(2 if MARKER.fullmatch(word) else 1 for word in wanted.intersection(text)) for text in texts]
    best = sorted(sorted(range(len(texts)), key=lambda place: -scores[place])[:sentences])
    return [word for place in best for word in texts[place]]


# --- novels -----------------------------------------------------------------------------------------------------------
# Questions made as those of CNN: who was it, in a sentence that follows those of the document?
#
# 1. A word is letters, with apostrophes between them but for a final `'s`, which stands alone; digits; or one other
#    sign. All are taken in small letters.
# 2. Names of a novel: words of two letters and more that are capitalized at least NAMED times within a sentence (after
#    a word, comma or semicolon), and in small letters at most SMALL times as often as capitalized; titles, days,
#    months, Roman numerals and "I'm" are none. Each is one entity wherever it is capitalized, so in its possessive too.
# 3. Every sentence with a name is a question, if it has QUESTION words and no more than the document may have: one of
#    its names, drawn, is the blank wherever it stands in it, since a second mention would tell the answer.
# 4. The document is the sentences with a name right before it, as many whole ones as have `length` words in all. It
#    must hold the answer and at least `candidates` entities.
# 5. Each question has entity numbers of its own, drawn, so that they say nothing of the name.
# 6. Novels are held out as in `triples`.

TOKEN = re.compile(r"'s\b|[^\W\d_]+(?:'(?!s\b)[^\W\d_]+)*|\d+|[^\w\s]|_")
NAMED, SMALL, QUESTION = 5, 0.1, 8
_NO_NAMES = (
    "mr mrs ms miss messrs mme mlle madame mademoiselle monsieur dr sir lord lady captain colonel major general doctor "
    "professor reverend rev st master mistress uncle aunt monday tuesday wednesday thursday friday saturday sunday "
    "january february march april may june july august september october november december"
)
NO_NAMES = frozenset(_NO_NAMES.split())
NO_NAME = re.compile(r".|i'.*|(?:xl|l?x{0,3})(?:ix|iv|v?i{0,3})")


def novel_cloze(config: Config, root: Path, seed: int = 0) -> Dataset:
    """Questions from the novels of data=books below `root`.

    `questions` of those of the training novels, and as many as declared of the other novels', are used, spread evenly;
    NormbenchError where there are fewer.
    """
    paths = files.paths(made_of(config), root)
    options = _options(config, "length", "candidates")
    arrays, notes = files.cached(config, paths, [options, FORM], lambda: _novels(paths, **options))
    sizes = {"train": int(config["questions"]), **config["declares"]["sizes"]}
    for part, wanted in sizes.items():
        triples.check_count(
            "questions",
            part,
            wanted,
            len(arrays[f"{part}_answer"]),
            f" with data.length={options['length']} and data.candidates={options['candidates']}",
        )
    splits = {part: _split(arrays, part, count) for part, count in sizes.items()}
    copy = {"sha256": novel_files.checksum(paths), "deviations": []}
    return Dataset(str(config["name"]), splits, notes, copy, arrays["words"].tolist())


def _novels(paths: Sequence[Path], words: int, entities: int, length: int, candidates: int) -> files.Arrays:
    sentences = novel_files.books(paths)
    belongs = triples.parts(sentences)
    vocabulary = _Vocabulary()
    novels, counts = {}, np.zeros(0, np.int64)
    for name in with_progress(list(sentences), "novels"):
        novels[name], counted = vocabulary.read(sentences.pop(name))
        if belongs[name] == "train":
            counts = np.pad(counts, (0, len(counted) - len(counts))) + counted
    counts = np.pad(counts, (0, len(vocabulary.small) - len(counts)))
    numbers = ranked(counts, ENTITY + entities, words)
    names = of_words.words_by_number(vocabulary.small, numbers, words, first_words(entities))
    arrays: files.Arrays = {"words": names}
    for part in PARTS:
        questions: list[Any] = []
        for name in with_progress([name for name in novels if belongs[name] == part], f"questions for {part}"):
            questions += _novel_questions(name, novels[name], numbers, entities, length, candidates)
        arrays |= _packed(part, questions)
    return arrays


@dataclass
class _Novel:
    """The sentences with a name of one novel, one after another."""

    words: np.ndarray  # (places,) of small-letter words
    named: np.ndarray  # (places,) where a name stands
    ends: np.ndarray  # (sentences,)


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


def _novel_questions(
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
        mentioned = set(names[before[begin] : before[start]])
        candidate_blanks = list(dict.fromkeys(names[before[start] : before[end]]))
        blank = candidate_blanks[int(chance * len(candidate_blanks))]
        both = dict.fromkeys(names[before[begin] : before[end]])
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
