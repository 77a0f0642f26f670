"""LN Fig. 5, trained anew: NORMBENCH_DATA=... python scripts/check/handwriting.py [--updates N] [--seed N]
[--output DIR]

Handwriting along a text on IAM-OnDB, lines of at most 250 points, written from LN 6.5 and eq. 20-22 and from Graves
2013, section 5, as our protocol has it, not from normbench: three LSTMs of 400 without peepholes, a window of 10
Gaussians whose steps begin at exp(-3), 20 bivariate Gaussians; derivatives of each line's own loss within 10 at the
gates and within 100 at the outputs; Adam 1e-3, batches of 8. Which forms are test lines is normbench's rule, for want
of the owners' lists. An update takes more than a second: the first 25 are compared, of the published runs' 2 000.
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path

import equal
import numpy as np
import published
import torch
import torch.nn.functional as F
from torch import Tensor

UNITS, WINDOWS, MIXTURES, POINTS, BATCH = 400, 10, 20, 250, 8
ALPHABET = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ .,"'
SYMBOLS = len(ALPHABET) + 1  # and one for all others
SHIFT, AT_GATES, AT_OUTPUTS = -3.0, 10.0, 100.0
LSTMS = {"first": 3 + SYMBOLS, "second": 3 + UNITS + SYMBOLS, "third": 3 + UNITS + SYMBOLS}
LINEAR = {"window": (3 * WINDOWS, UNITS), "output": (6 * MIXTURES, 3 * UNITS), "lift": (1, 3 * UNITS)}
ARMS = ("none", "ln")
EVALUATED = (25, 50, 100)


def initial(arm: str) -> dict[str, Tensor]:
    def uniform(rows: int, columns: int, inputs: int) -> Tensor:
        return (2 * torch.rand(rows, columns) - 1) * inputs**-0.5

    p = {}
    for name, inputs in LSTMS.items():
        cell = f"{name}.cells.0"
        p[f"{cell}.weight_ih"] = uniform(4 * UNITS, inputs, UNITS)
        p[f"{cell}.weight_hh"] = uniform(4 * UNITS, UNITS, UNITS)
        p[f"{cell}.bias"] = torch.zeros(4 * UNITS)
        for site, size in (("input", 4 * UNITS), ("hidden", 4 * UNITS), ("cell", UNITS)) if arm == "ln" else ():
            p |= {f"{cell}.norms.{site}.gain": torch.ones(size), f"{cell}.norms.{site}.bias": torch.zeros(size)}
    for name, (rows, columns) in LINEAR.items():
        p |= {f"{name}.linear.weight": uniform(rows, columns, columns), f"{name}.linear.bias": torch.zeros(rows)}
    return p


def bounded(x: Tensor, bound: float) -> Tensor:
    """x, whose derivatives are kept within ± bound, of each line's own loss: ours is the mean over the lines."""
    if x.requires_grad:
        x.register_hook(lambda d: d.clamp(-bound / len(x), bound / len(x)))
    return x


def norm(arm: str, p: equal.Tensors, name: str, x: Tensor) -> Tensor:
    """LN over the last axis."""
    return F.layer_norm(x, x.shape[-1:], p[f"{name}.gain"], p[f"{name}.bias"], 1e-5) if arm == "ln" else x


Step = Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


def lstm(arm: str, p: equal.Tensors, name: str) -> tuple[Callable[[Tensor], Tensor], Step]:
    """The input's term of any steps; and (that of one step, valid (B, 1), h, c) -> (h, c)."""
    cell = f"{name}.cells.0"
    of_input, of_state, bias = p[f"{cell}.weight_ih"].T, p[f"{cell}.weight_hh"].T.contiguous(), p[f"{cell}.bias"]

    def term(x: Tensor) -> Tensor:
        return norm(arm, p, f"{cell}.norms.input", x @ of_input) + bias

    def step(given: Tensor, valid: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        f, i, o, g = bounded(norm(arm, p, f"{cell}.norms.hidden", h @ of_state) + given, AT_GATES).chunk(4, 1)
        c = torch.where(valid, f.sigmoid() * c + i.sigmoid() * g.tanh(), c)
        return torch.where(valid, o.sigmoid() * norm(arm, p, f"{cell}.norms.cell", c).tanh(), h), c

    return term, step


def line_nll(arm: str, p: equal.Tensors, batch: equal.Tensors) -> Tensor:
    """-log p of each line, in nats, (B,)."""
    strokes, valid = batch["strokes"], batch["strokes_mask"][:, 1:]
    x, following, steps = strokes[:, :-1], strokes[:, 1:], valid.T[:, :, None].unbind(0)
    count, zeros = len(x), x.new_zeros(len(x), UNITS)
    letters = F.one_hot(batch["characters"], SYMBOLS).to(x) * batch["characters_mask"][:, :, None]
    places = torch.arange(letters.shape[1])
    term, step = lstm(arm, p, "first")
    h, c, kappa, w = zeros, zeros, x.new_zeros(count, WINDOWS), x.new_zeros(count, SYMBOLS)
    first, windows = [], []
    for point, is_valid in zip(x.unbind(1), steps, strict=True):
        h, c = step(term(torch.cat([point, w], 1)), is_valid, h, c)
        alpha, beta, further = (h @ p["window.linear.weight"].T + p["window.linear.bias"]).chunk(3, 1)
        kappa = kappa + (further + SHIFT).exp()
        away = (kappa[:, :, None] - places).square()
        phi = (alpha.exp()[:, :, None] * (-beta.exp()[:, :, None] * away).exp()).sum(1)
        w = (phi[:, None] @ letters)[:, 0]
        first.append(h)
        windows.append(w)
    hidden, window_seq = [torch.stack(first, 1)], torch.stack(windows, 1)
    for name in ("second", "third"):
        term, step = lstm(arm, p, name)
        h, c, outputs = zeros, zeros, []
        for given, is_valid in zip(term(torch.cat([x, hidden[-1], window_seq], 2)).unbind(1), steps, strict=True):
            h, c = step(given, is_valid, h, c)
            outputs.append(h)
        hidden.append(torch.stack(outputs, 1))
    layers = torch.cat(hidden, 2)
    y = torch.cat([layers @ p[f"{name}.linear.weight"].T + p[f"{name}.linear.bias"] for name in ("output", "lift")], 2)
    return (-log_density(bounded(y, AT_OUTPUTS), following) * valid).sum(1)


def log_density(y: Tensor, points: Tensor) -> Tensor:
    """log p of the next points (B, T, 3): of each Gaussian weight, two means, two log deviations, correlation."""
    weight, mean_x, mean_y, log_x, log_y, rho = y[:, :, :-1].split(MIXTURES, 2)
    rho = rho.tanh().clamp(-1 + 1e-6, 1 - 1e-6)
    a, b = (points[:, :, :1] - mean_x) / log_x.exp(), (points[:, :, 1:2] - mean_y) / log_y.exp()
    rest = 1 - rho.square()
    log_normal = -(a * a + b * b - 2 * rho * a * b) / (2 * rest) - log_x - log_y - (2 * math.pi * rest.sqrt()).log()
    end = points[:, :, 2]
    log_end = end * F.logsigmoid(y[:, :, -1]) + (1 - end) * F.logsigmoid(-y[:, :, -1])
    return torch.logsumexp(weight.log_softmax(2) + log_normal, 2) + log_end


def update(arm: str, p: equal.Tensors, batch: equal.Tensors, drawn: Sequence[Tensor]) -> Tensor:
    return line_nll(arm, p, batch).mean()


@cache
def load(root: Path) -> dict[str, list[tuple[Tensor, Tensor]]]:
    """Lines of each part: points (n, 3), offsets standardized, the first (0, 0, end), and letters (U,)."""
    table = (root / "iam_ondb" / "sentences.tsv").read_text(encoding="utf-8").removesuffix("\n").split("\n")
    names, texts = zip(*(row.split("\t", 1) for row in table), strict=True)
    with np.load(root / "iam_ondb" / "strokes.npz") as file:
        moves, lengths = file["dxy"].astype(np.float64), file["length"].astype(np.int64)
        ends = np.unpackbits(file["eos"], count=len(moves))
    points = np.split(np.column_stack([moves, ends]), lengths.cumsum()[:-1])
    forms = [name.rsplit("-", 1)[0] for name in names]
    left, tested = 1438, set()
    counts = Counter(forms)
    for form in sorted(counts, key=lambda form: hashlib.sha256(f"1 {form}".encode()).digest()):
        if counts[form] <= left:
            left -= counts[form]
            tested.add(form)
    numbers = {letter: number for number, letter in enumerate(ALPHABET)}
    parts: dict[str, list[tuple[np.ndarray, Tensor]]] = {"train": [], "test": []}
    for form, line, text in zip(forms, points, texts, strict=True):
        letters = torch.tensor([numbers.get(letter, len(ALPHABET)) for letter in text])
        parts["test" if form in tested else "train"].append((line[:POINTS], letters))
    offsets = np.concatenate([line[1:, :2] for line, _ in parts["train"]])
    mean, deviation = offsets.mean(0), offsets.std(0)
    for line, _ in (each for lines in parts.values() for each in lines):
        line[:, :2] = (line[:, :2] - mean) / deviation
        line[0, :2] = 0
    return {part: [(torch.from_numpy(line).float(), t) for line, t in lines] for part, lines in parts.items()}


def padded(lines: Sequence[tuple[Tensor, Tensor]]) -> dict[str, Tensor]:
    batch = {}
    for name, sequences in zip(("strokes", "characters"), zip(*lines, strict=True), strict=True):
        batch[name] = torch.nn.utils.rnn.pad_sequence(list(sequences), batch_first=True)
        lengths = torch.tensor([len(sequence) for sequence in sequences])
        batch[f"{name}_mask"] = torch.arange(batch[name].shape[1]) < lengths[:, None]
    return batch


@torch.no_grad()
def test(arm: str, p: equal.Tensors, lines: Sequence[tuple[Tensor, Tensor]], update: int) -> dict[str, object]:
    """Of every sixth test line."""
    chosen = lines[::6]
    nlls = [line_nll(arm, p, padded(chosen[start : start + 60])) for start in range(0, len(chosen), 60)]
    return {"epoch": update, "split": "test", "mode": "eval", "line_nll": torch.cat(nlls).double().mean().item()}


def train(arm: str, axes: Mapping[str, int], updates: int, root: Path) -> Iterator[published.Record]:
    parts = load(root)
    lines = parts["train"]
    p = {name: weight.requires_grad_() for name, weight in initial(arm).items()}
    optimizer = torch.optim.Adam(p.values(), lr=1e-3)
    yield test(arm, p, parts["test"], 0)
    order = torch.randperm(len(lines)).tolist()  # no line comes twice in so few updates
    total, before = 0.0, 0
    for done in range(1, updates + 1):
        rows = order[(done - 1) * BATCH : done * BATCH]
        loss = line_nll(arm, p, padded([lines[row] for row in rows])).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        total += loss.item()
        if done in EVALUATED:
            mean = total / (done - before)
            yield {"epoch": done, "split": "train", "mode": "running", "line_nll": mean}
            yield test(arm, p, parts["test"], done)
            total, before = 0.0, done


if __name__ == "__main__":
    title = "LN Fig. 5 by an implementation of its own"
    cells: list[published.Cell] = [(arm, {}) for arm in ARMS]
    equals = partial(equal.compare, "ln2016/fig5", "reduced", ARMS, initial, update)
    sys.exit(
        published.main(
            __doc__, "handwriting", title, "ln2016/fig5", cells, 25, train, fidelity="reduced", unit="update",
            equals=equals,
        )
    )  # fmt: skip
