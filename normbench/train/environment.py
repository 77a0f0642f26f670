"""The environment of a run: what the bytes of its curve depend on besides its configuration, and its wall times."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy
import torch
from torch import nn

import normbench
from normbench.errors import BadInput
from normbench.rnn import backends
from normbench.rnn.cells import Cell
from normbench.runs.run import Run

SIGNATURE = ("vendor_id", "cpu family", "model", "stepping", "CPU implementer", "CPU variant", "CPU part")


def device(name: str) -> torch.device:
    """The device to train on, without TF32; NormbenchError if this machine or this torch lacks it."""
    if name == "cuda" and not torch.cuda.is_available():
        raise BadInput(f"device=cuda: torch {torch.__version__} finds no CUDA device here. Take device=cpu.")
    torch.backends.cudnn.allow_tf32 = False  # torch's convolutions on CUDA would keep 10 bits; its products keep all
    return torch.device(name)


def environment(model: nn.Module | None = None, on: torch.device | None = None) -> dict[str, Any]:
    """Versions, processor and device; for a recurrent model also its backend."""
    recurrent = model is not None and any(isinstance(module, Cell) for module in model.modules())
    cuda = on is not None and on.type == "cuda"
    return {
        "normbench": normbench.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "instruction_set": torch.backends.cpu.get_cpu_capability(),
        **_processor(),
        "threads": torch.get_num_threads(),
        **({"recurrent": backends.describe(on or "cpu")} if recurrent else {}),
        "device": f"cuda ({torch.cuda.get_device_name(on)}, CUDA {torch.version.cuda})" if cuda else "cpu",
        "system": f"{platform.system()} {platform.machine()}",
    }


def _processor() -> dict[str, str]:
    """The processor's name, and a signature that distinguishes generations to which virtual machines give one name."""
    try:
        with open("/proc/cpuinfo") as file:
            first = file.read().split("\n\n", 1)[0]
    except OSError:
        first = ""
    fields = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in first.splitlines())}
    signature = ", ".join(f"{key} {fields[key]}" for key in SIGNATURE if key in fields)
    name = fields.get("model name") or platform.processor()
    return {"processor": name, **({"processor_signature": signature} if signature else {})}


def since(old: Run | None, step: int, current: Mapping[str, Any]) -> dict[str, Any]:
    """The environment at the run's start, and its changes at each resumption. `old`: the run as stored."""
    if not step or not old or not old.environment:
        return {**current, "resumed": []}
    content = {"resumed": [], **old.environment}
    changed = {key: value for key, value in current.items() if content.get(key) != value}
    return {**content, "resumed": [*content["resumed"], {"step": step, "changed": changed}]}


@contextmanager
def flushed() -> Iterator[None]:
    """Without denormals, with which processors compute many times as slowly (`results/bench/denormals.md`).

    Inside, in this thread, numbers nearer to 0 than 1.2e-38 (2.2e-308 in float64) count as 0.

    Where an input is seldom other than 0 or a unit is dead, Adam's running mean of the gradient decays, rounds to a few
    of the smallest denormals and stays: a tenth of the first layer's after one epoch of MNIST at batch 4. Of Adam,
    with a common eps, the weights are the same: denormals vanish in the rounding of a weight, and their roots in eps.
    An optimizer that uses only a gradient's sign (rprop), or divides by it without eps, gives other weights.
    Where the processor has no such mode, and on CUDA, nothing changes.
    """
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
