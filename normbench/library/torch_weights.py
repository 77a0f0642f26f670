"""Weights of modules of torch.nn, copied into ours."""

from __future__ import annotations

from torch import nn

from normbench.errors import NormbenchError
from normbench.library.torch_norms import load_norm
from normbench.norms.base import Normalizer
from normbench.rnn import layers
from normbench.rnn.cells import Cell, GRUCell, LSTMCell

CELLS: tuple[tuple[type[nn.Module], type[Cell]], ...] = ((nn.LSTM, LSTMCell), (nn.GRU, GRUCell))


def load_torch(ours: nn.Module, theirs: nn.Module) -> None:
    """Copy the weights of a module of torch.nn into ours, which computes the same from then on, in its own layout.

    LSTM and GRU, without a normalizer, take those of `nn.LSTM` and `nn.GRU`; modules of `create_norm` those of
    `nn.LayerNorm`, `nn.RMSNorm`, `nn.GroupNorm`, `nn.InstanceNorm*` and `nn.BatchNorm*` with the same formula.
    Errors: NormbenchError for a module that cannot compute the same, with the option that it needs.
    """
    if isinstance(ours, Normalizer):
        load_norm(ours, theirs)
    elif isinstance(ours, layers.Recurrent):
        _recurrent(ours, theirs)
    else:
        raise NormbenchError(f"load_torch: {type(ours).__name__} has no counterpart in torch.nn.")


def _recurrent(ours: layers.Recurrent, theirs: nn.Module) -> None:
    same = any(isinstance(theirs, kind) and ours.cell is cell for kind, cell in CELLS)
    if not (same and isinstance(theirs, nn.RNNBase)):
        raise NormbenchError(f"load_torch: {ours.place} cannot take the weights of {type(theirs).__name__}.")
    sizes = {name: getattr(ours, name) for name in ("input_size", "hidden_size", "num_layers")}
    sizes |= {"bidirectional": ours.directions == 2, "proj_size": 0}
    for name, own in sizes.items():
        if own != (other := getattr(theirs, name)):
            raise NormbenchError(f"load_torch: {ours.place} has {name}={own}, the weights are of {name}={other}.")
    for cell in ours.cells:
        assert isinstance(cell, Cell)
        for needed, more in (
            ("norm=none", bool(cell.norms)),
            ("learn_h0=False", cell.h0 is not None),
            ("forget_bias=0", bool(getattr(cell, "forget_bias", 0))),
            ("scaled=False", getattr(cell, "scaled", False)),
        ):
            if more:
                raise NormbenchError(f"load_torch: {cell.place} does not compute what torch's does: it needs {needed}.")
    ours.load_torch(theirs)
