"""Weights of modules of torch.nn, copied into ours."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from normbench.errors import BadInput
from normbench.norms.batch import BatchNorm
from normbench.norms.group import GroupNorm
from normbench.norms.instance import InstanceNorm
from normbench.norms.layer import LayerNorm
from normbench.norms.rms import RMSNorm
from normbench.rnn.cells import GRUCell, LSTMCell, RNNCell
from normbench.rnn.layers import Recurrent

Facts = dict[str, tuple[Any, Any]]  # what must be equal: ours, torch's
CELLS = {"LSTM": LSTMCell, "GRU": GRUCell, "RNN_TANH": RNNCell, "RNN_RELU": RNNCell}  # by torch's mode


@torch.no_grad()
def load_torch(ours: Any, theirs: Any) -> None:
    """Copy the weights of a module of torch.nn into ours, which computes the same from then on, in its own layout.

    >>> import torch
    >>> from normbench import create_norm, load_torch
    >>> norm, theirs = create_norm("batch", 8, momentum=0.2), torch.nn.BatchNorm1d(8, momentum=0.2)
    >>> load_torch(norm, theirs)

    LSTM and GRU, without a normalizer, take those of `nn.LSTM` and `nn.GRU`; modules of `create_norm` those of
    `nn.LayerNorm`, `nn.RMSNorm`, `nn.GroupNorm`, `nn.InstanceNorm*` and `nn.BatchNorm*` with the same formula.
    Errors: NormbenchError, before anything is copied, for a module that does not compute the same.
    """
    names = f"{type(ours).__name__} and torch's {type(theirs).__name__}"
    facts = _facts(ours, theirs)
    if facts is None:
        raise BadInput(f"load_torch: {names} do not compute the same.")
    for what, (here, its) in facts.items():
        if here != its:
            raise BadInput(f"load_torch: {names} differ: {what} is {here} here and {its} there.")
    if isinstance(ours, Recurrent):
        _copy_cells(ours, theirs)
        return
    for name, tensor in theirs.state_dict().items():
        if name != "num_batches_tracked":  # counts for momentum=None alone, which is refused
            getattr(ours, "gain" if name == "weight" else name).copy_(tensor)


def _facts(ours: Any, theirs: Any) -> Facts | None:
    """None for modules of two kinds."""
    match ours, theirs:
        case LayerNorm(), nn.LayerNorm():
            facts = {
                "the normalized shape": (tuple(ours.shape), theirs.normalized_shape),
                "eps_mode": (ours.eps_mode, "in"),
                "the factor of scale": (ours.factor, 1.0),
            }
        case RMSNorm(), nn.RMSNorm():
            facts = {
                "the normalized shape": ((ours.site.features,), theirs.normalized_shape),
                "eps_mode": (ours.eps_mode, "in"),
                "the number of features in the root": (ours.used, ours.site.features),
            }
        case GroupNorm(), nn.GroupNorm():
            facts = {
                "num_channels": (ours.site.features, theirs.num_channels),
                "num_groups": (ours.num_groups, theirs.num_groups),
                "a time axis": ("time" in ours.site.axes, False),
            }
        case InstanceNorm(), _InstanceNorm():
            facts = {
                "num_features": (ours.site.features, theirs.num_features),
                "track_running_stats": (ours.running, theirs.track_running_stats),
                "momentum": (ours.momentum, theirs.momentum),
                "a time axis": ("time" in ours.site.axes, False),
            }
        case BatchNorm(), _BatchNorm():
            facts = {
                "num_features": (ours.site.features, theirs.num_features),
                "eval_stats": (ours.eval_stats, "running" if theirs.track_running_stats else "batch"),
                "the list of momenta": (ours.momenta, [theirs.momentum]),
                "steps or positions apart": (bool(ours.places.axes), False),
                "a mask for statistics": (ours.places.masked, False),
                "unbiased_norm": (ours.unbiased_norm, False),
                "unbiased_running": (ours.unbiased_running, True),
                "the factor of scale": (ours.factor, 1.0),
            }
        case Recurrent(), nn.RNNBase() if ours.cell is CELLS[theirs.mode]:
            return _facts_of_cells(ours, theirs)
        case _:
            return None
    gain, shift = theirs.weight, getattr(theirs, "bias", None)  # nn.RMSNorm has no shift
    least = torch.finfo(torch.get_default_dtype() if gain is None else gain.dtype).eps  # nn.RMSNorm's where it is None
    return facts | {
        "eps": (ours.eps, least if theirs.eps is None else theirs.eps),
        "a gain": (ours.gain is not None, gain is not None),
        "a shift": (ours.bias is not None, shift is not None),
    }


def _facts_of_cells(ours: Recurrent, theirs: nn.RNNBase) -> Facts:
    cell: Any = ours.cells[0]
    # torch's GRU multiplies one of its two biases by r: their sum cannot replace them
    holds_biases = cell.bias_kind == "double" or (cell.bias_kind == "one" and not isinstance(cell, GRUCell))
    return {
        **{size: (getattr(ours, size), getattr(theirs, size)) for size in ("input_size", "hidden_size", "num_layers")},
        "bidirectional": (ours.directions == 2, theirs.bidirectional),
        "proj_size": (0, theirs.proj_size),
        "the list of normalizers": ([*cell.norms], []),
        "learn_h0": (cell.h0 is not None, False),
        "forget_bias": (getattr(cell, "forget_bias", 0), 0),
        "scaled": (getattr(cell, "scaled", False), False),
        "nonlinearity": (getattr(cell, "nonlinearity", ""), getattr(theirs, "nonlinearity", "")),
        "bias": (cell.bias_kind, "double" if theirs.bias and not holds_biases else cell.bias_kind),
    }


def _copy_cells(ours: Recurrent, theirs: nn.RNNBase) -> None:
    """Gate rows change places; two biases are added up where ours is one; a GRU with update=new has z's sign turned."""
    size = ours.hidden_size
    rows = torch.cat([torch.arange(size) + gate * size for gate in ours.cell.torch_order])
    cell: Any
    for index, cell in enumerate(ours.cells):
        end = f"_l{index // ours.directions}" + ("_reverse" if index % ours.directions else "")
        sign = cell.weight_hh.new_ones(len(rows))
        if getattr(cell, "update", "") == "new":
            sign[:size] = -1
        cell.weight_ih.copy_(getattr(theirs, f"weight_ih{end}")[rows] * sign[:, None])
        cell.weight_hh.copy_(getattr(theirs, f"weight_hh{end}")[rows] * sign[:, None])
        biases = [getattr(theirs, name + end)[rows] * sign for name in ("bias_ih", "bias_hh") if theirs.bias]
        ih, hh = biases or [torch.zeros_like(sign)] * 2
        if cell.bias_kind == "double":
            cell.bias_ih.copy_(ih)
            cell.bias_hh.copy_(hh)
        elif cell.bias_kind != "none":
            cell.bias.copy_(ih + hh)
        cell.start()
