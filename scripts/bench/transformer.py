"""An update of the Transformers beside plain PyTorch: python scripts/bench/transformer.py [--rounds N]

`model=char_lm` and `model=vit` at their sizes, with LN, RMSNorm, DyT and without, on drawn characters and images:
forward, backward, clipping, schedule and the optimizer's step, as the training loop has them. The other side is the
same network as nanoGPT writes it: `nn.LayerNorm`, `nn.RMSNorm` or a plain DyT, query, key and value by one matrix,
`torch.optim.AdamW` (fused), `clip_grad_norm_`; eager and, where there is a C++ compiler, by `torch.compile`. Both begin
with the same weights; a loss of the first updates that differs stops the benchmark. The seconds are those of the
processor, which other programs on the machine do not add to.
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import harness
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from normbench.battery.cost import interleave
from normbench.config.plan import train_specs
from normbench.config.spec import Spec
from normbench.core.streams import stream
from normbench.models import base
from normbench.train import optim
from normbench.train.clipping import Clipping

GOAL = 1.05
ROUNDS = 31
NORMS = ("none", "layer", "rms", "dyt")
PARTS = ("query", "key", "value")


class DyT(nn.Module):
    """As the paper's Algorithm 1."""

    def __init__(self, d: int, alpha: float) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.full((1,), alpha))
        self.gain, self.bias = nn.Parameter(torch.ones(d)), nn.Parameter(torch.zeros(d))

    def forward(self, x: Tensor) -> Tensor:
        return self.gain * torch.tanh(self.alpha * x) + self.bias


class Block(nn.Module):
    def __init__(self, d: int, heads: int, causal: bool, norm: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norms = nn.ModuleDict({"attention": norm(), "mlp": norm()})
        self.qkv, self.output = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mlp = nn.ModuleDict({"hidden": nn.Linear(d, 4 * d), "output": nn.Linear(4 * d, d)})

    def forward(self, x: Tensor) -> Tensor:
        count, steps, d = x.shape
        parts = self.qkv(self.norms["attention"](x)).split(d, 2)
        q, k, v = (part.view(count, steps, self.heads, -1).transpose(1, 2) for part in parts)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.output(mixed.transpose(1, 2).reshape(count, steps, d))
        return x + self.mlp["output"](F.gelu(self.mlp["hidden"](self.norms["mlp"](x))))


class Plain(nn.Module):
    """Parameters have normbench's names, but for `qkv`."""

    def __init__(self, model: Mapping[str, Any], causal: bool, length: int, norm: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.positions = nn.Embedding(length, model["width"])
        blocks = (Block(model["width"], model["heads"], causal, norm) for _ in range(model["layers"]))
        self.block, self.norms = nn.Sequential(*blocks), nn.ModuleDict({"final": norm()})

    def stream(self, embedded: Tensor) -> Tensor:
        return self.norms["final"](self.block(embedded + self.positions.weight))


class Language(Plain):
    def __init__(self, config: Mapping[str, Any], norm: Callable[[], nn.Module]) -> None:
        model, data = config["model"], config["data"]
        super().__init__(model, True, data["length"], norm)
        self.embedding, self.scale = nn.Embedding(data["characters"], model["width"]), nn.Parameter(torch.ones(()))
        self.logits = nn.Linear(model["width"], data["characters"])

    def forward(self, text: Tensor) -> Tensor:
        text = text.long()
        logits = self.logits(self.stream(self.scale * self.embedding(text[:, :-1])))
        return F.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())


class Vision(Plain):
    def __init__(self, config: Mapping[str, Any], norm: Callable[[], nn.Module]) -> None:
        model, (height, width, channels) = config["model"], config["data"]["declares"]["shape"]
        self.side = model["patch"]
        super().__init__(model, False, height * width // self.side**2, norm)
        self.patches = nn.Linear(channels * self.side**2, model["width"])
        self.logits = nn.Linear(model["width"], config["data"]["declares"]["classes"])

    def forward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        rows = inputs.unflatten(1, (-1, self.side)).unflatten(3, (-1, self.side))
        patches = self.patches(rows.transpose(2, 3).flatten(1, 2).flatten(2))
        return F.cross_entropy(self.logits(self.stream(patches).mean(1)), targets)


MODELS: dict[str, type[Language] | type[Vision]] = {"char_lm": Language, "vit": Vision}


def norms(config: Mapping[str, Any]) -> Callable[[], nn.Module]:
    """What torch has for the run's normalizer, with its options."""
    d, norm = config["model"]["width"], config["norm"]
    return {
        "none": nn.Identity,
        "layer": lambda: nn.LayerNorm(d, norm["eps"]),
        "rms": lambda: nn.RMSNorm(d, norm["eps"]),
        "dyt": lambda: DyT(d, norm["alpha_init"]),
    }[norm["name"]]


@torch.no_grad()
def move(network: nn.Module) -> None:
    """From where each weight is small, and any network's loss is nearly that of chance."""
    generator = torch.Generator().manual_seed(1)
    for parameter in network.parameters():
        parameter += 0.1 * torch.randn(parameter.shape, generator=generator)


@torch.no_grad()
def begin_alike(plain: Plain, network: base.Model) -> None:
    theirs = dict(network.named_parameters())
    for name, parameter in plain.named_parameters():
        if "qkv" in name:
            parameter.copy_(torch.cat([theirs.pop(name.replace("qkv", f"attention.{part}")) for part in PARTS]))
            continue
        wanted = name.replace("weight", "gain") if "norms" in name else name
        wanted = wanted if wanted in theirs else name.replace("output", "attention.output", 1)
        parameter.copy_(theirs.pop(wanted))
    assert not theirs, f"plain PyTorch lacks {', '.join(theirs)}"


def drawn(spec: Spec) -> dict[str, Tensor]:
    """A batch of the size and shape of the set's."""
    draw, data, size = stream(1, "bench"), spec.config["data"], spec.config["train"]["batch_size"]
    if "characters" in data:
        return {"text": torch.from_numpy(draw.integers(data["characters"], size=(size, data["length"] + 1)))}
    inputs = torch.from_numpy(draw.standard_normal((size, *data["declares"]["shape"]), dtype="float32"))
    return {"inputs": inputs, "targets": torch.from_numpy(draw.integers(data["declares"]["classes"], size=size))}


def ours(spec: Spec, network: base.Model, batch: Mapping[str, Tensor]) -> Callable[[], float]:
    optimizer = optim.build(spec.config["optim"], network, spec.config["model"]["declares"]["outer"])
    clip = Clipping(spec.config, network, optimizer)
    numbers = iter(range(10**9))

    def step() -> float:
        number = next(numbers)
        with base.update(network, 1, number):
            loss: Tensor = network(**batch)
        value = loss.item()
        loss.backward()
        clip(number)
        optimizer.step()
        optimizer.zero_grad()
        return value

    return step


def theirs(spec: Spec, plain: Plain, batch: Mapping[str, Tensor], compiled: bool) -> Callable[[], float]:
    options, schedule = spec.config["optim"], spec.config["schedule"]
    matrices = [p for p in plain.parameters() if p.dim() == 2]
    others = [p for p in plain.parameters() if p.dim() != 2]
    groups = [{"params": matrices}, {"params": others, "weight_decay": 0.0}]
    rate, betas = options["lr"], tuple(options["betas"])
    optimizer = torch.optim.AdamW(
        groups, rate, betas, eps=options["eps"], weight_decay=options["weight_decay"], fused=True
    )
    keys = ("total_steps", "pct_start", "cycle_momentum", "div_factor", "final_div_factor")
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, **{key: schedule[key] for key in keys})
    forward = torch.compile(plain) if compiled else plain

    def step() -> float:
        loss: Tensor = forward(**batch)
        value = loss.item()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(plain.parameters(), spec.config["clip"]["at"])
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        return value

    return step


def compare(model: str, norm: str, compiling: bool, rounds: int, *words: str) -> Iterator[harness.Row]:
    (spec,) = train_specs([f"model={model}", f"norm={norm}", *words], False)
    network, batch, how = base.build(spec.config, spec.sites).train(), drawn(spec), norms(spec.config)
    plain = {name: MODELS[model](spec.config, how) for name in ("plain", *(["compiled"] if compiling else []))}
    move(network)
    for each in plain.values():
        begin_alike(each, network)
    sides = {"ours": ours(spec, network, batch)}
    sides |= {name: theirs(spec, each, batch, name == "compiled") for name, each in plain.items()}
    for _ in range(3):
        losses = [side() for side in sides.values()]
        if not math.isclose(min(losses), max(losses), rel_tol=1e-4):
            raise SystemExit(f"{model}, {norm}: ours and plain PyTorch compute different losses, {losses}")
    took = interleave(sides, rounds, warmup=2, clock=time.process_time)
    for name in plain:
        yield harness.row(f"{model}, {norm}: ours / {name}", took["ours"], took[name], 1, GOAL)


def rows(rounds: int) -> Iterator[harness.Row]:
    compiling = shutil.which("g++") is not None
    for model in MODELS:
        for norm in NORMS:
            yield from compare(model, norm, compiling, rounds)


def reasons(measured: Sequence[harness.Row]) -> list[str]:
    if not any("compiled" in row.case for row in measured):
        return ["`torch.compile` is left out: it needs g++, which is not here."]
    return [
        "`plain` is eager. `compiled` fuses what stands between the products, after half a minute of compiling for "
        "each network, which these seconds leave out. normbench compiles no network: a run's numbers would depend on "
        "the compiler, and short runs would take longer."
    ]


if __name__ == "__main__":
    harness.main(__doc__, "transformer", "An update of the Transformers: ours / plain PyTorch", ROUNDS, rows, reasons)
