"""The sentences of English novels, in the place of BookCorpus: of a parquet file, or split here from the texts.

The rules of the split, in full; some splits are wrong, as with any rules:

1. Curly quotes become straight ones, a long dash becomes ` - `, an en dash `-`; white space becomes single blanks.
2. A file is hard-wrapped when fewer than 1 % of its lines have more than 100 characters: its paragraphs end at blank
   lines. In the other files each line is a paragraph. A paragraph's end always ends a sentence.
3. Within a paragraph, a sentence ends after `.`, `!` or `?` and the quotes and brackets that follow at once, where a
   blank comes next, and then a capital letter or a digit, before which quotes and brackets may stand.
4. It does not end after one of ABBREVIATIONS and its full stop, nor after a single capital letter and one (`J. Smith`;
   but `I.` ends one), nor after `No.` or `Nos.` before a digit.

Titles and chapter headings stay in. Case, punctuation and accents are kept; nothing is tokenised.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from normbench.data import files, hub

_WORDS = (
    "Mr Mrs Ms Messrs Mme Mlle Mdlle M Dr Prof Rev Revd Hon St Sr Jr Esq Capt Col Gen Lieut Lt Maj Sergt Sgt Corp "
    "Gov Pres Supt Vol Vols Fig Figs Ch Chap p pp viz vs cf etc i.e e.g Jan Feb Aug Sept Oct Nov Dec Co"
)
ABBREVIATIONS = frozenset(_WORDS.split())
CHARACTERS = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "—": " - ", "–": "-", "\ufeff": ""})
END = re.compile(r"""[.!?]["')\]]*\s(?=["'(\[]*([^\W_]))""")
WRAPPED_WIDTH, WRAPPED_SHARE = 100, 0.01


def books(paths: Sequence[Path]) -> dict[str, list[str]]:
    """The sentences of each novel of data=books, by Author_Title_Year."""
    if paths[0].suffix == ".txt":
        texts = {path.stem: path.read_bytes().decode("utf-8") for path in paths}
        return {book: [s for part in paragraphs(text) for s in sentences(part)] for book, text in texts.items()}
    table = hub.columns(paths, "book", "text")
    sentences_of: dict[str, list[str]] = {}
    for book, text in zip(table["book"], table["text"], strict=True):
        sentences_of.setdefault(book, []).append(text)
    return sentences_of


def checksum(paths: Sequence[Path]) -> str:
    """Of the copy that is read, for a run's records."""
    sums = [files.digest(path) for path in paths]
    return sums[0] if len(sums) == 1 else files.checksum(sums)


def paragraphs(text: str) -> Iterator[str]:
    """The paragraphs of a novel with single blanks, empty ones left out; rules 1 and 2."""
    lines = text.translate(CHARACTERS).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    filled = [line for line in lines if line.strip()]
    if sum(len(line) > WRAPPED_WIDTH for line in filled) < WRAPPED_SHARE * len(filled):
        lines = re.split(r"\n\s*\n", "\n".join(lines))
    for line in lines:
        if paragraph := " ".join(line.split()):
            yield paragraph


def sentences(paragraph: str) -> Iterator[str]:
    """The sentences of a paragraph with single blanks; rules 3 and 4."""
    start = 0
    for match in END.finditer(paragraph):
        following = match[1]
        if not (following.isupper() or following.isdigit()):
            continue
        if not _abbreviated(paragraph[start : match.start() + 1], following):
            yield paragraph[start : match.end()].rstrip()
            start = match.end()
    if start < len(paragraph):
        yield paragraph[start:]


def _abbreviated(text: str, following: str) -> bool:
    """Whether `text`, which ends with an end mark, ends with an abbreviation's full stop."""
    if not text.endswith("."):
        return False
    word = re.split(r"[\s\"'(\[-]", text[:-1])[-1]
    if word in ("No", "Nos"):
        return following.isdigit()
    return word in ABBREVIATIONS or (len(word) == 1 and word.isupper() and word != "I")
