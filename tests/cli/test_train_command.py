"""`normbench train` without training: help, configuration, the runs of a sweep; and a log without a terminal."""

from __future__ import annotations

import io
from pathlib import Path

import fake
import pytest
import tiny
import yaml
from rich.console import Console
from smallest import SMALL

from normbench.commands import progress
from normbench.commands.progress import bars
from normbench.config import compose, grammar, plan
from normbench.core import extras
from normbench.launch import pool
from normbench.launch.base import Outcome
from normbench.runs import pack

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_normalizer" / "norm" / "centre.py"
TINY = ("train", *tiny.WORDS)


def test_help_lists_every_group_with_the_choices_that_a_run_can_have(normbench, capfd) -> None:
    assert normbench("train", "--help") == 0
    words = capfd.readouterr().out.replace(",", " ").split()
    for group in grammar.GROUPS:
        assert {group, *(name for name in compose.choices(group) if compose.can_be_chosen(group, name))} <= set(words)
    assert not {"lbfgs", "sparseadam", "books"} & set(words)  # refused, or read by no model
    assert any(word.startswith(str(compose.conf_dir())) for word in words)


@pytest.mark.parametrize("option", [("--cfg", "job"), ("--dry-run",)])
def test_the_configuration_is_printed_and_nothing_run(option, normbench, capfd, tmp_path: Path) -> None:
    assert normbench(*TINY, "norm=batch", "seed=7", *option) == 0
    (printed,) = yaml.safe_load_all(capfd.readouterr().out)
    stored = compose.stored_form(tiny.spec("norm=batch", "seed=7").config)
    assert printed == stored | {"launcher": {"name": "local", "jobs": 1}, "logger": {"name": "none"}}
    assert list(tmp_path.iterdir()) == []


def test_a_sweeps_configurations_are_documents(normbench, capfd) -> None:
    assert normbench(*TINY, "-m", "norm=none,batch", "launcher=pool", "--cfg", "job") == 0
    documents = list(yaml.safe_load_all(capfd.readouterr().out))
    assert [d["norm"]["name"] for d in documents] == ["none", "batch"]
    assert {d["launcher"]["name"] for d in documents} == {"pool"}


def test_a_sweeps_table_has_no_number_that_is_neither_better_lower_nor_higher(normbench, capfd) -> None:
    """A language model of which training examples are not evaluated has its sites' statistics alone on split train."""
    words = (*SMALL["char_lm"], "train.steps=2", "eval.every=2")
    assert normbench("train", "-m", "model=char_lm", *words, "norm=layer,rms") == 0
    (header,) = [line for line in capfd.readouterr().out.splitlines() if line.startswith("run ")]
    assert "valid NLL, nats per character" in header and "test error, %" in header and "train" not in header


@pytest.mark.parametrize(
    ("norm", "sites", "label"),
    [
        ("group", "{conv.0.weight: weight_standardization, conv.0: group}", "lenet5 weight_standardization+group"),
        ("filter_response", "[summed.conv]", "(replaces tanh)"),
        ("evo_s0", "[summed.conv]", "(replaces tanh)"),
    ],
)
def test_lenet5_trains_with(norm: str, sites: str, label: str, normbench, capfd) -> None:
    length = ("train.epochs=0", "train.steps=2", "eval.unit=updates", "eval.every=2", "train.batch_size=20")
    length += ("eval.strides={train: 0, valid: 50, test: 50}",)
    words = ("train", "model=lenet5", "data=coloured_digits", *length, f"norm={norm}")
    assert normbench(*words, f"norm.sites={sites}") == 0
    assert label in capfd.readouterr().out
    if norm != "group":
        assert normbench(*words) == 2
        assert "norm.sites=[summed.conv]" in capfd.readouterr().err


def test_a_normalizer_of_ones_own_is_given_as_its_file(normbench, capfd, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(EXAMPLE.read_text().replace('@normalizer("centre")', '@normalizer("mine")'))
    assert normbench(*TINY, "-m", "norm=none,mine.py", "--dry-run") == 0
    listed = capfd.readouterr().out
    assert "norm=mine · 12 updates (missing)" in listed and not (tmp_path / "results").exists()
    for words in (("norm=none,mine.py",), ("norm=mine.py", "optim.lrr=1"), ("-m", "norm=mine.py,no.py")):
        assert normbench(*TINY, *words) == 2 and not (tmp_path / "results").exists()
    assert "mine: " not in capfd.readouterr().out
    assert normbench(*TINY, "norm=mine.py") == 0
    out = capfd.readouterr().out
    assert "mine: no YAML beside the file" in out and f"norm=mine --config-dir {tmp_path}/results/own" in out
    assert normbench(*TINY, "-m", "norm=none,mine", "--config-dir", "results/own", "--dry-run") == 0
    then = listed.replace("norm=mine · 12 updates (missing)", "norm=mine · 12 updates (done)")
    assert capfd.readouterr().out == then.replace("· 0 done", "· 1 done")
    assert normbench("check") == 0 and capfd.readouterr().out.startswith("whole: ")
    assert normbench(*TINY, "norm=none") == 0 and normbench("compare", "model=mnist_mlp") == 0
    (line,) = [line for line in capfd.readouterr().out.splitlines() if line.startswith("to decide")]
    assert "norm=mine,none" in line.replace("none,mine", "mine,none")
    assert line.endswith(f"--config-dir {tmp_path}/results/own"), "nobody has to know where train keeps it"
    (tmp_path / "mine.py").unlink()
    plan.forget()  # as another process
    assert normbench("list", "norms", "--config-dir", "results/own") == 0
    listing = " ".join(capfd.readouterr().out.split())
    assert "mine cannot be used: " in listing and "layer Layer normalization" in listing


@pytest.mark.parametrize("forward", ["return x.double()", "raise KeyError(1)"])
def test_what_a_file_does_wrong_is_reported_before_anything_is_made(forward, normbench, capfd, tmp_path: Path) -> None:
    text = f"from torch import nn\nclass Mine(nn.Module):\n    def forward(self, x):\n        {forward}\n"
    (tmp_path / "mine.py").write_text(text)
    assert normbench(*TINY, "norm=mine.py") == 2 and [*tmp_path.iterdir()] == [tmp_path / "mine.py"]
    assert capfd.readouterr().err.startswith("normbench: mine.py: mine serves no layout (")


def test_a_run_is_not_repeated_or_drawn_from_once_its_normalizer_was_edited(normbench, capfd, tmp_path: Path) -> None:
    own = tmp_path / "mine.py"
    own.write_text(EXAMPLE.read_text().replace('@normalizer("centre")', '@normalizer("mine")'))
    assert normbench(*TINY, "norm=mine.py") == 0
    (folder,) = (tmp_path / "results" / "runs").rglob("*-mine.s1.*")
    run = folder.name[-12:]
    own.write_text(own.read_text() + "# edited\n")
    capfd.readouterr()
    for command in (("rerun", run), ("sample", run, "--count", "1"), ("weights", run, "--output", "x")):
        assert normbench(*command, "--config-dir", "results/own") == 2
        assert (
            capfd.readouterr().err
            == f"normbench: run {run}: {own} was changed since the run was trained: undo that, or train it anew.\n"
        )


def test_a_sweeps_runs_are_listed_with_what_tells_them_apart(normbench, capfd, tmp_path: Path) -> None:
    there = tiny.spec("norm=layer", "seed=2")
    fake.directory(tmp_path / "results" / "runs", there)
    assert normbench(*TINY, "-m", "norm=none,layer", "seed=1,2", "--dry-run") == 0
    *lines, last = capfd.readouterr().out.splitlines()
    assert lines[0] == f"  {tiny.spec('seed=1').id}  norm=none seed=1 · 12 updates (missing)"
    assert lines[-1] == f"  {there.id}  norm=layer seed=2 · 12 updates (done)"
    assert len(lines) == 4 and last == "4 runs · 1 done; --dry-run: nothing is run"
    assert len(list((tmp_path / "results" / "runs").rglob("run.json"))) == 1


def test_what_is_shown_without_being_trained_is_reported_with_where_it_is_from(
    normbench, capfd, tmp_path: Path
) -> None:
    published, own = tiny.spec(), tiny.spec("seed=2")
    pack.write(tmp_path / "results" / "paper2020" / "fig" / "paper" / pack.NAME, [fake.record(published)])
    fake.directory(tmp_path / "results" / "runs", own)
    for words, found in (
        ((), "1 run found (published)"),
        (("train.epochs=1",), "1 run found (published, the first 6 of 12 updates)"),
        (("device=cuda",), "1 run found (published, on device=cpu, not cuda)"),
        (("seed=2", "train.epochs=1"), "1 run found (trained before, the first 6 of 12 updates)"),
        (("-m", "seed=2,1,2"), "1 run found (trained before); not trained again\n  1 run found (published)"),
    ):
        assert normbench(*TINY, *words) == 0
        assert f"  {found}; not trained again\n" in capfd.readouterr().out


def test_why_a_run_is_refused_at_its_start_is_reported_once(normbench, capfd) -> None:
    reason = "p=1e-06 leaves none of its"
    assert normbench(*TINY, "norm=rms", "norm.p=1e-6") == 2
    out = "".join(capfd.readouterr())
    assert out.count(reason) == 1 and "missing" not in out
    assert normbench(*TINY, "-m", "norm=rms", "norm.p=1e-6,1", "train.epochs=1") == 2
    out = "".join(capfd.readouterr())
    assert out.count(reason) == 1 and "missing" not in out and " done " in out


def test_without_a_terminal_evaluations_have_lines_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lines(*words: str, terminal: bool = False) -> list[str]:
        console = Console(file=io.StringIO(), width=140, force_terminal=terminal)
        spec, folder = tiny.spec(*words), tmp_path / f"{words} {terminal}".replace("/", " ")
        with bars(1, console) as listen:
            listen(spec, {"event": "start"})
            tiny.train(folder, *words, listen=lambda event: listen(spec, {"event": "progress"} | event))
        return [line for line in console.file.getvalue().splitlines() if " updates · " in line]

    assert lines("seed=2") == [], "it is done before the first line is due"
    monkeypatch.setattr(progress, "QUIET", 0.0)
    found = lines("train.checkpoint_seconds=0")  # a checkpoint after each update has no line
    assert [line.split(" · ")[1:3] for line in found] == [["epoch 1", "6/12 updates"], ["epoch 2", "12/12 updates"]]
    assert all("train loss " in line and "valid nll " in line for line in found)
    (half, whole) = lines("train.epochs=0", "train.steps=8", "eval.unit=updates", "eval.every=4", "norm=layer")
    assert half.startswith("  mnist_mlp layer ") and " s1 · 4/8 updates · train loss" in half and "8/8 updates" in whole
    assert lines("norm=layer", "train.epochs=1", terminal=True) == []


def test_runs_that_an_interrupt_left_are_one_line(normbench, capfd, tmp_path: Path, monkeypatch) -> None:
    def first_alone(self, specs, root, *rest):
        fake.directory(root, specs[0])
        return {spec.id: Outcome("not started") for spec in specs[1:]}, True

    monkeypatch.setattr(pool.Pool, "launch", first_alone)
    assert normbench(*TINY, "-m", "norm=none,layer", "seed=range(1,21)") == 130
    out = capfd.readouterr().out
    assert "39 runs missing\n" in out and out.count(" missing") == 1 and " done " in out


@pytest.mark.parametrize(
    ("words", "is_noted"),
    [
        (("norm=layer", "norm.sites={logits: batch}"), True),
        (("norm=layer", "norm.sites={hidden: layer, logits: batch}"), False),
        (("norm=layer", "norm.sites={logits: {eps: 1e-3}}"), False),
        (("norm=none", "norm.sites={logits: batch}"), False),
        (("norm=layer", "norm.sites=[logits]"), False),
        (("norm=layer",), False),
    ],
)
def test_a_normalizer_that_no_site_has_is_noted(words: tuple[str, ...], is_noted: bool, normbench, capfd) -> None:
    assert normbench("train", "-m", "--dry-run", "model=mnist_mlp", "data=digits", *words) == 0
    assert ("note: norm=layer stands nowhere" in capfd.readouterr().out) == is_noted


def test_a_plan_says_which_normalizer_is_another_one(normbench, capfd) -> None:
    for words in (["--dry-run"], []):
        assert normbench(*TINY, "-m", "norm=layer,ghost_batch", "seed=1,2", "train.batch_size=100", *words) == 0
        out = " ".join(capfd.readouterr().out.split())
        assert "note: norm=ghost_batch trains as batch: " in out and "(2 runs)" in out


def test_runs_without_the_kernel_are_told_what_a_compiler_brings(normbench, capfd, monkeypatch) -> None:
    words = ("train", "model=recall_lstm", "model.hidden_size=4", "train.steps=2", "norm=layer")
    monkeypatch.setenv("NORMBENCH_RNN", "aten")
    assert normbench(*words, "seed=1") == 0 and normbench(*TINY, "train.epochs=1") == 0
    assert capfd.readouterr().out.count(extras.WITHOUT_COMPILER) == 1, "the second has no recurrent layers"
    monkeypatch.setenv("NORMBENCH_RNN", "loop")
    assert normbench(*words, "seed=2") == 0 and extras.WITHOUT_COMPILER not in capfd.readouterr().out
