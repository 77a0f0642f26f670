"""Between backward pass and step: each way of clipping, each schedule, and what a run of them records and resumes."""

from __future__ import annotations

import inspect
import math
from bisect import bisect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch

from normbench.config import compose
from normbench.errors import NormbenchError
from normbench.rnn.layers import GRU
from normbench.train import clipping, optim

SCHEDULES = {name: compose.declaration("schedule", name) for name in compose.choices("schedule")}
USED = [name for name, facts in SCHEDULES.items() if "class" in facts and "refused" not in facts]


def built(config: dict[str, Any]) -> tuple[clipping.Clipping, torch.optim.Optimizer]:
    model = torch.nn.Linear(3, 2)
    optimizer = optim.build(config["optim"], model)
    return clipping.Clipping(config, model, optimizer), optimizer


# --- clipping --------------------------------------------------------------------------------------------------------


def clipped(rule: str, g: dict[str, torch.Tensor], at: Any) -> dict[str, torch.Tensor]:
    """The rules as they are written down, in float64."""
    whole = math.sqrt(sum(float(x.square().sum()) for x in g.values()))
    if rule == "global":
        return {name: x * min(1, at / whole) for name, x in g.items()}
    if rule == "per_tensor":
        return {name: x * min(1, at / float(x.norm())) for name, x in g.items()}
    return {name: at * x / math.sqrt(whole + 1e-8) if whole > at * at else x for name, x in g.items()}


@pytest.mark.parametrize("size", [0.01, 1.0, 30.0])
@pytest.mark.parametrize(("rule", "at"), [("global", 2.0), ("per_tensor", 2.0), ("attr_legacy", 5.0)])
def test_gradients_are_clipped_by_the_rule(rule: str, at: Any, size: float) -> None:
    draw = torch.Generator().manual_seed(1)
    shapes = {"matrix": (4, 3), "vector": (5,), "other": (2, 2, 2)}
    gradients = {name: size * torch.randn(shape, generator=draw) for name, shape in shapes.items()}
    before = {name: x.double() for name, x in gradients.items()}
    wanted = clipped(rule, before, at)
    acted = clipping.RULES[rule](gradients, at)
    for name, x in gradients.items():
        torch.testing.assert_close(x.double(), wanted[name], rtol=1e-6, atol=0)
        if not acted:
            assert torch.equal(x.double(), before[name])
    assert acted is any(not torch.equal(wanted[name], before[name]) for name in before)
    assert acted is {0.01: False, 30.0: True}.get(size, rule != "attr_legacy")


def test_a_grus_gates_and_candidate_are_clipped_apart() -> None:
    """order-embedding keeps W, U, b of both gates and Wx, Ux, bx of the candidate as parameters (layers.py)."""
    model = torch.nn.Module()
    model.gru = GRU(3, 4, bias="inside")
    config = tiny.spec("clip=per_tensor", "clip.at=2").config
    clip = clipping.Clipping(config, model, optim.build(config["optim"], model))
    draw = torch.Generator().manual_seed(1)
    for p in model.parameters():
        p.grad = 30 * torch.randn(p.shape, generator=draw)
    apart = {name: [p.grad[:8].clone(), p.grad[8:].clone()] for name, p in model.named_parameters()}
    assert len(apart) == 3
    assert clip(0) == {"clipped": True}
    for name, p in model.named_parameters():
        torch.testing.assert_close(p.grad, torch.cat([part * min(1, 2 / part.norm()) for part in apart[name]]))


def test_every_clipping_has_its_rule() -> None:
    assert set(clipping.RULES) == set(compose.choices("clip"))


# --- schedules -------------------------------------------------------------------------------------------------------


def test_every_schedule_of_torch_is_here_or_refused() -> None:
    module = torch.optim.lr_scheduler
    base = (module.LRScheduler, module.ReduceLROnPlateau)
    theirs = {c for c in vars(module).values() if inspect.isclass(c) and issubclass(c, base)} - {module.LRScheduler}
    names = {c.__name__ for c in theirs if not c.__name__.startswith("_")}
    assert names == {facts["class"] for facts in SCHEDULES.values() if "class" in facts}


# The rest of the class's arguments: its optimizer, where it stands, functions, other ways to say the same.
LEFT_OUT = {"optimizer", "last_epoch", "verbose", "scale_fn", "scale_mode", "epochs", "steps_per_epoch"}


@pytest.mark.parametrize("name", USED)
def test_options_and_defaults_are_torchs(name: str) -> None:
    parameters = inspect.signature(getattr(torch.optim.lr_scheduler, SCHEDULES[name]["class"])).parameters
    left = LEFT_OUT | {SCHEDULES[name].get("rate")}
    wanted = {k: None if p.default is p.empty else p.default for k, p in parameters.items() if k not in left}
    if name == "cyclic":  # None there: as many as up
        wanted["step_size_down"] = wanted["step_size_up"]
    node = compose.choice("schedule", name)
    assert {key: node[key] for key in SCHEDULES[name]["options"]} == wanted


def cosine(t: float, period: float, low: float = 0.1) -> float:
    return low + (1 - low) * (1 + math.cos(math.pi * t / period)) / 2


# Words of each, and its rate at update t where the optimizer's own is 1.
FORMULAS: dict[str, tuple[tuple[str, ...], Callable[[int], float]]] = {
    "constant": (("factor=0.5", "total_iters=4"), lambda t: 0.5 if t < 4 else 1.0),
    "linear": (("start_factor=0.2", "end_factor=0.8", "total_iters=5"), lambda t: 0.2 + 0.6 * min(t, 5) / 5),
    "exponential": (("gamma=0.9",), lambda t: 0.9**t),
    "step": (("step_size=3", "gamma=0.5"), lambda t: 0.5 ** (t // 3)),
    "multi_step": (("milestones=[2,7]", "gamma=0.5"), lambda t: 0.5 ** bisect([2, 7], t)),
    "polynomial": (("total_iters=8", "power=2"), lambda t: (1 - min(t, 8) / 8) ** 2),
    "cosine": (("T_max=6", "eta_min=0.1"), lambda t: cosine(t, 6)),
    "cosine_restarts": (
        ("T_0=3", "T_mult=2", "eta_min=0.1"),
        lambda t: cosine(t, 3) if t < 3 else cosine(t - 3, 6) if t < 9 else cosine(t - 9, 12),
    ),
    "cyclic": (
        ("max_lr=3", "step_size_up=2", "step_size_down=4", "cycle_momentum=false"),
        lambda t: 1 + 2 * min(t % 6 / 2, (6 - t % 6) / 4),
    ),
    "one_cycle": (  # up to update 3, down to 15
        ("total_steps=16", "pct_start=0.25", "anneal_strategy=linear", "div_factor=4", "final_div_factor=10"),
        lambda t: 0.25 + 0.75 * t / 3 if t <= 3 else 1 + (0.025 - 1) * (t - 3) / 12,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", USED)
def test_the_rate_of_an_update_is_the_formulas_wherever_a_run_goes_on(name: str) -> None:
    options, formula = FORMULAS[name]
    words = (f"schedule={name}", *(f"schedule.{option}" for option in options), "optim=sgd", "optim.lr=1")
    words += ("optim.momentum=0.5", "train.epochs=2")  # 12 updates
    config = tiny.spec(*words).config
    step, optimizer = built(config)
    for t in range(12):
        assert step(t) == {}
        (group,) = optimizer.param_groups
        assert group["lr"] == pytest.approx(formula(t), abs=1e-12), t
        resumed, other = built(config)
        resumed(t)
        assert (other.param_groups[0]["lr"], other.param_groups[0]["momentum"]) == (group["lr"], group["momentum"])
        optimizer.step()


def test_a_schedule_that_the_optimizer_cannot_have_is_one_line() -> None:
    with pytest.raises(NormbenchError) as caught:
        built(tiny.spec("schedule=cyclic", "schedule.max_lr=1", "optim=rprop").config)
    assert str(caught.value).startswith("schedule=cyclic: optimizer must support momentum") and caught.value.code == 2


# --- in a run --------------------------------------------------------------------------------------------------------

WORDS = ("schedule=one_cycle", "schedule.total_steps=12", "clip=global", "optim.bias_correction=kiros")


def test_a_run_with_all_of_it_goes_on_to_the_same_bytes_and_says_how_often_it_clipped(tmp_path: Path) -> None:
    words = (*WORDS, "clip.at=0.4")
    assert tiny.train(tmp_path / "calm", *words) == "done"
    for step in (2, 5):
        assert tiny.train(tmp_path / "run", *words, stopping=tiny.after(step)) == "interrupted"
    assert tiny.train(tmp_path / "run", *words) == "done"
    assert tiny.result(tmp_path / "run") == tiny.result(tmp_path / "calm")
    records = tiny.curve(tmp_path / "calm")
    shares = [r["clipped"] for r in records if r["mode"] == "running"]
    assert len(shares) == 2 and all(0 < share < 1 for share in shares), shares
    others = [("clip=none", *WORDS[:2]), (*WORDS[:3], "clip.at=0.4"), (*WORDS[2:], "clip.at=0.4")]
    found = {tiny.result(tmp_path / "calm")[1]}
    for number, other in enumerate(others):  # each of the three counts
        tiny.train(tmp_path / str(number), *other)
        found.add(tiny.result(tmp_path / str(number))[1])
    assert len(found) == 4


@pytest.mark.parametrize(("at", "share"), [("1e-9", 1.0), ("1e9", 0.0)])
def test_always_and_never(at: str, share: float, tmp_path: Path) -> None:
    tiny.train(tmp_path, "clip=per_tensor", f"clip.at={at}", "train.epochs=1")
    records = tiny.curve(tmp_path)
    assert [r["clipped"] for r in records if "clipped" in r] == [share]
