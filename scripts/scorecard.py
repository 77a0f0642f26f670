"""README's picture: what each of today's normalizers does to each network, from the published runs of ours/today, and
its average rank over the networks that have all of them.

`scripts/readme.py` writes it to docs/scorecard.svg. A cell has the difference to no normalization with its 95 %
interval over pairs of seeds; its colour is the word after Holm's correction within the network; it is hatched where
validation chose the lowest or the highest of the rates that were tried, for the normalizer or for none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from normbench.compare.difference import AHEAD, BEHIND, Difference, difference_of, judge
from normbench.papers.ours import today
from normbench.papers.rules_file import FEWEST, RULES
from normbench.runs import pack
from normbench.runs.run import Run
from normbench.stats.tasks import Standing, standing

ARTIFACT = "ours/today"
BASELINE = "none"
NORMS = [norm for norm in today.NORMS if norm != BASELINE]
COLUMNS = {  # task -> the lines above its column
    "mnist": ("MNIST", "MLP", "loss, 0.001 nats"),
    "imdb": ("IMDB", "RNN", "loss, 0.001 nats"),
    "recall": ("recall", "LSTM", "loss, 0.001 nats"),
    "captions": ("captions", "GRU", "R@10, points"),
    "lm": ("characters", "Transformer", "loss, 0.001 nats"),
    "vit": ("CIFAR-10", "Transformer", "loss, 0.001 nats"),
}
FACTORS = {"nll": 1000.0, "image_r10": 1.0}  # from the unit of a task to that of its column
SCALES = {"nll": "linear", "image_r10": "percent"}  # of the smallest effect in rules.yaml
BETTER, WORSE, NEGLIGIBLE, UNDECIDED = "better", "worse", "negligible", "undecided"

LEFT, NAMES, WIDTH, HEIGHT, TOP, BELOW = 8, 96, 112, 46, 74, 80  # pixels
NOTES = (
    "Difference to no normalization on test data, with its 95 % interval over 5 seeds; each at its own learning rate.",
    "Blue: better. Orange: worse. Dotted: too small to matter. Grey: undecided. Hatched: the rate is at an edge.",
)
RANKED = (
    "Rank of a run among one of each, averaged over networks, with its interval. "
    "No normalization has {:.1f}; 1 is best."
)
STYLE = """
text { font: 15px system-ui, sans-serif; fill: #1c1c1c; text-anchor: middle }
.left { text-anchor: start } .small { font-size: 12px } .bold { font-weight: 600 }
.card { fill: #ffffff }
.cell { fill: #eeeeee; stroke: #ffffff; stroke-width: 3 }
.better { fill: #b9d6f2 }
.worse { fill: #f6c9a8 }
.missing { fill: #fafafa }
.negligible { fill: #fafafa; stroke: #9a9a9a; stroke-width: 1.5; stroke-dasharray: 2 4 }
.edge { fill: url(#hatching) }
@media (prefers-color-scheme: dark) {
  text { fill: #ececec }
  .card { fill: #15181c }
  .cell { fill: #33363b; stroke: #15181c }
  .better { fill: #1f4f80 }
  .worse { fill: #86471b }
  .missing { fill: #1d2025 }
  .negligible { fill: #1d2025; stroke: #8a8f98 }
  .edge { fill: url(#hatching) }
  path { stroke: #ffffff }
}
"""
HATCHING = (
    '<defs><pattern id="hatching" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<path d="M0 0V8" stroke="#000000" stroke-opacity="0.13" stroke-width="2"/></pattern></defs>'
)


class Cell(NamedTuple):
    """A normalizer in a network: the difference to none and its interval in the column's unit, its word, and whether a
    rate is at an edge."""

    mean: float
    interval: tuple[float, float]
    word: str
    edge: bool


def scorecard(results: Path) -> str:
    """The picture as SVG."""
    width, height = 2 * LEFT + NAMES + WIDTH * (len(COLUMNS) + 1), TOP + HEIGHT * len(NORMS) + BELOW
    parts = [f'<rect class="card" width="{width}" height="{height}"/>']
    for row, norm in enumerate(NORMS):
        parts.append(_text(LEFT, TOP + HEIGHT * (row + 0.5) + 5, today.NORMS[norm], "left bold"))
    for column, (task, (data, *below)) in enumerate(COLUMNS.items()):
        x, cells = LEFT + NAMES + WIDTH * column, cells_of(task, results)
        parts.append(_text(x + WIDTH / 2, 20, data, "bold"))
        parts += [_text(x + WIDTH / 2, 38 + 18 * line, text, "small") for line, text in enumerate(below)]
        for row, norm in enumerate(NORMS):
            parts += _cell(x, TOP + HEIGHT * row, cells.get(norm))
    notes, ranks, x = [*NOTES], standings(results), width - LEFT - WIDTH
    if ranks:
        notes.append(RANKED.format(ranks[BASELINE].rank(ranks[BASELINE].share)))
        header = ("rank", f"of {len(ranks)}", f"over {ranks[BASELINE].tasks} networks")
        for line, text in enumerate(header):
            parts.append(_text(x + WIDTH / 2, 20 + 18 * line, text, "small" if line else "bold"))
        for row, norm in enumerate(NORMS):
            parts += _rank(x, TOP + HEIGHT * row, ranks[norm])
    parts += [_text(LEFT, height - 52 + 18 * line, text, "left small") for line, text in enumerate(notes)]
    start = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"'
    label = 'aria-label="What today\'s normalizers do to six networks"'
    return "\n".join([f"{start} {label}>", f"<style>{STYLE}</style>", HATCHING, *parts, "</svg>\n"])


def cells_of(task: str, results: Path) -> dict[str, Cell]:
    """By normalizer the cell of this network; none below five seeds on either side."""
    runs = _runs(task, results)
    baseline = _results(task, BASELINE, runs)
    values = {norm: _results(task, norm, runs) for norm in NORMS}
    norms = [norm for norm in NORMS if min(len(values[norm]), len(baseline)) >= FEWEST]
    rising = today.TASKS[task].sign < 0
    differences = [difference_of(values[norm], baseline, (norm, BASELINE), rising) for norm in norms]
    factor = FACTORS[today.TASKS[task].metric]
    cells = {}
    for norm, difference in zip(norms, judge(differences), strict=True):
        if difference.mean is not None and difference.interval is not None:
            low, high = difference.interval
            word, edge = _word(difference, smallest_effect(task)), _is_at_edge(task, norm, runs)
            cells[norm] = Cell(factor * difference.mean, (factor * low, factor * high), word, edge)
    return cells


def standings(results: Path) -> dict[str, Standing]:
    """Each normalizer, and none, against all others over the networks that have five seeds of each; {} below two."""
    norms, scores = [BASELINE, *NORMS], {}
    for task in COLUMNS:
        sign, runs = today.TASKS[task].sign, _runs(task, results)
        values = {norm: list(_results(task, norm, runs).values()) for norm in norms}
        scores[task] = {
            norm: [math.inf if value is None else sign * value for value in of_norm]
            for norm, of_norm in values.items()
            if len(of_norm) >= FEWEST
        }
    ranked = {norm: standing(scores, norm, [other for other in norms if other != norm]) for norm in norms}
    return {norm: of_norm for norm, of_norm in ranked.items() if of_norm and of_norm.tasks > 1}


def smallest_effect(task: str) -> float:
    """That of rules.yaml, below which an effect is negligible, in the unit of the task."""
    metric = today.TASKS[task].metric
    entries = (entry for entry in RULES["smallest_effects"] if metric in entry.get("metric", ()))
    entry = next(entry for entry in entries if SCALES[metric] in entry["scale"])
    return float(entry.get("data", {}).get(task, entry["is"]))


def _word(difference: Difference, smallest: float) -> str:
    if difference.interval and max(map(abs, difference.interval)) < smallest:
        return NEGLIGIBLE
    return {AHEAD: BETTER, BEHIND: WORSE}.get(difference.word, UNDECIDED)


def _runs(task: str, results: Path) -> Sequence[Run]:
    """Those of the fidelity at which this network is published."""
    for fidelity in ("reduced", "proxy"):
        runs = pack.read(results / ARTIFACT / fidelity / pack.NAME).runs
        if today.runs_of(runs, f"{task}-{BASELINE}"):
            return runs
    return []


def _results(task: str, norm: str, runs: Sequence[Run]) -> dict[int, float | None]:
    """The test result by seed; only seeds that no normalization has, because further ones belong to single claims."""
    seeds = {run.seed for run in today.runs_of(runs, f"{task}-{BASELINE}")}
    arm = [run for run in today.runs_of(runs, f"{task}-{norm}") if run.seed in seeds]
    return {run.seed: today.result(today.TASKS[task], run) for run in arm}


def _is_at_edge(task: str, norm: str, runs: Sequence[Run]) -> bool:
    for arm in (f"{task}-{norm}", f"{task}-{BASELINE}"):
        rate = today.rate_of(today.runs_of(runs, arm)[0])
        if today.edge(runs, arm, today.TASKS[task], rate):
            return True
    return False


def _cell(x: float, y: float, cell: Cell | None) -> list[str]:
    """Two lines on the colour of the word."""
    if cell is None:
        return [_box("missing", x, y), _text(x + WIDTH / 2, y + HEIGHT / 2 + 5, "not run", "small")]
    digits = max(0, 1 - math.floor(math.log10(cell.interval[1] - cell.interval[0])))
    mean, low, high = (_number(number, digits) for number in (cell.mean, *cell.interval))
    return [
        _box(cell.word, x, y),
        _box("edge", x, y) if cell.edge else "",
        _text(x + WIDTH / 2, y + 20, mean if cell.mean < 0 else f"+{mean}", "bold"),
        _text(x + WIDTH / 2, y + 37, f"{low} to {high}", "small"),
    ]


def _rank(x: float, y: float, ranked: Standing) -> list[str]:
    """The average rank, and what further seeds of these networks would say."""
    low, high = ranked.ranks(ranked.these)
    return [
        _box("missing", x, y),
        _text(x + WIDTH / 2, y + 20, f"{ranked.rank(ranked.share):.1f}", "bold"),
        _text(x + WIDTH / 2, y + 37, f"{low:.1f} to {high:.1f}", "small"),
    ]


def _number(number: float, digits: int) -> str:
    return f"{round(number, digits) + 0:.{digits}f}".replace("-", "\N{MINUS SIGN}")  # + 0: no -0


def _box(kind: str, x: float, y: float) -> str:
    classes = kind if kind == "edge" else f"cell {kind}"
    return f'<rect class="{classes}" x="{x:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}" rx="6"/>'


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{escape(text)}</text>'
