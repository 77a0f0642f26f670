"""LSTM, GRU and RNN over whole sequences: cells stacked, in one direction or both, with padding."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from normbench.errors import BadInput, kind, positive
from normbench.rnn.cells import Cell, GRUCell, LSTMCell, RNNCell, Sites, State
from normbench.rnn.loop import Steps, unroll


class Recurrent(nn.Module):
    """Cells over whole sequences: `outputs, state = layer(x, mask)`.

    Args:
        input_size, hidden_size, num_layers, bidirectional: as torch.
        sites, path: of one cell `PATH.input` and so on; of several layers `PATH.0.input`; in both directions
            `PATH.forward.input` and `PATH.backward.input` (`PATH.0.forward.input`).
        batch_first: false for x, mask and outputs with time first.
        dropout: share of each layer's outputs but the last's that is dropped in training, by torch's generator.
        options: the cell's, the same for all.

    Shapes: x (B, T, I); mask (B, T), true at valid positions; outputs (B, T, H), both directions one after the other
    (B, T, 2H); state one tensor, of an LSTM (h, c), each (num_layers * directions, B, H) as torch.
    A masked step copies the state: outputs there repeat the last valid one; the backward direction begins at the last
    valid step. It reads, and counts its steps, from the end of the padded sequence. What x holds at padding, NaN among
    it, reaches no output and no gradient, but by statistics over all rows, which take what is no number for 0.
    """

    cell: ClassVar[type[Cell]]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        sites: Sites | None = None,
        path: str = "",
        *,
        num_layers: int = 1,
        bidirectional: bool = False,
        batch_first: bool = True,
        dropout: float = 0.0,
        **options: object,
    ) -> None:
        super().__init__()
        self.place = path or type(self).__name__  # in messages
        positive(self.place, input_size=input_size, hidden_size=hidden_size, num_layers=num_layers)
        self.input_size, self.hidden_size, self.path = input_size, hidden_size, path
        self.num_layers, self.directions = num_layers, 2 if bidirectional else 1
        if not 0 <= dropout <= 1:
            raise BadInput(f"{self.place}: dropout={dropout} must be between 0 and 1.")
        self.batch_first, self.dropout = batch_first, dropout
        self.cells = nn.ModuleList()
        for layer in range(num_layers):
            inputs = input_size if layer == 0 else self.directions * hidden_size
            for direction in ("forward", "backward") if bidirectional else ("",):
                parts = [path, str(layer) if num_layers > 1 else "", direction]
                name = ".".join(part for part in parts if part)
                self.cells.append(self.cell(inputs, hidden_size, sites, name, **options))  # type: ignore[arg-type]

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        state: Tensor | State | None = None,
        rng: np.random.Generator | None = None,
        drop: bool = True,
    ) -> tuple[Tensor, Tensor | State]:
        """rng draws the dropout masks, in training where there is dropout: cell by cell in the order of `cells`.

        `drop`: false for a pass in training mode that drops nothing.
        """
        self._check(x, mask)
        y = x.transpose(0, 1) if self.batch_first else x
        rows = None if mask is None else mask.bool().T if self.batch_first else mask.bool()
        batch = y.shape[1]
        begin = self._split(state, batch)
        last: list[State] = []
        for layer in range(self.num_layers):
            if layer and self.dropout:
                y = F.dropout(y, self.dropout, self.training and drop)
            outputs = []
            for direction in range(self.directions):
                cell = self._cell(layer, direction)
                first = cell.initial(batch) if begin is None else begin[len(last)]
                turned = y.flip(0) if direction else y
                turned_mask = rows if rows is None or not direction else rows.flip(0)
                out, end = unroll(cell, turned, turned_mask, first, cell.sequence_weights(batch, rng, drop))
                outputs.append(out.flip(0) if direction else out)
                last.append(end)
            y = outputs[0] if len(outputs) == 1 else torch.cat(outputs, -1)
        ends = tuple(torch.stack(parts) for parts in zip(*last, strict=True))
        return y.transpose(0, 1) if self.batch_first else y, ends[0] if len(ends) == 1 else ends

    def steps(self, batch: int, rng: np.random.Generator | None = None, count: int | None = None) -> Steps:
        """The cell one step at a time, for one sequence of a model that feeds outputs back; of a single layer.

        count: the number of steps, if known: memory is allocated for no more.
        """
        (cell,) = self.cells
        assert isinstance(cell, Cell)
        return Steps(cell, cell.sequence_weights(batch, rng), count)

    def _cell(self, layer: int, direction: int) -> Cell:
        cell = self.cells[layer * self.directions + direction]
        assert isinstance(cell, Cell)
        return cell

    def _check(self, x: Tensor, mask: Tensor | None) -> None:
        axes, time = ("batch, time", 1) if self.batch_first else ("time, batch", 0)
        if not isinstance(x, Tensor) or x.dim() != 3 or x.shape[2] != self.input_size or x.shape[time] == 0:
            raise BadInput(
                f"{self.place}: the input must be ({axes}, {self.input_size}) with at least one step, not {kind(x)}."
            )
        if mask is not None and mask.shape != x.shape[:2]:
            raise BadInput(f"{self.place}: the mask must be {tuple(x.shape[:2])}, not {tuple(mask.shape)}.")

    def _split(self, state: Tensor | State | None, batch: int) -> list[State] | None:
        if state is None:
            return None
        parts = (state,) if isinstance(state, Tensor) else tuple(state)
        shape = (len(self.cells), batch, self.hidden_size)
        fits = all(isinstance(part, Tensor) and part.shape == shape for part in parts)
        if len(parts) != self.cell.states or not fits:
            given = ", ".join(map(kind, parts))
            raise BadInput(f"{self.place}: the state must be {self.cell.states} tensor(s) of {shape}, not {given}.")
        return list(zip(*(part.unbind(0) for part in parts), strict=True))


class LSTM(Recurrent):
    """`Recurrent` of `LSTMCell` (LN 2016, eq. 17-22); further options: forget_bias, scaled, clip."""

    cell = LSTMCell


class GRU(Recurrent):
    """`Recurrent` of `GRUCell` (LN 2016, eq. 23-28); further options: update."""

    cell = GRUCell


class RNN(Recurrent):
    """`Recurrent` of `RNNCell` (LN 2016, eq. 4); further options: nonlinearity."""

    cell = RNNCell
