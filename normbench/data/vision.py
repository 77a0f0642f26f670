"""The one place that imports torchvision, because its import needs help beside a CPU build of torch."""

from __future__ import annotations

import functools
import importlib
import sys
from types import ModuleType

import torch

from normbench.errors import NormbenchError

# torchvision's own schemas of the operators for which it registers fake kernels whether or not its library loaded.
_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)


@functools.cache
def torchvision() -> ModuleType:
    """The torchvision package; NormbenchError when it cannot be imported."""
    try:
        try:
            return importlib.import_module("torchvision")
        except RuntimeError as error:
            if "operator torchvision::" not in str(error):
                raise
        # The default wheel's library is linked against CUDA. Beside a CPU torch it does not load, and the import then
        # stops at the fake kernel of an operator that the library would have defined. Data sets, transforms and models
        # need none of these operators: define the schemas and import again.
        _define_schemas()
        for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
            del sys.modules[name]
        return importlib.import_module("torchvision")
    except (ImportError, RuntimeError, OSError, AttributeError) as error:
        raise NormbenchError(
            f"torchvision cannot be imported beside torch {torch.__version__}: {error}. "
            f"Install the torchvision release that belongs to this torch."
        ) from error


@functools.cache
def _define_schemas() -> torch.library.Library:
    # Cached, because the schemas live as long as this object.
    library = torch.library.Library("torchvision", "FRAGMENT")
    for schema in _SCHEMAS:
        library.define(schema)
    return library
