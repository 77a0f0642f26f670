"""LSTM and GRU of the papers with any normalizer, without a model's configuration.

Compared with `nn.LSTM` and `nn.GRU` (tests/library/test_beside_torch.py):

| | torch.nn | here |
| --- | --- | --- |
| layout | batch_first=False | batch_first=True |
| second argument | hx | mask (B, T), or hx: a tuple, or of three axes |
| PackedSequence | served | served; outputs and state as torch's |
| padded x and a mask | no mask | outputs repeat the last valid one; what x holds there, NaN too, counts nowhere |
| outputs | may be changed in place | may be changed in place |
| empty batch | empty outputs | empty outputs, nothing is learned |
| second derivatives, torch.func.grad | yes | yes, by the reference loop, which is slower |
| vmap, torch.func.jvp, torch.func.hessian | no | yes, by the reference loop |
| jit.trace, export | yes | yes, the number of steps is fixed, by the reference loop |
| compile | outside the graph | outside the graph, as fast as without |
| autocast | outputs are bfloat16 | products are, states and outputs keep the weights' type; by the reference loop |
| bfloat16, half | served | by the reference loop, normalizers in float32; in half a gradient of 1/eps may be inf |
| pickle, deepcopy, state_dict | yes | yes; rows and names of the weights are ours: `load_torch` |
| dropout | between layers | between layers, by torch's generator; input_dropout, state_dropout take rng= |
| bias | True, False | these, or the papers' kinds, see `normbench.extend.Cell` |
| proj_size | served | refused; the attribute is 0 |
| flatten_parameters() | compacts weights | does nothing |
| bidirectional, bias, num_layers, ... | attributes | attributes of the same values |
| swa_utils.update_bn | no averages | renews running averages of its normalizers |
| utils.checkpoint | once | averages move once more when the pass is computed again, as nn.BatchNorm1d's |
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from normbench.errors import BadInput, unknown
from normbench.library.norms import find
from normbench.norms.patterns import match_patterns
from normbench.norms.sites import Choice, Site, choose, refusal
from normbench.rnn import layers
from normbench.rnn.cells import AXES, Cell, Sites, State

KINDS = {"input": ("pre_activation", "weight"), "hidden": ("state", "weight")}  # the other sites are states alone


class Normed(layers.Recurrent):
    """A recurrent layer with a normalizer by name: `layer(x, mask=None)` gives outputs and the last state.

    Args:
        input_size, hidden_size, num_layers, bidirectional, dropout: as torch's.
        batch_first: true, unlike torch's: x is (batch, time, input_size). False puts time first, in the mask too.
        norm: the name of a normalizer or the path of one's own; with options `{"name": "layer", "eps": 1e-3}`.
        sites: where it stands, such as `["hidden", "cell"]`; without it wherever it can.
        options: those of the cell, such as bias, learn_h0, input_dropout; see `normbench.extend.Cell`. A bias of True
            is torch's two vectors, False none.

    A PackedSequence comes back as one. The second argument may also be the state, as torch has it: (h, c), or h.
    Compared with torch: the table in `normbench.library.recurrent`.

    Errors: NormbenchError for a normalizer, an option of it, a site that does not exist, or one that it cannot serve.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        norm: str | Mapping[str, Any] = "none",
        sites: Sequence[str] | None = None,
        *,
        num_layers: int = 1,
        bidirectional: bool = False,
        batch_first: bool = True,
        dropout: float = 0.0,
        **options: Any,
    ) -> None:
        place, names = self.cell.__name__.removesuffix("Cell"), sorted(_options(self.cell))
        for key in options:
            if key not in names:
                raise unknown(f"{place} has no option {key}.", key, names)
        if isinstance(options.get("bias"), bool):
            options["bias"] = "double" if options["bias"] else "none"
        node, given = find(norm)
        self.one_length = node["name"] if node["declares"].get("one_length") else ""
        cell_sites = _sites(self.cell, hidden_size, node, given, sites)
        options |= {"num_layers": num_layers, "bidirectional": bidirectional}
        super().__init__(input_size, hidden_size, cell_sites, batch_first=batch_first, dropout=dropout, **options)

    def forward(  # type: ignore[override]  # a PackedSequence comes back as one
        self,
        x: Tensor | PackedSequence,
        mask: Tensor | State | None = None,
        state: Tensor | State | None = None,
        rng: np.random.Generator | None = None,
        drop: bool = True,
    ) -> tuple[Tensor | PackedSequence, Tensor | State]:
        if state is None and (isinstance(mask, tuple | list) or (mask is not None and mask.dim() == 3)):
            mask, state = None, mask  # torch's order
        if not isinstance(x, PackedSequence):
            return super().forward(x, mask, state, rng, drop)  # type: ignore[arg-type]  # the mask is one by now
        if mask is not None:
            raise BadInput(f"{self.place}: a PackedSequence has its own lengths: it takes no mask.")
        padded, lengths = pad_packed_sequence(x, self.batch_first)
        mask = (torch.arange(len(x.batch_sizes)) < lengths[:, None]).to(padded.device)
        y, end = super().forward(padded, mask if self.batch_first else mask.T, state, rng, drop)
        return pack_padded_sequence(y, lengths, self.batch_first, x.sorted_indices is None), end

    def flatten_parameters(self) -> None:
        """Of torch's interface: there is nothing to do."""

    @property
    def bidirectional(self) -> bool:
        return self.directions == 2

    @property
    def bias(self) -> bool:
        """Whether the cells have biases of their own, of whatever kind."""
        return any(cell.bias_kind != "none" for cell in self.cells)

    @property
    def proj_size(self) -> int:
        return 0

    def _check(self, x: Tensor, mask: Tensor | None) -> None:
        super()._check(x, mask)
        if mask is not None and self.one_length:
            raise BadInput(f"{self.one_length} has statistics for every step: it takes sequences of one length.")


def _options(cell: type[Cell]) -> set[str]:
    """The keywords of a cell and of what it is made of."""
    kinds = [kind for kind in cell.__mro__ if issubclass(kind, Cell)]
    signatures = [inspect.signature(kind.__init__).parameters.values() for kind in kinds]
    return {p.name for parameters in signatures for p in parameters if p.kind is p.KEYWORD_ONLY}


def _sites(
    cell: type[Cell], size: int, node: Mapping[str, Any], options: Mapping[str, Any], patterns: Sequence[str] | None
) -> Sites:
    """The cell's sites with this normalizer, at those asked for; the same in every layer and direction."""
    sites = {
        name: Site(name, KINDS.get(name.split(".")[0], ("state",)), AXES, features, bias="keep")
        for name, features in cell.site_sizes(size).items()
    }
    if patterns is None:
        chosen = {name for name, site in sites.items() if not refusal(site, node["declares"])}
        if not chosen:
            choose(next(iter(sites.values())), node, options)  # says why
    else:
        chosen = set(match_patterns("sites", cell.__name__, "site", patterns, sites))
    choices: dict[str, Choice] = {name: choose(sites[name], node, options) for name in sites if name in chosen}

    def site_at(path: str) -> tuple[Site, Choice | None]:
        name = next(name for name in sites if path == name or path.endswith(f".{name}"))
        return sites[name], None if node["name"] == "none" else choices.get(name)

    return site_at


class LSTM(Normed, layers.LSTM):
    """An LSTM with a normalizer at `input`, `hidden` and `cell` (LN 2016, eq. 20-22); see `Normed`.

    >>> import torch
    >>> from normbench import LSTM
    >>> lstm = LSTM(10, 16, norm="layer")
    >>> outputs, (h, c) = lstm(torch.randn(2, 7, 10))
    >>> outputs.shape, h.shape, c.shape
    (torch.Size([2, 7, 16]), torch.Size([1, 2, 16]), torch.Size([1, 2, 16]))
    >>> per_step = LSTM(10, 16, norm={"name": "batch", "stats": "per_step"}, sites=["hidden"], forget_bias=1.0)

    Further options: forget_bias; scaled (the output is σ(o) tanh(s c), s the buffer `scale`); clip (± this number
    bounds the derivatives by the gates, as in handwriting); see `normbench.extend.LSTMCell`.
    """


class GRU(Normed, layers.GRU):
    """A GRU with a normalizer at `input` and `hidden` (LN 2016, eq. 26-28); see `Normed`.

    >>> import torch
    >>> from normbench import GRU
    >>> outputs, h = GRU(10, 16, norm="layer", num_layers=2, bidirectional=True)(torch.randn(2, 7, 10))
    >>> outputs.shape, h.shape
    (torch.Size([2, 7, 32]), torch.Size([4, 2, 16]))

    Sites: `input.gates`, `input.candidate`, `hidden.gates`, `hidden.candidate`; further options: update.
    """
