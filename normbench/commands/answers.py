"""What `--json` prints, by command: for the tests, and for docs/keys.md. No command imports it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from normbench.config.validation import Model, Number

Numbers = list[Number] | None


class Entry(Model):
    """An entry in the answer of `list`."""

    id: str = Field(description="its name")
    title: str = Field(description="its title")
    source: str = Field(default="", description="where it comes from, such as a paper and section")
    sites: list[str] = Field(default=[], description="of a model: the sites that can be normalized")


class RunState(Model):
    """A run in the answers of `train` and `status`."""

    id: str = Field(description="its id; empty for a folder that cannot be read")
    label: str = Field(description="a text that tells it from the other runs")
    seed: int = Field(description="its seed")
    status: str = Field(description="done, diverged, running, queued, interrupted, failed, refused, damaged or missing")
    steps: int | None = Field(description="the number of updates")
    reason: str = Field(description="the reason, if it is not done")
    path: str | None = Field(description="its directory")


class StoredRun(RunState):
    """A run of the results folder in the answer of `status`."""

    experiment: str = Field(description="its experiment; adhoc: none")
    arm: str = Field(description="its arm in the experiment")
    step: int = Field(description="the update at which it was last evaluated")
    seconds_left: Number | None = Field(
        default=None, description="of a running run: the estimated seconds until its end"
    )


class Status(Model):
    """The answer of `status`."""

    runs: list[StoredRun] = Field(description="all runs that are stored or queued")
    notes: list[str] = Field(description="what could not be found out")


class Trained(Model):
    """The answer of `train`, also with -m --dry-run."""

    runs: list[RunState] = Field(description="the runs that were asked for")


class Configurations(Model):
    """The answer of `train --cfg job`."""

    configurations: list[dict[str, Any]] = Field(description="the configuration of each run")


class Shown(Model):
    """The answer of `show`."""

    id: str = Field(description="its id")
    status: str = Field(description="done, diverged, running, interrupted, failed or damaged")
    reason: str = Field(description="the reason, if it is not done")
    log: str | None = Field(default=None, description="the file that has the traceback of a failed run")
    steps: int = Field(description="the number of updates")
    began: str | None = Field(default=None, description="when it began, UTC")
    experiment: str = Field(description="its experiment; adhoc: none")
    arm: str = Field(description="its arm in the experiment")
    seed: int = Field(description="its seed")
    fidelity: str = Field(description="the fidelity of its experiment")
    axes: dict[str, Any] = Field(description="its values of the experiment's axes")
    control: str = Field(description="its control; empty: the paper's setting")
    source: str = Field(description="its directory, or the pack that has it")
    config: dict[str, Any] = Field(description="its configuration")
    environment: dict[str, Any] = Field(description="the machine and the versions with which it was trained")
    records: int = Field(description="the number of records of its curve")
    curve_sha256: str = Field(description="the hash of its curve")
    was: Any = Field(default=None, description="its former arm, axes and control, if these have changed")
    last: list[dict[str, Any]] = Field(description="its last records")


class Cut(Model):
    """`updates` in the answer of `rerun`."""

    compared: int = Field(description="the number of updates that were repeated and compared")
    of: int = Field(description="the number of updates of the run")


class Rerun(Model):
    """The answer of `rerun`."""

    id: str = Field(description="the id of the run")
    word: str = Field(
        description="the worst word of all metrics: to the byte; rounding; chaotic, inside the seeds' spread; different"
    )
    deterministic: bool = Field(description="false: the same environment gave a different curve")
    ended: list[str] = Field(description="the status of the run then and now")
    environment: dict[str, dict[str, Any]] = Field(
        description="what has changed in the environment, each with `then` and `now`"
    )
    unrecorded: list[str] = Field(description="facts of the environment that the run did not record then")
    seeds: list[int] = Field(description="the seeds of the runs from which the spread is computed")
    level: Number = Field(description="the level of each prediction interval")
    bound: Number = Field(description="the largest relative difference that rounding explains")
    first: dict[str, Any] | None = Field(description="the place of the first difference")
    metrics: list[dict[str, Any]] = Field(
        description="for each split, mode and metric: its word and its largest difference"
    )
    updates: Cut = Field(description="how much of the run was compared")


class Difference(Model):
    """An entry of `pairs` in the answer of `compare`: two arms."""

    first: str = Field(description="the first arm")
    second: str = Field(description="the second arm")
    paired: bool = Field(description="true: the interval is paired by equal seeds; false: it is Welch's")
    n: int = Field(description="the number of pairs, or of seeds of the smaller arm")
    mean: Number | None = Field(description="the mean of the first arm minus that of the second")
    interval: Numbers = Field(description="the 95 % interval of the difference")
    p: Number | None = Field(description="p before adjustment")
    holm: Number | None = Field(description="p after Holm's adjustment for all pairs of the table")
    word: str = Field(description="the result: ahead, behind, undecided, ...")
    why: str = Field(description="the reason, in words")
    detectable: Number | None = Field(description="the difference that so many seeds show with 80 % power")
    needed: int | None = Field(description="the number of seeds that would show the difference found")
    text: str = Field(description="the text that is printed")


class Group(Model):
    """An entry of `groups` in the answer of `compare`: a table of arms."""

    place: str = Field(description="the values that tell this table from the others")
    tuned: bool = Field(description="true: each arm is compared at its own best learning rate")
    winner: str | None = Field(description="the arm that is ahead of every other arm")
    sentence: str = Field(description="the sentence that is printed")
    rows: list[dict[str, Any]] = Field(description="for each arm: its values by seed, mean and interval")
    pairs: list[Difference] = Field(description="all pairs of arms")


class Compared(Model):
    """An entry in the answer of `compare`: the runs of one task."""

    task: dict[str, str] = Field(description="the key and title of the task")
    question: dict[str, Any] = Field(
        description="the options of the comparison: split, metric, at, by, against, level, unit"
    )
    heading: str = Field(description="the heading that is printed")
    sentence: str = Field(description="the sentence that is printed")
    groups: list[Group] = Field(description="the tables")
    notes: list[str] = Field(description="remarks that are printed below the tables")
    beside: list[dict[str, Any]] = Field(description="numbers that the papers and their authors give")


class ClaimVerdict(Model):
    """A claim in the answer of `reproduce`."""

    id: str = Field(description="its name")
    verdict: str = Field(description="its verdict; verdicts.json has the evidence")
    n: int = Field(description="the number of seeds")


class Reproduced(Model):
    """An artifact in the answer of `reproduce`."""

    id: str = Field(description="PAPER/NAME")
    fidelity: str = Field(description="the fidelity of the runs")
    runs: int = Field(description="the number of planned runs")
    error: str = Field(description="why the artifact was left out; empty: it was not")
    done: int = Field(default=0, description="the number of these runs that are done")
    missing: list[str] = Field(default=[], description="the ids of the runs that are not trained yet")
    failures: list[str] = Field(default=[], description="the reasons why runs failed")
    claims: list[ClaimVerdict] = Field(default=[], description="the verdicts; empty with --dry-run")
    decided: int = Field(default=0, description="the number of claims that are decided now")
    decided_before: int = Field(default=0, description="the number of claims that were decided before this command")
    files: dict[str, str] = Field(default={}, description="the paths of figure, table and verdicts")


class Reproduction(Model):
    """The answer of `reproduce`."""

    artifacts: list[Reproduced] = Field(description="the artifacts that were asked for")
    report: str | None = Field(description="the path of the report's first page")


class ExperimentOutlook(Model):
    """An experiment in the answer of `battery --dry-run`."""

    experiment: str = Field(description="PAPER/NAME")
    axes: dict[str, Any] = Field(description="its setting: a value of each axis")
    runs: int = Field(description="the number of runs of all normalizers")
    missing: int = Field(description="the number of these runs that are not trained yet")
    seconds: float | None = Field(description="how long the missing runs take; null: unknown")
    taken: bool = Field(description="true: it fits into --budget")
    decided: str = Field(description="when its comparisons become decided, in words")
    refused: dict[str, str] = Field(description="by normalizer: why it cannot take part")


class Counted(Model):
    """An entry of `answer`: in how many experiments a normalizer has each word against an opponent."""

    better: int = Field(description="significantly better after Holm's correction for all experiments")
    worse: int = Field(description="significantly worse")
    undecided: int = Field(description="neither better nor worse")
    not_yet: int = Field(description="fewer than five seeds, or neither side is better than before training")


class BatteryComparison(Model):
    """An entry of `comparisons`: a normalizer against an opponent in one experiment, paired by seed."""

    quantity: str = Field(description="the metric that is compared, at the last evaluation")
    against: str = Field(description="the opponent")
    word: Literal["better", "worse", "undecided", "not yet"] = Field(description="as counted in `answer`")
    why: str = Field(description="the reason, if there is no decision")
    unit: str = Field(description="the unit of the effect: points, log ratio or difference")
    better: Literal["lower", "higher"] = Field(description="lower or higher values are better")
    effect: float | None = Field(description="the normalizer's mean minus the opponent's; null for `not yet`")
    interval: tuple[float, float] | None = Field(description="the 95 % interval of the effect")
    p: float | None = Field(description="after Holm's correction")
    n: int = Field(description="the number of pairs of seeds")
    lost: int = Field(description="the number of runs that diverged")
    needed: int | None = Field(description="the number of seeds that would show the effect; 0: more than 60")


class BatteryTrial(Model):
    """An entry of `trials`: one experiment in one setting."""

    experiment: str = Field(description="PAPER/NAME")
    axes: dict[str, Any] = Field(description="its setting: a value of each axis")
    refused: dict[str, str] = Field(description="by normalizer: why it cannot take part")
    changed: dict[str, str] = Field(description="by normalizer: the options that it needs in this experiment")
    failed: dict[str, str] = Field(description="by normalizer: why its runs failed")
    runs: dict[str, list[str]] = Field(description="by normalizer: the ids of its runs")
    comparisons: list[BatteryComparison] = Field(description="a comparison with each opponent")
    cost: dict[str, dict[str, float]] = Field(
        description="by normalizer: ms per update, and its ratio to no normalization with the low and high end"
    )


class BatteryNumbers(Model):
    """battery.json, and `numbers` in the answer of `battery`."""

    schema_: Literal[2] = Field(alias="schema", description="the version of this form")
    norm: str = Field(description="the normalizer")
    fidelity: str = Field(description="the fidelity of the runs")
    command: str = Field(description="the command that makes this file")
    promises: list[str] = Field(description="the promises of the contract; all of them hold")
    measured: dict[str, str] = Field(
        description="facts that were measured because no YAML declares them, with their numbers"
    )
    table1: dict[str, dict[str, str]] = Field(description="the rows of LN Table 1, by normalizer")
    answer: dict[str, Counted] = Field(description="the counts of words, by opponent")
    trials: list[BatteryTrial] = Field(description="all experiments, the most important first")


class Battery(Model):
    """The answer of `battery`."""

    norm: str = Field(description="the normalizer")
    runs: int = Field(description="the number of planned runs")
    missing: list[str] = Field(description="with --dry-run: the ids of the runs that would be trained")
    outlook: list[ExperimentOutlook] = Field(default=[], description="with --dry-run: what each experiment would take")
    failures: list[str] = Field(default=[], description="the reasons why runs failed")
    page: str | None = Field(default=None, description="the path of the page with the results")
    numbers: BatteryNumbers | None = Field(default=None, description="the content of battery.json")


class CheckFinding(Model):
    """An entry of `findings` in the answer of `check`."""

    kind: str = Field(description="damage, missing, id and so on, as normbench check --help lists them")
    place: str = Field(description="the file or folder")
    text: str = Field(description="the problem, and how to mend it")
    harmless: bool = Field(description="true: it is no damage")


class Check(Model):
    """The answer of `check`."""

    whole: bool = Field(description="true: nothing is damaged")
    findings: list[CheckFinding] = Field(description="damage and notes")
    checked: dict[str, int] = Field(description="the number of checked files, runs and so on, by kind")


class DoctorFinding(Model):
    """An entry of `findings` in the answer of `doctor`."""

    topic: str = Field(description="versions, device, threads, compiler, disk, data or W&B")
    state: str = Field(description="good, note or bad")
    text: str = Field(description="what was found, and how to mend it")


class Doctor(Model):
    """The answer of `doctor`."""

    findings: list[DoctorFinding] = Field(description="all lines")


class DataSet(Model):
    """An entry of `sets` in the answer of `data`."""

    id: str = Field(description="its name")
    title: str = Field(description="its title")
    state: str = Field(description="ready; or what is missing, and how to get it")


class DataSets(Model):
    """The answer of `data`."""

    root: str = Field(description="the folder of the data sets")
    sets: list[DataSet] = Field(description="all data sets")


class Brought(Model):
    """The answer of `data get` and `data prepare`."""

    id: str = Field(description="the name of the set")
    root: str = Field(description="the folder of the data sets")
    brought: list[str] = Field(description="the files that were written")
    remark: str = Field(description="a remark on the files")
    terms: str = Field(description="the terms of use")


class ImportedRuns(Model):
    """An entry in the answer of `import`."""

    name: str = Field(description="what they are imported as")
    runs: int = Field(description="how many")
    arms: list[str] = Field(description="their arms")


class Imports(Model):
    """The answer of `import`, also with --list and --remove."""

    imported: list[ImportedRuns] = Field(description="all that is imported now")
    notes: list[str] = Field(description="what was found, counted and left out")
    guessed: dict[str, Any] = Field(description="the keys of the map that were guessed")


class Exported(Model):
    """The answer of `export`."""

    runs: int = Field(description="the number of runs that were written or sent")
    records: int = Field(default=0, description="the number of rows of the table")
    place: str = Field(description="the file, the folder, or W&B's project")


class Report(Model):
    """The answer of `report`."""

    index: str = Field(description="the path of the first page")
    notes: list[str] = Field(description="what was left out")


class LoggedClaim(Model):
    """An entry of `claims` in the answer of `judge`."""

    id: str = Field(description="its name in the file")
    statement: str = Field(description="what is claimed")
    setting: str = Field(description="holds, opposite, negligible, undecided, diverged, not run, or not decidable here")
    verdict: str = Field(description="supported or refuted, as logged; or the same word")
    answer: str = Field(description="the number and how sure it is, in a sentence")
    effect: Number | None = Field(description="the effect of the part that decides")
    unit: str = Field(description="the unit of the effect")
    interval: list[Number] | None = Field(description="its interval")
    level: Number | None = Field(description="the level of the interval, by Holm over the claims of the file")
    n: int = Field(description="the number of seeds")
    diverged: bool = Field(description="true: more runs of the first cell diverged than of the second")
    compared: str = Field(
        description="how runs were compared: pairs of equal seeds or all runs of both sides, up to which step, and how "
        "many diverged"
    )
    runs: list[str] = Field(description="the ids of the runs")


class LoggedClaims(Model):
    """The answer of `judge`."""

    title: str = Field(description="the title of the file")
    claims: list[LoggedClaim] = Field(description="the claims")
    notes: list[str] = Field(description="what is irregular about the runs")


ANSWERS: dict[str, Any] = {
    "list": dict[str, list[Entry]],
    "train": Trained | Configurations,
    "reproduce": Reproduction,
    "status": Status,
    "compare": list[Compared],
    "show": Shown,
    "rerun": Rerun,
    "battery": Battery,
    "report": Report,
    "export": Exported,
    "import": Imports,
    "judge": LoggedClaims,
    "check": Check,
    "doctor": Doctor,
    "data": DataSets | Brought,
}
