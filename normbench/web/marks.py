"""The runs that a reader hides, in one file beside the runs, never in them or in packs.

marks = Marks(Path("results"))
marks.hide(["0123456789ab"], True)
marks.hidden()  # {"0123456789ab"}
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from normbench.errors import BadInput, Failed
from normbench.runs import files

NAME = "marks.json"


class Marks:
    """The hidden runs below one results folder. What else older versions wrote of runs into the file stays unread."""

    def __init__(self, results: Path) -> None:
        self.path = results / NAME

    def hidden(self) -> set[str]:
        """Their ids. NormbenchError where the file is damaged."""
        return {run for run, mark in self._read().items() if mark.get("hidden")}

    def hide(self, ids: Iterable[str], hidden: bool) -> None:
        """Hide runs, or show them again. NormbenchError: the file is damaged, or cannot be written."""
        if not self.path.parent.is_dir():  # a lock would make it again
            raise BadInput(f"{self.path.parent} is gone: nothing was marked.")
        try:
            with files.alone(self.path.parent):
                marks = self._read()
                for run in ids:
                    others = {key: value for key, value in marks.pop(run, {}).items() if key != "hidden"}
                    marks |= {run: others | {"hidden": True}} if hidden else {run: others} if others else {}
                files.write_json(self.path, marks)
        except OSError as error:
            raise BadInput(f"{self.path} cannot be written: {error.strerror}.") from None

    def _read(self) -> dict[str, dict[str, Any]]:
        try:
            marks = json.loads(self.path.read_bytes())
            if not isinstance(marks, dict) or not all(isinstance(mark, dict) for mark in marks.values()):
                raise ValueError("no marks of runs")
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise Failed(f"{self.path} is damaged ({error}). Restore it, or delete it.") from None
        return marks
