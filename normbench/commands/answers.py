"""What `--json` prints, by command: for the tests, and for docs/keys.md. No command imports it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from normbench.config.validation import Model, Number
from normbench.papers.verdict_keys import Change

Numbers = list[Number] | None


class Entry(Model):
    """`list`: an entry of a kind."""

    id: str = Field(description="its name")
    title: str = Field(description="in words")
    source: str = Field(default="", description="where it is from")
    sites: list[str] = Field(default=[], description="of a model: where a normalizer may be")


class RunState(Model):
    """A run, in the answers of `train` and `status`."""

    id: str = Field(description="empty of a folder that cannot be read")
    label: str = Field(description="what tells it from the others")
    seed: int = Field(description="of the run")
    status: str = Field(description="done, diverged, running, queued, interrupted, failed, refused, damaged or missing")
    steps: int | None = Field(description="updates")
    reason: str = Field(description="why it is not done")
    path: str | None = Field(description="its directory")


class StoredRun(RunState):
    """A run of the raw store, in the answer of `status`."""

    experiment: str = Field(description="adhoc without one")
    arm: str = Field(description="of the experiment")
    step: int = Field(description="the last evaluated update")
    seconds_left: Number | None = Field(default=None, description="of a running one")


class Status(Model):
    """`status`."""

    runs: list[StoredRun] = Field(description="stored or queued")
    notes: list[str] = Field(description="what is not known")


class Trained(Model):
    """`train`, also with -m --dry-run."""

    runs: list[RunState] = Field(description="that were asked for")


class Configurations(Model):
    """`train --cfg job`."""

    configurations: list[dict[str, Any]] = Field(description="of each run")


class Shown(Model):
    """`show`."""

    id: str = Field(description="of the run")
    status: str = Field(description="done, diverged, running, interrupted, failed or damaged")
    reason: str = Field(description="why it is not done")
    log: str | None = Field(default=None, description="the file with a traceback")
    steps: int = Field(description="updates")
    began: str | None = Field(default=None, description="when")
    experiment: str = Field(description="adhoc without one")
    arm: str = Field(description="of the experiment")
    seed: int = Field(description="of the run")
    fidelity: str = Field(description="of the experiment")
    axes: dict[str, Any] = Field(description="values of the experiment's axes")
    control: str = Field(description="empty: the paper's setting")
    source: str = Field(description="its directory, or the pack")
    config: dict[str, Any] = Field(description="its configuration")
    environment: dict[str, Any] = Field(description="where it was trained")
    records: int = Field(description="of its curve")
    curve_sha256: str = Field(description="of its curve")
    was: Any = Field(default=None, description="its labels, where these were others")
    last: list[dict[str, Any]] = Field(description="the last records")


class Cut(Model):
    """`updates` of the answer of `rerun`."""

    compared: int = Field(description="updates that were repeated")
    of: int = Field(description="updates of the run")


class Rerun(Model):
    """`rerun`."""

    id: str = Field(description="of the run")
    word: str = Field(description="to the byte, rounding, chaotic ..., or different: the worst of the metrics")
    deterministic: bool = Field(description="false: the same environment gave another curve")
    ended: list[str] = Field(description="status then and now")
    environment: dict[str, dict[str, Any]] = Field(description="what is another: `then` and `now`")
    unrecorded: list[str] = Field(description="what was not recorded then")
    seeds: list[int] = Field(description="of the runs that the spread is of")
    level: Number = Field(description="of each prediction interval")
    bound: Number = Field(description="the largest relative difference that rounding explains")
    first: dict[str, Any] | None = Field(description="the first difference")
    metrics: list[dict[str, Any]] = Field(description="of each split, mode and metric: word and largest difference")
    updates: Cut = Field(description="how much was compared")


class Difference(Model):
    """Two arms."""

    first: str = Field(description="an arm")
    second: str = Field(description="the other")
    paired: bool = Field(description="by equal seeds, else Welch's interval")
    n: int = Field(description="seeds or pairs")
    mean: Number | None = Field(description="first minus second")
    interval: Numbers = Field(description="of the difference, 95 %")
    p: Number | None = Field(description="unadjusted")
    holm: Number | None = Field(description="adjusted for all pairs of the table")
    word: str = Field(description="ahead, behind, undecided, ...")
    why: str = Field(description="in words")
    detectable: Number | None = Field(description="the effect that so many seeds show")
    needed: int | None = Field(description="seeds that this effect needs")
    text: str = Field(description="as printed")


class Group(Model):
    """Arms that are compared: a table."""

    place: str = Field(description="the value of the facets")
    tuned: bool = Field(description="each arm at its own best learning rate")
    winner: str | None = Field(description="ahead of every other arm")
    sentence: str = Field(description="as printed")
    rows: list[dict[str, Any]] = Field(description="of each arm: numbers by seed, mean, interval")
    pairs: list[Difference] = Field(description="each arm against each other")


class Compared(Model):
    """`compare`: an entry for each task."""

    task: dict[str, str] = Field(description="key and title")
    question: dict[str, Any] = Field(description="split, metric, at, by, against, level, unit")
    heading: str = Field(description="as printed")
    sentence: str = Field(description="as printed")
    groups: list[Group] = Field(description="the tables")
    notes: list[str] = Field(description="what to mind")
    beside: list[dict[str, Any]] = Field(description="numbers of the papers and their authors")


class ClaimVerdict(Model):
    """A claim in the answer of `reproduce`."""

    id: str = Field(description="its name")
    verdict: str = Field(description="as in verdicts.json, which has the evidence")
    n: int = Field(description="seeds")


class Reproduced(Model):
    """An artifact in the answer of `reproduce`."""

    id: str = Field(description="PAPER/NAME")
    fidelity: str = Field(description="of the runs")
    runs: int = Field(description="that were planned")
    error: str = Field(description="why it was left out")
    done: int = Field(default=0, description="of these runs")
    missing: list[str] = Field(default=[], description="ids of the runs that were to be trained")
    failures: list[str] = Field(default=[], description="why runs failed")
    claims: list[ClaimVerdict] = Field(default=[], description="without --dry-run")
    decided: int = Field(default=0, description="claims with a verdict")
    decided_before: int = Field(default=0, description="before this command")
    files: dict[str, str] = Field(default={}, description="figure, table, verdicts")


class Reproduction(Model):
    """`reproduce`."""

    artifacts: list[Reproduced] = Field(description="that were asked for")
    report: str | None = Field(description="the page of the results")


class ExperimentOutlook(Model):
    """An experiment in the answer of `battery --dry-run`."""

    experiment: str = Field(description="PAPER/NAME")
    axes: dict[str, Any] = Field(description="its setting")
    runs: int = Field(description="of all normalizers")
    missing: int = Field(description="of these runs")
    seconds: float | None = Field(description="that the missing runs take, if known")
    taken: bool = Field(description="within --budget")
    decided: str = Field(description="when the comparisons become decided")
    refused: dict[str, str] = Field(description="why a normalizer takes no part")


class Counted(Model):
    """In how many experiments a normalizer has each word against an opponent."""

    better: int = Field(description="significantly better after Holm's correction for all experiments")
    worse: int = Field(description="significantly worse")
    undecided: int = Field(description="neither")
    not_yet: int = Field(description="fewer than five seeds, or neither side is better than before training")


class BatteryComparison(Model):
    """A normalizer against an opponent in one experiment, paired by seed."""

    quantity: str = Field(description="the metric, at the last evaluation")
    against: str = Field(description="the opponent")
    word: Literal["better", "worse", "undecided", "not yet"] = Field(description="as counted in `answer`")
    why: str = Field(description="the reason for no decision")
    unit: str = Field(description="points, log ratio or difference")
    better: Literal["lower", "higher"] = Field(description="which values are better")
    effect: float | None = Field(description="the normalizer's mean less the opponent's; null where not yet")
    interval: tuple[float, float] | None = Field(description="of the effect, 95 %")
    p: float | None = Field(description="after Holm's correction")
    n: int = Field(description="pairs of seeds")
    lost: int = Field(description="runs that diverged")
    needed: int | None = Field(description="seeds that would show the effect; 0: more than 60")


class BatteryTrial(Model):
    """One experiment in a setting."""

    experiment: str = Field(description="PAPER/NAME")
    axes: dict[str, Any] = Field(description="its setting")
    refused: dict[str, str] = Field(description="why a normalizer takes no part")
    changed: dict[str, str] = Field(description="options that a normalizer needs there")
    failed: dict[str, str] = Field(description="why runs of a normalizer failed")
    runs: dict[str, list[str]] = Field(description="ids by normalizer")
    comparisons: list[BatteryComparison] = Field(description="one for each opponent")
    cost: dict[str, dict[str, float]] = Field(description="by normalizer: ms per update, ratio to none [low, high]")


class BatteryNumbers(Model):
    """battery.json."""

    schema_: Literal[2] = Field(alias="schema", description="the form of this file")
    norm: str = Field(description="the normalizer")
    fidelity: str = Field(description="of the runs")
    command: str = Field(description="that makes it again")
    promises: list[str] = Field(description="of the contract, all of which hold")
    measured: dict[str, str] = Field(description="facts that no YAML declares, with their numbers")
    table1: dict[str, dict[str, str]] = Field(description="LN Table 1 by normalizer")
    answer: dict[str, Counted] = Field(description="by opponent")
    trials: list[BatteryTrial] = Field(description="the most important first")


class Battery(Model):
    """`battery`."""

    norm: str = Field(description="the normalizer")
    runs: int = Field(description="that were planned")
    missing: list[str] = Field(description="with --dry-run: ids of the runs that would be trained")
    outlook: list[ExperimentOutlook] = Field(default=[], description="with --dry-run")
    failures: list[str] = Field(default=[], description="why runs failed")
    page: str | None = Field(default=None, description="the page of the results")
    numbers: BatteryNumbers | None = Field(default=None, description="the content of battery.json")


class CheckFinding(Model):
    """A finding of `check`."""

    kind: str = Field(description="damage, missing, id, ... (normbench check --help)")
    place: str = Field(description="the file or folder")
    text: str = Field(description="the problem and the remedy")
    harmless: bool = Field(description="no damage")


class Check(Model):
    """`check`."""

    whole: bool = Field(description="nothing is damaged")
    findings: list[CheckFinding] = Field(description="damage and notes")
    checked: dict[str, int] = Field(description="how many of each kind")


class DoctorFinding(Model):
    """A line of `doctor`."""

    topic: str = Field(description="versions, device, threads, compiler, disk, data or W&B")
    state: str = Field(description="good, note or bad")
    text: str = Field(description="what there is, and the remedy")


class Doctor(Model):
    """`doctor`."""

    findings: list[DoctorFinding] = Field(description="all of them")


class DataSet(Model):
    """A data set in the answer of `data`."""

    id: str = Field(description="its name")
    title: str = Field(description="in words")
    state: str = Field(description="ready, or what is missing with the remedy")


class DataSets(Model):
    """`data`."""

    root: str = Field(description="the folder of the data")
    sets: list[DataSet] = Field(description="all of them")


class Brought(Model):
    """`data get`, `data prepare`."""

    id: str = Field(description="of the set")
    root: str = Field(description="the folder of the data")
    brought: list[str] = Field(description="files that were written")
    remark: str = Field(description="on the files")
    terms: str = Field(description="of use")


class Exported(Model):
    """`export`."""

    runs: int = Field(description="that were written or sent")
    records: int = Field(default=0, description="rows of the table")
    there: int = Field(default=0, description="runs that W&B had already")
    place: str = Field(description="the file, the folder, or W&B's project")


class Report(Model):
    """`report`."""

    index: str = Field(description="the first page")
    notes: list[str] = Field(description="what was left out")


class Vectors(Model):
    """A source of vectors in the answer of `embed-eval`."""

    vectors: str = Field(description="the source")
    records: list[dict[str, Any]] = Field(description="of each set, as runs log them")


class Scores(Model):
    """`embed-eval`."""

    schema_: int = Field(alias="schema", description="the form of this answer")
    nested: bool = Field(description="C by nested cross-validation")
    rows: list[Vectors] = Field(description="of each source")


class Sentences(Model):
    """`embed-eval --write-sentences`."""

    sentences: dict[str, int] = Field(description="by file, how many")


ANSWERS: dict[str, Any] = {
    "list": dict[str, list[Entry]],
    "train": Trained | Configurations,
    "reproduce": Reproduction,
    "status": Status,
    "compare": list[Compared],
    "show": Shown,
    "history": list[Change],
    "rerun": Rerun,
    "embed-eval": Scores | Sentences,
    "battery": Battery,
    "report": Report,
    "export": Exported,
    "check": Check,
    "doctor": Doctor,
    "data": DataSets | Brought,
}
