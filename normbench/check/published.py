"""Published files: whole, runs with the ids of their configurations, verdicts and tables as pack and contrasts give."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from normbench.check.ids import Ids
from normbench.check.stored import Finding
from normbench.errors import NormbenchError
from normbench.files import reading
from normbench.papers import artifact as artifacts
from normbench.papers import per_example_effects, publish, sample_archive, shipped_results
from normbench.papers import published as places
from normbench.papers.artifact import Plan
from normbench.papers.page import content_of, pages
from normbench.papers.published import Published
from normbench.runs import pack
from normbench.runs.run import Run

# any of these marks a published place
FILES = ("verdicts.json", "table.md", "table.csv", pack.NAME, per_example_effects.NAME, sample_archive.NAME)


def check(results: Path, ids: Ids, counted: dict[str, int]) -> Iterator[Finding]:
    claims: set[tuple[str, str]] = set()  # each counts once, at however many fidelities it is judged
    for place in sorted({path.parent for name in FILES for path in pack.published(results, name)}):
        yield from _place(place, ids, counted, claims)
    counted["claims"] = len(claims)


def _place(place: Path, ids: Ids, counted: dict[str, int], claims: set[tuple[str, str]]) -> list[Finding]:
    """All findings there; adds to what is counted."""
    again = artifacts.again(place.parent.relative_to(place.parents[2]).as_posix(), place.name, ids.config_dir)
    findings: list[Finding] = []

    def read(name: str, load: Callable[[Path], Any], needed: bool = True) -> Any:
        path = place / name
        try:
            if needed and not path.exists():
                findings.append(_missing(path, again))
            return load(path) if path.exists() or not needed else None
        except NormbenchError as error:
            findings.append(Finding("damage", path, str(error).removeprefix(f"{path} ")))

    verdicts, runs = read("verdicts.json", places.read_verdicts), read(pack.NAME, lambda path: pack.whole(path).runs)
    contrasts = read(per_example_effects.NAME, per_example_effects.load, needed=False)
    samples = read(sample_archive.NAME, sample_archive.load, needed=False)
    if runs:
        counted["published runs"] += len(runs)
        findings += _ids(place / pack.NAME, runs, ids)
    if not verdicts:
        return findings
    claims |= {(verdicts.artifact, claim.id) for claim in verdicts.claims}
    if samples and samples.sha256 != (recorded := verdicts.samples_sha256 or ""):
        findings.append(_missing(place / sample_archive.NAME, again) if recorded and not samples.runs else Finding(
            "damage", place / sample_archive.NAME, "it is not the one that verdicts.json has the hash of. Restore it "
            f"(git checkout), or publish again: {again}"))  # fmt: skip
    if verdicts.contrasts_sha256 and not (place / per_example_effects.NAME).exists():
        kind = "unknown" if shipped_results.is_copy(place, per_example_effects.NAME) else "missing"
        findings.append(Finding(kind, place / per_example_effects.NAME, per_example_effects.GONE))
    elif runs is not None and contrasts:
        try:
            findings += _follows(places.read(place, ids.config_dir), contrasts)
        except NormbenchError as error:
            findings.append(Finding("verdict", place, str(error)))
    return findings


def _missing(path: Path, again: str) -> Finding:
    return Finding("missing", path, f"it is gone. Restore it (git checkout), or make it again: {again}")


def _ids(path: Path, runs: Sequence[Run], ids: Ids) -> Iterator[Finding]:
    unknown: Counter[str] = Counter()
    for run in runs:
        try:
            computed = ids.of(run.config, run.id)
        except NormbenchError as error:
            unknown[str(error)] += 1
            continue
        if computed != run.id:
            yield Finding("id", path, f"the configuration of run {run.id} gives the id {computed}: one of them was "
                          "changed, or this version computes otherwise. Restore the pack (git checkout), or train the "
                          "run again")  # fmt: skip
    for why, count in unknown.items():
        yield Finding("unknown", path, f"the ids of {count} runs cannot be computed here: {why}")


def _follows(entry: Published, contrasts: per_example_effects.Contrasts) -> Iterator[Finding]:
    """The files that differ from those that judging these runs again gives; nothing is written."""
    place, again, runs, artifact = entry.place, f"Judge again: {entry.again}", entry.runs, entry.artifact
    if artifact is None:
        yield Finding("unknown", place, "no such artifact is known here: its verdicts cannot be judged again without "
                      "its claims (one's own: --config-dir DIR)")  # fmt: skip
        return
    before = entry.verdicts
    samples_sha256 = before.samples_sha256 or ""
    judged = publish.judge(Plan(artifact, entry.fidelity), runs, before, before.pack_sha256, contrasts, samples_sha256)
    if judged != before:
        pairs = zip(judged.claims, before.claims, strict=False)
        others = ", ".join(now.id for now, then in pairs if now != then)
        yield Finding("verdict", place / "verdicts.json", f"the verdicts {f'of {others}' if others else 'as a whole'} "
                      f"do not follow from the pack. {again}")  # fmt: skip
    drawn = artifacts.draw(artifact, runs)
    for name, page in pages(content_of(artifact, judged, drawn)).items():
        if not (place / name).exists():
            yield _missing(place / name, entry.again)
        elif _bytes(place / name) != page:
            yield Finding("verdict", place / name, f"it does not follow from the pack. {again}")
    figure = place / "figure.svg"  # each version of matplotlib would draw another file
    if not figure.exists() and drawn.panels:
        yield _missing(figure, entry.again)


def _bytes(path: Path) -> bytes:
    with contextlib.suppress(OSError):
        return reading.read(path, pack.LARGEST)
    return b""
