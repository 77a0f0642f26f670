"""English novels in the place of BookCorpus, and labelled sentences: what makes their files from the official ones.

The rules for sentences of novels, in full; some splits are wrong, as with any rules:

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
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from normbench.data import hub

_WORDS = (
    "Mr Mrs Ms Messrs Mme Mlle Mdlle M Dr Prof Rev Revd Hon St Sr Jr Esq Capt Col Gen Lieut Lt Maj Sergt Sgt Corp "
    "Gov Pres Supt Vol Vols Fig Figs Ch Chap p pp viz vs cf etc i.e e.g Jan Feb Aug Sept Oct Nov Dec Co"
)
ABBREVIATIONS = frozenset(_WORDS.split())
CHARACTERS = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "—": " - ", "–": "-", "\ufeff": ""})
END = re.compile(r"""[.!?]["')\]]*\s(?=["'(\[]*([^\W_]))""")
WRAPPED_WIDTH, WRAPPED_SHARE = 100, 0.01


def prepare_books(sources: Path, out: Path, declares: Mapping[str, Any]) -> None:
    """From a text file a novel: columns book (Author_Title_Year) and text, a row a sentence, novels by their name."""
    import pyarrow as pa

    books, texts = [], []
    for name in sorted(declares["sources"]["files"]):
        text = (sources / name).read_bytes().decode("utf-8")
        found = [sentence for paragraph in paragraphs(text) for sentence in sentences(paragraph)]
        books += [Path(name).stem] * len(found)
        texts += found
    # Few names, each repeated thousands of times: stored once, as indices.
    schema = pa.schema([("book", pa.dictionary(pa.int32(), pa.string())), ("text", pa.string())])
    hub.write(out / "books" / "sentences.parquet", {"book": books, "text": texts}, schema, row_group=100_000)


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


LABELLED = {"mr": "rt-polarity.all", "cr": "custrev.all", "subj": "subj.all", "mpqa": "mpqa.all"}


def prepare_sentence_eval(sources: Path, out: Path, declares: Mapping[str, Any]) -> None:
    """MR, CR, SUBJ, MPQA: from lines `label text` in Latin-1 to tab-separated UTF-8, columns label and text."""
    (out / "sentence_eval").mkdir(parents=True)
    for name, source in LABELLED.items():
        rows = ["label\ttext\n"]
        # Split at line feeds alone: the text holds U+0085, which Python takes for a line end as well.
        for line in (sources / source).read_bytes().decode("latin-1").split("\n")[:-1]:
            label, _, text = line.partition(" ")
            rows.append(f"{label}\t{text.strip()}\n")
        (out / "sentence_eval" / f"{name}.tsv").write_text("".join(rows), encoding="utf-8", newline="\n")


SICK = {"train": "SICK_train.txt", "trial": "SICK_trial.txt", "test": "SICK_test_annotated.txt"}


def prepare_sick(sources: Path, out: Path, declares: Mapping[str, Any]) -> None:
    """The three files as they are, but for the line ends of the test part."""
    (out / "sentence_eval").mkdir(parents=True)
    for part, source in SICK.items():
        body = (sources / source).read_bytes().replace(b"\r\n", b"\n")
        (out / "sentence_eval" / f"sick_{part}.tsv").write_bytes(body)
