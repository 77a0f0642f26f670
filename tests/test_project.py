"""The project as a whole: README, CI and published results say the same."""

from __future__ import annotations

import csv
import importlib
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
import scripted
import yaml
from scipy import stats

import normbench
from normbench import cli
from normbench.commands.reproduce import Reproduce
from normbench.config import compose, plan
from normbench.errors import NormbenchError
from normbench.launch.run_missing import missing
from normbench.models import base
from normbench.papers import artifact as artifacts
from normbench.papers import page, per_example_effects, publish, published, rules, sample_archive, verdicts
from normbench.runs import pack
from normbench.runs.table import Runs, named

ROOT = Path(__file__).parent.parent
PUBLISHED = sorted(
    path.parent for path in (ROOT / "results").glob("*/*/*/verdicts.json") if path.parent.name != "smoke"
)
# by default those of packs below 500 kB: `normbench check` has all of them as well
EACH_PLACE = pytest.mark.parametrize(
    "place",
    [
        pytest.param(
            path,
            id=str(path.relative_to(ROOT / "results")),
            marks=[pytest.mark.slow] if (path / pack.NAME).stat().st_size > 500_000 else [],
        )
        for path in PUBLISHED
    ],
)


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """scripts/readme.py."""
    return scripted.load("readme")


@pytest.mark.slow
def test_runs_in_the_examples_of_the_help_do_what_is_reported_of_them():
    """Each is a published run, of a model that draws or writes where that is what the example asks for."""
    does = {"": "sample", "--count": "sample", "--near": "nearest", "--text": "write"}
    commands = []
    for path in sorted((ROOT / "normbench" / "commands").glob("*.py")):
        for command, run, option in re.findall(r"normbench ([a-z-]+) ([0-9a-f]{4,12}) +(--[a-z]+)?", path.read_text()):
            name = named(run, ROOT / "results").config["model"]["name"]
            module = importlib.import_module(f"normbench.models.{name}")
            classes = [
                kind for kind in vars(module).values() if isinstance(kind, type) and issubclass(kind, base.Model)
            ]
            if command == "sample":
                assert any(does[option] in vars(kind) for kind in classes), f"{path.name}: {command} {run} {option}"
            commands.append(command)
    assert set(commands) == {"show", "rerun", "sample", "weights"}


@pytest.mark.parametrize("page", ["README.md", "results/README.md"])
def test_pages_follow_from_verdicts(page: str, script: ModuleType):
    text = (ROOT / page).read_text()
    for block, make in script.PAGES[page].items():
        assert script.fresh(text, block, make(ROOT / "results")) == text, f"{page} is stale: python scripts/readme.py"


def test_the_picture_follows_from_published_runs(script: ModuleType):
    assert (ROOT / script.PICTURE).read_text() == script.scorecard(ROOT / "results")


def test_a_cell_of_the_picture_is_a_paired_t_test_after_holm():
    card, metric = scripted.load("scorecard"), "test NLL less that of no normalization"
    cells = card.cells_of("imdb", ROOT / "results")
    with (ROOT / "results/ours/today/reduced/table.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["group"] == "IMDB (RNN)" and row["quantity"] == metric]
    means = {row["row"]: float(row["mean"]) for row in rows if row["mean"]}
    assert {card.today.NORMS[norm]: cell.mean / 1000 for norm, cell in cells.items()} == pytest.approx(means, rel=1e-4)
    half = {norm: (cell.interval[1] - cell.interval[0]) / 2 for norm, cell in cells.items()}
    p = {norm: 2 * stats.t.sf(abs(cell.mean) / half[norm] * stats.t.ppf(0.975, 4), 4) for norm, cell in cells.items()}
    worse = []
    for rank, norm in enumerate(sorted(p, key=p.__getitem__)):
        if p[norm] > 0.05 / (len(p) - rank):
            break
        worse.append(norm)
    assert 0 < len(worse) < len(cells) and {norm for norm, cell in cells.items() if cell.word == "worse"} == set(worse)
    assert {cell.word for cell in card.cells_of("recall", ROOT / "results").values()} == {"negligible"}
    assert card.cells_of("vit", ROOT / "results") == {}


def test_ranks_of_the_picture_are_those_of_one_run_of_each_normalizer():
    card = scripted.load("scorecard")
    ranks, networks = card.standings(ROOT / "results"), ("mnist", "imdb", "recall")
    assert {standing.tasks for standing in ranks.values()} == {len(networks)} and len(ranks) == 1 + len(card.NORMS)
    expected = dict.fromkeys(ranks, 0.0)
    for task in networks:
        runs = card._runs(task, ROOT / "results")
        values = [[*card._results(task, norm, runs).values()] for norm in ranks]
        for norm, of_norm in zip(ranks, stats.rankdata(values).reshape(len(ranks), 5), strict=True):
            expected[norm] += ((of_norm.mean() - 3) / 5 + 1) / len(networks)  # of its own five runs 2 are better
    assert {norm: s.rank(s.share) for norm, s in ranks.items()} == pytest.approx(expected)
    assert card.standings(ROOT / "results" / "none") == {}


def test_what_lacks_runs_is_reported_by_the_fidelity_that_it_has(script: ModuleType, tmp_path: Path):
    ids = artifacts.ids()
    assert script.missing(tmp_path) == f"Of {len(ids)} artifacts: {len(ids)} without runs."
    sentence = (ROOT / "README.md").read_text().partition("<!-- missing:")[2].partition("<!-- end of missing")[0]
    lacking = [name for name in ids if (ROOT / "results" / name / "paper") not in PUBLISHED]
    assert sum(map(int, re.findall(r"(\d+) (?:with|on substitute)", sentence))) == len(lacking) > 0


def test_claims_are_counted_by_whose_they_are(script: ModuleType):
    counted = script.by_source(ROOT / "results")
    claims = {name: artifacts.load(name).claims for name in artifacts.ids()}
    published_names = {str(place.parent.relative_to(ROOT / "results")) for place in PUBLISHED}
    judged = [claim for name in published_names for claim in claims[name]]
    assert sum(map(len, counted.values())) == len(judged)
    assert len(counted["Our own hypotheses"]) == sum(claim.ours for claim in judged)
    planned = sum(map(len, claims.values())) - len(judged)
    assert (f" {planned} more are planned." in script.summary(ROOT / "results")) == bool(planned)
    blog = next(source for source in counted if "overview" in source)  # no paper, and nothing of it needs training
    assert {claim.basis for claim in counted[blog]} == {"exact"}
    assert len(counted[blog]) == len(claims["ln2016/properties"])
    for name, own in claims.items():
        experiment = plan.experiment(artifacts.load(name).experiment, None)
        words = [word for arm in experiment.arms.values() for word in (*experiment.base, *arm)]
        models = {word.removeprefix("model=") for word in words if word.startswith("model=")}
        trained = any(not compose.declaration("model", model).get("probe") for model in models)
        assert all(claim.computed != trained for claim in own if claim.parts), name
    table = script.findings(ROOT / "results").splitlines()
    assert [line.split(" | ")[1] for line in table[2:]] == [str(len(own)) for own in counted.values()]


def test_the_index_the_readme_and_the_check_count_alike(script: ModuleType, tmp_path: Path):
    total = sum(map(len, script.by_source(ROOT / "results").values()))
    assert f"Of {total} claims, " in script.summary(ROOT / "results")
    entries = [published.read_verdicts(path / "verdicts.json") for path in PUBLISHED]
    assert len(verdicts.once(entries)) == total < sum(len(entry.claims) for entry in entries)


def test_the_readme_is_short_and_begins_with_the_picture_the_commands_and_the_answers(script: ModuleType):
    """Two sentences, the picture, four commands with their times, the words, eight answers, what is missing."""
    text = (ROOT / "README.md").read_text()
    assert len(text.encode()) <= 7_500
    first, commands, answers, *_, limits, _ = text.split("\n## ")
    assert script.PICTURE in first and "*your* normalizer" in first and first.count(". ") == 1
    assert commands.startswith("Try it") and answers.startswith("Answers") and limits.startswith("Limits")
    words, _, table = answers.partition("<!-- questions")
    assert all(
        f"*{word}*" in words for word in (*rules.WORDS, "reduced", "proxy", "exact", "control", "agree", "depend")
    )
    assert script.questions(ROOT / "results") in table
    examples = [line for line in commands.splitlines() if line.startswith("    ")]
    assert (
        len(examples) == 4
        and "half a minute" in commands
        and all(re.search(r"# \d+ (s|min)", line) for line in examples[1:])
    )
    assert "wait for their runs" in limits and "run on a GPU" in limits and script.missing(ROOT / "results") in limits


def test_answers_are_short_and_have_the_verdicts_own_words_and_numbers(script: ModuleType, tmp_path: Path):
    questions = yaml.safe_load(script.QUESTIONS.read_text())
    rows = dict(line.strip("| ").split(" | ", 1) for line in script.questions(ROOT / "results").splitlines()[2:])
    assert list(rows) == [question["ask"] for question in questions] and len(rows) == 8
    for row in rows.values():
        for answer in re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", row).replace("**", "").split("<br>"):
            assert len(answer) <= 120, answer
    path = ROOT / "results" / "ln2016" / "fig6" / "paper" / "verdicts.json"
    (claim,) = [claim for claim in published.read_verdicts(path).claims if claim.id == "LN-F1"]
    ratio, low, high = (f"{math.exp(end):.2g}" for end in (claim.effect, *claim.parts[0].interval))
    row = rows["Does LN train faster than BN?"]
    assert f"**{claim.word}**, {ratio} times [{low}, {high}]" in row
    with pytest.raises(NormbenchError):
        script.questions(tmp_path)  # where nothing is published


def test_what_stands_behind_a_but_is_published_so(script: ModuleType):
    """`rests` of questions.yaml: words of parts, effects of parts under a control, and the lowest mean of a table."""
    questions = yaml.safe_load(script.QUESTIONS.read_text())
    answers = [one for question in questions for one in question["answers"] if "but" in one]
    for one in answers:
        for rest in one["rests"]:
            name = rest.get("artifact", one["artifact"])
            if "control" in rest:
                _, claim = script.verdicts(artifacts.load(name), ROOT / "results")[one["claim"]]
                parts = {control.name: control.parts for control in claim.controls}[rest["control"]]
                assert {part.id: part.effect for part in parts}[rest["part"]] == rest["effect"], one["but"]
                continue
            if "part" in rest:
                _, claim = script.verdicts(artifacts.load(name), ROOT / "results")[one["claim"]]
                words = {part.id: part.word for part in (*claim.parts, *claim.reported)}
                assert words[rest["part"]] == rest["word"], one["but"]
                continue
            fidelity, *_ = script.fidelities(name, ROOT / "results")
            with (ROOT / "results" / name / fidelity / "table.csv").open() as file:
                cells = [row for row in csv.DictReader(file) if row["group"] == rest["group"]]
            means = {row["row"]: row["mean"] for row in cells if row["quantity"] == rest["quantity"]}
            assert all(float(means[rest["lowest"]]) < float(means[other]) for other in rest["of"]), one["but"]
    table = script.questions(ROOT / "results")
    assert answers and all(f"; {answer['but']} ([{answer['claim']}]" in table for answer in answers)


def test_everything_the_repository_says_of_its_licence_and_version_is_the_same():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert project["license"] == citation["license"] == "MIT"
    assert (ROOT / "LICENSE").read_text().startswith("MIT License")
    assert project["version"] == citation["version"] == normbench.__version__
    assert {r["url"] for r in citation["references"]} == set(project["urls"].values())
    assert "## [Unreleased]" in (ROOT / "CHANGELOG.md").read_text()
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    assert {"ruff", "ruff-format", "mypy"} <= {hook["id"] for hook in hooks}


def test_ci_runs_the_commands_of_the_readme():
    readme = (ROOT / "README.md").read_text().splitlines()
    assert [line for line in readme if line.startswith("    pip install ")] == [
        "    pip install -e '.[train]' && normbench reproduce ln2016/fig6 --fidelity smoke",
        "    pip install -e '.[dev]' && pytest",
    ]
    ci = (ROOT / ".ci" / "run").read_text()
    assert "README.md" in ci and 'bash -c "$command"' in ci


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "results/README.md"])
def test_pages_name_files_that_exist(page: str):
    text = (ROOT / page).read_text()
    words = text.replace("`", " ").replace(":", " ").replace(";", " ").replace(",", " ").split()
    places = ("normbench/", "conf/", "examples/", "tests/", "scripts/")
    named = [w for w in words if w.startswith(places) and not {"NAME", "PAPER", "*"} & set(re.split(r"[/.]|(\*)", w))]
    assert [w for w in named if not (ROOT / w.strip(".()")).exists()] == []
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if not link.startswith("https://")]
    assert links and [link for link in links if not (ROOT / page).parent.joinpath(link).exists()] == []


@EACH_PLACE
def test_published_verdicts_and_tables_follow_from_the_pack(place: Path):
    name, fidelity = str(place.parent.relative_to(ROOT / "results")), place.name
    artifact = artifacts.load(name)
    packed = pack.read(place / pack.NAME)
    runs = packed.runs
    examples = per_example_effects.load(place / per_example_effects.NAME)
    archive = sample_archive.load(place / sample_archive.NAME)
    judged = publish.judge(
        artifacts.Plan(artifact, fidelity),
        runs,
        published.read_verdicts(place / "verdicts.json"),
        packed.sha256,
        examples,
        archive.sha256,
    )
    assert verdicts.as_file(judged) == (place / "verdicts.json").read_bytes()
    for file, content in page.pages(page.content_of(artifact, judged, artifacts.draw(artifact, runs))).items():
        assert content == (place / file).read_bytes(), f"{place / file}: normbench reproduce {name} --max-time 0"


@pytest.mark.slow
@EACH_PLACE
def test_published_runs_count_as_done(place: Path):
    """Else whoever has the results would train them again, and could not see which code they are of."""
    artifact = artifacts.read(str(place.parent.relative_to(ROOT / "results")))
    runs = pack.read(place / pack.NAME).runs
    seeds, controls = sorted({run.seed for run in runs}), any(run.control for run in runs)
    asked = plan.artifact_specs(artifact.experiment, place.name, seeds, controls=controls, limited=False)
    specs = [spec for spec in asked if spec.id in {run.id for run in runs}]
    assert {spec.id for spec in specs} == {run.id for run in runs}
    assert {run.id for run in Runs(ROOT / "results", {spec.id for spec in specs}).find(specs)} == {
        run.id for run in runs
    }


@pytest.mark.slow
@EACH_PLACE
def test_the_command_that_would_decide_a_claim_trains_what_lacks_and_no_more(place: Path):
    name = str(place.parent.relative_to(ROOT / "results"))
    for claim in json.loads((place / "verdicts.json").read_text())["claims"]:
        if claim["suggestion"] and claim["suggestion"]["command"]:
            reproduce = cli.Commands().get_command(None, "reproduce")
            given = reproduce.make_context("reproduce", claim["suggestion"]["command"].split()[2:]).params
            assert [*given["words"]] == [name]
            command = Reproduce(**given)
            specs = command.planned_specs(artifacts.Plan(artifacts.load(name), command.fidelity))
            assert (
                len(missing(specs, Runs(ROOT / "results", {spec.id for spec in specs}))) == claim["suggestion"]["runs"]
            ), claim["id"]


@pytest.mark.slow
def test_what_a_user_does_leaves_a_clone_clean(tmp_path: Path):
    """README's first command, a sweep, claims of one's own and a report, in a copy of what git tracks."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("no git checkout")
    heavy = re.compile(r"results/(?!ln2016/fig6/)\w+/")  # a report of few artifacts is as good
    for name in (name for name in listed.stdout.split("\0") if name and not heavy.match(name)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)

    def ran(*words: str) -> str:
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("NORMBENCH_", "GIT_"))}
        environment |= {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run(words, cwd=tmp_path, check=True, capture_output=True, text=True, env=environment).stdout

    identity = ("-c", "user.name=x", "-c", "user.email=x")
    for words in (("init", "-q"), ("add", "-A"), (*identity, "commit", "-qm", "x")):
        ran("git", *words)
    command = (sys.executable, "-m", "normbench")
    few = ("--only", "ln", "--only", "train.batch_size=128", "--seeds", "1")
    ran(*command, "reproduce", "ln2016/fig6", "--fidelity", "smoke", *few)
    small = ("model.hidden_sizes=[4]", "train.epochs=1")
    ran(*command, "train", "-m", "model=mnist_mlp", "data=digits", "norm=none,layer", "seed=range(1,3)", *small)
    ran(*command, "reproduce", "--config-dir", "examples/own_claims", "mine/rms", "--seeds", "1", "--only", "none")
    ran(*command, "report")
    assert ran("git", "status", "--porcelain") == ""
