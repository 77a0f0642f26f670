"""Every optimizer: its YAML says what torch's class takes, it steps as torch's does, and goes on as it was."""

from __future__ import annotations

import inspect
import math
import subprocess
import sys
from pathlib import Path

import pytest
import tiny
import torch
from smallest import small

from normbench.config import compose, identity
from normbench.errors import NormbenchError
from normbench.models import base as models
from normbench.train import optim

FACTS = {name: compose.declaration("optim", name) for name in compose.choices("optim")}
TORCHS = {
    cls for cls in vars(torch.optim).values() if inspect.isclass(cls) and issubclass(cls, torch.optim.Optimizer)
} - {torch.optim.Optimizer}
USED = [
    name
    for name, facts in FACTS.items()
    if hasattr(torch.optim, facts.get("class", "")) and not {"refused", "matrices"} & facts.keys()
]
# How it is computed, which is ours to choose, and what another choice is for.
LEFT_OUT = {"params", "foreach", "fused", "capturable", "differentiable"}
OTHERS = {"adam": {"decoupled_weight_decay"}}  # is adamw, and torch before 2.7 lacks it
OWN = {"adam": {"bias_correction"}}
# Other than the defaults, so that an option that is not handed on is seen.
FURTHER = {
    "adadelta": {"rho": 0.8},
    "adafactor": {"d": 1.5, "eps": [1e-5, 1e-2], "weight_decay": 0.1},
    "adagrad": {"lr_decay": 0.1, "initial_accumulator_value": 0.2},
    "adam": {"amsgrad": True, "weight_decay": 0.1, "eps": 1e-2},
    "adamax": {"betas": [0.7, 0.8]},
    "adamw": {"weight_decay": 0.3, "betas": [0.5, 0.9]},
    "asgd": {"lambd": 0.1, "t0": 1.0, "alpha": 0.5},
    "nadam": {"momentum_decay": 0.1, "decoupled_weight_decay": True, "weight_decay": 0.1},
    "radam": {"betas": [0.5, 0.6]},
    "rmsprop": {"centered": True, "momentum": 0.5, "alpha": 0.8},
    "rprop": {"etas": [0.4, 1.5], "step_sizes": [1e-3, 0.05]},
    "sgd": {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1, "maximize": True},
}


def test_every_class_of_torch_is_here_or_refused() -> None:
    declared = {facts["class"] for facts in FACTS.values() if "class" in facts}
    assert {cls.__name__ for cls in TORCHS} <= declared
    ours = declared - {cls.__name__ for cls in TORCHS} - {"Muon"}  # which older versions of torch lack
    assert ours == {"KerasAdam"} and set(FURTHER) == set(USED)


@pytest.mark.parametrize("name", USED)
def test_options_and_defaults_are_torchs(name: str) -> None:
    parameters = inspect.signature(getattr(torch.optim, FACTS[name]["class"])).parameters
    wanted = {key: p.default for key, p in parameters.items() if key not in LEFT_OUT | OTHERS.get(name, set())}
    if name == "adafactor":  # None there: the resolution of the parameter's type
        wanted["eps"] = (torch.finfo(torch.float32).eps, wanted["eps"][1])
    node = compose.choice("optim", name)
    found = {key: tuple(value) if isinstance(value, list) else value for key, value in node.items()}
    assert {key: found[key] for key in FACTS[name]["options"].keys() - OWN.get(name, set()) - optim.OURS} == wanted
    assert ("weight_decay" in wanted) == ("decay_norms" in found)
    assert FACTS[name].get("fused", False) == ("fused" in parameters)


def stepped(optimizer: torch.optim.Optimizer, model: torch.nn.Module, steps: range) -> list[torch.Tensor]:
    for step in steps:
        draw = torch.Generator().manual_seed(step)
        for parameter in model.parameters():
            parameter.grad = torch.randn(parameter.shape, generator=draw)
        optimizer.step()
    return [p.detach().clone() for p in model.parameters()]


def layer() -> torch.nn.Module:
    model = torch.nn.Linear(3, 2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.linspace(-1, 1, parameter.numel()).view_as(parameter))
    return model


@pytest.mark.parametrize("name", USED)
def test_it_steps_as_torchs_class_and_goes_on_after_a_stop(name: str) -> None:
    config = tiny.spec(f"optim={name}", *(f"optim.{k}={v}".lower().replace(" ", "") for k, v in FURTHER[name].items()))
    chosen, model, other = config.config["optim"], layer(), layer()
    options = {key: tuple(v) if isinstance(v, list) else v for key, v in FURTHER[name].items()}
    cls = getattr(torch.optim, FACTS[name]["class"])
    theirs = cls(other.parameters(), lr=chosen["lr"], foreach=False, **options)
    ours = optim.build(chosen, model)
    stepped(ours, model, range(3))
    state = {key: value.clone() for key, value in optim.state_tensors(ours, model).items()}
    again = layer()
    again.load_state_dict(model.state_dict())
    resumed = optim.build(chosen, again)
    optim.load_state(resumed, again, state)
    found, wanted = stepped(ours, model, range(3, 6)), stepped(theirs, other, range(6))
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-7)
    assert all(torch.equal(a, b) for a, b in zip(found, stepped(resumed, again, range(3, 6)), strict=True))
    unset = layer()
    defaults = stepped(cls(unset.parameters(), lr=chosen["lr"]), unset, range(6))
    assert not torch.allclose(defaults[0], found[0], rtol=1e-4), "the options change nothing"


@pytest.mark.slow
def test_no_optimizer_loads_torchs_compiler() -> None:
    code = """
import sys, torch
from normbench.config import compose, grammar
from normbench.models import base as models
from normbench.train import optim
for name in sys.argv[1:]:
    model = torch.nn.Linear(3, 2)
    words = ["model=mnist_mlp", f"optim={name}"]
    optimizer = optim.build(compose.compose(grammar.parse(words))["optim"], model)
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    optim.load_state(optimizer, model, optim.state_tensors(optimizer, model))
print("torch._dynamo" in sys.modules, optimizer.step.__qualname__)
"""
    done = subprocess.run([sys.executable, "-c", code, *USED, "keras_adam"], capture_output=True, text=True)
    assert done.stdout.split() == ["False", "Adam.step"], done.stderr


DECAYING = [name for name in USED if "weight_decay" in FACTS[name]["options"]]


@pytest.mark.parametrize("name", DECAYING)
def test_weight_decay_without_normalizers_and_biases(name: str) -> None:
    """As torch's class with two groups; another run, and by default the one that it was."""
    words = [f"optim={name}", "optim.weight_decay=0.5", "norm=layer"]
    spec, default = tiny.spec(*words, "optim.decay_norms=false"), tiny.spec(*words)
    assert spec.id != default.id == tiny.spec(*words, "optim.decay_norms=true").id
    stored = compose.stored_form(default.config)
    before = {key: value for key, value in stored["optim"].items() if key != "decay_norms"}
    assert identity.run_id(compose.restore({**stored, "optim": before})) == default.id
    model, other, decayed = (models.build(default.config, default.sites) for _ in range(3))
    ours, named = optim.build(spec.config["optim"], model), dict(other.named_parameters())
    weights = [key for key in named if key.endswith("linear.weight")]
    assert len(weights) == 2 and {"hidden.0.norm.gain", "hidden.0.norm.bias", "logits.linear.bias"} < named.keys()
    rest = {"params": [named[key] for key in named if key not in weights], "weight_decay": 0.0}
    options = {"lr": spec.config["optim"]["lr"], "weight_decay": 0.5}
    theirs = getattr(torch.optim, FACTS[name]["class"])([{"params": [named[key] for key in weights]}, rest], **options)
    stepped(ours, model, range(2))
    state = optim.state_tensors(ours, model)
    resumed = optim.build(spec.config["optim"], model)
    optim.load_state(resumed, model, state)
    wanted = stepped(theirs, other, range(4))
    torch.testing.assert_close(stepped(resumed, model, range(2, 4)), wanted, rtol=1e-5, atol=1e-7)
    all_decayed = dict(
        zip(named, stepped(optim.build(default.config["optim"], decayed), decayed, range(4)), strict=True)
    )
    same = {key for key in named if torch.allclose(all_decayed[key], named[key], rtol=1e-6, atol=1e-7)}
    assert same >= {*weights} and "hidden.0.norm.gain" not in same


@pytest.mark.parametrize("words", [(), ("optim=adamw", "optim.weight_decay=0")])
def test_nothing_to_leave_out_of_weight_decay_is_one_line(words: tuple[str, ...]) -> None:
    with pytest.raises(NormbenchError, match=r"optim\.decay_norms=false .* optim\.weight_decay=0"):
        tiny.spec(*words, "optim.decay_norms=false")


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("optim=sgd", "optim.nesterov=true"), "optim=sgd: Nesterov momentum requires a momentum and zero dampening."),
        (("optim=rprop", "optim.etas=[1.2,0.5]"), "optim=rprop: Invalid eta values: 1.2, 0.5."),
        (("optim.bias_correction=kiros", "optim.betas=[0,0.9]"), "optim=adam: bias_correction=kiros divides by zero"),
    ],
)
def test_options_that_do_not_go_together_are_one_line(words: tuple[str, ...], wanted: str) -> None:
    with pytest.raises(NormbenchError) as caught:
        optim.build(tiny.spec(*words).config["optim"], layer())
    assert str(caught.value).startswith(wanted) and caught.value.code == 2


def test_a_class_that_this_torch_lacks_is_one_line() -> None:
    config = tiny.spec("optim=sgd").config["optim"]
    with pytest.raises(NormbenchError, match=r"optim=sgd: torch \S+ has no Newest\.$"):
        optim.build(config | {"declares": config["declares"] | {"class": "Newest"}}, layer())


# --- two parts -------------------------------------------------------------------------------------------------------

MUON = pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="torch before 2.9")


@MUON
@pytest.mark.parametrize("decay_norms", [True, False])
def test_muon_takes_the_matrices_of_hidden_layers_and_adamw_the_rest(decay_norms: bool) -> None:
    """As torch's two classes, each with its own; and it goes on after a stop."""
    spec = small("imdb_rnn", "optim=muon", f"optim.decay_norms={decay_norms}".lower())
    chosen, outer = spec.config["optim"], spec.config["model"]["declares"]["outer"]
    model, other, again = (models.build(spec.config, spec.sites) for _ in range(3))
    ours = optim.build(chosen, model, outer)
    stepped(ours, model, range(3))
    again.load_state_dict(model.state_dict())
    resumed = optim.build(chosen, again, outer)
    optim.load_state(resumed, again, {k: v.clone() for k, v in optim.state_tensors(ours, model).items()})
    found = stepped(ours, model, range(3, 6))
    assert all(torch.equal(a, b) for a, b in zip(found, stepped(resumed, again, range(3, 6)), strict=True))

    named = dict(other.named_parameters())
    hidden = [f"lstm.{i}.cells.0.weight_{kind}" for i in (0, 1) for kind in ("ih", "hh")] + ["dense.linear.weight"]
    rest = {name: p for name, p in named.items() if name not in hidden}
    bare = [p for name, p in rest.items() if name.split(".")[-1].startswith("bias") and not decay_norms]
    whole = [p for p in rest.values() if not any(p is b for b in bare)]
    muon = torch.optim.Muon([named[name] for name in hidden], lr=0.02, weight_decay=0.01)
    groups = [{"params": whole}, *([{"params": bare, "weight_decay": 0.0}] if bare else [])]
    adamw = torch.optim.AdamW(groups, lr=chosen["lr"], betas=(0.9, 0.95), eps=1e-10, weight_decay=0.01)
    for step in range(6):
        stepped(muon, other, range(step, step + 1))
        adamw.step()
    torch.testing.assert_close(found, [p.detach() for p in named.values()], rtol=1e-5, atol=1e-6)


@MUON
def test_a_run_with_muon_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    words = ("model.hidden_sizes=[8,6]", "optim=muon", "schedule=step", "schedule.step_size=4")
    assert tiny.train(tmp_path / "calm", *words) == "done"
    assert tiny.train(tmp_path / "stopped", *words, stopping=tiny.after(7)) == "interrupted"
    assert tiny.train(tmp_path / "stopped", *words) == "done"
    assert tiny.result(tmp_path / "stopped") == tiny.result(tmp_path / "calm")


@MUON
def test_muon_where_it_cannot_serve_is_one_line() -> None:
    with pytest.raises(NormbenchError, match="optim=muon: the model has no matrix between"):
        optim.build(tiny.spec("optim=muon").config["optim"], layer(), ["weight"])
    with pytest.raises(NormbenchError, match="schedule=one_cycle takes one learning rate, optim=muon has two"):
        tiny.spec("optim=muon", "schedule=one_cycle", "schedule.total_steps=12")


# --- three Adams -----------------------------------------------------------------------------------------------------


def test_the_legacy_adam_steps_so_many_times_as_far() -> None:
    """Of the code of order embeddings and skip-thoughts: derived by hand, for the default betas."""
    ratios = {
        **{1: 3.51, 2: 4.29, 5: 5.80, 10: 6.53, 20: 6.24, 50: 4.50},
        **{100: 3.24, 300: 1.96, 1000: 1.26, 3000: 1.03, 10000: 1.00},
    }
    for t, ratio in ratios.items():
        assert optim.kiros_ratio(t, 0.9, 0.999) == pytest.approx(ratio, abs=0.005)


def naive(kind: str, gradients: torch.Tensor, p: torch.Tensor, lr: float, b1: float, b2: float, eps: float):
    m, v = torch.zeros_like(p), torch.zeros_like(p)
    for t, g in enumerate(gradients, 1):
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        if kind == "standard":
            p = p - lr * m / (1 - b1**t) / ((v / (1 - b2**t)).sqrt() + eps)
        else:
            c1, c2 = (b1, b2) if kind == "keras" else (1 - b1, 1 - b2)  # the code: fix1 = 1 - b1**t with b1 = 0.1
            p = p - lr * math.sqrt(1 - c2**t) / (1 - c1**t) * m / (v.sqrt() + eps)
    return p


KINDS = {
    "standard": ("optim=adam",),
    "keras": ("optim=keras_adam",),
    "kiros": ("optim=adam", "optim.bias_correction=kiros"),
}


@pytest.mark.parametrize("stop", [0, 3])
def test_three_adams_are_their_formulas(stop: int) -> None:
    """Distinct by far at this eps; stopped after a step and gone on with, the same."""
    gradients = torch.randn(12, 3, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 0.01
    start = torch.linspace(-1, 1, 12, dtype=torch.float64).view(3, 4)
    wanted = {kind: naive(kind, gradients, start, 0.01, 0.9, 0.999, 1e-3) for kind in KINDS}
    for kind, words in KINDS.items():
        config = tiny.spec(*words, "optim.lr=0.01", "optim.eps=1e-3").config["optim"]
        model = torch.nn.Linear(4, 3, bias=False).double()
        model.weight.data.copy_(start)
        optimizer = optim.build(config, model)
        for step, gradient in enumerate(gradients):
            if stop and step == stop:
                state = {key: value.clone() for key, value in optim.state_tensors(optimizer, model).items()}
                optimizer = optim.build(config, model)
                optim.load_state(optimizer, model, state)
            model.weight.grad = gradient.clone()
            optimizer.step()
            assert optimizer.param_groups[0]["lr"] == 0.01, "a schedule goes on from it"
        for other in KINDS:
            off = (model.weight.detach() - wanted[other]).abs().max()
            assert off < 1e-12 if other == kind else off > 1e-3, (kind, other, off)
