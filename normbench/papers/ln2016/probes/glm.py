"""LN 2016, section 5.2: the Fisher information of a normalized GLM, exact and by the paper's equations.

z = g (a - mu)/sigma + b with a = W x, over a finite set of cases that is the whole of P(x); y has the natural
parameter z. The exact matrix is E[Jᵀ Cov[y|x] J]/phi², J = dz/dtheta by autograd through mu and sigma, with
theta = [w_i, b_i, g_i] unit by unit; the Hessian of the KL divergence (eq. 8) checks it. All in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import hessian, jacrev

from normbench.config.spec import Spec
from normbench.errors import BadInput
from normbench.train import probes

Moments = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]  # W (H, D), x (N, D) -> mu, sigma, each (N, H)


def _none(W: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    a = x @ W.T
    return torch.zeros_like(a), torch.ones_like(a)


def _batch(W: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    a = x @ W.T  # eq. 2: expectations over the cases
    return a.mean(0).expand_as(a), a.var(0, correction=0).sqrt().expand_as(a)


def _layer(W: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    a = x @ W.T  # eq. 3: over the units of one case
    return a.mean(1, keepdim=True).expand_as(a), a.var(1, correction=0, keepdim=True).sqrt().expand_as(a)


def _weight(W: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    a = x @ W.T  # eq. 5: mu = 0, sigma = |w|
    return torch.zeros_like(a), W.norm(dim=1).expand_as(a)


MOMENTS: dict[str, Moments] = {"none": _none, "batch": _batch, "layer": _layer, "weight": _weight}


def compute(spec: Spec) -> list[dict[str, float]]:
    """Deviations of the paper's equations from the exact matrix, and effects of a growing |w|.

    `eq12`, `eq13`: relative Frobenius norms of (paper's matrix - exact); `cross`: of the terms dz_k/dw_i, k != i, that
    eq. 13 leaves out; `kl`: of (Hessian of KL - exact). `eq32` to `eq35`: of the metric along the gains.
    `gain_data`, `gain_weights`: how much that metric changes when data or weights are scaled by 2.5.

    Then per multiple s of the weights (of one unit, `one_`; of the whole matrix, `all_`): loss, gradient norm,
    curvature along w_i (block ii of F), its coupling (block ij), the angle of a gradient step; each over its value at
    s = 1.
    """
    glm = Glm(spec)
    exact = glm.fisher()
    numbers = {"kl": _off(glm.fisher_by_kl(), exact)}
    if glm.name == "none":
        numbers["eq12"] = _off(glm.eq12(), exact)
        gains = glm.projected_gain_metric(glm.W, glm.x)
        numbers["eq35"] = _off(glm.eq35(), gains)
        metric = glm.projected_gain_metric
    else:
        numbers |= {"eq13": _off(glm.eq13(), exact), "cross": glm.cross()}
        gains = glm.gain_metric(glm.W, glm.x)
        numbers |= {key: _off(value, gains) for key, value in glm.paper_gain_metric().items()}
        metric = glm.gain_metric
    numbers["gain_data"] = _off(metric(glm.W, 2.5 * glm.x), gains)
    numbers["gain_weights"] = _off(metric(2.5 * glm.W, glm.x), gains)
    records = [numbers]
    start = {"one_": glm.growth(1.0, 1), "all_": glm.growth(1.0, len(glm.W))}
    for s in range(1, spec.epochs + 1):
        place: dict[str, float] = {"epoch": s, "step": s}
        for prefix, units in (("one_", 1), ("all_", len(glm.W))):
            now = glm.growth(float(s), units)
            place |= {f"{prefix}{key}": value / start[prefix][key] for key, value in now.items()}
        records.append(place)
    at = {f"twice_{key}": value for key, value in records[2].items() if key not in ("epoch", "step")}
    numbers |= at  # under separate names: each claim reads one number
    return records


def _off(value: Tensor, exact: Tensor) -> float:
    return float((value - exact).norm() / exact.norm())


class Glm:
    """One model with its draws; `units` H, `inputs` D, cases N."""

    def __init__(self, spec: Spec) -> None:
        options, cases = spec.config["model"], spec.config["train"]["batch_size"]
        choice = spec.sites.get("summed")
        self.name = choice.name if choice else "none"
        if self.name not in MOMENTS:
            raise BadInput(f"glm knows no mu and sigma of {self.name}. (it knows {', '.join(MOMENTS)})")
        self.moments = MOMENTS[self.name]
        self.family = options["family"]
        self.phi = options["dispersion"] if self.family == "gaussian" else 1.0
        self.H, self.D = options["units"], options["inputs"]

        draw = partial(probes.draw, spec.seed)
        self.W, self.x = draw("weights", self.H, self.D), draw("inputs", cases, self.D)
        self.b, self.g = 0.3 * draw("biases", self.H), 1 + 0.2 * draw("gains", self.H)
        self.y = self._targets(draw("targets", cases, self.H))

    def z(self, W: Tensor, b: Tensor, g: Tensor, x: Tensor) -> Tensor:
        """The natural parameters (N, H)."""
        mu, sigma = self.moments(W, x)
        return (g if self.name != "none" else 1.0) * (x @ W.T - mu) / sigma + b

    def covariance(self, z: Tensor) -> Tensor:
        """Cov[y | x] (N, H, H)."""
        if self.family == "gaussian":
            return self.phi * torch.eye(self.H).double().expand(len(z), -1, -1)
        if self.family == "bernoulli":
            p = z.sigmoid()
            return torch.diag_embed(p * (1 - p))
        p = z.softmax(1)
        return torch.diag_embed(p) - p.unsqueeze(2) * p.unsqueeze(1)

    def jacobian(self, W: Tensor, x: Tensor) -> Tensor:
        """dz/dtheta (N, H, P), theta unit by unit: [w_i, b_i, g_i], without g_i in the standard GLM."""
        parts = jacrev(self.z, argnums=(0, 1, 2))(W, self.b, self.g, x)
        dW, db, dg = parts[0], parts[1].unsqueeze(-1), parts[2].unsqueeze(-1)
        return torch.cat([dW, db] if self.name == "none" else [dW, db, dg], -1).flatten(2)

    def fisher(self, W: Tensor | None = None) -> Tensor:
        """Eq. 9, exact: E[Jᵀ Cov J]/phi² (P, P)."""
        W = self.W if W is None else W
        return self._metric(self.jacobian(W, self.x), W, self.x)

    def _metric(self, J: Tensor, W: Tensor, x: Tensor) -> Tensor:
        C = self.covariance(self.z(W, self.b, self.g, x))
        return torch.einsum("nip,nij,njq->pq", J, C, J) / (len(x) * self.phi**2)

    def fisher_by_kl(self) -> Tensor:
        """Eq. 8: the Hessian of KL[P(y|x; theta) || P(y|x; theta + delta)] at delta = 0."""
        z = self.z(self.W, self.b, self.g, self.x)
        width = self.D + (1 if self.name == "none" else 2)

        def divergence(delta: Tensor) -> Tensor:
            d = delta.view(self.H, width)
            gain = self.g if self.name == "none" else self.g + d[:, -1]
            moved = self.z(self.W + d[:, : self.D], self.b + d[:, self.D], gain, self.x)
            return self.kl(z, moved).mean()

        return hessian(divergence)(torch.zeros(self.H * width).double())

    def kl(self, z: Tensor, moved: Tensor) -> Tensor:
        """KL divergence per case (N,)."""
        if self.family == "gaussian":
            return (z - moved).square().sum(1) / (2 * self.phi)
        if self.family == "bernoulli":
            return (z.sigmoid() * (z - moved) - F.softplus(z) + F.softplus(moved)).sum(1)
        return (z.softmax(1) * (z.log_softmax(1) - moved.log_softmax(1))).sum(1)

    def eq12(self) -> Tensor:
        """The standard GLM: E[Cov[y|x]/phi² (x) [[x xᵀ, x], [xᵀ, 1]]]."""
        C = self.covariance(self.z(self.W, self.b, self.g, self.x)) / self.phi**2
        extended = torch.cat([self.x, torch.ones(len(self.x), 1).double()], 1)
        return torch.einsum("nij,np,nq->ipjq", C, extended, extended).reshape(2 * [self.H * (self.D + 1)]) / len(self.x)

    def eq13(self) -> Tensor:
        """The paper's normalized matrix: block ij by chi_i (eq. 14), which has only the derivative of unit i itself."""
        mu, sigma = self.moments(self.W, self.x)
        normalized = (self.x @ self.W.T - mu) / sigma
        dmu, dsigma = (torch.einsum("niid->nid", d) for d in jacrev(self.moments)(self.W, self.x))
        chi = self.x.unsqueeze(1) - dmu - normalized.unsqueeze(2) * dsigma  # (N, H, D)
        rows = [(self.g / sigma).unsqueeze(2) * chi, torch.ones_like(normalized)[..., None], normalized[..., None]]
        dz = torch.cat(rows, 2)  # dz_i/d[w_i, b_i, g_i], (N, H, D + 2)
        C = self.covariance(self.z(self.W, self.b, self.g, self.x)) / self.phi**2
        return torch.einsum("nij,nip,njq->ipjq", C, dz, dz).reshape(2 * [self.H * (self.D + 2)]) / len(self.x)

    def cross(self) -> float:
        """|dz_k/dw_i, k != i| over |dz/dW|: the part that eq. 13 lacks."""
        dW = jacrev(self.z)(self.W, self.b, self.g, self.x)  # (N, H, H, D)
        same_unit = torch.eye(self.H).double()[None, :, :, None]
        return float((dW * (1 - same_unit)).norm() / dW.norm())

    def gain_metric(self, W: Tensor, x: Tensor) -> Tensor:
        """The block of the exact matrix along the gains (H, H)."""
        J = jacrev(self.z, argnums=2)(W, self.b, self.g, x)
        return self._metric(J, W, x)

    def projected_gain_metric(self, W: Tensor, x: Tensor) -> Tensor:
        """The standard GLM's metric along w_i/|w_i| (H, H)."""

        def along(m: Tensor) -> Tensor:
            return self.z(W + m[:, None] * W / W.norm(dim=1, keepdim=True), self.b, self.g, x)

        return self._metric(jacrev(along)(torch.zeros(self.H).double()), W, x)

    def paper_gain_metric(self) -> dict[str, Tensor]:
        """Eq. 32 (BN), 33 (LN) or 34 (WN)."""
        a = self.x @ self.W.T
        C = self.covariance(self.z(self.W, self.b, self.g, self.x)) / self.phi**2
        if self.name == "batch":
            return {"eq32": C.mean(0)}
        if self.name == "layer":
            mu, sigma = a.mean(1, keepdim=True), a.var(1, correction=0, keepdim=True).sqrt()
            normalized = (a - mu) / sigma
            return {"eq33": torch.einsum("nij,ni,nj->ij", C, normalized, normalized) / len(a)}
        return {"eq34": self.eq35()}

    def eq35(self) -> Tensor:
        """The standard GLM's metric along w_i/|w_i|, as written: the same form as eq. 34."""
        scaled = self.x @ self.W.T / self.W.norm(dim=1)
        C = self.covariance(self.z(self.W, self.b, self.g, self.x)) / self.phi**2
        return torch.einsum("nij,ni,nj->ij", C, scaled, scaled) / len(scaled)

    def growth(self, s: float, units: int) -> dict[str, float]:
        """Loss, gradient and curvature of the first unit, with the weights of the first `units` units times s."""
        factor = torch.ones(self.H, 1).double()
        factor[:units] = s
        W = (factor * self.W).requires_grad_()
        loss = self.loss(W)
        (gradient,) = torch.autograd.grad(loss, W)
        along_w = gradient[0]
        width = self.D + (1 if self.name == "none" else 2)
        F_ = self.fisher(W.detach())
        ii, ij = F_[: self.D, : self.D], F_[: self.D, width : width + self.D]
        w = W.detach()[0]
        step = 1e-6 * along_w  # a gradient step so small that its angle is its length across w over |w|
        across = step - (step @ w) / (w @ w) * w
        coupled = {"coupling": float(ij.norm())} if self.family == "categorical" else {}
        return {
            "loss": float(loss.detach()),
            "gradient": float(along_w.norm()),
            "curvature": float(ii.norm()),
            "angle": float(across.norm() / w.norm()),
            **coupled,  # units on their own are not coupled
        }

    def loss(self, W: Tensor) -> Tensor:
        """-log P(y | x), mean over cases, without terms that do not depend on z."""
        z = self.z(W, self.b, self.g, self.x)
        if self.family == "gaussian":
            return (z - self.y).square().sum(1).mean() / (2 * self.phi)
        if self.family == "bernoulli":
            return F.binary_cross_entropy_with_logits(z, self.y, reduction="none").sum(1).mean()
        return -(self.y * z.log_softmax(1)).sum(1).mean()

    def _targets(self, noise: Tensor) -> Tensor:
        if self.family == "gaussian":
            return noise
        if self.family == "bernoulli":
            return (noise > 0).double()
        return F.one_hot(noise.argmax(1), self.H).double()
