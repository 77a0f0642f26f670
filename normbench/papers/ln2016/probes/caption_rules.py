"""Retrieval without training: captions and images by the cosine of their TF-IDF vectors, and by chance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from normbench import data as datasets
from normbench.config.spec import Spec
from normbench.core.streams import stream
from normbench.data.examples import Split
from normbench.models import retrieval

SPLITS = ("test", "valid")
Record = dict[str, float | str]


def compute(spec: Spec) -> list[Record]:
    """A record each for test and validation: `test_tfidf_image_r1` and so on, if the set has TF-IDF vectors of its
    captions (`caption_features`); `test_random_image_r1` and so on, from distances drawn by the seed.
    """
    data = spec.config["data"]
    splits = datasets.load(data, seed=spec.seed).splits
    return [{"split": name, **_baselines(name, splits[name], data, spec.seed)} for name in SPLITS]


def _baselines(name: str, split: Split, data: Mapping[str, Any], seed: int) -> dict[str, float]:
    draw = stream(seed, "random ranks", name)

    def chance(captions: Tensor, images: Tensor) -> Tensor:
        return torch.from_numpy(draw.random((len(captions), len(images))))

    nothing = torch.empty(len(split), int(data["declares"]["captions"]), 0)
    metrics = _rank_metrics(f"{name}_random", split["image"], nothing, data["fold"], chance)
    if "caption_features" in split.names:
        features = split["caption_features"]
        metrics |= _rank_metrics(f"{name}_tfidf", split["image"], features, data["fold"], lambda c, v: -(c @ v.T))
    return metrics


def _rank_metrics(
    name: str, image: Tensor, captions: Tensor, fold: int, errors: Callable[[Tensor, Tensor], Tensor]
) -> dict[str, float]:
    each, medians = retrieval.in_folds(image, captions, fold, errors)
    return {f"{name}_{key}": float(values.mean()) for key, values in each.items()} | {
        f"{name}_{key}": value for key, value in medians.items()
    }
