"""LSTM and GRU of the papers with any normalizer, without a model's configuration."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from normbench.errors import NormbenchError, unknown
from normbench.library.norms import find
from normbench.norms.sites import Choice, Site, choose, claims, refusal
from normbench.rnn import layers
from normbench.rnn.cells import AXES, Cell, Sites

KINDS = {"input": ("pre_activation", "weight"), "hidden": ("state", "weight")}  # the other sites are states alone


class Normed(layers.Recurrent):
    """A recurrent layer that is told its normalizer by name: `layer(x, mask=None)` gives outputs and the last state.

    Args:
        input_size, hidden_size, num_layers, bidirectional: as torch's; x is (batch, time, input_size).
        norm: the name of a normalizer or the path of one's own; with options `{"name": "layer", "eps": 1e-3}`.
        sites: where it stands, such as `["hidden", "cell"]`; without it wherever it can.
        options: those of the cell, such as bias, learn_h0, input_dropout; see `normbench.rnn.cells`.

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
        **options: Any,
    ) -> None:
        given = {"name": norm} if isinstance(norm, str) else dict(norm) if isinstance(norm, Mapping) else {}
        if not isinstance(given.get("name"), str):
            raise NormbenchError(f"norm={norm} must be a name, or a map with a name and options.")
        known = sorted(_options(self.cell))
        for key in options:
            if key not in known:
                raise unknown(f"{self.cell.__name__.removesuffix('Cell')} has no option {key}.", key, known)
        node = find(given.pop("name"))
        self.one_length = node["name"] if node["declares"].get("one_length") else ""
        found = _sites(self.cell, hidden_size, node, given, sites)
        super().__init__(input_size, hidden_size, found, num_layers=num_layers, bidirectional=bidirectional, **options)

    def _check(self, x: Tensor, mask: Tensor | None) -> None:
        super()._check(x, mask)
        if mask is not None and self.one_length:
            raise NormbenchError(f"{self.one_length} has statistics for every step: it takes sequences of one length.")


def _options(cell: type[Cell]) -> set[str]:
    """The keywords of a cell and of what it is made of."""
    own = [inspect.signature(kind.__init__).parameters.values() for kind in cell.__mro__ if issubclass(kind, Cell)]
    return {one.name for parameters in own for one in parameters if one.kind is one.KEYWORD_ONLY}


def _sites(
    cell: type[Cell], hidden_size: int, node: Mapping[str, Any], options: Mapping[str, Any], asked: Sequence[str] | None
) -> Sites:
    """The cell's sites with this normalizer, at those asked for; the same in every layer and direction."""
    sizes = cell.site_sizes(hidden_size)
    sites = {
        name: Site(name, KINDS.get(name.split(".")[0], ("state",)), AXES, size, bias="keep")
        for name, size in sizes.items()
    }
    if asked is None:
        chosen = {name for name, site in sites.items() if not refusal(site, node["declares"])}
        if not chosen:
            choose(next(iter(sites.values())), node, options)  # says why
    else:
        chosen = set(claims("sites", cell.__name__, "site", asked, sites))
    choices: dict[str, Choice] = {name: choose(sites[name], node, options) for name in sites if name in chosen}

    def found(path: str) -> tuple[Site, Choice | None]:
        name = next(name for name in sites if path == name or path.endswith(f".{name}"))
        return sites[name], None if node["name"] == "none" else choices.get(name)

    return found


class LSTM(Normed, layers.LSTM):
    """An LSTM with a normalizer at `input`, `hidden` and `cell` (LN 2016, eq. 20-22); see `Normed`.

    >>> import torch
    >>> from normbench import LSTM
    >>> lstm = LSTM(10, 16, norm="layer")
    >>> outputs, (h, c) = lstm(torch.randn(2, 7, 10))
    >>> outputs.shape, h.shape, c.shape
    (torch.Size([2, 7, 16]), torch.Size([1, 2, 16]), torch.Size([1, 2, 16]))
    >>> per_step = LSTM(10, 16, norm={"name": "batch", "stats": "per_step"}, sites=["hidden"], forget_bias=1.0)

    Further options: forget_bias; scaled (the output is σ(o) tanh(s c), s the buffer `scale`); clip (bounds of the
    derivatives by the gates, as in handwriting); see `normbench.rnn.cells.LSTMCell`.
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
