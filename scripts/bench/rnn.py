"""Normalized LSTM and GRU against the plain ones: python scripts/bench/rnn.py [--rounds N] [--output DIR]

A training step is forward and backward of one layer over given inputs, gradients of inputs and weights included;
batch-first, float32, LN 2016 eq. 20-22 and 26-28. Against torch's un-normalized layer, and against the same
LN cell as others would write it: scripted by TorchScript, in a JAX scan with the projection of the inputs taken out of
it (where jax can be imported; it runs in this process), as our own plain loop, and as that loop with its step compiled
by torch.compile (the row's name has the seconds of its first call, fewer where torch's cache on the disk has the code).
Where there is clang, it builds the kernel as well.
A processor without AVX-512 gets a page of its own, rnn_avx2. The limit is the time that the
matrix products alone would take at the speed of a large one, which is measured in the same rounds: nobody's step takes
less, so that where torch takes R times the limit, no ratio to torch can be below 1 / R.
Batch normalization with statistics of each step by itself: against our own layer without a normalizer.
Other normalizers of the kernel: against our own layer without one.
A user's element-wise normalizer, which the kernel lacks: against layer normalization.
Cells with feedback: x_t holds h_{t-1}, so nothing can be done ahead; against a loop of `nn.LSTMCell`.
"""

from __future__ import annotations

import copy
import importlib.metadata
import importlib.util
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import harness
import torch
from torch import Tensor, nn

from normbench.battery.cost import interleave
from normbench.norms import kernel
from normbench.norms.sites import Choice, Site
from normbench.rnn.cells import Sites
from normbench.rnn.layers import GRU, LSTM, Recurrent
from normbench.rnn.matmul import matmul

Side = Callable[[], object]
# why goals are missed, by what the names of rows have in them
TO_TORCH = """Beside torch no ratio can be below that of the products alone at full speed. What ours takes beyond them
are means, variances, gains, the gates' curves, and products of few rows, which are slower. Missed:
"""
REASONS = {
    "without a compiler": """Without a compiler each operation of a step is a call of torch's: where a step has few
numbers (25 rows of 64 features), the calls take the time.""",
    "/ none": """Beside a cell without normalization the limit is 1. For each row and step DyT and Derf have 9 H curves
more than its 5 H, ScaleNorm three root mean squares, BN per step means and variances of all columns and their
gradients. The smaller H, the less of an update are the products.""",
}
PEAK = 1536  # size of the square product that measures the limit


@dataclass(frozen=True)
class Shape:
    """Sizes of one paper's recurrence, and the largest ratios aimed at: to torch, in training and in inference, to the
    limit, to a script, to JAX; without a compiler to torch."""

    name: str
    layer: type[Recurrent]
    steps: int
    batch: int
    inputs: int
    hidden: int
    torch: float
    inference: float
    limit: float
    script: float | None
    jax: float | None
    aten: float | None

    @property
    def operations(self) -> float:
        """Of the products of an inference, input and recurrent; a training step has each twice more, backward."""
        return 2.0 * self.steps * self.batch * self.layer.cell.gates * self.hidden * (self.inputs + self.hidden)


# goals: the time of torch's layer, and somewhat more where a step is small; 65, 60, 75, 43, 70 and 80 % of
# the limit; 2.4 and 1.15 times a script; twice JAX
SHAPES = (
    Shape("handwriting 8×500×400", LSTM, 500, 8, 400, 400, 1.0, 1.0, 1 / 0.65, 1 / 2.4, 0.5, 1.4),
    Shape("reader 64×300×240", LSTM, 300, 64, 240, 240, 1.0, 1.0, 1 / 0.6, 1 / 1.15, 0.5, 1.4),
    Shape("DRAW shape 128×64×256", LSTM, 64, 128, 256, 256, 1.0, 1.05, 1 / 0.75, 1 / 1.15, 0.5, 1.4),
    Shape("IMDB-like 25×200×64", LSTM, 200, 25, 64, 64, 1.15, 1.15, 1 / 0.43, 1 / 2.4, 0.5, 2.6),
    Shape("order embeddings 128×20×1024", GRU, 20, 128, 300, 1024, 1.0, 1.0, 1 / 0.7, None, None, None),
    Shape("skip-thoughts 64×30×2400", GRU, 30, 64, 620, 2400, 1.0, 1.0, 1 / 0.8, None, None, None),
)


def normed(layer: type[Recurrent], inputs: int, hidden: int, norm: str = "layer", **options: object) -> Recurrent:
    sizes = layer.cell.site_sizes(hidden)
    file = str(options.pop("file", ""))
    choice = None if norm == "none" else Choice(norm, "state", options, True, False, 1, file)

    def sites(path: str) -> tuple[Site, Choice | None]:
        name = path.removeprefix("bench.")
        return Site(path, ("state",), ("batch", "time", "feature"), sizes[name]), choice

    given: Sites = sites
    return layer(inputs, hidden, given, "bench")


class ScriptedLSTM(torch.jit.ScriptModule):
    """The LN cell as scripts have it (torch's own fastrnns example), with c carried on raw as in the paper."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.weight_ih = nn.Parameter(torch.randn(4 * hidden, inputs) / hidden**0.5)
        self.weight_hh = nn.Parameter(torch.randn(4 * hidden, hidden) / hidden**0.5)
        self.bias = nn.Parameter(torch.zeros(4 * hidden))
        self.input, self.hidden, self.cell = nn.LayerNorm(4 * hidden), nn.LayerNorm(4 * hidden), nn.LayerNorm(hidden)

    @torch.jit.script_method
    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> Tensor:
        outputs = torch.jit.annotate(list[Tensor], [])
        for step in x.unbind(1):
            gates = self.input(torch.mm(step, self.weight_ih.t())) + self.hidden(torch.mm(h, self.weight_hh.t()))
            f, i, o, g = (gates + self.bias).chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(self.cell(c))
            outputs += [h]
        return torch.stack(outputs, 1)


def jax_step(shape: Shape, x: Tensor, weight: Tensor) -> Side:
    """The LN-LSTM as `lax.scan`, jitted, gradients of inputs and weights."""
    # one thread, as everything here
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
    import jax
    import jax.numpy as jnp

    n = shape.hidden

    def norm(z: Any, gain: Any, bias: Any) -> Any:
        centred = z - z.mean(-1, keepdims=True)
        return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * gain + bias

    def loss(p: dict[str, Any], x: Any, weight: Any) -> Any:
        z = norm(x @ p["w"], p["gx"], p["bx"]) + p["b"]

        def step(state: Any, zt: Any) -> Any:
            h, c = state
            f, i, o, g = jnp.split(zt + norm(h @ p["u"], p["gh"], p["bh"]), 4, axis=-1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(norm(c, p["gc"], p["bc"]))
            return (h, c), h

        zero = jnp.zeros((shape.batch, n))
        return (jax.lax.scan(step, (zero, zero), z)[1] * weight).sum()

    normal = torch.randn(shape.inputs + n, 4 * n) / n**0.5
    p = {"w": normal[: shape.inputs].numpy(), "u": normal[shape.inputs :].numpy(), "b": torch.zeros(4 * n).numpy()}
    p |= {f"g{k}": torch.ones(s).numpy() for k, s in (("x", 4 * n), ("h", 4 * n), ("c", n))}
    p |= {f"b{k}": torch.zeros(s).numpy() for k, s in (("x", 4 * n), ("h", 4 * n), ("c", n))}
    given = jax.tree.map(jnp.asarray, (p, x.transpose(0, 1).numpy(), weight.transpose(0, 1).numpy()))
    both = jax.jit(jax.grad(loss, argnums=(0, 1)))
    return lambda: jax.block_until_ready(both(*given))


def by_clang(side: Side) -> Side:
    """A process has a kernel of each compiler that CC names."""

    def step() -> None:
        with mock.patch.dict(os.environ, CC="clang"):
            side()

    return step


def compiled(ours: Recurrent) -> Recurrent:
    """A copy that, by the plain loop, takes each step by torch.compile: of all steps at once it would take minutes."""
    made = copy.deepcopy(ours)
    made.cells[0].step = torch.compile(made.cells[0].step)
    return made


def trained(module: nn.Module, call: Callable[[Tensor], Tensor], x: Tensor, weight: Tensor, backend: str = "") -> Side:
    """Forward and backward; by our backend of that name."""
    inputs = x.clone().requires_grad_()

    def step() -> None:
        with kernel.using(backend):
            call(inputs).backward(weight)
        inputs.grad = None
        module.zero_grad()

    return step


def inferred(call: Callable[[Tensor], Tensor], x: Tensor, backend: str = "") -> Side:
    def step() -> None:
        with kernel.using(backend), torch.no_grad():
            call(x)

    return step


def compare(shape: Shape, rounds: int, has_jax: bool, compilers: Collection[str] = ()) -> Iterator[harness.Row]:
    """compilers: clang, for the kernel, and g++, for torch.compile, where they are to be compared."""
    torch.manual_seed(1)
    x = torch.randn(shape.batch, shape.steps, shape.inputs)
    weight = torch.randn(shape.batch, shape.steps, shape.hidden)
    ours = normed(shape.layer, shape.inputs, shape.hidden)
    lstm = shape.layer is LSTM
    baseline = (nn.LSTM if lstm else nn.GRU)(shape.inputs, shape.hidden, batch_first=True)
    square = torch.randn(PEAK, PEAK)

    def ours_on(inputs: Tensor) -> Tensor:
        return ours(inputs)[0]

    sides: dict[str, Side] = {name: trained(ours, ours_on, x, weight, name) for name in ("c", "aten", "loop")}
    sides["torch"] = trained(baseline, lambda inputs: baseline(inputs)[0], x, weight)
    sides["c, inference"] = inferred(ours_on, x, "c")
    sides["torch, inference"] = inferred(lambda inputs: baseline(inputs)[0], x)
    sides["limit"] = lambda: matmul(square, square)
    if "clang" in compilers:
        sides |= {f"clang{kind}": by_clang(sides[f"c{kind}"]) for kind in ("", ", inference")}
    if "g++" in compilers:
        by_compile = compiled(ours)
        sides["compiled"] = trained(by_compile, lambda inputs: by_compile(inputs)[0], x, weight, "loop")
        start = time.perf_counter()
        sides["compiled"]()
        first = time.perf_counter() - start
    if lstm:
        scripted, zero = ScriptedLSTM(shape.inputs, shape.hidden), torch.zeros(shape.batch, shape.hidden)
        sides["script"] = trained(scripted, lambda inputs: scripted(inputs, zero, zero), x, weight)
    if lstm and has_jax:
        sides["jax"] = jax_step(shape, x, weight)
    took = interleave(sides, rounds, warmup=2)
    products = [seconds * shape.operations / (2.0 * PEAK**3) for seconds in took["limit"]]
    took["limit"], took["limit, inference"] = [3 * seconds for seconds in products], products
    name, cell = shape.name, "LSTM" if lstm else "GRU"
    yield harness.row(f"{name}: LN / nn.{cell}", took["c"], took["torch"], 1, shape.torch)
    yield harness.row(f"{name}: LN / its products at full speed", took["c"], took["limit"], 1, shape.limit)
    yield harness.row(f"{name}: nn.{cell} / its products at full speed", took["torch"], took["limit"], 1)
    yield harness.row(f"{name}: LN without a compiler / nn.{cell}", took["aten"], took["torch"], 1, shape.aten)
    if lstm:
        yield harness.row(f"{name}: LN / scripted LN", took["c"], took["script"], 1, shape.script)
    if "jax" in took:
        version = importlib.metadata.version("jax")
        yield harness.row(f"{name}: LN / JAX {version} scan with LN", took["c"], took["jax"], 1, shape.jax)
    yield harness.row(f"{name}: LN / our plain loop", took["c"], took["loop"], 1)
    if "compiled" in took:
        step = f"its step compiled, first call {first:.0f} s"
        yield harness.row(f"{name}: LN / our plain loop, {step}", took["c"], took["compiled"], 1)
    ours_infer, torch_infer = took["c, inference"], took["torch, inference"]
    yield harness.row(f"{name}: LN / nn.{cell}, inference", ours_infer, torch_infer, 1, shape.inference)
    limit = took["limit, inference"]
    yield harness.row(f"{name}: LN, inference / its products at full speed", ours_infer, limit, 1)
    yield harness.row(f"{name}: nn.{cell}, inference / its products at full speed", torch_infer, limit, 1)
    if "clang" in took:
        yield harness.row(f"{name}: LN by clang / nn.{cell}", took["clang"], took["torch"], 1)
        yield harness.row(f"{name}: LN by clang / nn.{cell}, inference", took["clang, inference"], torch_infer, 1)


def batch_normed(
    name: str, steps: int, batch: int, inputs: int, hidden: int, goal: float, rounds: int
) -> Iterator[harness.Row]:
    """Statistics over all rows; over the valid ones where sequences are padded."""
    torch.manual_seed(1)
    x, weight = torch.randn(batch, steps, inputs), torch.randn(batch, steps, hidden)
    mask = torch.arange(steps) < torch.randint(steps // 2, steps + 1, (batch, 1))
    baseline = normed(LSTM, inputs, hidden, "none")
    ours, masked = (
        normed(LSTM, inputs, hidden, "batch", stats="per_step", t_max=steps, use_mask=m) for m in (False, True)
    )
    sides = {
        "c": trained(ours, lambda inputs: ours(inputs)[0], x, weight, "c"),
        "none": trained(baseline, lambda inputs: baseline(inputs)[0], x, weight, "c"),
        "c, masked": trained(masked, lambda inputs: masked(inputs, mask)[0], x, weight, "c"),
        "none, masked": trained(baseline, lambda inputs: baseline(inputs, mask)[0], x, weight, "c"),
        "aten": trained(ours, lambda inputs: ours(inputs)[0], x, weight, "aten"),
        "loop": trained(ours, lambda inputs: ours(inputs)[0], x, weight, "loop"),
    }
    took = interleave(sides, rounds, warmup=2)
    yield harness.row(f"{name}: BN per step / none", took["c"], took["none"], 1, goal)
    yield harness.row(f"{name}, padded: BN per step / none", took["c, masked"], took["none, masked"], 1, goal)
    yield harness.row(f"{name}: BN per step without a compiler / none", took["aten"], took["none"], 1)
    yield harness.row(f"{name}: BN per step / our plain loop", took["c"], took["loop"], 1)


def others(shape: Shape, rounds: int) -> Iterator[harness.Row]:
    torch.manual_seed(1)
    x = torch.randn(shape.batch, shape.steps, shape.inputs)
    weight = torch.randn(shape.batch, shape.steps, shape.hidden)
    sides: dict[str, Side] = {}
    for name in ("none", "dyt", "derf", "scale"):
        ours = normed(shape.layer, shape.inputs, shape.hidden, name)
        sides[name] = trained(ours, lambda inputs, ours=ours: ours(inputs)[0], x, weight, "c")
    took = interleave(sides, rounds, warmup=2)
    for name in list(sides)[1:]:
        yield harness.row(f"{shape.name}: {name} / none", took[name], took["none"], 1, 1.05)


def own(shape: Shape, rounds: int) -> harness.Row:
    """A user's element-wise normalizer at all sites: examples/own_normalizer/isru.py."""
    torch.manual_seed(1)
    x = torch.randn(shape.batch, shape.steps, shape.inputs)
    weight = torch.randn(shape.batch, shape.steps, shape.hidden)
    ours, file = normed(shape.layer, shape.inputs, shape.hidden), Path(__file__).parents[2] / "examples"
    theirs = normed(shape.layer, shape.inputs, shape.hidden, "isru", file=str(file / "own_normalizer" / "isru.py"))
    sides = {
        "own": trained(theirs, lambda inputs: theirs(inputs)[0], x, weight),
        "layer": trained(ours, lambda inputs: ours(inputs)[0], x, weight),
    }
    took = interleave(sides, rounds, warmup=2)
    return harness.row(f"{shape.name}: a user's isru / LN", took["own"], took["layer"], 1)


def feedback(name: str, steps: int, batch: int, outer: int, hidden: int, goal: float, rounds: int) -> harness.Row:
    """x_t = [outer inputs, a part of h_{t-1} or all of it]: LN on ours, none on `nn.LSTMCell`."""
    torch.manual_seed(1)
    x, weight = torch.randn(steps, batch, outer), torch.randn(steps, batch, hidden)
    back = min(hidden, 57) if outer < 8 else hidden
    ours, baseline = normed(LSTM, outer + back, hidden), nn.LSTMCell(outer + back, hidden)
    zero = torch.zeros(batch, hidden)

    def unrolled(advance: Callable[[Tensor, Any], Any]) -> Side:
        def call(inputs: Tensor) -> Tensor:
            state, outputs = (zero, zero), []
            for step in inputs.unbind(0):
                state = advance(torch.cat([step, state[0][:, :back].tanh()], 1), state)
                outputs.append(state[0])
            return torch.stack(outputs)

        return call  # type: ignore[return-value]

    def ours_on(inputs: Tensor) -> Tensor:
        return unrolled(ours.steps(batch))(inputs)  # type: ignore[call-arg, return-value]

    sides = {
        "c": trained(ours, ours_on, x, weight, "c"),
        "torch": trained(baseline, unrolled(baseline), x, weight),  # type: ignore[arg-type]
    }
    took = interleave(sides, rounds, warmup=2)
    return harness.row(f"{name}: LN with feedback / nn.LSTMCell loop", took["c"], took["torch"], 1, goal)


def rows(rounds: int) -> Iterator[harness.Row]:
    has_jax = importlib.util.find_spec("jax") is not None
    compilers = [name for name in ("clang", "g++") if shutil.which(name)]
    for shape in SHAPES:
        yield from compare(shape, rounds, has_jax, compilers)
    for shape in SHAPES[:4]:
        yield from others(shape, rounds)
    for shape in SHAPES[:4]:
        yield own(shape, rounds)
    yield from batch_normed("reader 64×75×64", 75, 64, 64, 64, 1.15, rounds)
    yield from batch_normed("reader 64×120×240", 120, 64, 240, 240, 1.15, rounds)
    yield feedback("handwriting layer 1, 8×500×400", 500, 8, 3, 400, 0.75, rounds)
    yield feedback("DRAW 128×64×256", 64, 128, 8, 256, 1.0, rounds)


def reasons(rows: Sequence[harness.Row]) -> Sequence[str]:
    """Of a ratio to torch, by the rows beside it: how much the products alone would take."""
    ratio = {row.case: row.ratio for row in rows}
    missed = [row.case for row in rows if row.goal is not None and row.ratio > row.goal]
    lines = []
    for case in (case for case in missed if ": LN / nn." in case):
        torchs, _, kind = case.replace("LN / ", "").partition(", ")
        torch_takes, ours_takes = (
            ratio[f"{side}{kind and ', '}{kind} / its products at full speed"]
            for side in (torchs, f"{case.partition(': ')[0]}: LN")
        )
        lines.append(
            f"- {case}: {ratio[case]:.2f}, at least {1 / torch_takes:.2f} "
            f"(torch takes {torch_takes:.2f} times its products, ours {ours_takes:.2f} times)"
        )
    first = ["\n".join([TO_TORCH, *lines])] if lines else []
    return first + [reason for part, reason in REASONS.items() if any(part in case for case in missed)]


if __name__ == "__main__":
    title = "Recurrent training step: ours with normalization / plain layers and other ways to write it"
    page = "rnn" if "AVX512" in torch.backends.cpu.get_cpu_capability() else "rnn_avx2"
    harness.main(__doc__, "rnn", title, 9, rows, reasons, page)
