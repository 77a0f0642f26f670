"""Refuses models that do not fit into memory, before anything is allocated."""

from __future__ import annotations

import os

import torch

from normbench.config.resolve import ResolvedRun
from normbench.errors import NormbenchError
from normbench.models.base import unlearned

COPIES = 2  # of each parameter, at least: its value and its gradient
REAL = 4  # bytes
LARGE = 10_000  # with smaller options no model is too large; counting its parameters would take a second


def refuse_too_large(spec: ResolvedRun) -> None:
    """NormbenchError for a model whose parameters and gradients alone need more memory than this machine has."""
    name = spec.config["model"]["name"]
    options = [value if isinstance(value, list) else [value] for value in spec.config["model"].values()]
    if max((number for values in options for number in values if type(number) is int), default=0) < LARGE:
        return
    count = parameters(spec)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if (needed := COPIES * REAL * count) > memory:
        raise NormbenchError(
            f"model={name} of these sizes has {count:.2g} parameters: with their gradients {needed / 1e9:.0f} GB, and "
            f"this machine has {memory / 1e9:.0f} GB of memory. Choose smaller ones."
        )


def parameters(spec: ResolvedRun) -> int:
    """The number of learned values of a model; 0 if its shapes depend on computed values."""
    name = spec.config["model"]["name"]
    try:
        with torch.device("meta"):  # shapes without values
            model = unlearned(spec.config, spec.sites)
    except RuntimeError as error:
        if "overflow" not in str(error):
            return 0
        raise NormbenchError(f"model={name} of these sizes has more parameters than can be counted.") from None
    return sum(parameter.numel() for parameter in model.parameters())
