"""The published files of an artifact in `<paper>/<artifact>/<fidelity>/`: figure, tables, verdicts, the pack of its
runs, effects by test example, and samples of its models. Smoke runs and a user's artifacts are published below `own`.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from normbench.config import plan
from normbench.core import extras
from normbench.draw import figure, tables
from normbench.draw.panels import Panel
from normbench.draw.tables import Entry
from normbench.errors import FULL, Failed, NormbenchError
from normbench.papers import artifact as artifacts
from normbench.papers import describe, per_example_effects, sample_archive, verdicts
from normbench.papers.claims import Artifact
from normbench.papers.per_example_effects import Contrasts
from normbench.papers.published import is_of_today, verdicts_of
from normbench.papers.suggested_runs import suggested_runs
from normbench.papers.verdicts import Verdicts
from normbench.runs import files, own, pack, samples
from normbench.runs.run import Run

SMOKE = "smoke"


def folder(results: Path, artifact: Artifact, fidelity: str) -> Path:
    """In the published results, or below `own` for smoke runs and a user's artifacts."""
    return (own(results) if fidelity == SMOKE or artifact.config_dir else results) / artifact.id / fidelity


def judge(
    artifact: Artifact,
    runs: Sequence[Run],
    fidelity: str,
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
    planned = artifacts.Plan(artifact, fidelity)
    if fidelity == SMOKE:
        artifact = replace(artifact, claims=(), amendments=())
    judged = verdicts.judge(artifact, runs, fidelity, previous, planned, contrasts.spread)
    claims = []
    for claim, verdict in zip(artifact.claims, judged.claims, strict=True):
        suggestion = suggested_runs(artifact, claim, verdict, runs, fidelity, planned)
        claims.append(replace(verdict, suggestion=suggestion, answer=describe.answer(verdict)))
    judged = replace(judged, claims=tuple(claims))
    return verdicts.sealed(judged, pack_sha256, contrasts.sha256, samples_sha256)


def last(results: Path, artifact: Artifact, fidelity: str) -> Verdicts | None:
    """The verdicts that are there, None without any; NormbenchError where they cannot be read, or were moved there."""
    path = folder(results, artifact, fidelity) / "verdicts.json"
    if not path.exists():
        return None
    return verdicts_of(artifact.id, fidelity, path)


def current(artifact: Artifact, runs: Sequence[Run], fidelity: str) -> list[Run]:
    """The runs of a pack whose configuration is still that of the experiment."""

    def is_current(run: Run) -> bool:
        words = [*(f"{key}={value}" for key, value in run.axes.items()), f"seed={run.seed}"]
        try:
            spec = plan.experiment_spec(artifact.experiment, run.arm, fidelity, words, run.control, artifact.config_dir)
        except NormbenchError:  # an arm, an axis or a control that is no more
            return False
        return spec.id == run.id and spec.experiment == artifact.experiment

    return [run for run in runs if is_current(run)]


def publish(
    artifact: Artifact,
    runs: Sequence[Run],
    fidelity: str,
    results: Path,
    drop_stale: bool = False,
    others: Sequence[Path] = (),
) -> tuple[Verdicts, list[Run], list[str]]:
    """Judge, draw and write what differs from what is there; returns verdicts, the runs behind them, and notes.

    The pack keeps its runs: n never falls. Runs whose configuration is no longer that of the experiment are left out if
    as many new ones replace them, or with `drop_stale`; else nothing is written, since the change may be undone. The
    pack is written first, because all else follows from it, and the verdicts with its hash last: after a kill between,
    readers refuse the old verdicts, and the same command updates them. Files that did not change are not written, so
    results in a read-only folder can be read.

    others: results folders from which some of the runs were taken, with their examples' results and their samples.
    """
    place = folder(results, artifact, fidelity)
    with files.alone(place):
        packed = pack.read(place / pack.NAME)
        current_runs = current(artifact, packed.runs, fidelity)
        notes = []
        runs = pack.merge(current_runs, runs)
        stale = len(packed.runs) - len(current_runs)
        writes = not stale or drop_stale or len(runs) >= len(packed.runs)
        if stale:
            notes.append(
                f"{stale} of {len(packed.runs)} published runs have another configuration by now: left out"
                + ("" if writes else f". There are {len(runs)} without them, and nothing is written: undo the change, "
                   "train what is missing, or publish so few with --drop-stale")
            )  # fmt: skip
        same = runs == list(packed.runs)
        published = per_example_effects.load(place / per_example_effects.NAME)
        examples = per_example_effects.collect(artifact, runs, [results, *others], published)
        before = last(results, artifact, fidelity)
        archive_before = sample_archive.load(place / sample_archive.NAME)
        archive, left = sample_archive.collect(runs, samples.of_raw([results, *others]), archive_before)
        if left:
            notes.append(f"samples of {', '.join(f'{run.arm} s{run.seed}' for run in left)} are too large to publish")
        if before and before.samples_sha256 not in (None, archive_before.sha256):
            notes.append(f"{place / sample_archive.NAME} is gone, or not the one that verdicts.json had the hash of")
        lacking = not published.sha256 and before and before.contrasts_sha256 not in ("", examples.sha256)
        if lacking:
            notes.append(f"{place / per_example_effects.NAME}: {per_example_effects.GONE}")
        if before and lacking and same and is_of_today(artifact, before, packed.sha256):
            judged, examples = before, published
        else:
            judged = judge(artifact, runs, fidelity, before, packed.sha256 if same else pack.sha256(runs), examples,
                           archive.sha256)  # fmt: skip
        shown = pages(artifact, fidelity, judged, runs)
        # verdicts are written last: with them, and the same pages, the figure is of this pack
        is_drawn = before is not None and before.pack_sha256 == judged.pack_sha256
        unchanged = not artifact.config_dir and all(_bytes(place / name) == shown[name] for name in shown)
        drawn = _bytes(place / "figure.svg") if is_drawn else b""
        if drawn and not unchanged and not extras.is_installed("matplotlib"):  # its curves are of the same runs
            notes.append(f"{place / 'figure.svg'} is not drawn again without matplotlib: {extras.install('train')}")
            unchanged = True
        contents = {
            pack.NAME: None if same else pack.dump(runs),
            sample_archive.NAME: None if archive == archive_before else archive.content or None,
            per_example_effects.NAME: None if examples.sha256 == published.sha256 else examples.dump(),
            "figure.svg": (drawn if unchanged else b"") or _figure(artifacts.panels(artifact, runs)),
            **shown,
            "verdicts.json": verdicts.as_file(judged),
        }
        if not writes:
            return judged, runs, notes
        try:
            if published.sha256 and not examples.sha256:  # none of what was compared is so any more
                (place / per_example_effects.NAME).unlink()
            if archive_before.runs and not archive.runs:
                (place / sample_archive.NAME).unlink()
            if contents["figure.svg"] is None:  # too few runs for a figure
                (place / "figure.svg").unlink(missing_ok=True)
            for name, content in contents.items():
                path = place / name
                if content is not None and not (path.exists() and path.read_bytes() == content):
                    files.atomic_write(path, content)
        except OSError as error:
            if error.errno in FULL:
                raise Failed(
                    f"{place}: {error.strerror}. What was published is whole, or the same command makes it so: free "
                    "some space and repeat it."
                ) from None
            notes.append(f"{place} cannot be written ({error.strerror}): the files there are not brought up to date")
    return judged, runs, notes


def pages(artifact: Artifact, fidelity: str, judged: Verdicts, runs: Sequence[Run]) -> dict[str, bytes]:
    """The files for readers that follow from the runs and their verdicts, by name."""
    entries = artifacts.table(artifact, runs)
    return {
        "table.md": _page(artifact, fidelity, entries, judged, runs).encode(),
        "table.csv": tables.as_csv(entries).encode(),
    }


def _bytes(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


def _figure(panels: Sequence[Panel]) -> bytes | None:
    """The SVG; None for an artifact that is a table alone."""
    if not panels:
        return None
    image = io.BytesIO()
    figure.figure(panels, image)
    return image.getvalue()


def _page(artifact: Artifact, fidelity: str, entries: Sequence[Entry], judged: Verdicts, runs: Sequence[Run]) -> str:
    """table.md: explanations, the numbers, the verdicts, the deviations and the command."""
    summary = describe.tally(judged.claims, at_setting=True) if judged.claims else ""
    paragraphs = [
        artifact.question,
        artifacts.caution(artifact, runs),
        summary,
        *artifacts.plainly(artifact, runs),
        *artifacts.explanation(artifact, runs),
    ]
    words = "".join(f"{tables.escape(text)}\n\n" for text in paragraphs if text)
    e = tables.escape
    rows = "".join(
        f"| {e(c.id)} | {e(c.statement)} | **{e(c.verdict)}** | {e(describe.in_full(c))} |\n" for c in judged.claims
    )
    decided = f"| claim | statement | verdict | answer |\n| --- | --- | --- | --- |\n{rows}\n" if rows else ""
    tried = describe.settings(judged.claims)
    across = (
        f"Each comparison, at the paper's setting and under the controls:\n\n{tables.lines(tried)}\n" if tried else ""
    )
    of_seeds = _describe_seeds(entries)
    wrong = judged.expected_wrong  # of computed numbers none
    by_chance = f"Expected number of these verdicts that are wrong by chance: at most {wrong:.3g}.\n\n" if wrong else ""
    named = "".join(f"- {e(name)}: {e(words)}\n" for name, words in artifacts.meanings(artifact, runs))
    meanings = f"Arms and controls, by the experiment {e(artifact.experiment)}:\n\n{named}\n" if named else ""
    deviations = "\n".join(f"- {e(text)}" for text in judged.deviations)
    amended: dict[tuple[str, str], list[str]] = {}
    for entry in judged.amendments:
        amended.setdefault((entry.change, entry.reason), []).append(entry.claim)
    amendments = "".join(
        f"- {e(', '.join(ids))}: {e(change)}. Why: {e(why)}\n" for (change, why), ids in amended.items()
    )
    return (
        f"# {artifact.title} · {fidelity}\n\n{artifact.locator}.{of_seeds}\n\n"
        f"{words}{tables.markdown(entries)}\n"
        f"{decided}"
        f"{across}"
        f"{by_chance}"
        f"{meanings}"
        f"Choices and deviations:\n\n{deviations}\n\n"
        + (f"Claims amended after they were first written down:\n\n{amendments}\n" if amended else "")
        + f"Command: `{judged.command}`\n"
    )


def _describe_seeds(entries: Sequence[Entry]) -> str:
    """The seeds of the means and intervals; "" where all numbers are computed."""
    counts = sorted({entry.n for entry in entries if entry.interval})
    if not counts:
        return ""
    if len(counts) == 1:
        return f" Means with 95 % intervals over seeds (n = {counts[0]})."
    return (
        f" Means with 95 % intervals over all published seeds (n = {counts[0]} to {counts[-1]}, see table.csv); a "
        "verdict counts those that were planned for it."
    )
