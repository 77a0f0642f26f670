"""What a reader says of runs: hidden, archived, tags, a note. One file beside the runs, never in them or in packs.

marks = Marks(Path("results"))
marks.change(["0123456789ab"], {"hidden": True, "tag": "good", "note": "see the third layer"})
marks.read()["0123456789ab"]["tags"]  # ["good"]
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from normbench import reading
from normbench.errors import NormbenchError
from normbench.runs import files

NAME = "marks.json"
LARGEST = 64 << 20  # bytes
LONGEST = 2000  # characters of a note
FORMS = {"hidden": bool, "archived": bool, "tags": list, "note": str}
TAG = re.compile(r"\w[\w.-]{0,39}")  # one word of a filter
Mark = dict[str, Any]


class Marks:
    """The marks of the runs below one results folder, by id; a run without any has none."""

    def __init__(self, results: Path) -> None:
        self.path = results / NAME

    def read(self) -> dict[str, Mark]:
        """NormbenchError where the file is damaged."""
        try:
            found = reading.parse(reading.read(self.path, LARGEST))
            for mark in found.values():
                if not all(isinstance(value, FORMS[key]) for key, value in mark.items()):
                    raise ValueError(f"{mark!r:.40} is no mark")
                if not all(isinstance(tag, str) for tag in mark.get("tags", ())):
                    raise ValueError(f"{mark!r:.40} has a tag that is no text")
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, AttributeError) as error:
            raise NormbenchError(f"{self.path} is damaged ({error}). Restore it, or delete it.", code=4) from None
        return dict(found)

    def change(self, ids: Iterable[str], changes: Mapping[str, Any]) -> None:
        """Mark runs: `hidden`, `archived`, `note`, and `tag`, a tag to add, or with `-` before it to remove.

        NormbenchError: a change is none of these; the file is damaged, or cannot be written.
        """
        for key, value in changes.items():
            if not _is_change(key, value):
                raise NormbenchError(
                    f"{key}={value!r:.60} is no mark: hidden or archived, true or false; a tag of letters, digits, _, "
                    f". and -, at most 40; a note of at most {LONGEST} characters."
                )
        if not self.path.parent.is_dir():  # a lock would make it again
            raise NormbenchError(f"{self.path.parent} is gone: nothing was marked.")
        try:
            with files.alone(self.path.parent):
                marks = self.read()
                for run in ids:
                    mark = _changed(marks.pop(run, {}), changes)
                    marks |= {run: mark} if mark else {}
                files.write_json(self.path, marks)
        except OSError as error:
            raise NormbenchError(f"{self.path} cannot be written: {error.strerror}.") from None


def _is_change(key: str, value: Any) -> bool:
    if key == "tag":
        return isinstance(value, str) and bool(TAG.fullmatch(value.removeprefix("-")))
    if key == "note":
        return isinstance(value, str) and len(value) <= LONGEST and _is_unicode(value)
    return key in ("hidden", "archived") and isinstance(value, bool)


def _is_unicode(text: str) -> bool:
    """False with half a pair of surrogates, which JSON can write and no strict reader takes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _changed(mark: Mark, changes: Mapping[str, Any]) -> Mark:
    """What is left of a mark; what says nothing is not kept."""
    rest = {key: value for key, value in changes.items() if key != "tag"}
    tag, tags = changes.get("tag", ""), {*mark.get("tags", ())}
    tags = tags - {tag[1:]} if tag.startswith("-") else tags | {tag} - {""}
    return {key: value for key, value in {**mark, **rest, "tags": sorted(tags)}.items() if value}
