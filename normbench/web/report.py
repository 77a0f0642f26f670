"""`normbench report`: a static site from packs and verdicts alone; no clock, no network, the same bytes each time."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import normbench
from normbench.config import FIDELITIES, FIDELITY_MEANING, compose, plan
from normbench.draw import captions, tables
from normbench.draw.panels import Panel, layout
from normbench.draw.style import on_dark
from normbench.errors import BadInput, NormbenchError
from normbench.files import reading
from normbench.papers import artifact as artifacts
from normbench.papers import describe, glossary, published, sample_archive, tally
from normbench.papers.claims import Artifact
from normbench.papers.page import ClaimText, content_of
from normbench.papers.published import Published
from normbench.papers.rules import DECIDED, WORDS
from normbench.papers.verdicts import once
from normbench.runs import pack
from normbench.runs import samples as raw_samples
from normbench.runs.run import Run
from normbench.web import figures, forest, samples, site

DOWNLOADS = ("figure.svg", "table.csv", "verdicts.json", pack.NAME, sample_archive.NAME)
LARGEST = 1 << 23  # bytes of a check
OPEN = 1  # claims of each word that the index tells unfolded
OWN = "Your own and smoke runs"


@dataclass(frozen=True)
class Report:
    """The site's index, and a line per file that could not be included."""

    index: Path
    notes: Sequence[str]


def build(
    results: Path, target: Path | None = None, config_dir: Path | None = None, only: Collection[str] | None = None
) -> Report:
    """Write the site to a temporary folder and move it to `target`; NormbenchError where it cannot be written.

    only: the artifacts whose pages are made; the others keep theirs while it is of these verdicts, or get a line with
    the command that makes it.
    `target`: by default `results/report`; a folder that is not empty and not a report is refused. `config_dir`: a
    folder with the user's own artifacts.
    """
    place = results / "report" if target is None else target
    target = place.resolve()
    if target.is_relative_to(results.resolve()) and target != results.resolve() / "report":
        raise BadInput(f"{target} lies among the results, where it would be read as one. Choose another --output.")
    notes: list[str] = []

    def write(folder: Path) -> None:
        entries, damaged = published.collect(results, config_dir, only)
        listing = _Listing.of(config_dir)
        pages = _pages(entries, listing, damaged, raw_samples.of_raw([results]), only)
        _write(folder, results, listing, pages, damaged, target)
        notes.extend(d.reason for d in damaged)

    site.put(target, write)
    return Report(place / "index.html", notes)


@dataclass(frozen=True)
class _Listing:
    """All artifacts by id, and their papers."""

    by_id: Mapping[str, Artifact]
    papers: Mapping[str, artifacts.Paper]

    @classmethod
    def of(cls, config_dir: Path | None) -> _Listing:
        return cls(
            {name: artifacts.read(name, config_dir) for name in artifacts.ids(config_dir)}, artifacts.papers(config_dir)
        )

    def order(self, entry: Published) -> tuple[bool, int]:
        """Sort key: the order of the papers, then artifacts of no paper, then the user's own."""
        listed = [content.get("artifact") for paper in self.papers.values() for content in paper.contents]
        return entry.own, listed.index(entry.name) if entry.name in listed else len(listed)


@dataclass(frozen=True)
class _Page:
    """One published artifact with its file name, the content of its page if that is made, and its samples."""

    entry: Published
    file: str
    paper: str
    content: Mapping[str, Any] | None
    samples: Sequence[tuple[Run, sample_archive.Files]]

    @property
    def short_title(self) -> str:
        return self.entry.title.split(" · ")[0]


def _pages(
    published_entries: Sequence[Published],
    listing: _Listing,
    damaged: list[published.Damaged],
    raw: Callable[[str], sample_archive.Files],
    only: Collection[str] | None,
) -> list[_Page]:
    """The pages by paper; a file whose content cannot be made is added to the damaged ones."""
    pages = []
    entries = sorted(published_entries, key=listing.order)
    for entry, file in zip(entries, _file_names(entries), strict=True):
        paper = artifacts.paper_of(entry.name, listing.papers).title
        if only is not None and entry.name not in only:
            pages.append(_Page(entry, file, paper, None, ()))
            continue
        try:
            content = _content(entry, paper)
            pages.append(_Page(entry, file, paper, content, _samples_of(entry, [*content["names"]], damaged, raw)))
        except (Exception, SystemExit) as error:  # of any type: one file must not cost the others their page
            reason = f"{entry.place} cannot be shown ({type(error).__name__}: {' '.join(str(error).split())[:100]})"
            damaged.append(published.Damaged(entry.place, reason))
    return pages


def _samples_of(
    entry: Published, arms: Sequence[str], damaged: list[published.Damaged], raw: Callable[[str], sample_archive.Files]
) -> list[tuple[Run, sample_archive.Files]]:
    """The samples of its runs, in the order of the figure's arms; raw runs may have more than the archive."""
    try:
        archive = sample_archive.load(entry.place / sample_archive.NAME)
        if archive.sha256 != (entry.verdicts.samples_sha256 or ""):
            raise BadInput(
                f"{entry.place / sample_archive.NAME} is gone, or not the one that verdicts.json has the hash of. "
                f"Restore it (git checkout), or publish again: {entry.again}"
            )
    except NormbenchError as error:
        archive = sample_archive.SampleArchive()
        damaged.append(published.Damaged(entry.place, str(error)))
    return sorted(
        sample_archive.of_arms(entry.runs, raw, archive.runs.get),
        key=lambda pair: arms.index(pair[0].arm) if pair[0].arm in arms else len(arms),
    )


def _file_names(entries: Sequence[Published]) -> list[str]:
    """A file name per page, of ASCII letters; ambiguous names get a part of their hash."""
    names = [f"{'own/' if entry.own else ''}{entry.name}/{entry.fidelity}" for entry in entries]
    slugs = [re.sub(r"[^a-z0-9-]+", "-", name.replace("/", "-").lower()) for name in names]
    return [
        f"{slug}.html"
        if slug == name.replace("/", "-") and slugs.count(slug) == 1
        else f"{slug}-{hashlib.sha256(name.encode()).hexdigest()[:8]}.html"
        for name, slug in zip(names, slugs, strict=True)
    ]


def _write(
    folder: Path,
    results: Path,
    listing: _Listing,
    pages: Sequence[_Page],
    damaged: list[published.Damaged],
    before: Path,
) -> None:
    """Fill `folder`; pages that are not made are taken from the site `before`."""
    checks = _checks(results, pages, damaged)
    menu: dict[str, list[_Page]] = {}
    for page in pages:
        menu.setdefault(OWN if page.entry.own else page.paper, []).append(page)
    common = {"version": normbench.__version__, "menu": list(menu.items()), "checked": bool(checks)}
    titles = {page.file: page.entry.title for page in pages}

    def render(template: str, name: str, **values: Any) -> None:
        text = site.environment().get_template(template).render(**common, page=name, **values)
        (folder / name).write_text(text, encoding="utf-8")

    reasons = [d.reason.replace(f"{results}/", "") for d in damaged]  # without paths of this machine
    rows = _counted(pages)
    render("index.html", "index.html", **_index(pages, rows), damaged=reasons,
           contents=_contents(listing, pages))  # fmt: skip
    render("models.html", "models.html", models=_models())
    render("glossary.html", "glossary.html", glossary=glossary.WORDS)
    render("amendments.html", "amendments.html", papers=_amended(rows))
    if checks:
        render("checks.html", "checks.html", checks=checks, titles=titles)
    for place, page in enumerate(pages):
        downloads_folder = folder / Path(page.file).stem
        key = hashlib.sha256(f"{normbench.__version__} {page.entry.verdicts.sha256}".encode()).hexdigest()
        if page.content is None:
            if key in _text(before / page.file):
                shutil.copyfile(before / page.file, folder / page.file)
                shutil.copytree(before / downloads_folder.name, downloads_folder)
            else:
                render("later.html", page.file, entry=page.entry)
            continue
        downloads = _downloads(page.entry, downloads_folder)
        written = samples.put(page.samples, downloads_folder)
        render("artifact.html", page.file, **page.content, key=key, downloads=downloads, samples=written,
               pictures=samples.pictures(written), checks=[c for c in checks if c["page"] == page.file],
               others=[other for other in pages if other.entry.name == page.entry.name],
               related=_related(page, pages),
               before=pages[place - 1] if place else None,
               after=pages[place + 1] if place + 1 < len(pages) else None)  # fmt: skip


def _related(page: _Page, pages: Sequence[_Page]) -> list[_Page]:
    """Those of the same experiment, and those that either names under `see`; only a user's own lead to a user's own."""
    artifact, related = page.entry.artifact, []
    for other in pages:
        beside = other.entry.artifact
        if artifact is None or beside is None or beside.id == artifact.id or other.entry.own > page.entry.own:
            continue
        if beside.experiment == artifact.experiment or beside.id in artifact.see or artifact.id in beside.see:
            related.append(other)
    return related


def _checks(results: Path, pages: Sequence[_Page], damaged: list[published.Damaged]) -> list[dict[str, Any]]:
    """Comparisons with independent implementations, each with the page of the runs beside it, if these are published.

    A file that cannot be read is added to the damaged ones.
    """
    files = {page.entry.verdicts.pack_sha256: page.file for page in pages}
    checks = []
    for path in sorted((results / "check").glob("*.json")):
        try:
            check = reading.parse(reading.read(path, LARGEST))
            texts = {key: check[key] for key in ("title", "command", "versions", "summary", "pack_sha256")}
            numbers = ("ours", "mean", "low", "high")  # those that are not finite are stored by name
            rows = [row | {key: float(row[key]) for key in numbers} for row in check["rows"]]
            outside = [row for row in rows if row["judgement"].startswith("OUTSIDE")]
            page, unit = files.get(check["pack_sha256"], ""), check.get("unit", "epoch")
        except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
            damaged.append(published.Damaged(path, f"{path} cannot be read: run its script in scripts/check again"))
            continue
        checks.append({**texts, "id": path.stem, "rows": rows, "outside": outside, "page": page, "unit": unit})
    return checks


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


# --- the index -------------------------------------------------------------------------------------------------------


def _counted(pages: Sequence[_Page]) -> list[dict[str, Any]]:
    """The entries of all published claims, each once."""
    public = [page for page in pages if not page.entry.own]
    counted = {id(claim) for _, claim in once(page.entry.verdicts for page in public).values()}
    return [row for page in public for row in _claims(page) if id(row["text"].claim) in counted]


def _amended(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[Mapping[str, Any]]]]:
    """The entries of the amended claims, by paper."""
    papers: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["text"].amendments:
            papers.setdefault(row["paper"], []).append(row)
    return list(papers.items())


def _index(pages: Sequence[_Page], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    public = [page for page in pages if not page.entry.own]
    private = [page for page in pages if page.entry.own]
    counts = Counter(row["word"] for row in rows)
    fidelities = [row["fidelity"] for row in rows]
    return {
        "sources": list(dict.fromkeys(row["paper"] for row in rows if not row["ours"])),
        "papers": _by_paper(rows),
        "own": private,
        "own_papers": _by_paper([row for page in private for row in _claims(page)]),
        "words": [(word, counts[word]) for word in WORDS if counts[word]],
        "terms": glossary.words_of([row["text"].claim for row in rows], fidelities),
        "total": len(rows),
        "forests": _forests(rows),
        "expected_wrong": sum(
            page.entry.verdicts.expected_wrong or 0 for page in public if page.entry.fidelity == "paper"
        ),
    }


def _by_paper(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    papers = dict.fromkeys(row["paper"] for row in rows)
    return [(paper, _blocks([row for row in rows if row["paper"] == paper])) for paper in papers]


def _claims(page: _Page) -> list[dict[str, Any]]:
    """The index entries of the claims of one artifact."""
    entry = page.entry
    texts = [ClaimText.of(claim, entry.verdicts.amendments) for claim in entry.verdicts.claims]
    return [
        {
            "text": text, "search": _search_text(text, entry), "page": page.file, "fidelity": entry.fidelity,
            "paper": page.paper, "ours": text.claim.ours, "word": text.claim.word,
            "exact": text.claim.kind == "exact", "part": describe.deciding(text.claim),
        }
        for text in texts
    ]  # fmt: skip


def _search_text(text: ClaimText, entry: Published) -> str:
    """What a claim is found by beside what the index shows: its page's title, its quote, open choices, controls."""
    claim, artifact = text.claim, entry.artifact
    of_page = (entry.title, artifact.question) if artifact else (entry.title,)
    choices = [choice for c in artifact.claims if c.id == claim.id for choice in c.open] if artifact else []
    return " ".join([*of_page, claim.quote, claim.locator, text.besides, *choices, *text.controls])


def _blocks(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The paper's claims before ours, `paper` fidelity before lower ones; a few of each word unfolded, the rest folded.

    Folded: the word, whether some of it are unfolded, and the rows.

    If all claims of a source are computed, all are folded.
    """
    blocks = []
    computed = all(row["exact"] for row in rows)
    for ours, fidelity in product((False, True), FIDELITIES):
        of_block = [row for row in rows if (row["ours"], row["fidelity"]) == (ours, fidelity)]
        if not of_block:
            continue
        unfolded, folded = [], []
        for word in WORDS:
            group = sorted((row for row in of_block if row["word"] == word), key=_place)
            few = group[:OPEN] if word in DECIDED and not computed else []
            unfolded += few
            if rest := group[len(few) :]:
                folded.append((word, bool(few), rest))
        kind = ("hypothesis of our own", "hypotheses of our own") if ours else ("quoted claim", "quoted claims")
        blocks.append(
            {
                "ours": ours,
                "fidelity": fidelity,
                "meaning": FIDELITY_MEANING[fidelity],
                "tally": tally.describe([row["text"].claim for row in of_block], kind),
                "unfolded": unfolded,
                "folded": folded,
            }
        )
    return blocks


def _place(row: Mapping[str, Any]) -> tuple[bool, bool]:
    """Measured claims before computed ones, of either those first of which nothing is open."""
    return row["exact"], row["text"].news.startswith("half-")


def _forests(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[forest.Plot]]]:
    """One plot per fidelity and axis, with the deciding part of each claim."""
    forests = []
    for fidelity in FIDELITIES:
        effects = [(row, row["part"]) for row in rows if row["fidelity"] == fidelity and row["part"] is not None]
        if plots := [plot for plot in forest.plots(effects) if plot.ticks]:
            forests.append((fidelity, sorted(plots, key=lambda plot: -len(plot.rows))))
    return forests


def _contents(listing: _Listing, pages: Sequence[_Page]) -> list[dict[str, Any]]:
    """Every figure and table of the papers, with its pages or the command for it."""

    def entry(listed: Mapping[str, str]) -> dict[str, Any]:
        name = listed.get("artifact", "")
        of_artifact = [page for page in pages if page.entry.name == name and not page.entry.own]
        command = _command(listing.by_id[name]) if name and not of_artifact else ""
        return {"reason": "", "artifact": "", "model": "", **listed, "pages": of_artifact, "command": command}

    return [{"paper": paper.title, "entries": [*map(entry, paper.contents)]} for paper in listing.papers.values()]


def _command(artifact: Artifact) -> str:
    fidelity = artifacts.highest_fidelity(artifact)
    return artifact.command + ("" if fidelity == "paper" else f" --fidelity {fidelity}")


# --- an artifact's page ----------------------------------------------------------------------------------------------


def _content(entry: Published, paper: str) -> dict[str, Any]:
    artifact, runs = entry.artifact, entry.runs
    drawn = artifacts.draw(artifact, runs) if artifact else artifacts.Drawing()
    content = content_of(artifact, entry.verdicts, drawn)
    panels, entries = drawn.panels, content.entries
    everywhere = captions.coinciding_everywhere(panels)
    lines = [line for panel in panels for line in panel.lines]
    styles = {line.look.name: line.look for line in lines}
    return {
        "entry": entry,
        "content": content,
        "paper": paper,
        "meaning": FIDELITY_MEANING[entry.fidelity],
        "terms": glossary.words_of(entry.verdicts.claims, [entry.fidelity, *(e.note for e in entries)]),
        "claims": [_with_plots(text) for text in content.claims],
        "columns": max((len(row) for block in layout(panels) for row in block), default=0),
        "panels": [
            figures.drawing(_by_name(panel), "" if everywhere else captions.coinciding(panel)) for panel in panels
        ],
        "caption": captions.of_figure(panels),
        "arms": [(name, style, on_dark(style.colour)) for name, style in styles.items()],
        "names": {line.arm: line.look.name for line in reversed(lines)},
        "headline": tables.headline(entries) if entries else (),
        "tables": [(group, *tables.grid(entries, group)) for group in tables.groups(entries)],
        "runs": [_run(run) for run in sorted(runs, key=_order)],
        "environments": _environments(runs),
    }


def _by_name(panel: Panel) -> Panel:
    """The panel with arms by the name in the legend, which shows and hides all that share one."""
    return replace(panel, lines=[replace(line, arm=line.look.name) for line in panel.lines])


def _with_plots(text: ClaimText) -> dict[str, Any]:
    """A claim with its effects by axis."""
    parts = [part for parts in text.controls.values() for part in parts]
    return {
        "text": text,
        "plots": forest.plots((part, part.part) for part in text.parts),
        "reported": forest.plots((part, part.part) for part in text.reported),
        "controls": forest.plots((part, part.part) for part in parts),
        "runs": " ".join(text.claim.runs),
    }


def _order(run: Run) -> tuple[Any, ...]:
    return run.control, json.dumps(dict(run.axes), sort_keys=True, default=str), run.arm, run.seed, run.id


def _run(run: Run) -> dict[str, Any]:
    return {
        "id": run.id,
        "arm": run.arm,
        "where": ", ".join(text for text in (plan.place_text(run.axes), run.control) if text),
        "seed": run.seed,
        "status": run.status,
        "reason": run.reason,
        "epochs": run.epochs,
        "seconds": f"{run.seconds:,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}") if run.seconds else "",
    }


def _environments(runs: Iterable[Run]) -> list[tuple[str, int]]:
    """The environments of the runs, with the number of runs in each."""
    keys = ("torch", "python", "numpy", "instruction_set", "processor", "threads", "device")
    texts = [", ".join(f"{key} {run.environment[key]}" for key in keys if key in run.environment) for run in runs]
    return Counter(text for text in texts if text).most_common()


def _downloads(entry: Published, folder: Path) -> list[str]:
    names = [name for name in DOWNLOADS if (entry.place / name).is_file() and not (entry.place / name).is_symlink()]
    folder.mkdir()  # two levels at most: deeper packs would be taken for published ones
    for name in names:
        shutil.copyfile(entry.place / name, folder / name)
    return [f"{folder.name}/{name}" for name in names]


def _models() -> list[dict[str, Any]]:
    """Sites and layers of every model, as declared; a test holds the declarations to the built models."""
    models = []
    for name in compose.choices("model"):
        if compose.is_probe(name):
            continue
        declares = compose.declaration("model", name)
        models.append({"name": name, "layers": [], **declares})
    return models
