"""Speed on the GPU, eager and as CUDA graphs: python scripts/gpu/speed.py layers|generative|blocks [--device cpu]

layers: a training step of LN-LSTM and LN-GRU at the shapes of `scripts/bench/rnn.py` against cuDNN's plain layers, and
the memory of a step; and the ATen backend against the plain loop, which takes its place unless ATen is 1.5 times as
fast. generative: updates of DRAW with 64 glimpses and of handwriting with 400 units and 500 points, and the hours of a
run at fidelity `paper`, without its evaluations. Eager, as runs are trained; and with forward and backward pass of all
time steps as one CUDA graph, the optimizer outside. Float32 without TF32. A graph's gradients are compared with the
eager ones before it is timed. blocks: a Transformer block of `scripts/bench/block.py` in bfloat16 at widths of 1024,
2048 and 4096 on 4096 tokens, eager and compiled: DyT against RMSNorm, fused and of several operations. Prints a line
of JSON for each. `--device cpu`: at tiny sizes and without graphs, which the CPU does not have; it shows that this
script runs.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench"))
import block
import generative
import harness
import rnn

from normbench.battery.cost import interleave
from normbench.config.plan import artifact_specs, experiment_spec
from normbench.models import base
from normbench.papers import artifact as artifacts
from normbench.train import optim

Found = Iterator[dict[str, Any]]
ROUNDS, CLOSE = 9, 1e-3  # CLOSE: of the largest value of a gradient


def timed(sides: dict[str, rnn.Side], device: str) -> dict[str, list[float]]:
    """Seconds of each side in each round, until the GPU has done what was launched."""

    def waited(side: rnn.Side) -> rnn.Side:
        return lambda: (side(), torch.cuda.synchronize())

    return interleave({n: waited(s) if device == "cuda" else s for n, s in sides.items()}, ROUNDS, warmup=2)


def graphed(step: rnn.Side, leaves: Sequence[Tensor]) -> tuple[rnn.Side, float]:
    """A step, which makes new gradients of the leaves, as a CUDA graph that writes these; and the MiB that it holds."""
    side = torch.cuda.Stream()  # as torch's notes on CUDA graphs have it: first a few steps on another stream
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    wanted = [None if leaf.grad is None else leaf.grad.clone() for leaf in leaves]
    gc.collect()  # what cycles keep must not be freed while the graph is captured
    torch.cuda.empty_cache()
    before, graph = torch.cuda.memory_reserved(), torch.cuda.CUDAGraph()
    gc.disable()
    try:
        with torch.cuda.graph(graph):
            step()
    finally:
        gc.enable()
    held = (torch.cuda.memory_reserved() - before) / 2**20
    for _ in range(2):  # the second must not add to the first
        graph.replay()
    for leaf, grad in zip(leaves, wanted, strict=True):
        if grad is not None:
            torch.testing.assert_close(leaf.grad, grad, rtol=CLOSE, atol=CLOSE * float(grad.abs().max()))
    return graph.replay, held


def peak(step: rnn.Side) -> float:
    """MiB that a step needs at once, beside what is there before it."""
    step()  # its gradients are there
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    step()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def layers(shape: rnn.Shape, device: str) -> Found:
    torch.manual_seed(1)
    x = torch.randn(shape.batch, shape.steps, shape.inputs, device=device)
    weight = torch.randn(shape.batch, shape.steps, shape.hidden, device=device)
    kind = nn.LSTM if shape.layer is rnn.LSTM else nn.GRU

    def stepping(layer: nn.Module) -> tuple[rnn.Side, list[Tensor]]:
        leaves = [x.clone().requires_grad_(), *layer.to(device).parameters()]

        def step() -> None:
            for leaf in leaves:
                leaf.grad = None
            layer(leaves[0])[0].backward(weight)

        return step, leaves

    eager, leaves = stepping(rnn.normed(shape.layer, shape.inputs, shape.hidden))
    plain, _ = stepping(kind(shape.inputs, shape.hidden, batch_first=True))
    for name in ("eager", "graph") if device == "cuda" else ("eager",):
        side, memory = (eager, None) if name == "eager" else graphed(eager, leaves)
        memories: dict[str, Any] = {}
        if device == "cuda":
            memories = {"MiB": peak(eager) if memory is None else memory, "MiB plain": peak(plain)}
        took = timed({name: side, "plain": plain}, device)
        row = harness.row(f"{shape.name}: LN, {name} / nn.{kind.__name__}", took[name], took["plain"], 1)
        yield {key: value for key, value in asdict(row).items() if value is not None} | memories
    took = timed({name: generative.by(name, eager) for name in ("aten", "loop")}, device)
    row = harness.row(f"{shape.name}: LN, ATen / the plain loop", took["aten"], took["loop"], 1, goal=1 / 1.5)
    yield asdict(row)


def generated(artifact: str, arm: str, device: str) -> Found:
    fidelity, points = ("paper", 500) if device == "cuda" else ("smoke", 10)
    torch.manual_seed(1)
    declares = experiment_spec(artifact, arm, fidelity, []).config["data"]["declares"]
    if "symbols" in declares:
        inputs = generative.lines(points, declares["symbols"])
    else:
        inputs = {"inputs": (torch.rand(generative.BATCH, declares["features"]) < 0.13).float()}
    inputs = {name: tensor.to(device) for name, tensor in inputs.items()}
    for name in ("eager", "graph") if device == "cuda" else ("eager",):
        spec, model, loss = generative.sides(artifact, arm, [fidelity], **inputs)
        model.to(device)
        if name == "eager":
            update = generative.stepping(loss, model, spec)
        else:
            update = graphed_update(model, loss, optim.build(spec.config["optim"], model))
        second = statistics.median(timed({name: update}, device)[name])
        runs = len(artifact_specs(artifact, fidelity, artifacts.load(artifact).seeds))
        yield {
            **{"case": f"{artifact} {fidelity}, {arm}: {name}", "updates a second": 1 / second},
            **{"updates": spec.steps, "hours": spec.steps * second / 3600, "runs": runs},
        }


def blocks(width: int, tokens: int, compiled: bool, device: str) -> Found:
    for row in block.compare(width, tokens, compiled, partial(timed, device=device), device, torch.bfloat16):
        yield {key: value for key, value in asdict(row).items() if value is not None}


def graphed_update(model: base.Model, loss: Callable[[], Tensor], optimizer: torch.optim.Optimizer) -> rnn.Side:
    """Noise is drawn outside of the graph, which reads it at its place in memory."""
    draw, noise = model.normal, dict[str, Tensor]()

    def drawn(purpose: str, like: Tensor) -> Tensor:
        if purpose not in noise:
            noise[purpose] = draw(purpose, like)
        return noise[purpose]

    model.normal = drawn
    replay, _ = graphed(lambda: (optimizer.zero_grad(), loss().backward()), list(model.parameters()))

    def update() -> None:
        with base.update(model, generative.SEED, 0):
            for purpose, tensor in noise.items():
                tensor.copy_(draw(purpose, tensor))
        replay()
        optimizer.step()

    return update


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("layers", "generative", "blocks"))
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    if given.device == "cpu":
        print("speed.py: the CPU has no CUDA graphs: eager only, at tiny sizes", file=sys.stderr)
    graphs = given.device == "cuda"
    tiny = {} if graphs else {"steps": 3, "batch": 2, "hidden": 8}
    cases: dict[str, Callable[[], Found]] = {
        f"{artifact}, {arm}": lambda a=artifact, arm=arm: generated(a, arm, given.device)
        for artifact in ("ln2016/fig4", "ln2016/fig5")
        for arm in generative.ARMS
    }
    if given.what == "layers":
        cases = {s.name: lambda s=s: layers(replace(s, **tiny), given.device) for s in rnn.SHAPES}
    if given.what == "blocks":
        cases = {
            f"{how}, width {width}": partial(blocks, width, 4096 if graphs else 8, how == "compiled", given.device)
            for how in ("eager", "compiled")[: 1 + graphs]
            for width in ((1024, 2048, 4096) if graphs else (64,))
        }
    failed = 0
    for case, measure in cases.items():
        try:
            for row in measure():
                print(json.dumps({"step": given.what, "device": given.device} | row), flush=True)
        except (RuntimeError, AssertionError) as error:  # the other cases are still of use
            failed, why = 1, " ".join(repr(error).split())[:400]
            print(json.dumps({"step": given.what, "device": given.device, "case": case, "error": why}), flush=True)
    raise SystemExit(failed)
