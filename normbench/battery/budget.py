"""How long the trials of a battery take, learned from the runs that are done, and which of them fit into a time."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from normbench.battery.trials import Trial, specs_of
from normbench.config.spec import Spec
from normbench.launch import pace
from normbench.launch.run_missing import missing
from normbench.runs.table import Runs

START = 1.0  # seconds that a run takes beside its updates: data, the model
Times = Mapping[str, float | None]  # by a trial's name


@dataclass(frozen=True)
class Pace:
    """What the runs of these trials that are done say of those to come."""

    planned: Sequence[Trial]
    stored: Runs
    fidelity: str
    config_dir: Path | None
    processes: int

    def lacking(self, trial: Trial, tried: Collection[str] = ()) -> list[Spec]:
        """The runs of a trial to train, without those that were tried."""
        return [spec for spec in missing(specs_of([trial]), self.stored) if spec.id not in tried]

    def seconds(self) -> dict[str, float | None]:
        """How long the missing runs of each trial take, by its name; None where that is unknown.

        Each takes the median of the trial's runs that are done. Without any it takes what the experiment declares,
        times how much longer than declared those of its model took, else all that are done: machines differ.
        """
        taken = defaultdict[str, float](float)  # by model, and of all
        expected = defaultdict[str, float](float)
        for trial in self.planned:
            done, declared = self._done(trial), self._declared(trial)
            for key in (_model(trial), "") if done and declared else ():
                taken[key] += sum(done)
                expected[key] += (declared or 0.0) * len(done)
        times: dict[str, float | None] = {}
        for trial in self.planned:
            key = _model(trial) if _model(trial) in expected else ""
            one = statistics.median(done) if (done := self._done(trial)) else self._declared(trial)
            slower = taken[key] / expected[key] if expected and not done else 1.0
            runs = len(self.lacking(trial)) / self.processes
            times[trial.name] = None if one is None else one * slower * runs
        return times

    def portion(self, tried: Collection[str], left: float) -> list[Trial]:
        """The trials to train next: what fits into half of the time that is left, so that the rest is chosen at the
        pace of these; the first one alone where nothing is done yet."""
        untried = [trial for trial in self.planned if self.lacking(trial, tried)]
        times = self.seconds()
        fitting = within(untried, times, left / 2) or within(untried, times, left)[:1]
        return fitting if any(map(self._done, self.planned)) else fitting[:1]

    def _done(self, trial: Trial) -> list[float]:
        """The seconds of its runs that are done."""
        return [run.seconds for run in self.stored.find(specs_of([trial])) if run.seconds and run.steps]

    def _declared(self, trial: Trial) -> float | None:
        """The seconds of one run: the median of published ones, else as its experiment declares."""
        if not (specs := specs_of([trial])):
            return 0.0
        like = replace(specs[0], experiment=trial.experiment, fidelity=self.fidelity, axes=trial.axes)
        declared = pace.seconds([like], self.stored.published.values(), self.config_dir)
        return None if declared is None else declared + START


def _model(trial: Trial) -> str:
    return str(next((spec.config["model"]["name"] for spec in specs_of([trial])), ""))


def within(planned: Sequence[Trial], times: Times, budget: float) -> list[Trial]:
    """The trials that tell most in `budget` seconds, given the seconds of their missing runs by name.

    Each trial gives one answer, so the quickest are taken first; but a further setting of an experiment tells less than
    another experiment, so all first settings come before all second ones. A trial of unknown length is left out.
    """
    settings: Counter[str] = Counter()
    ranked = []
    known = [(needed, trial) for trial in planned if (needed := times[trial.name]) is not None]
    for needed, trial in sorted(known, key=lambda pair: pair[0]):
        ranked.append((settings[trial.experiment], needed, trial))
        settings[trial.experiment] += 1
    taken = []
    for _, needed, trial in sorted(ranked, key=lambda entry: entry[:2]):
        if needed <= budget:
            budget -= needed
            taken.append(trial)
    return taken
