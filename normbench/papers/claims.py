"""What a paper's claims are made of: sentences, comparisons, endpoints; `claim_file` reads them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from normbench.config.plan import axis_text
from normbench.runs.record import LOSSES
from normbench.stats.series import CLOCKS

MODES = {  # of the records that an endpoint reads
    "eval": "evaluation mode", "train": "training mode", "running": "running mean", "stage": "after training",
    "along": "along training", "whole": "the whole split at the end",
}  # fmt: skip
LENGTHS = EQUAL, COMMON = "equal", "common"
Cell = Mapping[str, Any]
BEST = "best"  # of the runs that are compared


@dataclass(frozen=True)
class Endpoint:
    """One number per run; `claim_keys` has its kinds and keys.

    A relative level is that `share` of the way from the worst first value to the best value of the runs of one seed
    that are compared (`of` best), or of that in the cell `of` alone. Where one of the compared runs has not come
    `least` from its first value to its best it has hardly begun, and what it would reach is not known: a part that
    compares times, areas or chosen values is then not decidable.

    An exact part takes a `value`; of one that has seeds the other kinds make effects like of any endpoint.
    `log`: whether it is interpolated, and averaged, on its logarithm, as losses are; None: by its name. `trapezoid`:
    the area over steps that lie anywhere, in place of the mean over evaluations.
    """

    kind: str
    split: str = ""
    mode: str = "eval"
    metric: str = ""
    variant: str | None = None
    level: float | None = None
    share: float = 0.0
    of: Cell | str = ""
    least: float = 0.0
    better: str = "lower"
    key: str = ""
    epoch: str | int = ""
    clock: str = "epoch"
    log: bool | None = None
    trapezoid: bool = False

    @property
    def on_log(self) -> bool:
        return self.metric in LOSSES if self.log is None else self.log

    def __str__(self) -> str:
        if self.kind == "value":
            return self.key
        metric = "NLL" if self.metric == "nll" else self.metric
        mode = MODES[self.mode]
        where = f"{mode}, {self.variant}" if self.variant else mode
        if self.kind == "area":
            mean = "geometric mean" if self.on_log else "mean"
            over = "common steps" if self.trapezoid else "epochs"
            return f"{self.split} {metric}, {mean} over {over} ({where})"
        if self.kind == "chosen":
            when = {"best": "the best validation", "own": "its own best validation", "last": "the last epoch"}
            return f"{self.split} {metric} at {when.get(str(self.epoch), f'epoch {self.epoch}')} ({where})"
        if self.kind == "gain":
            return f"{self.split} {metric}, gain over the last {100 * (1 - self.share):g} % of updates ({where})"
        if self.kind == "final":
            return f"final {self.split} {metric} ({where})"
        whose = "them" if isinstance(self.of, str) else format_cell(self.of)
        level = f"{100 * self.share:g} % of the way to the best of {whose}" if self.of else f"{self.level:g}"
        return f"{CLOCKS[self.clock]} to {self.split} {metric} {level} ({where})"

    def quantity(self, names: Mapping[str, str]) -> str:
        """What a sentence calls it: `mean train NLL`; of a time the level alone."""
        names = {"nll": "NLL", **names}
        metric = f"{names.get(self.split, self.split)} {names.get(self.metric, self.metric)}"
        if self.kind == "value":
            return names.get(self.key, self.key.replace("_", " "))
        if self.kind == "time_to_level":
            whose = f" of {name_of(self.of, names)}" if not isinstance(self.of, str) else ""
            share = f"{100 * self.share:g} % of the way to the best {metric}{whose}"
            return share if self.of else f"{metric} {self.level:g}"
        if self.kind == "chosen" and self.epoch not in ("best", "own"):
            return f"{metric} at {'the last epoch' if self.epoch == 'last' else f'epoch {self.epoch}'}"
        return {"final": "final ", "area": "mean ", "gain": "late gain in "}.get(self.kind, "") + metric


@dataclass(frozen=True)
class Part:
    """One comparison: Σ weight · g(endpoint) over the cells of `contrast`, g by `scale`, in `unit`."""

    id: str
    kind: str
    endpoint: Endpoint
    contrast: tuple[tuple[float, Cell], ...]
    scale: str
    unit: str
    expect: str | None = None
    paper: float | None = None
    within: float | None = None
    band: float | None = None
    test: str = "t"
    delta: Mapping[str, Any] | None = None  # {is: a number or None, why: ...}, where it is not that of the rules
    value: float | None = None
    at_most: float | None = None
    at_least: float | None = None


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper with the parts that decide it and those that are only reported; keys as of `claim_keys`.

    The word at its setting is that of the claim where the settings of `controls` say the same.
    """

    id: str
    kind: str
    statement: str
    quote: str
    locator: str
    parts: tuple[Part, ...]
    reported: tuple[Part, ...] = ()
    open: tuple[str, ...] = ()
    controls: tuple[str, ...] = ()
    not_decidable: Mapping[str, str] = field(default_factory=dict)  # why, by fidelity
    unvaried: tuple[str, ...] = ()
    seeds: Mapping[str, range] = field(default_factory=dict)
    control_seeds: Mapping[str, Mapping[str, range]] = field(default_factory=dict)
    ours: bool = False
    added: tuple[int, int] | None = None
    beside: tuple[str, ...] = ()

    @property
    def computed(self) -> bool:
        """Whether a computation or a probe decides it, without training."""
        return bool(self.parts) and all(part.endpoint.kind == "value" for part in self.parts)

    def alone(self, fidelity: str, control: str = "") -> range | None:
        """The seeds that alone decide at this fidelity and setting ("" is the paper's); None: all that are planned."""
        return self.control_seeds.get(control, self.seeds).get(fidelity)


@dataclass(frozen=True)
class Artifact:
    """A figure or table of a paper. `claims_sha256` identifies its claims; `path`: its file; `config_dir`: where an
    artifact of one's own has its experiment, None of one shipped. `names`: what sentences call arms, variants, metrics
    and values of axes. `runs`, `length`: of claims about logged curves, which have no experiment.
    """

    id: str
    title: str
    locator: str
    experiment: str
    seeds: int
    deviations: Mapping[str, Sequence[str]]
    reference: Mapping[str, Any]
    amendments: tuple[Mapping[str, Any], ...]
    claims: tuple[Claim, ...]
    claims_sha256: str
    seen: int = 0
    question: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    path: Path = Path()
    config_dir: Path | None = None
    runs: tuple[str, ...] = ()
    length: str = EQUAL

    @property
    def command(self) -> str:
        """The command that brings it up to date."""
        return command(self.id, self.config_dir)

    @property
    def settings(self) -> tuple[str, ...]:
        """ "" for the paper's own, then the controls that claims name."""
        return tuple(dict.fromkeys(["", *(name for claim in self.claims for name in claim.controls)]))


def command(name: str, config_dir: Path | None) -> str:
    """The command that brings an artifact up to date; for a user's artifact with its folder."""
    words = ["normbench", "reproduce", name]
    return shlex.join([*words, "--config-dir", str(config_dir)] if config_dir else words)


def place_of(cell: Cell) -> Cell:
    """The cell without its variant: all variants of inference belong to one run."""
    return {key: value for key, value in cell.items() if key != "variant"}


def format_cell(cell: Cell) -> str:
    """'arm ln at train.batch_size 4' for `{"arm": "ln", "train.batch_size": 4}`."""
    arm = [f"arm {cell['arm']}"] if "arm" in cell else []
    axes = ", ".join(f"{key} {value}" for key, value in cell.items() if key != "arm")
    return " at ".join([*arm, axes] if axes else arm) or "any run"


def name_of(cell: Cell, names: Mapping[str, str]) -> str:
    """`BN with batch statistics at batch size 25`, with the names that the artifact gives."""
    keys = [f"{axis_text(key)} {value}" for key, value in cell.items() if key not in ("arm", "variant")]
    places = [names.get(key, f"at {key}") for key in keys]
    named = [names.get(str(cell[key]), str(cell[key])) for key in ("arm", "variant") if key in cell]
    return " ".join([*named, *places])


def compared(part: Part, names: Mapping[str, str]) -> dict[str, Any]:
    """The names for a sentence about a part: its `sides`, two of a difference of two cells, one of a single cell; what
    is measured, and where.

    Another contrast, and a value that a probe computed, has no sides: the part's id says what is compared.
    """
    end, weights = part.endpoint, [weight for weight, _ in part.contrast]
    pair = sorted(weights) == [-1, 1]
    cells = [cell for _, cell in sorted(part.contrast, key=lambda term: -term[0])] if pair or weights == [1] else []
    if end.kind == "value":
        cells = []
    places = [place_of(cell) for cell in cells]
    shared = {k: v for k, v in places[0].items() if k != "arm" and places[-1].get(k) == v} if cells else {}
    return {
        "sides": [name_of({k: v for k, v in cell.items() if k not in shared}, names) for cell in cells],
        "quantity": end.quantity(names),
        "place": ", ".join(filter(None, [name_of(shared, names), "in training mode" if end.mode == "train" else ""])),
        "scale": part.scale,
        "better": end.better if cells and (pair or end.kind == "gain") else "",
        "clock": CLOCKS[end.clock] if end.kind == "time_to_level" else "",
    }
