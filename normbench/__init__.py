"""normbench: the experiments of papers on normalization, reproduced, judged and open to any normalizer.

The Python API is `create_norm`, `epoch`, `swap`, `LSTM`, `GRU`, `load_torch`, `load_model` and `load_runs`. Each is
imported at its first use, because importing torch and pandas is slow, and `pip install normbench` alone brings neither.
Errors are kinds of `NormbenchError`: the table in `normbench.errors`. What one's own normalizers, models and data sets
import is in `normbench.extend`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from normbench.core import extras
from normbench.errors import BadInput, Busy, Diverged, Failed, NormbenchError

if TYPE_CHECKING:
    from normbench.library.models import load_model
    from normbench.library.norms import create_norm, epoch
    from normbench.library.recurrent import GRU, LSTM
    from normbench.library.runs import load_runs
    from normbench.library.swap import swap
    from normbench.library.torch_weights import load_torch

__version__ = "0.2.0"
__all__ = [
    "GRU",
    "LSTM",
    "BadInput",
    "Busy",
    "Diverged",
    "Failed",
    "NormbenchError",
    "__version__",
    "create_norm",
    "epoch",
    "load_model",
    "load_runs",
    "load_torch",
    "swap",
]

_HOME = {
    "create_norm": "norms",
    "epoch": "norms",
    "GRU": "recurrent",
    "LSTM": "recurrent",
    "load_model": "models",
    "load_torch": "torch_weights",
    "load_runs": "runs",
    "swap": "swap",
}


if not TYPE_CHECKING:  # so that a type checker reports names that do not exist

    def __getattr__(name: str) -> Any:
        if name not in _HOME:
            raise AttributeError(f"module 'normbench' has no attribute '{name}'")
        try:
            return getattr(import_module(f"normbench.library.{_HOME[name]}"), name)
        except ModuleNotFoundError as error:
            if line := extras.missing(f"normbench.{name}", error):
                raise extras.MissingExtra(line) from None
            raise


def __dir__() -> list[str]:
    return __all__
