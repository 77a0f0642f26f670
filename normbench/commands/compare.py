"""`normbench compare`: compares runs in the terminal."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from rich.console import Console

from normbench.commands import format, paper, terminal
from normbench.commands.options import ConfigDir, Filters, Form, Json, Results, option
from normbench.commands.terminal import say, say_json, say_under, show_rows
from normbench.compare import (
    answer,
    configuration,
    describe,
    groups,
    metrics,
    paper_references,
    paper_table,
    ranking,
    suggested_seeds,
)
from normbench.compare.answer import Comparison, Group
from normbench.compare.question import END, Question
from normbench.compare.ranking import Ranking
from normbench.draw.panels import profile
from normbench.draw.typeset import in_columns
from normbench.errors import BadInput
from normbench.runs import choices
from normbench.runs.run import EVALUATED, Run
from normbench.stats.series import CLOCKS
from normbench.stats.statistics import REACH
from normbench.web.board import Board
from normbench.web.paper_figure import of_groups

EPILOG = """examples:
  normbench compare model=mnist_mlp norm=none,batch,layer        own runs and published ones
  normbench compare model=mnist_mlp norm!=none 'lr>1e-3'         all but some, within bounds
  normbench compare model=lenet5 experiment=adhoc --metric nll   runs of no experiment alone
  normbench compare model=imdb_rnn train.batch_size=25 --against bn --at best
  normbench compare model=mnist_mlp --form latex > table.tex     a table for a paper
  normbench compare experiment=adhoc --over model,data           which arm is best over all tasks
  normbench compare model=mnist_mlp --figure curves.pdf --width 6.75in --font-size 9pt
  normbench compare                                              list what can be compared

filters: KEY=VALUE[,VALUE]; keys of the configuration and experiment, arm, fidelity, control, status, seed (1-5), run,
source (own, smoke, published, imported); train.epochs and train.steps choose the length; * matches any text. A word
without = is an experiment, an arm, or the beginning of an id.

Runs that differ only in the seed are averaged; those of the same model, data and length are compared: by pairs where
two arms have the same seeds, else by Welch's interval over all their runs. A winner is ahead of every other arm; below
5 seeds there is no verdict, nor where one arm has more than twice as many as the other. Diverged runs are counted, and
an arm with a diverged run is never ahead.

All pairs of arms in a table, including those with the baseline, share Holm's adjustment: the chance of a false verdict
is at most 5 %. Each table and each metric is judged separately. The 5 % hold if you look once: if you add seeds until
there is a verdict, false verdicts are more frequent.

--over ranks the arms over several tasks, each with one value of the keys: the average rank of a run among one run of
each arm, and the probability that it is better than one of the baseline. Words are of these tasks, and all pairs share
the 5 %. A diverged run is worse than all others. n: the fewest runs in a task. --figure draws the performance profile:
the share of runs with a score above τ; a run's score is the share of other arms' runs in its task that it beats.

--json prints, shortened:
  [{"task": {"key": "568f878b54", "title": "mnist_mlp on digits, 2 epochs"},
    "question": {"split": "test", "metric": "nll", "at": "end", "by": [], "facets": [], "against": "", "level": 0.18,
                 "clock": "epoch", "unit": "", "better": "lower"},
    "heading": "test NLL at the end · mean and 95 % interval over seeds alone · lower is better", "sentence": "",
    "groups": [{"place": "", "tuned": false, "winner": "", "sentence": "", "rows": [],
                "pairs": [{"first": "layer", "second": "none", "paired": true, "n": 5, "mean": -0.02,
                           "interval": [-0.03, -0.01], "p": 0.004, "holm": 0.004, "word": "ahead", "why": "",
                           "detectable": 0.015, "needed": null, "text": "−0.020 [−0.030, −0.010]"}]}],
    "notes": [], "beside": []}]
"rows" has for each arm its options, each seed's value, and mean and interval at the end, at best and until the level.
"""
MOST_TASKS = 3  # tasks; more are only listed
MOST_REFERENCES = 12
ROWS = 40  # of the list of tasks


def command(
    filters: Filters,
    results: Results,
    config_dir: ConfigDir = None,
    metric: Annotated[
        str | None, option("the metric to compare", "METRIC", show_default="the model's first rate, such as error")
    ] = None,
    better: Annotated[
        Literal["lower", "higher"] | None, option("which way the metric is better", show_default="as the runs declare")
    ] = None,
    split: Annotated[
        str | None, option("the split to compare on", "SPLIT", show_default="test, else the one that is monitored")
    ] = None,
    at: Annotated[
        Literal["end", "best"] | None,
        option("the last evaluation, or each run's best by what it monitors", show_default="end"),
    ] = None,
    against: Annotated[str | None, option("the baseline", "ARM", show_default="no normalization")] = None,
    by: Annotated[
        str | None,
        option("the keys whose values define an arm, separated by commas", "KEYS", show_default="the normalizer"),
    ] = None,
    over: Annotated[
        str | None,
        option("rank the arms over the tasks that the values of these keys name, such as model or data", "KEYS"),
    ] = None,
    level: Annotated[
        str | None,
        option(
            "measure the time until the metric reaches this value",
            "VALUE",
            show_default="95 % of the way from the worst start to the best value",
        ),
    ] = None,
    form: Form = None,
    figure: paper.Figure = None,
    width: paper.Width = None,
    font_size: paper.FontSize = None,
    as_json: Json = False,
) -> None:
    """Compare every task among the runs that fit; where there are many, list them with their filters."""
    options = {"metric": metric, "better": better, "split": split, "at": at, "against": against, "by": by}
    question = {name: value for name, value in (options | {"level": level}).items() if value}
    paper.check(figure, width, font_size)
    if form and as_json:
        raise BadInput("--json and --form both print an answer. Give one of them.")
    console, config_dir = terminal.console(), choices(results, config_dir)
    remarks = terminal.console(stderr=True) if as_json else console
    runs, every = configuration.finished(filters, results, lambda line: say(remarks, f"normbench: {line}"))
    if not runs:
        raise BadInput(f"no finished run below {results}. Try: {format.first_command(results)}")
    whole = groups.tasks(every) if filters else []
    compared = [
        task.among(whole, lambda further: configuration.fitting(filters, every, further))
        for task in groups.tasks(metrics.declared(runs, config_dir))
        if has_curves(task)
    ]
    if not compared:
        raise BadInput(f"no finished run below {results} with an evaluation fits {' '.join(filters) or 'this'}.")
    if over and (level or form or as_json):
        raise BadInput("--over prints a table alone: leave out --level, --form and --json.")
    ranks = ranking.over(compared, question, over.split(",")) if over else None
    if figure is not None:
        if ranks and not any(ranks.ranked.values()):
            raise BadInput("--figure: no task has all arms. Choose arms, such as norm=none,layer.")
        boards = [] if ranks else [Board(task, Question.of(task, question), {}) for task in compared]
        panels = [profile(ranks.scores)] if ranks else [panel for board in boards for panel in of_groups(board)]
        caption = paper.write(figure, panels, width, font_size)
        say(terminal.console(stderr=True) if form or as_json else console, f"figure    {figure}\n          {caption}\n")
    pairs = [(task, _about(task, question, compared)) for task in compared]
    if ranks:
        show_ranking(ranks, console)
    elif form:
        print(paper_table.paper_table([_compare(*pair) for pair in pairs], form), end="")
    elif as_json:
        answers = [_compare(*pair) for pair in pairs]
        say_json([{**describe.as_json(c), "beside": paper_references.as_rows(c)} for c in answers])
    elif len(compared) > MOST_TASKS and not question:
        _overview(compared, console, format.repeated(results, config_dir))
    else:
        for pair in pairs:
            show(_compare(*pair), filters, console, results, config_dir)


def show_ranking(r: Ranking, console: Console) -> None:
    """Print what is compared in each task, the ranks and the notes."""
    say(console, f"{len(r.scores)} tasks: {ranking.TITLE}")
    for task, measured in r.measured.items():
        say(console, f"  {task}: {measured}")
    header, *rows = ranking.table(r)
    show_rows(console, header, rows)
    say_under(console, "", r.sentence)
    for note in (*r.notes, ranking.LEGEND):
        say_under(console, "note      ", note)


def after_sweep(runs: Sequence[Run], console: Console, results: Path, config_dir: Path | None) -> None:
    """Compare the runs of a sweep, where there are several arms."""
    for task in groups.tasks(metrics.declared(runs, config_dir)):
        if len(task.cells) > 1 and has_curves(task):
            say(console, "")
            norms = dict.fromkeys(configuration.text(c.values["norm"]) for c in task.cells if "norm" in c.values)
            filters = [*selecting(task), *([f"norm={','.join(norms)}"] if 1 < len(norms) < 8 else [])]
            show(_compare(task, {}), filters, console, results, config_dir)


def has_curves(task: groups.Task) -> bool:
    """Whether any run was evaluated: those of probes are not."""
    return any(block.mode in EVALUATED for run in task.runs for block in run.records.blocks)


def _compare(task: groups.Task, question: Mapping[str, str]) -> Comparison:
    return answer.compare(task, Question.of(task, question))


def _about(task: groups.Task, question: Mapping[str, str], tasks: Sequence[groups.Task]) -> Mapping[str, str]:
    """The question without the keys of `by` in which the runs of other tasks differ, and those of this one do not."""
    elsewhere = {key for other in tasks for key in other.differing}
    by = [key for key in question.get("by", "").split(",") if key in task.differing or key not in elsewhere]
    return {**question, "by": ",".join(by)}


def selecting(task: groups.Task) -> list[str]:
    """Filters that select the task, as far as filters can."""
    keys = [key for key in ("model", "data") if all(key in cell.values for cell in task.cells)]
    words = [f"{key}={configuration.text(task.cells[0].values[key])}" for key in keys]
    count, unit = task.budget
    length = [f"train.epochs={count}"] if unit == "epochs" else ["train.epochs=0", f"train.steps={count}"]
    return [*words, *task.data_options.split(), *length]


def show(
    c: Comparison, filters: Sequence[str], console: Console, results: Path, config_dir: Path | None = None
) -> None:
    """Print the table and sentences of every group, the notes, and commands for further seeds and curves."""
    best = f"best by {describe.chosen_by(c.task)}"
    say(console, c.task.title)
    say(console, describe.heading(c))
    for group in c.groups:
        title = f"each at its own best learning rate {best.removeprefix('best ')}" if group.tuned else ""
        if words := " · ".join(word for word in (group.place, title) if word):
            say(console, f"\n{words}")
        _show_group(group, c, best, console)
        first, rest = describe.group_sentences(group, c)
        for sentence in first:
            say_under(console, "", sentence)
        for line in rest:
            say_under(console, "  ", line)
    _show_references(c, console)
    for note in describe.notes(c):
        say_under(console, "note      ", note)
    given = format.repeated(results, config_dir)
    lines = suggested_seeds.suggested_commands(c, config_dir, given)
    for line in lines:
        say(console, f"to decide {line}")
    if any(line.startswith("normbench reproduce") for line in lines):
        say(console, "          for this comparison alone: claims count the seeds that they plan, and no others")
    if far := suggested_seeds.out_of_reach(c):
        say_under(console, "          ", f"no command for {', '.join(far)}: out of reach (more than {REACH} seeds)")
    say(console, f"curves    {shlex.join(['normbench', 'dashboard', *filters, *given])}")


def _show_references(c: Comparison, console: Console) -> None:
    """Print the values of the papers and their authors' logs: one run each, so without interval or verdict."""
    clock = CLOCKS[c.question.clock]
    references = paper_references.as_rows(c)
    for row in references[:MOST_REFERENCES]:
        to_level = f", {row['time']} {clock} to the level" if row["time"] else ""
        say(console, f"beside    {row['name']}: {row['last']:.4g} after {row['x']:g} {clock}{to_level}")
    if len(references) > MOST_REFERENCES:
        say(console, f"          … and {len(references) - MOST_REFERENCES} more: on the page")


def _show_group(group: Group, c: Comparison, best: str, console: Console) -> None:
    """A row for each arm; columns in which nothing stands are left out."""
    q = c.question
    by = q.by or [configuration.ARM_GROUP]  # of a single arm
    arm = "/".join(key for key in by if key in configuration.GROUPS) or " ".join(by)
    if not all(row.arm.startswith(row.cell.norm) for row in group.rows):
        arm = "arm"  # names of the experiment
    has_best = q.at == END and c.task.has_best and not all(row.lacks(row.best) for row in group.rows)
    level = f"{CLOCKS[q.clock]} to {(q.level or 0.0) * q.metric.factor:g} {q.metric.unit}".rstrip()
    sources = [Counter(run.source for run in row.cell.runs) for row in group.rows]
    several = len({run.source for run in c.task.runs}) > 1
    texts = describe.table(group.rows, c)
    columns = {
        arm: [row.arm for row in group.rows],
        "n": [str(row.at.n) for row in group.rows],
        "at the end" if q.at == END else f"at the {best}": [text.at for text in texts],
        best: [text.best for text in texts if has_best],
        f"against {group.against[0].second if group.against else ''}": [text.difference for text in texts],
        "p": [text.p for text in texts],
        "Holm": [text.holm for text in texts],
        level: [text.time for text in texts],
        "ms/update": [text.pace for text in texts],
        "source": [", ".join(f"{n} {name}" for name, n in sorted(counts.items())) for counts in sources if several],
    }
    header, *rows = in_columns(columns)
    show_rows(console, header, rows)


def _overview(tasks: Sequence[groups.Task], console: Console, given: Sequence[str]) -> None:
    rows = []
    for task in tasks[:ROWS]:
        words = shlex.join(["normbench", "compare", *selecting(task), *given])
        rows.append([task.title, str(len(task.cells)), str(len(task.runs)), words])
    show_rows(console, ("what can be compared", "arms", "runs", "command"), rows)
    if len(tasks) > ROWS:
        say(console, f"… and {format.plural(len(tasks) - ROWS, 'task')} more: choose by a filter, such as model=NAME")
