"""`normbench report`: a static site from packs and verdicts alone; no clock, no network, the same bytes each time."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import normbench
from normbench.config import FIDELITIES, FIDELITY_MEANING, compose, plan
from normbench.draw import tables
from normbench.draw.style import on_dark
from normbench.errors import NormbenchError
from normbench.papers import artifact as artifacts
from normbench.papers import measured, published, sample_archive, stated
from normbench.papers.claims import Artifact
from normbench.papers.published import Published
from normbench.papers.rules import DECIDED, HOLDS, NEWS, UNDECIDED
from normbench.papers.summary import deciding, findings, tally, verb
from normbench.runs import pack
from normbench.runs import samples as raw_samples
from normbench.runs.record import RunRecord
from normbench.web import figures, forest, samples, site

DOWNLOADS = ("figure.svg", "table.csv", "verdicts.json", pack.NAME, sample_archive.NAME)
OPEN = 2  # claims of each word that the index tells unfolded
OWN = "Your own and smoke runs"


@dataclass(frozen=True)
class Report:
    """The site's index, and a line per file that could not be included."""

    index: Path
    notes: Sequence[str]


def build(results: Path, target: Path | None = None, config_dir: Path | None = None) -> Report:
    """Write the whole site to a temporary folder and move it to `target`; NormbenchError where it cannot be written.

    `target`: by default `results/report`; a folder that is not empty and not a report is refused. `config_dir`: a
    folder with the user's own artifacts.
    """
    place = results / "report" if target is None else target
    target = place.resolve()
    if target.is_relative_to(results.resolve()) and target != results.resolve() / "report":
        raise NormbenchError(
            f"{target} lies among the results, where it would be read as one. Choose another --output."
        )
    notes: list[str] = []

    def write(folder: Path) -> None:
        found, damaged = published.collect(results, config_dir)
        catalogue = _Catalogue.of(config_dir)
        entries = _presentable(found, catalogue, damaged, raw_samples.of_raw(results))
        try:
            _write(folder, results, catalogue, entries, damaged)
        except OSError:
            raise  # there is no writing here
        except Exception:  # of whatever kind: one file must not cost the others their page
            for place in folder.iterdir():
                if place.name not in (site.MARKER, "assets"):
                    shutil.rmtree(place) if place.is_dir() else place.unlink()
            _write(folder, results, catalogue, _alone(entries, damaged), damaged)
        notes.extend(d.reason for d in damaged)

    site.put(target, write)
    return Report(place / "index.html", notes)


@dataclass(frozen=True)
class _Catalogue:
    """All artifacts by id, and their papers."""

    by_id: Mapping[str, Artifact]
    papers: Mapping[str, artifacts.Paper]

    @classmethod
    def of(cls, config_dir: Path | None) -> _Catalogue:
        return cls(
            {name: artifacts.read(name, config_dir) for name in artifacts.ids(config_dir)}, artifacts.papers(config_dir)
        )

    def order(self, entry: Published) -> tuple[bool, int]:
        """Sort key: the order of the papers, then artifacts of no paper, then the user's own."""
        listed = [one.get("artifact") for paper in self.papers.values() for one in paper.contents]
        return entry.own, listed.index(entry.name) if entry.name in listed else len(listed)


@dataclass(frozen=True)
class _Shown:
    """One published artifact with the content of its page."""

    entry: Published
    content: Mapping[str, Any]
    samples: Sequence[tuple[RunRecord, sample_archive.Files]]


def _presentable(
    found: Sequence[Published],
    catalogue: _Catalogue,
    damaged: list[published.Damaged],
    raw: Callable[[str], sample_archive.Files],
) -> list[_Shown]:
    """Those whose content can be made, by paper; the others are added to the damaged ones."""
    good = []
    for entry in sorted(found, key=catalogue.order):
        with _noted(entry, damaged):
            content = _content(entry, catalogue.papers)
            good.append(_Shown(entry, content, _samples_of(entry, [*content["names"]], damaged, raw)))
    return good


def _samples_of(
    entry: Published, arms: Sequence[str], damaged: list[published.Damaged], raw: Callable[[str], sample_archive.Files]
) -> list[tuple[RunRecord, sample_archive.Files]]:
    """The samples of its runs, in the order of the figure's arms; raw runs may have more than the archive."""
    archive = sample_archive.Gallery()
    try:
        archive = sample_archive.load(entry.place / sample_archive.NAME)
        if archive.sha256 != entry.verdicts.get("samples_sha256", ""):
            raise NormbenchError(
                f"{entry.place / sample_archive.NAME} is gone, or not the one that verdicts.json has the hash of. "
                f"Restore it (git checkout), or publish again: {entry.again}"
            )
    except NormbenchError as error:
        archive = sample_archive.Gallery()
        damaged.append(published.Damaged(entry.place, str(error)))
    found = sample_archive.of_arms(entry.runs, raw, archive.runs.get)
    return sorted(found, key=lambda own: arms.index(own[0].arm) if own[0].arm in arms else len(arms))


def _alone(found: Sequence[_Shown], damaged: list[published.Damaged]) -> list[_Shown]:
    """Those whose page can be made on its own, where not all of them together could be."""
    good = []
    templates = site.environment()
    for shown in found:
        with _noted(shown.entry, damaged):
            pages = _names([shown])
            common = {"version": "", "page": "", "menu": _menu([shown], pages), "checked": False}
            page = _page(shown, [shown], pages) | {"downloads": [], "samples": [], "pictures": {}, "checks": []}
            templates.get_template("artifact.html").render(**common, **page)
            templates.get_template("index.html").render(
                **common, **_index([shown], pages), damaged=[], contents=[], without_runs=[]
            )
            good.append(shown)
    return good


@contextmanager
def _noted(entry: Published, damaged: list[published.Damaged]) -> Iterator[None]:
    """What nobody foresaw in one file, of whatever kind: it is named on the index."""
    try:
        yield
    except Exception as error:
        reason = f"{entry.place} cannot be shown ({type(error).__name__}: {' '.join(str(error).split())[:100]})"
        damaged.append(published.Damaged(entry.place, reason))


def _names(found: Sequence[_Shown]) -> dict[int, str]:
    """A file name per page, of ASCII letters; ambiguous names get a part of their hash."""
    full = {id(p.entry): f"{'own/' if p.entry.own else ''}{p.entry.name}/{p.entry.fidelity}" for p in found}
    names = {
        key: name.rpartition("/")[0].replace("/", "-") + "-" + name.rpartition("/")[2] for key, name in full.items()
    }
    slugs = {key: re.sub(r"[^a-z0-9-]+", "-", name.lower()) for key, name in names.items()}
    taken = Counter(slugs.values())

    def unique(key: int) -> str:
        slug = slugs[key]
        if slug == names[key] and taken[slug] == 1:
            return f"{slug}.html"
        return f"{slug}-{hashlib.sha256(full[key].encode()).hexdigest()[:8]}.html"

    return {key: unique(key) for key in full}


def _write(
    folder: Path, results: Path, catalogue: _Catalogue, found: Sequence[_Shown], damaged: Sequence[published.Damaged]
) -> None:
    templates = site.environment()
    pages = _names(found)
    packs = {p.entry.verdicts["pack_sha256"]: pages[id(p.entry)] for p in found}
    checks, benches = measured.checks(results, packs), measured.benches(results)
    common = {
        "version": normbench.__version__, "menu": _menu(found, pages), "checked": bool(checks or benches),
    }  # fmt: skip

    def render(template: str, name: str, **values: Any) -> None:
        text = templates.get_template(template).render(**common, page=name, **values)
        (folder / name).write_text(text, encoding="utf-8")

    reasons = [d.reason.replace(f"{results}/", "") for d in damaged]  # without paths of this machine
    render("index.html", "index.html", **_index(found, pages), damaged=reasons,
           contents=_contents(catalogue, found, pages), without_runs=_without_runs(catalogue, found))  # fmt: skip
    render("models.html", "models.html", models=_models())
    if checks or benches:
        titles = {pages[id(p.entry)]: p.entry.title for p in found}
        render("checks.html", "checks.html", checks=checks, benches=benches, titles=titles)
    for shown in found:
        name = pages[id(shown.entry)]
        own = folder / Path(name).stem
        downloads = _downloads(shown.entry, own)
        made = samples.put(shown.samples, own)
        render("artifact.html", name, **_page(shown, found, pages), downloads=downloads,
               samples=made, pictures=samples.pictures(made),
               checks=[check for check in checks if check.get("page") == name])  # fmt: skip


def _menu(found: Sequence[_Shown], pages: Mapping[int, str]) -> list[tuple[str, list[dict[str, str]]]]:
    """Every artifact's page, by paper."""
    papers: dict[str, list[dict[str, str]]] = {}
    for p in found:
        entry = {"title": p.entry.title, "fidelity": p.entry.fidelity, "page": pages[id(p.entry)]}
        papers.setdefault(OWN if p.entry.own else p.content["paper"], []).append(entry)
    return list(papers.items())


# --- the index -------------------------------------------------------------------------------------------------------


def _index(found: Sequence[_Shown], pages: Mapping[int, str]) -> dict[str, Any]:
    counted, own = ([p for p in found if p.entry.own == mine] for mine in (False, True))
    rows = [row for p in counted for row in _claims(p, pages[id(p.entry)])]
    counts = Counter(row["word"] for row in rows)
    order = [*NEWS, *counts]  # known words first
    return {
        "papers": _by_paper(rows),
        "own": [(p.entry.title, p.entry.fidelity, pages[id(p.entry)]) for p in own],
        "own_papers": _by_paper([row for p in own for row in _claims(p, pages[id(p.entry)])]),
        "words": sorted(counts.items(), key=lambda item: (order.index((item[0].split() or [""])[0]), item[0])),
        "total": len(rows),
        "forests": _forests(rows),
        "expected_wrong": sum(p.entry.verdicts["expected_wrong"] or 0 for p in counted if p.entry.fidelity == "paper"),
    }


def _by_paper(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    papers = dict.fromkeys(row["paper"] for row in rows)
    return [(paper, _blocks([row for row in rows if row["paper"] == paper])) for paper in papers]


def _without_runs(catalogue: _Catalogue, found: Sequence[_Shown]) -> list[tuple[str, int]]:
    """Title and number of claims of the artifacts without a page."""
    there = {p.entry.name for p in found if not p.entry.own}
    return [(one.title.split(" · ")[0], len(one.claims)) for one in catalogue.by_id.values() if one.id not in there]


def _claims(shown: _Shown, page: str) -> list[dict[str, Any]]:
    """The index entries of the claims of one artifact."""
    entry = shown.entry
    amended = {a["claim"] for a in entry.verdicts["amendments"]}
    return [
        {
            "claim": claim, "page": page, "title": entry.title.split(" · ")[0], "fidelity": entry.fidelity,
            "paper": shown.content["paper"], "ours": bool(claim.get("ours")), "word": _word(claim),
            "amended": claim["id"] in amended, "exact": claim["kind"] == "exact", "part": deciding(claim),
            "computed": _computed(claim), "failing": [p for p in claim["parts"] if p["word"] != HOLDS],
            "way_on": claim["way_on"].split(": ")[0],  # the command is on the artifact's page
        }
        for claim in entry.verdicts["claims"]
    ]  # fmt: skip


def _word(claim: Mapping[str, Any]) -> str:
    """The first word of the verdict, whole where it is two."""
    first = (claim["verdict"].split() or [""])[0]
    return first if first in NEWS and NEWS[first] != "none" else claim["setting"]


def _computed(claim: Mapping[str, Any]) -> str:
    held = sum(part["word"] == "holds" for part in claim["parts"])
    return (
        f"{held} of {len(claim['parts'])} computed numbers hold" if claim["kind"] == "exact" and claim["parts"] else ""
    )


def _blocks(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The paper's claims before ours, `paper` fidelity before lower ones; a few of each word unfolded, the rest folded.

    If all claims of a source are computed, all are folded.
    """
    blocks = []
    computed = all(row["exact"] for row in rows)
    for ours, fidelity in product((False, True), FIDELITIES):
        own = [row for row in rows if (row["ours"], row["fidelity"]) == (ours, fidelity)]
        if not own:
            continue
        unfolded, folded = [], []
        for word in dict.fromkeys([*DECIDED, UNDECIDED, *(row["claim"]["setting"] for row in own)]):
            group = sorted((row for row in own if row["claim"]["setting"] == word), key=lambda row: bool(row["exact"]))
            few = group[:OPEN] if word in DECIDED and not computed else []
            unfolded += few
            if rest := group[len(few) :]:
                folded.append((f"{len(rest)}{' more' if few else ''} {verb(word, len(rest))}", rest))
        kind = ("hypothesis of our own", "hypotheses of our own") if ours else ("quoted claim", "quoted claims")
        blocks.append(
            {
                "ours": ours,
                "fidelity": fidelity,
                "meaning": FIDELITY_MEANING[fidelity],
                "tally": tally([row["claim"] for row in own], kind),
                "unfolded": unfolded,
                "folded": folded,
            }
        )
    return blocks


def _forests(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[tuple[Any, Any]]]]:
    """One plot per fidelity and unit, with the deciding part of each claim."""
    forests = []
    for fidelity in FIDELITIES:
        own = [row for row in rows if row["fidelity"] == fidelity and row["part"] is not None]
        scale = forest.limits(row["part"] for row in own)
        marked = [(row, forest.mark(row["part"], scale)) for row in own]
        plots = forest.by_axis((row, mark) for row, mark in marked if mark)
        if plots:
            forests.append((fidelity, sorted(plots, key=lambda plot: -len(plot[1]))))
    return forests


def _contents(catalogue: _Catalogue, found: Sequence[_Shown], pages: Mapping[int, str]) -> list[dict[str, Any]]:
    """Every figure and table of the papers, with its pages or the command for it."""

    def entry(listed: Mapping[str, str]) -> dict[str, Any]:
        name = listed.get("artifact", "")
        own = [(p.entry.fidelity, pages[id(p.entry)]) for p in found if p.entry.name == name and not p.entry.own]
        command = _command(catalogue.by_id[name]) if name and not own else ""
        return {"reason": "", "artifact": "", "model": "", **listed, "pages": own, "command": command}

    return [
        {"paper": paper.title, "entries": [entry(one) for one in paper.contents]} for paper in catalogue.papers.values()
    ]


def _command(artifact: Artifact) -> str:
    fidelity = artifacts.highest_fidelity(artifact)
    return artifact.command + ("" if fidelity == "paper" else f" --fidelity {fidelity}")


# --- an artifact's page ----------------------------------------------------------------------------------------------


def _page(shown: _Shown, found: Sequence[_Shown], pages: Mapping[int, str]) -> dict[str, Any]:
    """The content of a page with links: the same artifact at other fidelities, the previous and the next page."""
    place = next(i for i, p in enumerate(found) if p is shown)
    return {
        **shown.content,
        "others": [(p.entry.fidelity, pages[id(p.entry)]) for p in found if p.entry.name == shown.entry.name],
        "before": _neighbour(found[place - 1], pages) if place else None,
        "after": _neighbour(found[place + 1], pages) if place + 1 < len(found) else None,
    }


def _neighbour(shown: _Shown, pages: Mapping[int, str]) -> tuple[str, str]:
    return shown.entry.title.split(" · ")[0], pages[id(shown.entry)]


def _content(entry: Published, papers: Mapping[str, artifacts.Paper]) -> dict[str, Any]:
    verdicts = entry.verdicts
    scale = forest.limits(part for claim in verdicts["claims"] for part in published.parts(claim))
    claims = [
        {
            "claim": claim,
            "marks": [(part, forest.mark(part, scale)) for part in claim["parts"]],
            "computed": _computed(claim),
            "reported": [(part, forest.mark(part, scale)) for part in claim["reported"]],
            "controls": [
                (control["name"], [(part, forest.mark(part, scale)) for part in control["parts"]])
                for control in claim["controls"]
            ],
            "amendments": [
                (a["change"], stated.reason(a)) for a in verdicts["amendments"] if a["claim"] == claim["id"]
            ],
            "history": [e for e in entry.history if e["claim"] == claim["id"]],
        }
        for claim in verdicts["claims"]
    ]
    panels = artifacts.panels(entry.artifact, entry.runs) if entry.artifact else []
    entries = artifacts.drawing(entry.artifact).table(entry.artifact, entry.runs) if entry.artifact else []
    arms = {line.arm: line.look for panel in panels for line in panel.lines}
    return {
        "entry": entry,
        "paper": artifacts.paper_of(entry.name, papers).title,
        "locator": entry.artifact.locator if entry.artifact else "",
        "meaning": FIDELITY_MEANING[entry.fidelity],
        "claims": claims,
        "ids": [claim["id"] for claim in verdicts["claims"]],
        "findings": [artifacts.caution(entry.artifact, entry.runs) if entry.artifact else "", *findings(verdicts)],
        "words": artifacts.explanation(entry.artifact, entry.runs) if entry.artifact else [],
        "meanings": artifacts.meanings(entry.artifact, entry.runs) if entry.artifact else [],
        "columns": len(dict.fromkeys(panel.column for panel in panels)),
        "panels": [
            {"title": panel.column, "quantity": panel.quantity.name, "count": panel.count(),
             "figure": figures.figure(panel) if panel.lines else None}
            for panel in panels
        ],
        "arms": [(arm, look, on_dark(look.colour)) for arm, look in arms.items()],
        "names": {arm: look.name for arm, look in arms.items()},
        "tables": [(group, *tables.grid(entries, group)) for group in tables.groups(entries)],
        "runs": [_run(run) for run in sorted(entry.runs, key=_order)],
        "environments": _environments(entry.runs),
    }  # fmt: skip


def _order(run: RunRecord) -> tuple[Any, ...]:
    return run.control, json.dumps(dict(run.axes), sort_keys=True, default=str), run.arm, run.seed, run.id


def _run(run: RunRecord) -> dict[str, Any]:
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


def _environments(runs: Iterable[RunRecord]) -> list[tuple[str, int]]:
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
