"""A model that has nothing in common with a classifier moves in without touching `train/`.

Sentences of any length and no targets, updates for a budget, noise in its evaluation, a metric of the whole split, a
stage after training, and something to draw.
"""

from __future__ import annotations

import functools
import importlib.machinery
import io
import math
import shutil
import sys
import types
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch
import torch.nn.functional as F
from rich.console import Console
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from normbench.commands import sample
from normbench.config.plan import train_specs
from normbench.core.streams import stream
from normbench.data import MODULES, Dataset
from normbench.data.examples import Ragged, Split
from normbench.data.sampler import Sampler
from normbench.errors import NormbenchError
from normbench.models import base as models
from normbench.models.base import Model, PerPlace
from normbench.norms.modes import normalizers
from normbench.rnn.layers import LSTM
from normbench.runs import directory, outcomes
from normbench.runs.directory import RunDirectory
from normbench.runs.table import Runs
from normbench.train import recorder
from normbench.train.evaluate import gather_populations
from normbench.train.train_one import ensure_run
from normbench.train.weights import trained

WORDS = 7
CHOICES = {
    "data/sentences": """
        name: sentences
        declares: {title: t, source: s, maths: 1, shape: [time, word], train_size: {of: 30, less: []}, sha256: x}
        """,
    "model/tenant": """
        # @package _global_
        defaults: [{/data: sentences}, {/optim: adam}, _self_]
        model:
          name: tenant
          init: glorot_uniform
          declares:
            title: t
            source: s
            maths: 1
            reads: [time, word]
            metrics: [nll, rank]
            default_sites: [lstm.cell]
            sites:
              lstm.input: &term
                {features: 5, times: 4, kinds: [pre_activation], axes: [batch, time, feature], bias: keep}
              lstm.hidden: {<<: *term, kinds: [state]}
              lstm.cell: {<<: *term, times: 1, kinds: [state]}
            options: {init: {type: str}}
        train: {batch_size: 4, steps: 12, sampler: lengths_in_turn, keep: [best, last, 7]}
        eval: {every: 5, unit: updates, samples: 2, strides: {train: 3}}
        monitor: {metric: rank}
        """,
}


class Tenant(Model):
    """Next word by an LSTM whose first state is noise; rank: of each sentence's own end among all ends."""

    def __init__(self, sites: Any) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 4)
        self.lstm = LSTM(4, 5, sites, "lstm")
        self.out = nn.Linear(5, WORDS)

    def losses(self, words: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        h = self.normal("start", words.new_zeros(len(words), 5, dtype=torch.float32))
        y, _ = self.lstm(self.embedding(words[:, :-1]), mask[:, 1:], (h[None], torch.zeros_like(h)[None]))
        nll = F.cross_entropy(self.out(y).transpose(1, 2), words[:, 1:], reduction="none")
        return nll * mask[:, 1:], mask[:, 1:]

    def forward(self, words: Tensor, words_mask: Tensor) -> Tensor:
        nll, valid = self.losses(words, words_mask)
        return nll.sum() / valid.sum()

    def evaluate(self, words: Tensor, words_mask: Tensor) -> dict[str, Tensor]:
        nll, valid = self.losses(words, words_mask)
        return {"nll": nll.sum(1) / valid.sum(1)}

    def collect(self, words: Tensor, words_mask: Tensor) -> dict[str, Tensor]:
        last = words_mask.sum(1) - 1
        return {"first": self.embedding(words[:, 0]), "last": self.embedding(words[range(len(words)), last])}

    def whole(self, split: str, collected: dict[str, Tensor]) -> dict[str, float]:
        scores = collected["first"] @ collected["last"].T
        return {"rank": float((scores > scores.diag()[:, None]).sum(1).float().mean())}

    def after(self, splits: Any, seed: int) -> Iterator[dict[str, Any]]:
        yield {"split": "task", "words": float(sum(map(len, splits.values())))}

    def sample(self, seed: int, count: int, data: Dataset) -> dict[str, bytes]:
        return {f"{i}.txt": bytes(stream(seed, "sample", i).integers(97, 123, 5).tolist()) for i in range(count)}

    def write(self, text: str, bias: float, seed: int, count: int, data: Dataset) -> dict[str, bytes]:
        return {f"{i}.txt": f"{text} {bias} {seed}".encode() for i in range(count)}


def load(config: Any, root: Path, seed: int = 0) -> Dataset:
    draw = stream(seed, "sentences")
    sizes = {"train": 30, "valid": 9, "test": 11}
    made = {
        name: Ragged.of(torch.from_numpy(draw.integers(0, WORDS, draw.integers(2, 9))) for _ in range(size))
        for name, size in sizes.items()
    }
    return Dataset("sentences", {name: Split(words=ragged, mean_over="words_mask") for name, ragged in made.items()})


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name, text in CHOICES.items():
        path = tmp_path / "conf" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(line[8:] for line in text.splitlines()))
    monkeypatch.setitem(MODULES, "sentences", "sentences")
    for name, member in (("models.tenant", "build"), ("data.sentences", "sentences")):
        module = types.ModuleType(f"normbench.{name}")
        module.__spec__ = importlib.machinery.ModuleSpec(module.__name__, None)
        setattr(module, member, {"build": lambda config, sites: Tenant(sites), "sentences": load}[member])
        monkeypatch.setitem(sys.modules, module.__name__, module)

    def made(*words: str) -> Any:
        return train_specs(["model=tenant", "norm=layer", *words], False, tmp_path / "conf")[0]

    return made


def _outcomes(path: Path) -> Any:
    """Each test example's NLL."""
    found = outcomes.read(path, "test", [""], "nll")
    assert found is not None
    return found[1]


def test_the_tenant_trains_and_goes_on_after_an_interruption(
    spec: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_spec = spec("train.checkpoint_seconds=0")
    assert ensure_run(asked_spec, RunDirectory(tmp_path / "run")) == "done"
    records = tiny.curve(tmp_path / "run")
    assert sorted({r["step"] for r in records}) == [0, 5, 10, 12] and {
        r["epoch"] for r in records if r["step"] == 12
    } == {12 / 11}
    assert {r["mode"] for r in records if r["step"] == 12} == {"running", "both", "eval", "stage"}
    assert all("rank" in r and "nll" in r for r in records if r["mode"] in ("eval", "both"))
    assert next(r for r in records if r["split"] == "task")["words"] == 50
    best = min((r["rank"], r["step"]) for r in records if r["split"] == "valid" and r["step"])[1]
    names = {path.name for path in (tmp_path / "run" / "weights").iterdir()}
    assert names == {"best.safetensors", "last.safetensors", "step-7.safetensors"}
    assert {path.name for path in (tmp_path / "run" / "outcomes").iterdir()} == {"best.npz", "last.npz"}
    at_best = next(r for r in records if r["split"] == "test" and r["step"] == best)
    own = _outcomes(tmp_path / "run" / "outcomes" / "best.npz")
    assert len(own) == 11 and own.mean() == pytest.approx(at_best["nll"], abs=2e-3)
    samples = {path.name for path in (tmp_path / "run" / "samples").iterdir()}
    at_the_end = {name for name in samples if not name.startswith("step-7-")}
    assert len(at_the_end) == recorder.SAMPLES and samples - at_the_end == {f"step-7-{name}" for name in at_the_end}
    sampled = tmp_path / "results" / "runs" / "adhoc" / f"tenant.s1.{asked_spec.id}"
    ensure_run(asked_spec, RunDirectory(sampled))
    console = Console(file=io.StringIO(), width=500)
    monkeypatch.setattr(sample, "console", lambda: console)
    drawn = functools.partial(sample.command, asked_spec.id[:6], tmp_path / "results", asked_spec.config_dir)
    drawn(3, seed=7, weights="best")
    assert console.file.getvalue().count("/samples/best-seed-7-") == 3
    with pytest.raises(NormbenchError, match="--weights frist: the run kept best, last, step-7"):
        drawn(3, seed=7, weights="frist")
    drawn(2, text="A line, of mine!", bias=0.5, seed=7)
    written = sampled / "samples" / "last-seed-7-A-line-of-mine-bias-0.5-1.txt"
    assert written.read_text() == "A line, of mine! 0.5 7" and str(written) in console.file.getvalue()
    lost = sampled / "weights" / "step-7.safetensors"
    shutil.copyfile(sampled / "weights" / "best.safetensors", lost)
    with pytest.raises(NormbenchError, match=r"step-7\.safetensors .*does not have the hash"):
        drawn(3, weights="step-7")
    save_file({name: math.nan * tensor for name, tensor in load_file(lost).items()}, lost)
    directory.write_json(sampled, directory.read_json(sampled) | {"files": directory.hashes(sampled)})
    with pytest.raises(NormbenchError, match=r"step-7\.safetensors holds NaN or Inf"):
        drawn(3, weights="step-7")
    for name in ("step-9", "step-10"):
        shutil.copyfile(sampled / "weights" / "best.safetensors", lost.with_stem(name))
    with pytest.raises(NormbenchError, match="the run kept best, last, step-7, step-9, step-10"):
        drawn(3, weights="frist")
    for name in ("last", "best", "step-10"):
        assert trained(sampled, asked_spec.config, None, asked_spec.config_dir)[1] == name
        (sampled / "weights" / f"{name}.safetensors").unlink()
    for calls in (1, 5, 11):
        stopped = tmp_path / f"stopped {calls}"
        assert ensure_run(asked_spec, RunDirectory(stopped), stopping=tiny.after(calls)) == "interrupted"
        assert ensure_run(asked_spec, RunDirectory(stopped)) == "done"
        assert tiny.result(stopped) == tiny.result(tmp_path / "run")


def test_evaluations_after_named_updates(spec: Any, tmp_path: Path) -> None:
    """A run that has them serves a request for fewer, and is retrained for another one."""
    asked_spec = spec("eval.also_after=[1,7]")
    evaluation = {
        **asked_spec.config["eval"],
        "also_after": [1, 7, 500],
    }  # as an experiment at a smaller size may have it
    asked_spec = replace(asked_spec, config={**asked_spec.config, "eval": evaluation})
    assert ensure_run(asked_spec, RunDirectory(tmp_path / "run")) == "done"
    records = tiny.curve(tmp_path / "run")
    assert sorted({r["step"] for r in records}) == [0, 1, 5, 7, 10, 12]
    ensure_run(spec(), RunDirectory(tmp_path / "default"))
    default = tiny.curve(tmp_path / "default")
    assert [r for r in records if r["step"] in (5, 10, 12) and r["mode"] == "eval"] == [
        r for r in default if r["step"] and r["mode"] == "eval"
    ]
    stored = asked_spec.config
    assert asked_spec.id == spec().id
    assert all(asked.accepts(stored) for asked in (spec(), spec("eval.also_after=[7]")))
    assert not spec("eval.also_after=[7,8]").accepts(stored)


def test_another_length_is_another_run_where_it_was_not_evaluated(spec: Any, tmp_path: Path) -> None:
    """12 updates end between two evaluations: a longer run has no record there, and must not have one."""
    root = tmp_path / "runs"
    short, long = (spec(f"train.steps={n}") for n in (12, 20))
    assert short.id == long.id
    ensure_run(short, directory.RunDirectory(directory.place(root, short)))
    ensure_run(long, directory.RunDirectory(directory.place(root, long)))
    ensure_run(long, RunDirectory(tmp_path / "straight"))
    assert tiny.curve(directory.place(root, long)) == tiny.curve(tmp_path / "straight")
    found = Runs(tmp_path)
    assert [run.steps for run in found.find([short, long, spec("train.steps=10")])] == [20, 10], (
        "each length that it was evaluated at"
    )
    assert found.of(short) is None and found.of(long) and found.retrained([short]) == [short]
    ensure_run(short, directory.RunDirectory(directory.place(root, short)))
    assert [(run.status, run.steps) for run in Runs(tmp_path).find([short])] == [("done", 12)]


def test_noise_of_an_evaluation_belongs_to_the_example(spec: Any, tmp_path: Path) -> None:
    """At every evaluation the same, and in whatever batch: not that of an update."""
    folders = {}
    for name, words in {"whole": (), "strided": ("eval.strides={test: 2}",), "one": ("eval.samples=1",)}.items():
        folders[name] = tmp_path / name
        ensure_run(spec("optim.lr=0", *words), RunDirectory(folders[name]))
    own = {name: _outcomes(folder / "outcomes" / "last.npz") for name, folder in folders.items()}
    assert np.array_equal(own["whole"][::2], own["strided"])
    assert not np.allclose(own["whole"], own["one"]), "two samples are averaged"
    tests = [r["nll"] for r in tiny.curve(folders["whole"]) if r["split"] == "test"]
    assert len(tests) == 4 and len(set(tests)) == 1, "nothing was learnt, and nothing drawn anew"


def test_a_pass_takes_its_statistics_of_what_is_evaluated(spec: Any, tmp_path: Path) -> None:
    """With the noise of an evaluation: of one batch that is the whole split they are that batch's own."""
    words = ("norm=batch", "norm.stats=per_step", "norm.eval_stats=per_step_pass", "norm.unbiased_running=false")
    asked = ("train.sampler=shuffled", "train.batch_size=30", "eval.samples=1", "eval.strides={}")
    asked_spec = spec(*words, *asked, "eval.variants=['eval_stats=batch']", "eval.splits=[train]")
    ensure_run(asked_spec, RunDirectory(tmp_path / "run"))
    found = [r for r in tiny.curve(tmp_path / "run") if r["split"] == "train" and r["mode"] == "eval"]
    by_pass, by_batch = ([r["nll"] for r in found if ("variant" in r) == own] for own in (False, True))
    assert len(by_pass) == 4 and by_pass == pytest.approx(by_batch, rel=1e-5)

    # the first step, whose cells begin at zero, by hand
    model = models.build(asked_spec.config, asked_spec.sites)
    split = load(None, tmp_path, asked_spec.seed).splits["train"]
    gather_populations(model, split, 0, Sampler("shuffled", 30, 30, asked_spec.seed))
    draws = (stream(asked_spec.seed, "evaluation", "train", i, 0, "start") for i in range(30))
    h = torch.from_numpy(np.stack([draw.standard_normal(5) for draw in draws])).float()
    p = {name: t.detach() for name, t in model.named_parameters()}
    first = p["embedding.weight"][split.batch(slice(None)).tensors["words"][:, 0]]
    weight_ih, weight_hh, bias = (p[f"lstm.cells.0.{name}"] for name in ("weight_ih", "weight_hh", "bias"))
    _, i, _, g = (first @ weight_ih.T + h @ weight_hh.T + bias).chunk(4, 1)
    c = i.sigmoid() * g.tanh()
    (norm,) = normalizers(model)
    torch.testing.assert_close(norm.pass_mean[0], c.mean(0))
    torch.testing.assert_close(norm.pass_var[0], c.var(0, correction=0))


def test_passes_in_training_mode_have_batches_as_training_makes_them(
    spec: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one length where that is asked for, and for statistics whole ones alone."""
    losses = Tenant.losses
    found: dict[bool, list[Tensor]] = {True: [], False: []}

    def watched(self: Tenant, words: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        if self.training and self.noise is not None:
            found[any(norm.gathering for norm in normalizers(self))].append(mask)
        return losses(self, words, mask)

    monkeypatch.setattr(Tenant, "losses", watched)
    asked = ("train.batch_size=2", "train.drop_last=true", "norm.allow_single=true")
    asked_spec = spec("norm=batch", "norm.stats=per_step", "norm.eval_stats=per_step_pass", "train.keep=[last]", *asked)
    ensure_run(asked_spec, RunDirectory(tmp_path / "run"))
    lengths = load(None, tmp_path, asked_spec.seed).splits["train"].lengths
    gathered, evaluated = found[True], found[False]
    assert all(bool(mask.all()) for mask in [*gathered, *evaluated])
    assert [len(mask) for mask in gathered] == [2] * 4 * int((lengths.bincount() // 2).sum())
    assert sum(len(mask) for mask in evaluated) == 4 * 2 * 10, "all examples of the strided split, two samples of each"


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (("train.steps=5", "train.epochs=5"), "train.epochs=5 and train.steps=5"),
        (("monitor.metric=rnak",), "monitor.metric=rnak"),
        (("monitor.split=tset",), "monitor.split=tset"),
        (("monitor.split=tset", "train.keep=[last]"), "monitor.split=tset"),
        (("eval.strides={valid: 0}", "train.keep=[best]"), "monitor.split=valid"),
        (("eval.strides={tset: 2}",), "eval.strides.tset"),
        (("eval.unit=epochs",), "eval.unit=updates"),
        (("train.keep=[frist]",), "train.keep=frist"),
        (("model=mnist_mlp",), "model=mnist_mlp"),
    ],
)
def test_what_does_not_fit_is_one_line_and_leaves_nothing(
    spec: Any, tmp_path: Path, words: tuple[str, ...], key: str
) -> None:
    with pytest.raises(NormbenchError) as caught:
        ensure_run(spec("data=sentences", *words), RunDirectory(tmp_path / "run"))
    assert key in str(caught.value) and not (tmp_path / "run" / "curve.jsonl").exists()


def test_a_tensor_that_is_not_there_is_named(spec: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tenant, "forward", lambda self, words, pictures: None)
    with pytest.raises(NormbenchError, match="model=tenant asks for the tensor 'pictures', data=sentences gives words"):
        ensure_run(spec(), RunDirectory(tmp_path / "run"))
    assert not (tmp_path / "run" / "curve.jsonl").exists()


@pytest.mark.parametrize("samples", [1, 2])
def test_a_metric_of_places_is_a_mean_over_places(
    spec: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, samples: int
) -> None:
    """Not over sentences: a long one counts for more."""

    def by_place(self: Tenant, words: Tensor, words_mask: Tensor) -> dict[str, PerPlace]:
        nll, valid = self.losses(words, words_mask)
        return {"nll": PerPlace(nll.sum(1), valid.sum(1))}

    by_example, placed = (RunDirectory(tmp_path / name) for name in ("by_example", "placed"))
    asked_spec = spec(f"eval.samples={samples}")
    ensure_run(asked_spec, by_example)
    monkeypatch.setattr(Tenant, "evaluate", by_place)
    ensure_run(asked_spec, placed)
    each = _outcomes(by_example.path / "outcomes" / "last.npz")
    lengths = load(None, tmp_path, asked_spec.seed).splits["test"].lengths.numpy() - 1
    wanted, found = (
        [r["nll"] for r in tiny.curve(run.path) if r["split"] == "test"][-1] for run in (by_example, placed)
    )
    assert found == pytest.approx((each * lengths).sum() / lengths.sum(), abs=2e-3) and abs(found - wanted) > 1e-4
