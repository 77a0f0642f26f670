"""Checkpoints of a run: tensors and progress in one file, and the weights that it keeps."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import load, save
from torch import Tensor, nn

from normbench.errors import Failed, NormbenchError
from normbench.runs import checkpoint_file, files


def write(run: Path, progress: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """The checkpoint of the run in this directory, in the place of its last one."""
    content = save({name: tensor.contiguous() for name, tensor in tensors.items()})
    checkpoint_file.write(run / checkpoint_file.NAME, progress, content)


def read(run: Path) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
    """Progress and tensors; None without a checkpoint. NormbenchError if it is damaged; nothing is overwritten."""
    path = run / checkpoint_file.NAME
    try:
        progress, content = checkpoint_file.read(path)
        return progress, load(content)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise damaged(run, error) from None


def damaged(run: Path, why: Exception) -> NormbenchError:
    """What to say of a checkpoint that cannot be used, or is of another model."""
    reason = " ".join(str(why).split())[:200]
    return Failed(
        f"{run / checkpoint_file.NAME} is damaged ({reason}). Nothing was overwritten; delete this run's directory to "
        "start it anew."
    )


def clear(run: Path) -> None:
    shutil.rmtree((run / checkpoint_file.NAME).parent, ignore_errors=True)


def save_weights(path: Path, model: nn.Module) -> None:
    """All parameters and buffers of a model, byte-equal for equal values."""
    path.parent.mkdir(exist_ok=True)
    tensors = {name: tensor.contiguous() for name, tensor in sorted(model.state_dict().items())}
    files.atomic_write(path, save(tensors))
