"""The published files of an artifact in `<paper>/<artifact>/<fidelity>/`: figure, tables, verdicts, the pack of its
runs, effects by test example, and samples of its models. Smoke runs and a user's artifacts are published below `own`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from normbench.core import extras
from normbench.errors import FULL, Failed
from normbench.papers import artifact as artifacts
from normbench.papers import page, per_example_effects, sample_archive, verdicts
from normbench.papers.artifact import Drawing, Plan
from normbench.papers.claims import Artifact
from normbench.papers.per_example_effects import Contrasts
from normbench.papers.published import verdicts_at
from normbench.papers.verdicts import Verdicts
from normbench.runs import files, own, pack, samples
from normbench.runs.run import Run

SMOKE = "smoke"


def folder(results: Path, artifact: Artifact, fidelity: str) -> Path:
    """In the published results, or below `own` for smoke runs and a user's artifacts."""
    return (own(results) if fidelity == SMOKE or artifact.config_dir else results) / artifact.id / fidelity


class Publication(NamedTuple):
    """What was published: the verdicts, the runs behind them, notes, what is drawn of them, and the verdicts before."""

    verdicts: Verdicts
    runs: Sequence[Run] = ()
    notes: Sequence[str] = ()
    drawn: Drawing = Drawing()
    before: Verdicts | None = None


def judge(
    plan: Plan,
    runs: Sequence[Run],
    previous: Verdicts | None,
    pack_sha256: str = "",
    contrasts: Contrasts | None = None,
    samples_sha256: str = "",
) -> Verdicts:
    """Sealed verdicts on `runs`, those of the pack with that hash, and on the effects of their test examples.

    `previous` are the last verdicts. They may be of another pack, as after a kill between pack and verdicts. Smoke runs
    are on embedded data: no claim is judged.
    """
    contrasts = contrasts or Contrasts({})
    if plan.fidelity == SMOKE:
        plan = replace(plan, artifact=replace(plan.artifact, claims=(), amendments=()))
    judged = verdicts.judge(plan, runs, previous, contrasts.spread)
    return verdicts.sealed(judged, pack_sha256, contrasts.sha256, samples_sha256)


def last(place: Path) -> Verdicts | None:
    """The verdicts that are there, None without any; NormbenchError where they cannot be read, or were moved there."""
    return verdicts_at(place) if (place / "verdicts.json").exists() else None


def publish(plan: Plan, runs: Sequence[Run], results: Path, others: Sequence[Path] = ()) -> Publication:
    """Judge, draw and write what differs from what is there.

    The pack keeps its runs: n never falls. Runs whose configuration is no longer that of the experiment are left out if
    as many new ones replace them; else nothing is written, since the change may be undone. The pack is written first,
    because all else follows from it, and the verdicts with its hash last: after a kill between, readers refuse the old
    verdicts, and the same command updates them. Files that did not change are not written, so results in a read-only
    folder can be read.

    others: results folders from which some of the runs were taken, with their examples' results and their samples.
    """
    artifact = plan.artifact
    place = folder(results, artifact, plan.fidelity)
    with files.alone(place):
        before = last(place)
        packed = pack.read(place / pack.NAME)
        current_runs = [run for run in packed.runs if plan.has(run)]
        notes = []
        runs = pack.merge(current_runs, runs)
        stale = len(packed.runs) - len(current_runs)
        writes = not stale or len(runs) >= len(packed.runs)
        if stale:
            notes.append(
                f"{stale} of {len(packed.runs)} published runs have another configuration by now: left out"
                + ("" if writes else f". There are {len(runs)} without them, and nothing is written: undo the change, "
                   f"train what is missing, or delete {place} first")
            )  # fmt: skip
        same = runs == list(packed.runs)
        published = per_example_effects.load(place / per_example_effects.NAME)
        examples = per_example_effects.collect(artifact, runs, [results, *others], published)
        archive_before = sample_archive.load(place / sample_archive.NAME)
        archive, left = sample_archive.collect(runs, samples.of_raw([results, *others]), archive_before)
        if left:
            notes.append(f"samples of {', '.join(f'{run.arm} s{run.seed}' for run in left)} are too large to publish")
        if before and before.samples_sha256 not in (None, archive_before.sha256):
            notes.append(f"{place / sample_archive.NAME} is gone, or not the one that verdicts.json had the hash of")
        lacking = not published.sha256 and before and before.contrasts_sha256 not in ("", examples.sha256)
        if lacking:
            notes.append(f"{place / per_example_effects.NAME}: {per_example_effects.GONE}")
        if before and lacking and same and before.pack_sha256 == packed.sha256 and plan.has_decided(before.claims):
            judged, examples = before, published
        else:
            judged = judge(plan, runs, before, packed.sha256 if same else pack.sha256(runs), examples,
                           archive.sha256)  # fmt: skip
        drawn = artifacts.draw(artifact, runs)
        shown = page.pages(page.content_of(artifact, judged, drawn))
        # verdicts are written last: with them, and the same pages, the figure is of this pack
        is_drawn = before is not None and before.pack_sha256 == judged.pack_sha256
        unchanged = not artifact.config_dir and all(_bytes(place / name) == shown[name] for name in shown)
        svg = _bytes(place / "figure.svg") if is_drawn else b""
        if svg and not unchanged and not extras.is_installed("matplotlib"):  # its curves are of the same runs
            notes.append(f"{place / 'figure.svg'} is not drawn again without matplotlib: {extras.install('train')}")
            unchanged = True
        contents = {
            pack.NAME: None if same else pack.dump(runs),
            sample_archive.NAME: None if archive == archive_before else archive.content or None,
            per_example_effects.NAME: None if examples.sha256 == published.sha256 else examples.dump(),
            "figure.svg": (svg if unchanged else b"") or page.figure_of(drawn.panels),
            **shown,
            "verdicts.json": verdicts.as_file(judged),
        }
        publication = Publication(judged, runs, notes, drawn, before)
        if not writes:
            return publication
        try:
            if published.sha256 and not examples.sha256:  # none of what was compared is so any more
                (place / per_example_effects.NAME).unlink()
            if archive_before.runs and not archive.runs:
                (place / sample_archive.NAME).unlink()
            if contents["figure.svg"] is None:  # too few runs for a figure
                (place / "figure.svg").unlink(missing_ok=True)
            for name, written in contents.items():
                path = place / name
                if written is not None and not (path.exists() and path.read_bytes() == written):
                    files.atomic_write(path, written)
        except OSError as error:
            if error.errno in FULL:
                raise Failed(
                    f"{place}: {error.strerror}. What was published is whole, or the same command makes it so: free "
                    "some space and repeat it."
                ) from None
            notes.append(f"{place} cannot be written ({error.strerror}): the files there are not brought up to date")
    return publication


def _bytes(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""
