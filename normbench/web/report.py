"""`normbench report`: a static site from packs and verdicts alone; no clock, no network, the same bytes each time."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import normbench
from normbench.config import compose
from normbench.errors import NormbenchError
from normbench.papers import artifact as artifacts
from normbench.papers import published, table
from normbench.papers.claims import FIDELITIES
from normbench.papers.findings import findings
from normbench.papers.published import Published
from normbench.papers.rules import NEWS
from normbench.papers.style import on_dark
from normbench.runs import pack
from normbench.runs.record import RunRecord
from normbench.web import figures, forest, site

DOWNLOADS = ("figure.svg", "table.csv", "verdicts.json", pack.NAME)
FIDELITY_MEANING = {
    "paper": "the paper's protocol, sizes and data",
    "reduced": "same data and task, smaller size or budget: cannot say reproduced",
    "proxy": "other data standing in: never beside the paper's numbers",
    "smoke": "embedded data, seconds: shows that the machinery works, decides nothing about the paper",
}


@dataclass(frozen=True)
class Report:
    """Where the site lies, and lines about what could not be shown."""

    index: Path
    notes: Sequence[str]


def build(results: Path, target: Path | None = None) -> Report:
    """Write the whole site aside and put it in place at once; NormbenchError where it cannot be written.

    `target`: by default `results/report`; a folder that is not empty and not a report is left alone.
    """
    shown = results / "report" if target is None else target
    target = shown.resolve()
    if target.is_relative_to(results.resolve()) and target != results.resolve() / "report":
        raise NormbenchError(
            f"{target} lies among the results, where it would be read as one. Choose another --output."
        )
    notes: list[str] = []

    def write(folder: Path) -> None:
        found, damaged = _presentable(*published.collect(results))
        notes.extend(d.reason for d in damaged)
        _write(folder, results, found, damaged)

    site.put(target, write)
    return Report(shown / "index.html", notes)


def _presentable(
    found: Sequence[Published], damaged: Sequence[published.Damaged]
) -> tuple[list[Published], list[published.Damaged]]:
    """Those whose page can be made on its own: what nobody foresaw in one file must not cost the others their page."""
    good, bad = [], list(damaged)
    for entry in found:
        try:
            pages = _names([entry])
            common = {"version": "", "page": "", "downloads": [], "scorecards": _scorecards([entry], pages)}
            site.environment().get_template("artifact.html").render(**common, **_page(entry, [entry], pages))
            good.append(entry)
        except Exception as error:  # of whatever kind: it is named on the index
            reason = f"{entry.place} cannot be shown ({type(error).__name__}: {' '.join(str(error).split())[:100]})"
            bad.append(published.Damaged(entry.place, reason))
    return good, bad


def _names(found: Sequence[Published]) -> dict[int, str]:
    """A file name per page, of plain letters; names that would fall together get a piece of their hash."""
    plain = {id(p): f"{p.name}-{p.fidelity}".replace("/", "-") for p in found}
    slugs = {key: re.sub(r"[^a-z0-9-]+", "-", name.lower()) for key, name in plain.items()}
    taken = Counter(slugs.values())

    def unique(p: Published) -> str:
        slug = slugs[id(p)]
        if slug == plain[id(p)] and taken[slug] == 1:
            return f"{slug}.html"
        return f"{slug}-{hashlib.sha256(f'{p.name}/{p.fidelity}'.encode()).hexdigest()[:8]}.html"

    return {id(p): unique(p) for p in found}


def _write(folder: Path, results: Path, found: Sequence[Published], damaged: Sequence[published.Damaged]) -> None:
    pages_of = site.environment()
    pages = _names(found)
    common = {"version": normbench.__version__, "scorecards": _scorecards(found, pages)}

    def render(template: str, name: str, **values: Any) -> None:
        text = pages_of.get_template(template).render(**common, page=name, **values)
        (folder / name).write_text(text, encoding="utf-8")

    reasons = [d.reason.replace(f"{results}/", "") for d in damaged]  # where they lie here is nobody's business
    render("index.html", "index.html", summary=_summary(found), damaged=reasons, contents=_contents(found, pages),
           speed=_speed(results))  # fmt: skip
    render("models.html", "models.html", models=_models())
    for entry in found:
        name = pages[id(entry)]
        downloads = _downloads(entry, folder / Path(name).stem)
        render("artifact.html", name, **_page(entry, found, pages), downloads=downloads)


# --- the index -------------------------------------------------------------------------------------------------------


def _scorecards(found: Sequence[Published], pages: Mapping[int, str]) -> list[dict[str, Any]]:
    """One per fidelity that has results, each with its artifacts' claims and their marks on common scales."""
    cards = []
    for fidelity in FIDELITIES:
        own = [p for p in found if p.fidelity == fidelity]
        if not own:
            continue
        scale = forest.limits(part for p in own for claim in p.verdicts["claims"] for part in claim["parts"])
        cards.append(
            {
                "fidelity": fidelity,
                "meaning": FIDELITY_MEANING[fidelity],
                "artifacts": [
                    {"page": pages[id(p)], "title": p.title, "name": p.name,
                     "amended": {a["claim"] for a in p.verdicts["amendments"]},
                     "claims": [_row(claim, scale) for claim in p.verdicts["claims"]]}
                    for p in own
                ],
                "expected_wrong": sum(p.verdicts["expected_wrong"] or 0 for p in own),
                "marked": bool(scale),
                "directed": any(m for p in own for c in p.verdicts["claims"] for m in c["parts"] if m["expect"]),
                "scales": ", ".join(f"±{limit:g} {unit}" for unit, limit in scale.items()),
            }
        )  # fmt: skip
    return cards


def _row(claim: Mapping[str, Any], scale: Mapping[str, float]) -> dict[str, Any]:
    held = sum(part["word"] == "holds" for part in claim["parts"])
    computed = claim["kind"] == "exact" and claim["parts"]
    return {
        "claim": claim,
        "marks": [(part, forest.mark(part, scale)) for part in claim["parts"]],
        "computed": f"{held} of {len(claim['parts'])} computed numbers hold" if computed else "",
        "way_on": claim["way_on"].split(": ")[0],  # the command stands on the artifact's page
    }


def _summary(found: Sequence[Published]) -> list[tuple[str, int]]:
    """How many claims at paper fidelity have which verdict."""
    counts = Counter(c["verdict"] for p in found if p.fidelity == "paper" for c in p.verdicts["claims"])
    order = list(NEWS)

    def place(verdict: str) -> tuple[int, str]:
        first = (verdict.split() or [""])[0]
        return order.index(first) if first in order else len(order), verdict

    return sorted(counts.items(), key=lambda item: place(item[0]))


def _contents(found: Sequence[Published], pages: Mapping[int, str]) -> list[dict[str, Any]]:
    """Every figure and table of the papers, and what becomes of it."""
    listed = yaml.safe_load((artifacts.HERE / "contents.yaml").read_text(encoding="utf-8"))
    return [
        {
            "paper": artifacts.PAPERS[paper],
            "entries": [
                {
                    "needs": "", "reason": "", "artifact": "", "model": "", **entry,
                    "command": _command(entry["artifact"]) if "artifact" in entry else "",
                    "pages": [(p.fidelity, pages[id(p)]) for p in found if p.name == entry.get("artifact")],
                }
                for entry in entries
            ],
        }
        for paper, entries in listed.items()
    ]  # fmt: skip


def _command(name: str) -> str:
    fidelity = artifacts.highest_fidelity(artifacts.load(name))
    return f"normbench reproduce {name}" + ("" if fidelity == "paper" else f" --fidelity {fidelity}")


def _speed(results: Path) -> list[dict[str, Any]]:
    """The published benchmarks; one that cannot be read is left to whoever writes it."""
    tables: list[dict[str, Any]] = []
    for path in sorted((results / "bench").glob("*.json")):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            rows = [
                {"case": str(row["case"]), "goal": None if row["goal"] is None else float(row["goal"])}
                | {key: float(row[key]) for key in ("ratio", "low", "high")}
                for row in content["rows"]
            ]
            tables.append({key: str(content[key]) for key in ("title", "command", "machine")} | {"rows": rows})
        except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
            tables.append({"title": path.name, "command": "", "machine": "", "rows": [], "damaged": True})
    return tables


# --- an artifact's page ----------------------------------------------------------------------------------------------


def _page(entry: Published, found: Sequence[Published], pages: Mapping[int, str]) -> dict[str, Any]:
    verdicts = entry.verdicts
    scale = forest.limits(part for claim in verdicts["claims"] for part in published.parts(claim))
    claims = [
        {
            **_row(claim, scale),
            "reported": [(part, forest.mark(part, scale)) for part in claim["reported"]],
            "controls": [
                (control["name"], [(part, forest.mark(part, scale)) for part in control["parts"]])
                for control in claim["controls"]
            ],
            "amendments": [a for a in verdicts["amendments"] if a["claim"] == claim["id"]],
            "history": [e for e in entry.history if e["claim"] == claim["id"]],
        }
        for claim in verdicts["claims"]
    ]
    drawing = artifacts.drawing(entry.name) if entry.artifact else None
    panels = drawing.panels(entry.artifact, entry.runs) if drawing and entry.artifact else []
    entries = drawing.table(entry.artifact, entry.runs) if drawing and entry.artifact else []
    arms = {line.arm: line.look for panel in panels for line in panel.lines}
    return {
        "entry": entry,
        "paper": artifacts.PAPERS.get(entry.name.split("/")[0], ""),
        "locator": entry.artifact.locator if entry.artifact else "",
        "meaning": FIDELITY_MEANING[entry.fidelity],
        "others": [(p.fidelity, pages[id(p)]) for p in found if p.name == entry.name],
        "claims": claims,
        "findings": findings(verdicts),
        "words": artifacts.explanation(entry.artifact, entry.runs) if entry.artifact else [],
        "columns": len(dict.fromkeys(panel.column for panel in panels)),
        "panels": [
            {"title": panel.column, "quantity": panel.quantity.name, "count": panel.count(),
             "figure": figures.figure(panel) if panel.lines else None}
            for panel in panels
        ],
        "arms": [(arm, look, on_dark(look.colour)) for arm, look in arms.items()],
        "names": {arm: look.name for arm, look in arms.items()},
        "tables": [(group, *table.grid(entries, group)) for group in table.groups(entries)],
        "runs": [_run(run) for run in sorted(entry.runs, key=_order)],
        "environments": _environments(entry.runs),
    }  # fmt: skip


def _order(run: RunRecord) -> tuple[Any, ...]:
    return run.control, json.dumps(dict(run.axes), sort_keys=True, default=str), run.arm, run.seed, run.id


def _run(run: RunRecord) -> dict[str, Any]:
    axes = ", ".join(f"{key.rsplit('.', 1)[-1]} {value}" for key, value in run.axes.items())
    return {
        "id": run.id,
        "arm": run.arm,
        "where": ", ".join(text for text in (axes, run.control) if text),
        "seed": run.seed,
        "status": run.status,
        "reason": run.reason,
        "epochs": run.epochs,
        "seconds": f"{run.seconds:,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}") if run.seconds else "",
    }


def _environments(runs: Iterable[RunRecord]) -> list[tuple[str, int]]:
    """What the runs were made with, and how many each."""
    keys = ("torch", "python", "numpy", "instruction_set", "processor", "threads", "device")
    texts = [", ".join(f"{key} {run.environment[key]}" for key in keys if key in run.environment) for run in runs]
    return Counter(text for text in texts if text).most_common()


def _downloads(entry: Published, folder: Path) -> list[str]:
    names = [name for name in DOWNLOADS if (entry.place / name).is_file() and not (entry.place / name).is_symlink()]
    folder.mkdir()  # two levels down at most: deeper files would look like published ones to those who search
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
