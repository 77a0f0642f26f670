"""L2-regularized logistic regression: many problems on the same rows, solved at once and to the end.

Problem k trains on the rows where `train[k]` is set, and minimizes as liblinear does

    f_k(w) = ½ Σ_j w_j² + C Σ_i train_ki log(1 + exp(-y_i z_i·w)),   y_i = ±1,  z_i = (x_i, 1)

so that the intercept, the weight of the 1, is penalized like any other.

    the rows        are rotated to their principal axes, all of them, which changes no f_k: the penalty is the same
                    in every direction. There Σ z zᵀ is diagonal, and the Hessian 1 + C Σ train p (1 - p) z zᵀ nearly
                    so: its diagonal for a mean p (1 - p) is the preconditioner. Sparse rows stay as they are.
    Newton's steps  by conjugate gradients, with C in rising order, each from where the last two solutions point to.
                    Gradients, values and steps are float64, directions float32: the problem solved is float64's.
    the end         |∇f_k| ≤ 1e-6. f_k is 1-convex, so that no weight is further than that from the solution.

Not the same as scikit-learn's `lbfgs` at its default tolerance, which stops long before at a large C, and whose
intercept is free. All products have the problems as rows: `w` (K, D), decisions `w zᵀ` (K, N).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from normbench.errors import BadInput
from normbench.sentences.sets import NotFinite

GRADIENT = 1e-6  # where a problem is solved
ROUNDING = 1e-13  # of C Σ|z_i|: long vectors have gradients that float64 cannot tell any better
FORCING = 1e-2  # what conjugate gradients leave of a gradient before the next step of Newton's
PRODUCTS, STEPS, HALVINGS = 500, 100, 30  # at most


@dataclass(frozen=True)
class Rows:
    """Rows z (N, D) in both precisions, with their sums of squares."""

    exact: Products
    quick: Products
    squares: Tensor  # Σ_i z_ij² (D,)

    def __len__(self) -> int:
        return int(self.exact.z.shape[0])


@dataclass(frozen=True)
class Products:
    """The two products with z (N, D), a tensor."""

    z: Any

    def decisions(self, w: Tensor) -> Tensor:
        """w zᵀ: (K, N) of (K, D)."""
        values: Tensor = w @ self.z.T
        return values

    def gathered(self, weights: Tensor) -> Tensor:
        """weights z: (K, D) of (K, N)."""
        values: Tensor = weights @ self.z
        return values


class SparseProducts(Products):
    """The same with a scipy.sparse matrix, whose products are faster than torch's."""

    def decisions(self, w: Tensor) -> Tensor:
        return torch.from_numpy(self.z @ w.T.contiguous().numpy()).T.contiguous()

    def gathered(self, weights: Tensor) -> Tensor:
        return torch.from_numpy(self.z.T @ weights.T.contiguous().numpy()).T.contiguous()


def rows(vectors: Any) -> Rows:
    """The rows of vectors (N, D), a numpy array or a scipy.sparse matrix, ready to be solved with."""
    if not isinstance(vectors, np.ndarray):
        return _sparse(vectors)
    x = torch.from_numpy(np.asarray(vectors, np.float64))
    x = torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], 1)
    if x.shape[1] > x.shape[0]:  # the same inner products in as many columns as there are rows
        x = torch.linalg.qr(x.T, mode="r").R.T.contiguous()
    inner = x.T @ x
    _refuse_too_long(inner)
    squares, axes = torch.linalg.eigh(inner)
    z = x @ axes
    return Rows(Products(z), Products(z.float()), squares.clamp_min(0))


def _sparse(matrix: Any) -> Rows:
    from scipy import sparse

    z = sparse.csr_array(sparse.hstack([matrix, np.ones((matrix.shape[0], 1))]).astype(np.float64))
    with np.errstate(over="ignore"):
        squares = torch.from_numpy(z.power(2).sum(0))
    _refuse_too_long(squares)
    return Rows(SparseProducts(z), SparseProducts(z.astype(np.float32)), squares)


def _refuse_too_long(products: Tensor) -> None:
    """NotFinite where a sum of squares is infinite, and the gradient that is small beside it with it."""
    if not torch.isfinite(products).all():
        raise NotFinite("logistic regression: the vectors are too long for float64. Give them a length such as 1.")


def decisions(given: Rows, targets: Tensor, train: Tensor, costs: Sequence[float]) -> Iterator[Tensor]:
    """For one C after the other, in rising order: the decisions w·z (K, N) of each problem's solution on all rows.

    targets (N,) of 0 and 1; train (K, N) bool. NormbenchError where a problem cannot be solved.
    """
    w = given.squares.new_zeros(len(train), len(given.squares))
    now = _State(w, given.squares.new_zeros(train.shape))
    before: _State | None = None
    for place, cost in enumerate(costs):
        start = now
        if before is not None:  # straight on in log C
            on = np.log(cost / costs[place - 1]) / np.log(costs[place - 1] / costs[place - 2])
            start = _State(*(b + on * (b - a) for a, b in ((before.w, now.w), (before.a, now.a))))
        before, now = now if place else None, _solve(given, targets.double(), train, float(cost), start)
        yield now.a


@dataclass(frozen=True)
class _State:
    w: Tensor  # (K, D)
    a: Tensor  # its decisions (K, N)


def _solve(given: Rows, targets: Tensor, train: Tensor, cost: float, start: _State) -> _State:
    """Newton's method from `start`, for every problem until its gradient is small."""
    w, a = start.w.clone(), start.a.clone()
    enough = max(GRADIENT, ROUNDING * cost * float((len(given) * given.squares.sum()).sqrt()))
    open_ = torch.arange(len(w))
    for _ in range(STEPS):
        weights = cost * train[open_].double()
        p = torch.sigmoid(a[open_])
        gradient = given.exact.gathered(weights * (p - targets)) + w[open_]
        norms = gradient.norm(dim=1)
        unsolved = ~(norms <= enough)  # NaN is not solved
        if not unsolved.any():
            return _State(w, a)
        open_, weights, p, gradient, norms = (part[unsolved] for part in (open_, weights, p, gradient, norms))
        left = (0.5 * enough / norms).clamp(FORCING, 0.5)
        direction = _direction(given, weights * p * (1 - p), gradient, left)
        on = given.exact.decisions(direction)
        step = _step(given, targets, weights, _State(w[open_], a[open_]), _State(direction, on), gradient)[:, None]
        w[open_] += step * direction
        a[open_] += step * on
    raise BadInput(
        f"logistic regression with C = {cost:g} is not solved after {STEPS} steps: the gradient is {norms.max():.1e}. "
        "Give vectors of similar lengths, such as 1."
    )


def _direction(given: Rows, curvature: Tensor, gradient: Tensor, left: Tensor) -> Tensor:
    """Newton's direction d (K, D): (1 + Σ_i curvature_ki z zᵀ) d = -gradient, but for a share `left` of its norm.

    Conjugate gradients, preconditioned by the diagonal for a mean curvature; a problem leaves once it is there.
    """
    kind = torch.float32
    directions = torch.zeros_like(gradient, dtype=kind)
    scale = gradient.norm(dim=1, keepdim=True)  # float32 is for directions: their lengths come back at the end
    r = (-gradient / scale).to(kind)
    inverse = (1 / (1 + curvature.mean(1)[:, None] * given.squares)).to(kind)
    curvature, left = curvature.to(kind), left.to(kind)
    open_, d, p = torch.arange(len(r)), torch.zeros_like(r), inverse * r
    rho = (r * p).sum(1, keepdim=True)
    for _ in range(PRODUCTS):
        hp = given.quick.gathered(curvature * given.quick.decisions(p)) + p
        alpha = rho / (p * hp).sum(1, keepdim=True)
        d, r = d + alpha * p, r - alpha * hp
        converged = r.norm(dim=1) <= left
        if converged.any():
            directions[open_[converged]] = d[converged]
            if converged.all():
                return directions.double() * scale
            open_, d, r, p, rho, inverse, curvature, left = (
                part[~converged] for part in (open_, d, r, p, rho, inverse, curvature, left)
            )
        z = inverse * r
        rho, last = (r * z).sum(1, keepdim=True), rho
        p = z + rho / last * p
    directions[open_] = d  # short of the end, but downhill
    return directions.double() * scale


def _step(given: Rows, targets: Tensor, weights: Tensor, at: _State, direction: _State, gradient: Tensor) -> Tensor:
    """How far to go for each problem, (K,): all the way, or half of it until f falls as it should (Armijo)."""
    sign = 1 - 2 * targets
    slope = (gradient * direction.w).sum(1)

    def value(step: Tensor) -> Tensor:
        w, a = (origin + step[:, None] * change for origin, change in ((at.w, direction.w), (at.a, direction.a)))
        return (weights * F.softplus(sign * a)).sum(1) + 0.5 * (w * w).sum(1)

    step = torch.ones_like(slope)
    start = value(torch.zeros_like(slope))
    for _ in range(HALVINGS):
        above = value(step) > start + 1e-4 * step * slope + 1e-12 * start  # rounding hides what is smaller
        if not above.any():
            break
        step = torch.where(above, step / 2, step)
    return step
