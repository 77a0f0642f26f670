"""What the bytes of a curve depend on beside the configuration, and what wall times depend on."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from typing import Any

import numpy
import torch
from torch import nn

import normbench
from normbench.errors import NormbenchError
from normbench.rnn import backends
from normbench.rnn.cells import Cell
from normbench.runs import files, store, writing
from normbench.runs.damaged import Damaged

SIGNATURE = ("vendor_id", "cpu family", "model", "stepping", "CPU implementer", "CPU variant", "CPU part")


def device(name: str) -> torch.device:
    """The device to train on; NormbenchError where this machine or this torch has none of the name."""
    if name == "cuda" and not torch.cuda.is_available():
        raise NormbenchError(f"device=cuda: torch {torch.__version__} finds no CUDA device here. Take device=cpu.")
    return torch.device(name)


def environment(model: nn.Module | None = None, on: torch.device | None = None) -> dict[str, Any]:
    """Versions, processor and device; of a recurrent model also what computes it."""
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
    """Its name, and the signature that tells generations of one name apart, as virtual machines give it to all."""
    try:
        with open("/proc/cpuinfo") as file:
            first = file.read().split("\n\n", 1)[0]
    except OSError:
        first = ""
    known = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in first.splitlines())}
    signature = ", ".join(f"{key} {known[key]}" for key in SIGNATURE if key in known)
    name = known.get("model name") or platform.processor()
    return {"processor": name, **({"processor_signature": signature} if signature else {})}


def record(run: writing.RunDirectory, step: int, notes: Sequence[str], now: Mapping[str, Any]) -> None:
    """environment.json: where the run began, and where that changed. A run that was resumed elsewhere says so."""
    path = run.path / "environment.json"
    content: dict[str, Any] = {**now, "resumed": []}
    if step and path.exists():
        try:
            content = store.read_environment(run.path)
        except Damaged as damage:
            raise writing.start_anew(run.path, damage) from None
        content.setdefault("resumed", [])
        changed = {key: value for key, value in now.items() if content.get(key) != value}
        content["resumed"].append({"step": step, "changed": changed, "notes": list(notes)})
    files.write_json(path, content)
