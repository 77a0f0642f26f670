"""The runs of a battery: Table 1's probe, and every experiment with the new normalizer in place of its arms."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from normbench.config import compose, grammar, plan
from normbench.config.spec import Spec
from normbench.errors import NormbenchError, unknown
from normbench.norms.sites import least_eps

OPPONENTS = ("layer", "batch", "none")
TABLE1 = "ln2016/table1"


@dataclass
class Trial:
    """One experiment at one value of its axes: the runs of each normalizer by name, or why it cannot take part."""

    experiment: str
    title: str
    axes: Mapping[str, Any]
    specs: dict[str, list[Spec]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    # options that a normalizer needs inside a time loop, if not shipped
    changed: dict[str, str] = field(default_factory=dict)

    @property
    def where(self) -> str:
        return plan.place_text(self.axes)

    @property
    def name(self) -> str:
        """`ln2016/fig6 · batch size 4`."""
        return f"{self.experiment} · {self.where}" if self.where else self.experiment


def specs_of(planned: Sequence[Trial]) -> list[Spec]:
    """All runs of these trials, without duplicates."""
    every = itertools.chain.from_iterable(specs for trial in planned for specs in trial.specs.values())
    return list({(spec.id, spec.steps): spec for spec in every}.values())


def contestants(name: str) -> list[str]:
    """The normalizer itself first, then those it is compared with."""
    return [name, *(other for other in OPPONENTS if other != name)]


def table1(name: str, config_dir: Path | None) -> dict[str, Spec | str]:
    """The probe of LN Table 1 for each contestant, with the smallest possible eps; or why one cannot take part."""
    base = plan.experiment(TABLE1).base
    specs: dict[str, Spec | str] = {}
    for norm in contestants(name):
        declares, node = compose.declaration("norm", norm, config_dir), compose.choice("norm", norm, config_dir)
        small = [f"norm.{key}={value}" for key, value in least_eps(declares.get("options") or {}, node).items()]
        try:
            config = compose.compose(grammar.parse([*base, f"norm={norm}", *small]), config_dir)
            specs[norm] = _spec(config, norm, {}, config_dir)
        except NormbenchError as refusal:
            specs[norm] = str(refusal)
    return specs


def trials(
    name: str, fidelity: str, seeds: int, only: Sequence[str], config_dir: Path | None
) -> tuple[list[Trial], list[str]]:
    """Every experiment that trains and has this fidelity, at the normalizers' shipped options and the model's sites.

    Each like the experiment's arm `none`, with another normalizer in its place; without such an arm, with the settings
    of all arms. Second: lines about the experiments left out.
    """
    experiments = [other for other in compose.choices("experiment", config_dir) if not _is_probe(other, config_dir)]
    for word in only:
        if word not in (*experiments, TABLE1):
            raise unknown(
                f"--only {word} is no experiment of the battery.", word, [TABLE1, *experiments], "--dry-run lists all"
            )
    planned, left_out = [], []
    experiment_of: dict[tuple[str, ...], str] = {}  # the ids of a trial's runs, and their experiment
    for experiment in experiments:
        if only and experiment not in only:
            continue
        node = plan.experiment(experiment, config_dir)
        if fidelity not in node.fidelities:
            left_out.append(f"{experiment} has no fidelity {fidelity}: left out")
            continue
        for values in itertools.product(*node.axes.values()):
            axes = dict(zip(node.axes, values, strict=True))
            trial = Trial(experiment, node.title, axes)
            for norm in contestants(name):
                if name not in trial.refused:  # without it there is nothing to compare
                    _add_runs(trial, norm, fidelity, seeds, config_dir)
            ids = tuple(spec.id for specs in trial.specs.values() for spec in specs)
            if ids and ids in experiment_of:
                title = " at ".join(filter(None, [experiment, trial.where]))
                left_out.append(f"{title} would be the runs of {experiment_of[ids]} once more: left out")
                continue
            experiment_of[ids] = experiment
            planned.append(trial)
    return planned, left_out


def _add_runs(trial: Trial, norm: str, fidelity: str, seeds: int, config_dir: Path | None) -> None:
    """Add runs as shipped, or, if refused, with the options that the normalizer needs inside a time loop."""
    axes = [f"{key}={value}" for key, value in trial.axes.items()]
    needed = compose.declaration("norm", norm, config_dir).get("state") or {}
    attempts = [{}, needed] if needed else [{}]
    for attempt in attempts:
        options = [f"norm.{key}={value}" for key, value in attempt.items()]
        try:
            trial.specs[norm] = [
                _spec(
                    plan.config_without_arm(
                        trial.experiment, fidelity, [*axes, f"norm={norm}", *options, f"seed={seed}"], config_dir
                    ),
                    norm,
                    trial.axes,
                    config_dir,
                    fidelity if fidelity == "smoke" else plan.ADHOC,  # by which they are told from one's own sweeps
                )
                for seed in range(1, seeds + 1)
            ]
        except NormbenchError as refusal:
            trial.refused.setdefault(norm, str(refusal))
            continue
        trial.refused.pop(norm, None)
        if options:
            trial.changed[norm] = " ".join(options)
        return


def _spec(
    config: compose.Config, norm: str, axes: Mapping[str, Any], config_dir: Path | None, fidelity: str = plan.ADHOC
) -> Spec:
    return plan.resolved(config, plan.ADHOC, norm, fidelity, axes=axes, config_dir=config_dir)


def _is_probe(experiment: str, config_dir: Path | None) -> bool:
    model = plan.model_of(experiment, config_dir)
    return bool(model) and compose.is_probe(model, config_dir)
