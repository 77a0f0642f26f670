"""Images and captions in one space: how far a pair is from the order of a caption and its image, losses, ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from normbench.norms.derivatives import differentiable

PAIRS = 2048  # at once: (16, 128, 1024) float32 stay in the cache
AT = (1, 5, 10)  # R@K


class OrderViolation(torch.autograd.Function):
    """E_ij = Σ_k max(0, s_ik - v_jk)² of captions s (M, H) and images v (N, H): (M, N) (Vendrov et al. 2016, eq. 2).

    0 where the caption lies above the image, as its hypernym. Row by row of s, so that no (M, N, H) is kept: a tenth
    of the time of broadcasting.
    """

    @staticmethod
    def forward(ctx: Any, s: Tensor, v: Tensor) -> Tensor:
        ctx.save_for_backward(s, v)
        return torch.cat([torch.linalg.vector_norm(d, dim=2).square_() for _, d in _differences(s, v)])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None]:
        s, v = ctx.saved_tensors
        if torch.is_grad_enabled():
            of_s, of_v = differentiable(lambda s, v: (s[:, None] - v).clamp_min(0).square().sum(2), (s, v), (gradient,))
            return of_s, of_v
        of_s, of_v = torch.empty_like(s), torch.zeros_like(v)
        for rows, d in _differences(s, v):  # dE_ij/ds_i = 2 max(0, s_i - v_j) = -dE_ij/dv_j
            weights = 2 * gradient[rows]
            torch.bmm(weights[:, None], d, out=of_s[rows].unsqueeze(1))
            of_v -= torch.einsum("ij,ijk->jk", weights, d)
        return of_s, of_v


def _differences(s: Tensor, v: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """max(0, s_i - v_j) of some rows of s after another, in one buffer: (rows, N, H)."""
    count = max(1, PAIRS // len(v))
    buffer = s.new_empty(min(count, len(s)), *v.shape)
    for start in range(0, len(s), count):
        rows = slice(start, min(start + count, len(s)))
        part = buffer[: rows.stop - start]
        yield rows, torch.sub(s[rows, None], v, out=part).clamp_min_(0)


def order_violation(s: Tensor, v: Tensor) -> Tensor:
    """`OrderViolation` of captions (M, H) and images (N, H)."""
    violation: Tensor = OrderViolation.apply(s, v)
    return violation


def contrastive(errors: Tensor, margin: float) -> Tensor:
    """Σ_{i≠j} max(0, margin - E_ij + E_ii) + max(0, margin - E_ji + E_ii): a sum (Vendrov et al. 2016, eq. 4).

    errors (B, B): of caption i against image j; the pairs on the diagonal are the true ones.
    """
    true, others = errors.diagonal(), ~torch.eye(len(errors), dtype=torch.bool, device=errors.device)
    by_caption = (margin - errors + true[:, None]).clamp_min(0)
    by_image = (margin - errors + true).clamp_min(0)
    return ((by_caption + by_image) * others).sum()


def ranks(errors: Tensor, captions: int) -> tuple[Tensor, Tensor]:
    """Ranks from 0: of each caption's image among the images, (N, captions), and of each image's best caption, (N,).

    errors (N captions, N), an image's captions in consecutive rows. In the order of a stable sort: of equal errors the
    first in the set comes first.
    """
    images = errors.shape[1]
    image_of_caption = torch.arange(images, device=errors.device).repeat_interleave(captions)
    of_image = _rank(errors, image_of_caption)
    true = errors[torch.arange(len(errors), device=errors.device), image_of_caption].view(images, captions)
    best = true.argmin(1) + captions * torch.arange(images, device=errors.device)
    return of_image.view(images, captions), _rank(errors.T, best)


def _rank(errors: Tensor, true: Tensor) -> Tensor:
    """In each row, how many come before the entry `true`."""
    true_error = errors.gather(1, true[:, None])
    first = torch.arange(errors.shape[1], device=errors.device) < true[:, None]
    return ((errors < true_error) | ((errors == true_error) & first)).sum(1)


def measures(by_caption: Tensor, by_image: Tensor) -> dict[str, Tensor]:
    """Of each image (N,), from ranks: the metrics whose means are the paper's, shares and ranks from 1.

    image retrieval (a caption asks, its image is looked for), `image_r1` and so on, over the image's captions; caption
    retrieval, `caption_r1` and so on, the best of its captions.
    """
    metrics: dict[str, Tensor] = {}
    for name, rank in (("image", by_caption), ("caption", by_image[:, None])):
        metrics |= {f"{name}_r{k}": (rank < k).double().mean(1) for k in AT}
        metrics[f"{name}_rank"] = rank.double().mean(1) + 1
    return metrics


def medians(by_caption: Tensor, by_image: Tensor) -> dict[str, float]:
    """Median ranks, rounded down, from 1."""
    pairs = {"image": by_caption.flatten(), "caption": by_image}
    return {f"{name}_median": float(rank.double().quantile(0.5).floor() + 1) for name, rank in pairs.items()}


def in_folds(
    image: Tensor, captions: Tensor, fold: int, errors: Callable[[Tensor, Tensor], Tensor]
) -> tuple[dict[str, Tensor], dict[str, float]]:
    """`measures` of each image and means of `medians`, ranked in folds of so many images, the last one of the rest.

    image (N, ...), captions (N, captions, ...); `errors(captions, images)` gives the matrix of a fold.
    """
    each: list[dict[str, Tensor]] = []
    middle: list[Mapping[str, float]] = []
    for part, texts in zip(image.split(fold), captions.split(fold), strict=True):
        ranks_of_fold = ranks(errors(texts.flatten(0, 1), part), captions.shape[1])
        each.append(measures(*ranks_of_fold))
        middle.append(medians(*ranks_of_fold))
    joined = {name: torch.cat([part[name] for part in each]) for name in each[0]}
    return joined, {name: sum(part[name] for part in middle) / len(middle) for name in middle[0]}
