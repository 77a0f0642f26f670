"""Whether a model fits into this machine, asked before anything is allocated: else it shows after a minute."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from normbench.config.identity import RunSpec
from normbench.errors import NormbenchError
from normbench.models.base import unlearned

COPIES = 2  # of each parameter, at least: its value and its gradient
REAL = 4  # bytes
LARGE = (
    10_000  # of an option: smaller ones make no model that is too large, and need not be asked, which takes a second
)


def refuse_too_large(spec: RunSpec) -> None:
    """NormbenchError for a model whose parameters and their gradients alone take more memory than there is."""
    name = spec.config["model"]["name"]
    if max(_sizes(spec.config["model"]), default=0) < LARGE:
        return
    count = parameters(spec)
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if (needed := COPIES * REAL * count) > there:
        raise NormbenchError(
            f"model={name} of these sizes has {count:.2g} parameters: with their gradients {needed / 1e9:.0f} GB, and "
            f"this machine has {there / 1e9:.0f} GB of memory. Choose smaller ones."
        )


def parameters(spec: RunSpec) -> int:
    """How many numbers a model learns; 0 where something in it has to be computed to know."""
    name = spec.config["model"]["name"]
    try:
        with torch.device("meta"):  # shapes without numbers
            model = unlearned(spec.config, spec.sites())
    except RuntimeError as error:
        if "overflow" not in str(error):
            return 0
        raise NormbenchError(f"model={name} of these sizes has more parameters than can be counted.") from None
    return sum(parameter.numel() for parameter in model.parameters())


def _sizes(options: Mapping[str, Any]) -> Iterator[int]:
    for value in options.values():
        yield from (number for number in (value if isinstance(value, list) else [value]) if type(number) is int)
