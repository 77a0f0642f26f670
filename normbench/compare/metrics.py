"""The metrics of a run: names, units, and whether higher is better."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from normbench.compare import configuration
from normbench.config import compose
from normbench.errors import NormbenchError
from normbench.files.stored import IMPORT
from normbench.runs.run import EVALUATED, LOSSES, PLACE, Run

NAMES = {"nll": "NLL"}
# of a metric that another program logged, by the last word of its name but for these: `mean_reward`, `loss_epoch`
LOWER = {"loss", "nll", "error", "err", "perplexity", "ppl"}
HIGHER = {"accuracy", "acc", "recall", "map", "bleu", "reward"}
PASSED_OVER = {"avg", "b", "epoch", "k", "mean", "step", "top"}


@dataclass(frozen=True)
class Metric:
    """A number that evaluations log. `share`: between 0 and 1, displayed in per cent; `rising`: higher is better, None
    where nothing says which way is: a scalar of one's own, or a model that is not known here. `loss`: its ratios
    matter: it has a logarithmic axis and is interpolated on its logarithm. `measured_in`: the declared unit.
    `guessed`: whether `rising` was guessed from the name."""

    name: str
    share: bool = False
    rising: bool | None = False
    loss: bool = False
    measured_in: str = ""
    guessed: bool = False

    @property
    def title(self) -> str:
        return NAMES.get(self.name, self.name)

    @property
    def better(self) -> str:
        """`higher`, `lower` or ""."""
        return "" if self.rising is None else "higher" if self.rising else "lower"

    @property
    def factor(self) -> float:
        """From the logged unit to the displayed one."""
        return 100.0 if self.share else 1.0

    @property
    def unit(self) -> str:
        return "%" if self.share else self.measured_in

    @property
    def step_unit(self) -> str:
        return "points" if self.share else ""


def logged(runs: list[Run]) -> dict[str, list[Metric]]:
    """The metrics of each split in evaluation mode, in the order in which the models declare them."""
    by_split: dict[str, dict[str, Metric]] = {}
    for run in runs:
        model, monitor = run.config.get("model", {}), run.monitor
        declares = configuration.declares("model", str(model.get("name", ""))) or model.get("declares") or {}
        mapped = run.config.get(IMPORT, {}).get("metrics", {})
        declared = (*(declares.get("metrics") or ()), monitor["metric"])
        order = {name: place for place, name in reversed([*enumerate(declared)])}
        keys: dict[str, set[str]] = {}
        for block in run.records.blocks:
            if block.mode in EVALUATED and not block.variant:
                logged_here = () if "order" in block.columns else block.columns
                keys.setdefault(block.split, set()).update({*logged_here} - {*PLACE})
        for split, names in keys.items():
            for name in sorted(names, key=lambda name: (order.get(name, len(order)), name)):
                goals = {**dict.fromkeys(declares.get("metrics", LOSSES), "min"), monitor["metric"]: monitor["goal"]}
                goals |= dict.fromkeys(declares.get("rising") or (), "max")
                rising = goals[name] == "max" if name in goals else None
                # what a foreign name means its map says
                loss = bool(mapped.get(name, {}).get("log")) if IMPORT in run.config else name in LOSSES
                unit = (declares.get("units") or {}).get(name, "")
                metric = Metric(name, name in (declares.get("shares") or ()), rising, loss, unit)
                by_split.setdefault(split, {}).setdefault(name, metric)
    return {split: list(metrics.values()) for split, metrics in by_split.items()}


def guessed(metric: Metric) -> Metric:
    """A metric without a declared direction, with the one that its name suggests, if any.

    >>> [guessed(Metric(name, rising=None)).better for name in ("val_loss", "metrics/mAP50-95(B)", "loss_scale")]
    ['lower', 'higher', '']
    """
    words = re.findall("[a-z]+", re.sub("(?<=[a-z])(?=[A-Z][a-z])", "_", metric.name).lower())
    last = next((word for word in reversed(words) if word not in PASSED_OVER), "")
    is_known = metric.rising is None and last in LOWER | HIGHER
    return replace(metric, rising=last in HIGHER, guessed=True) if is_known else metric


def declared(runs: Sequence[Run], config_dir: Path | None) -> list[Run]:
    """The runs with what a folder of one's own choices declares of their models now, which may have been corrected."""
    updated = []
    for run in runs:
        model = run.config.get("model", {})
        with contextlib.suppress(NormbenchError):
            facts = compose.declaration("model", str(model.get("name", "")), config_dir) if config_dir else {}
            run = replace(run, config={**run.config, "model": {**model, "declares": facts}}) if "file" in facts else run
        updated.append(run)
    return updated


def format_metric(split: str, name: str) -> str:
    """`valid NLL`."""
    return f"{split} {NAMES.get(name, name)}"


def chief(metrics: list[Metric]) -> Metric:
    """The default metric: the first share, since it needs no unit to be understood, else the first."""
    return next((metric for metric in metrics if metric.share), metrics[0])
