"""Give hashes to what was written before there were any: python scripts/seal.py [RESULTS]

Lines of history.jsonl, figures, and finished raw runs whose curve and id fit. What is sealed already, and what is
damaged, is left as it is; the latter is named, and the exit code is 2. From then on `normbench check` sees changes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from normbench.check.ids import Ids
from normbench.errors import NormbenchError
from normbench.papers import history, publish, published
from normbench.runs import curve_file, files, lookup, pack, seals, store, writing
from normbench.runs.damaged import Damaged

ROOT = Path(__file__).resolve().parent.parent


def histories(results: Path) -> bool:
    """Whether any line was without a seal."""
    path = results / history.NAME
    with files.alone(results):
        entries = history.read(results)
        if all(seals.KEY in entry for entry in entries):
            return False
        files.atomic_write(path, b"".join(files.line(seals.sealed(entry)) for entry in entries))
    return True


def figure(path: Path) -> bool:
    with files.alone(path.parent):
        image = path.read_bytes()
        of = publish.shown(published.read_verdicts(path.parent / "verdicts.json"))
        if not seals.unmarked(image, of):
            return False
        if not image.rstrip().endswith(b"</svg>"):
            raise NormbenchError(f"{path} is damaged. Delete it, and draw it again with normbench reproduce.")
        files.atomic_write(path, seals.marked(image, of))
    return True


def run(stored: store.Stored, ids: Ids) -> bool:
    """Whether a finished run was without hashes."""
    if stored.state not in store.FINISHED or "files" in stored.status:
        return False
    with writing.RunDirectory(stored.path).writing():
        try:
            curve_file.checked(stored.path / "curve.jsonl", stored.status)
            own = ids.of(store.read_config(stored.path)["config"])
        except Damaged as damage:
            raise NormbenchError(f"{stored.path} is damaged: {damage}.") from None
        if own != stored.id:
            raise NormbenchError(f"{stored.path}: its configuration gives the id {own}.")
        content = {**stored.status, "files": seals.of_run(stored.path)}
        if content["schema"] == seals.SINCE - 1:  # an older one tells the form of the curve
            content["schema"] = seals.SINCE
        files.write_json(stored.path / "status.json", seals.sealed(content))
    return True


def main(arguments: Sequence[str]) -> int:
    results = Path(arguments[0]) if arguments else ROOT / "results"
    ids, code = Ids(), 0
    places: list[tuple[Path, Callable[[], bool]]] = [(results / history.NAME, lambda: histories(results))]
    places += [(path, lambda path=path: figure(path)) for path in pack.paths(results, "figure.svg")]
    places += [(one.path, lambda one=one: run(one, ids)) for one in lookup.scan(results / "runs")]
    for path, seal in places:
        try:
            if seal():
                print(f"{path}: sealed")
        except NormbenchError as error:
            print(f"seal: {error}", file=sys.stderr)
            code = 2
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
