"""The files for readers that follow from an artifact's runs and their verdicts: its page, table and figure."""

from __future__ import annotations

import io
from collections.abc import Sequence

from normbench.draw import figure, tables
from normbench.draw.panels import Panel
from normbench.draw.tables import Entry
from normbench.papers import describe
from normbench.papers.artifact import Drawing
from normbench.papers.claims import Artifact
from normbench.papers.verdicts import Verdicts


def pages(artifact: Artifact, judged: Verdicts, drawn: Drawing) -> dict[str, bytes]:
    """By name; the figure, which each version of matplotlib draws otherwise, is not among them."""
    return {
        "table.md": _page(artifact, judged, drawn).encode(),
        "table.csv": tables.as_csv(drawn.entries).encode(),
    }


def figure_of(panels: Sequence[Panel]) -> bytes | None:
    """The SVG; None for an artifact that is a table alone."""
    if not panels:
        return None
    image = io.BytesIO()
    figure.figure(panels, image)
    return image.getvalue()


def _page(artifact: Artifact, judged: Verdicts, drawn: Drawing) -> str:
    """table.md: explanations, the numbers, the verdicts, the deviations and the command."""
    summary = describe.tally(judged.claims, named=True) if judged.claims else ""
    paragraphs = [
        artifact.question,
        drawn.caution,
        summary,
        *drawn.plainly,
        *drawn.explanation,
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
    controlled = next((claim for claim in judged.claims if claim.controls), None)
    if controlled:
        command = judged.control_command(controlled.id, controlled.controls[0].name)
        across += f"The runs of one control of one claim alone, for example: `{command}`\n\n"
    of_seeds = _describe_seeds(drawn.entries)
    wrong = judged.expected_wrong  # of computed numbers none
    by_chance = f"Expected number of these verdicts that are wrong by chance: at most {wrong:.3g}.\n\n" if wrong else ""
    named = "".join(f"- {e(name)}: {e(words)}\n" for name, words in drawn.meanings)
    meanings = f"Arms and controls, by the experiment {e(artifact.experiment)}:\n\n{named}\n" if named else ""
    deviations = "\n".join(f"- {e(text)}" for text in judged.deviations)
    amended: dict[tuple[str, str], list[str]] = {}
    for entry in judged.amendments:
        amended.setdefault((entry.change, entry.reason), []).append(entry.claim)
    amendments = "".join(
        f"- {e(', '.join(ids))}: {e(change)}. Why: {e(why)}\n" for (change, why), ids in amended.items()
    )
    return (
        f"# {artifact.title} · {judged.fidelity}\n\n{artifact.locator}.{of_seeds}\n\n"
        f"{words}{tables.markdown(drawn.entries)}\n"
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
