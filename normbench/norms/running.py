"""Running statistics."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from normbench.errors import BadInput


class Averaging(_BatchNorm):
    """Torch's `update_bn` (after weight averaging) renews running averages of modules that are `_BatchNorm` by class.

    It calls `reset_running_stats`, sets `momentum` to None, which is the plain average of the batches since, passes
    batches in training mode, and sets `momentum` back. Nothing else of torch's class is used.
    """

    gain: nn.Parameter | None
    bias: nn.Parameter | None  # type: ignore[assignment]  # torch's class has always one
    track_running_stats = False  # torch.func takes away averages where it is true
    _version = 1  # of the state dictionary: that of nn.Module
    _load_from_state_dict = nn.Module._load_from_state_dict

    def __init__(self) -> None:
        nn.Module.__init__(self)
        self._momentum: float | None = 0.0
        self.averaged = 0  # batches since the reset

    @property
    def momentum(self) -> float | None:
        return self._momentum

    @momentum.setter
    def momentum(self, value: float | None) -> None:
        self._momentum = value

    def share(self) -> float:
        """Of the next batch in the averages."""
        if self._momentum is not None:
            return self._momentum
        self.averaged += 1
        return 1 / self.averaged

    @torch.no_grad()
    def reset_running_stats(self) -> None:
        self.averaged = 0
        for name, buffer in self.named_buffers(recurse=False):
            if name.startswith(("running_", "long_")):
                buffer.fill_(0.0 if name.endswith("mean") else 1.0)

    def reset_parameters(self) -> None:
        self.reset_running_stats()

    @property
    def num_features(self) -> int:  # type: ignore[override]
        """What `nn.SyncBatchNorm.convert_sync_batchnorm` reads first."""
        raise BadInput(
            f"{type(self).__name__} is no nn.BatchNorm, and has no form with statistics over several processes: build "
            "the model with nn.SyncBatchNorm itself, or leave this module out of convert_sync_batchnorm."
        )

    @property
    def weight(self) -> nn.Parameter | None:  # type: ignore[override]
        return self.gain


@torch.no_grad()
def average(
    running: Sequence[Tensor], new: Sequence[Tensor], share: float | Tensor, has_values: Tensor | None = None
) -> None:
    """r <- (1 - share) r + share n for each of both, in place; r stays where `has_values` is false.

    A share of 1/b for the b-th batch gives the mean of all batches.
    """
    for average, value in zip(running, new, strict=True):
        average.lerp_(value if has_values is None else torch.where(has_values, value, average), share)
