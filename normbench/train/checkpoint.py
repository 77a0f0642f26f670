"""Checkpoints of a run: tensors and progress in two slots, and the weights that it keeps."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import load, save
from torch import Tensor, nn

from normbench.errors import NormbenchError
from normbench.runs import files, slots

clear = slots.clear


def save_slot(folder: Path, progress: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Write the older slot."""
    slots.write(folder, progress, save({name: tensor.contiguous() for name, tensor in tensors.items()}))


def newest(
    folder: Path, take: Callable[[dict[str, Any], dict[str, Tensor]], object] = lambda progress, tensors: None
) -> tuple[dict[str, Any], dict[str, Tensor], list[str]] | None:
    """Progress and tensors of the newest intact slot, with a note for each slot that was skipped.

    `take`: called with them; its ValueError, for contents that do not fit, counts as damage. None without any slot.
    All slots damaged: NormbenchError; nothing is overwritten.
    """
    notes: list[str] = []
    heads = [folder / f"{slot}.json" for slot in slots.SLOTS]
    # an unreadable head comes first, to be noted: it may have been the newest
    for path in sorted(filter(os.path.lexists, heads), key=lambda path: -(slots.serial(path) or math.inf)):
        try:
            progress, content = slots.read(path)
            tensors = load(content)
            take(progress, tensors)
            return progress, tensors, notes
        except (OSError, ValueError) as error:
            notes.append(f"checkpoint {path.stem} is damaged ({error})")
    if notes:
        raise NormbenchError(
            f"{folder}: {' and '.join(notes)}. Nothing was overwritten; delete this run's directory to start it anew.",
            code=4,
        )
    return None


def save_weights(path: Path, model: nn.Module) -> None:
    """All parameters and buffers of a model, byte-equal for equal values."""
    path.parent.mkdir(exist_ok=True)
    tensors = {name: tensor.contiguous() for name, tensor in sorted(model.state_dict().items())}
    files.atomic_write(path, save(tensors))
