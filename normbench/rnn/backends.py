"""The backend of a recurrence: the C kernel, torch's operations, or none of them (the reference loop)."""

from __future__ import annotations

import torch

from normbench.norms import kernel
from normbench.rnn import aten, native
from normbench.rnn.matmul import onednn
from normbench.rnn.plan import Backend

BACKENDS: dict[str, type[Backend]] = {"c": native.Run, "aten": aten.Run}


def current(device: torch.device | str = "cpu") -> type[Backend] | None:
    """The backend for tensors on this device, as `kernel.chosen` says; None: the reference loop."""
    return BACKENDS.get(kernel.chosen(device))


def describe(device: torch.device | str = "cpu") -> str:
    """The backend and its compiler, on which the last bits of a recurrent model's curve depend."""
    backend = current(device)
    name = "loop" if backend is None else f"C, {kernel.compiler()}" if backend is native.Run else "ATen"
    if torch.device(device).type != "cpu":
        return f"{name}; products by torch on {torch.device(device).type}"
    by_kernel = "the kernel and " if backend is not None and backend.packs() else ""
    return f"{name}; products by {by_kernel}{'oneDNN' if onednn() else 'BLAS'}"
