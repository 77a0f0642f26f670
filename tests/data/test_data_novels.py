"""Novels: where paragraphs and sentences end."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normbench.data import novels


def test_books_of_texts(tmp_path: Path) -> None:
    texts = {"A_First_1901.txt": b"Alone.", "B_Second_1902.txt": b"\xef\xbb\xbfTITLE\r\n\r\nOne. Two.\r\n"}
    for name, body in texts.items():
        (tmp_path / name).write_bytes(body)
    books = novels.books([tmp_path / name for name in texts])
    assert books == {"A_First_1901": ["Alone."], "B_Second_1902": ["TITLE", "One.", "Two."]}


@pytest.mark.parametrize(
    ("text", "split"),
    [
        ("He went. She came! Why? 1842 was long ago.", ["He went.", "She came!", "Why?", "1842 was long ago."]),
        (
            '"Go on," he said. "I will." (So he did.) "Yes."',
            ['"Go on," he said.', '"I will."', "(So he did.)", '"Yes."'],
        ),
        ('"What?" he asked. "No!" cried I.', ['"What?" he asked.', '"No!" cried I.']),
        ("Mr. Hill met Dr. Lee in St. Ives. They spoke.", ["Mr. Hill met Dr. Lee in St. Ives.", "They spoke."]),
        ("It was J. H. Smith. So was I. Enough.", ["It was J. H. Smith.", "So was I.", "Enough."]),
        ("Room No. 5 it is. No. Never.", ["Room No. 5 it is.", "No.", "Never."]),
        ("Wait . . . and see... now. Éva left.", ["Wait . . . and see... now.", "Éva left."]),
        ("no end mark", ["no end mark"]),
    ],
)
def test_sentences(text: str, split: list[str]) -> None:
    assert list(novels.sentences(text)) == split
    assert " ".join(split) == text


@given(st.lists(st.text(alphabet="aAÉéI1.!?\"')( ", min_size=1, max_size=12), max_size=8))
def test_sentences_lose_nothing(words: list[str]) -> None:
    text = " ".join(" ".join(words).split())
    found = list(novels.sentences(text))
    assert " ".join(found) == text and all(found)


def test_paragraphs_of_long_lines() -> None:
    long = "word " * 30
    assert list(novels.paragraphs(f"ONE\r\n{long}\r\n\r\n\u201ctwo\u201d\u2014it\u2019s\tso\u00a0\r\n")) == [
        "ONE",
        long.strip(),
        '"two" - it\'s so',
    ]


def test_paragraphs_of_wrapped_lines() -> None:
    assert list(novels.paragraphs("\ufeffTITLE\n\n\nIt was\nlate.\n \nHe\nleft.\n")) == [
        "TITLE",
        "It was late.",
        "He left.",
    ]
