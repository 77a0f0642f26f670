"""A Transformer block with DyT against one with RMSNorm: python scripts/bench/block.py [--rounds N]

What Zhu et al. 2025 claim in v1's Table 7: "a substantial reduction in both inference and training time". One pre-norm
block, forward, and forward and backward, at widths of 256, 512 and 1024 on 512 tokens of one text; eager and, where
there is a C++ compiler, by `torch.compile`. Against `nn.RMSNorm`, torch's fused one, where the paper has an RMSNorm of
several operations. Without a norm is the most that any replacement can save. The seconds are those of the processor,
which other programs on the machine do not add to.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping

import harness
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from normbench.battery.cost import interleave

WIDTHS, TOKENS, HEAD, ROUNDS = (256, 512, 1024), 512, 64, 21
PASSES = ("inference", "training")
Side = Callable[[], object]
Timed = Callable[[dict[str, Side]], dict[str, list[float]]]


class DyT(nn.Module):
    """As the paper's Algorithm 1."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.full((1,), 0.5))
        self.gain, self.bias = nn.Parameter(torch.ones(d)), nn.Parameter(torch.zeros(d))

    def forward(self, x: Tensor) -> Tensor:
        return self.gain * torch.tanh(self.alpha * x) + self.bias


class SlowRMSNorm(nn.Module):
    """In float32, by several operations: as the paper's script has it, Hugging Face's `LlamaRMSNorm`."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d))

    def forward(self, x: Tensor) -> Tensor:
        y = x.to(torch.float32)
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.gain * y.to(x.dtype)


NORMS: Mapping[str, Callable[[int], nn.Module]] = {
    "RMSNorm": nn.RMSNorm, "DyT": DyT, "none": lambda d: nn.Identity(), "LN": nn.LayerNorm,
    "RMSNorm of several operations": SlowRMSNorm,
}  # fmt: skip


class Block(nn.Module):
    """x + attention(norm(x)), then x + MLP(norm(x)): heads of 64 features, causal; 4 d units of GELU."""

    def __init__(self, d: int, norm: Callable[[int], nn.Module]) -> None:
        super().__init__()
        self.heads, self.norms = max(1, d // HEAD), nn.ModuleList([norm(d), norm(d)])
        self.qkv, self.output = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d, bias=False), nn.GELU(), nn.Linear(4 * d, d, bias=False))

    def forward(self, x: Tensor) -> Tensor:
        count, steps, d = x.shape
        parts = self.qkv(self.norms[0](x)).view(count, steps, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        x = x + self.output(mixed.transpose(1, 2).reshape(count, steps, d))
        y: Tensor = x + self.mlp(self.norms[1](x))
        return y


def sides(
    width: int, tokens: int, compiled: bool, device: str, dtype: torch.dtype
) -> Iterator[tuple[str, dict[str, Side]]]:
    """By pass, one step of each norm's block, all with the same weights and inputs."""
    x = torch.randn(1, tokens, width, generator=torch.Generator().manual_seed(1)).to(device, dtype)

    def infer(block: nn.Module) -> Side:
        def step() -> None:
            with torch.inference_mode():
                block(x)

        return step

    def train(block: nn.Module) -> Side:
        inputs = x.clone().requires_grad_()  # a block in a network passes a gradient on: through the first norm, too

        def step() -> None:
            inputs.grad = None
            block.zero_grad()
            block(inputs).backward(x)

        return step

    for name, side in zip(PASSES, (infer, train), strict=True):
        torch.compiler.reset()  # of one function it compiles eight versions at most, and runs further ones eagerly
        steps = {}
        for norm, layer in NORMS.items():
            torch.manual_seed(1)
            block = Block(width, layer).to(device, dtype)
            if compiled:
                block.compile(dynamic=False)
            steps[norm] = side(block)
        yield name, steps


def compare(
    width: int, tokens: int, compiled: bool, timed: Timed, device: str = "cpu", dtype: torch.dtype = torch.float32
) -> Iterator[harness.Row]:
    how = "compiled" if compiled else "eager"
    for what, steps in sides(width, tokens, compiled, device, dtype):
        took = timed(steps)
        for name in list(NORMS)[1:]:
            yield harness.row(f"width {width}, {what}, {how}: {name} / RMSNorm", took[name], took["RMSNorm"], 1)


def rows(rounds: int) -> Iterator[harness.Row]:
    for compiled in (False, True)[: 1 + (shutil.which("g++") is not None)]:
        for width in WIDTHS:
            yield from compare(width, TOKENS, compiled, lambda steps: interleave(steps, rounds, 3, time.process_time))


if __name__ == "__main__":
    harness.main(__doc__, "block", "A Transformer block: with DyT / with RMSNorm", ROUNDS, rows)
