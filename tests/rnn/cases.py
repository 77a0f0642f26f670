"""Layers with normalizers at their sites, as a model would build them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from devices import has_kernel

from normbench.config import compose
from normbench.norms.sites import Choice, Site
from normbench.rnn import backends
from normbench.rnn.cells import Cell, Sites
from normbench.rnn.layers import GRU, LSTM, RNN, Recurrent

FAST = [
    pytest.param(name, marks=pytest.mark.skipif(name == "c" and not has_kernel(), reason="there is no C compiler here"))
    for name in backends.BACKENDS
]
LAYERS: dict[str, type[Recurrent]] = {"lstm": LSTM, "gru": GRU, "rnn": RNN}
WEIGHT = ("weight", "spectral")
PER_STEP = ("batch", {"stats": "per_step", "t_max": 4})
VALID = ("batch", PER_STEP[1] | {"use_mask": True, "bias": False, "gain_init": 0.3, "unbiased_running": False})


def sites(cell: type[Cell], hidden_size: int, chosen: Mapping[str, str | tuple[str, dict[str, Any]]]) -> Sites:
    """Sites below any path; `chosen` gives by the cell's own names a normalizer, perhaps with options.

    `input` chooses all that begins with it, as a prefix in norm.sites does; `keep_bias`: the preceding bias stays;
    `weight`: beside the others, of the matrices.
    """
    sizes = cell.site_sizes(hidden_size)

    def every(norm: str) -> dict[str, Any]:
        return {option: compose.choice("norm", norm)[option] for option in compose.declaration("norm", norm)["options"]}

    def of(path: str) -> tuple[Site, Choice | None]:
        name = next(n for n in sizes if path == n or path.endswith(f".{n}"))
        kinds = {"input": ("pre_activation", "weight"), "hidden": ("state", "weight")}
        site = Site(path, kinds.get(name.split(".")[0], ("state",)), ("batch", "time", "feature"), sizes[name])
        entry = next((chosen[k] for k in (name, name.split(".")[0]) if k in chosen), None)
        if entry is None:
            return site, None
        norm, options = (entry, {}) if isinstance(entry, str) else entry
        if "file" in options:
            return site, Choice(norm, "state", {}, True, False, 1, options["file"])
        keep = bool(options.get("keep_bias", True))
        given = {k: v for k, v in options.items() if k != "keep_bias"}
        kind, of_weight = (
            "weight" if norm in WEIGHT else "state",
            chosen.get("weight") if "weight" in site.kinds else None,
        )
        weight = Choice(of_weight, "weight", every(of_weight), True, False, 1) if isinstance(of_weight, str) else None
        return site, Choice(norm, kind, every(norm) | given, keep, False, 1, weight=weight)

    return of


def make(
    kind: str, inputs: int, hidden: int, norms: Mapping[str, Any] | None = None, seed: int | None = 0, **options: Any
) -> Recurrent:
    """A float64 layer; its parameters lie away from their start unless seed is None."""
    layer = LAYERS[kind]
    torch.manual_seed(seed or 0)
    module = layer(inputs, hidden, sites(layer.cell, hidden, norms or {}), kind, **options).double()
    if seed is not None:
        with torch.no_grad():
            for parameter in module.parameters():
                parameter += 0.3 * torch.randn(parameter.shape, dtype=torch.float64)
    return module


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def lengths(batch: int, steps: int, seed: int = 0) -> torch.Tensor:
    """A mask (B, T) of padded sequences; the first has all steps, the last one only."""
    found = torch.randint(1, steps + 1, (batch,), generator=torch.Generator().manual_seed(seed))
    found[0], found[-1] = steps, 1
    return torch.arange(steps) < found[:, None]


def gradients(module: Recurrent, x: torch.Tensor, **arguments: Any) -> dict[str, torch.Tensor]:
    """Outputs, last state and all gradients of a weighted sum of both, by name."""
    module.zero_grad()
    x = x.clone().requires_grad_()
    state = arguments.pop("state", None)
    if state is not None:
        state = tuple(part.clone().requires_grad_() for part in state)
        arguments["state"] = state
    y, end = module(x, **arguments)
    ends = end if isinstance(end, tuple) else (end,)
    total = sum((part * draw(*part.shape, seed=i).to(part)).sum() for i, part in enumerate((y, *ends)))
    assert isinstance(total, torch.Tensor)
    total.backward()
    found = {"y": y.detach(), "x": x.grad} | {f"end{i}": part.detach() for i, part in enumerate(ends)}
    found |= {f"state{i}": part.grad for i, part in enumerate(state or ())}
    found |= {
        name: parameter.grad.clone() for name, parameter in module.named_parameters() if parameter.grad is not None
    }
    return found  # type: ignore[return-value]


def near(ours: Mapping[str, torch.Tensor], theirs: Mapping[str, torch.Tensor], tolerance: float = 1e-11) -> None:
    assert set(ours) == set(theirs)
    for name, value in theirs.items():
        torch.testing.assert_close(ours[name], value, rtol=tolerance, atol=tolerance, msg=lambda m, n=name: f"{n}: {m}")
