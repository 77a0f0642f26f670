"""The modules that `pip install normbench` alone does not bring, and the line that says how they come.

They are imported where they are needed, without a check: `missing` turns the error of such an import into the line, in
the command line and in `normbench.NAME`.
"""

from __future__ import annotations

import importlib.util
import sys
import traceback

from normbench.errors import BadInput

MODULES = {  # of the distributions that pyproject.toml lists for each extra
    "train": (
        "torch", "hydra", "safetensors", "sklearn", "PIL", "pooch", "requests", "huggingface_hub", "datasets",
        "pandas", "matplotlib",
    ),
    "wandb": ("wandb",),
}  # fmt: skip
# an update of LN and of BN per step: ours without a compiler / ours, of results/bench/rnn.md
WITHOUT_COMPILER = "recurrent layers run on torch's own operations; with a C compiler they are 1.2 to 2.6 times as fast"
EXTRAS = {module: extra for extra, modules in MODULES.items() for module in modules}


class MissingExtra(BadInput, ImportError):
    """A function of the Python API needs a module that is not installed."""


def install(extra: str) -> str:
    """The command that brings an extra; without a name what every installation has."""
    return f"pip install 'normbench[{extra}]'" if extra else "pip install normbench"


def missing(name: str, error: ModuleNotFoundError) -> str:
    """The line for a command or function whose extra is not installed; "" for any other error.

    Such as one of a user's file, or of a package that is not whole: they are shown as they are.
    """
    module = (error.name or "").partition(".")[0]
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    importer = str(frame.f_globals.get("__name__"))
    if (
        module not in EXTRAS
        or not importer.startswith("normbench.")
        or importer.startswith("normbench.core.user_code.")
    ):
        return ""
    return f"{name} needs {module}: {install(EXTRAS[module])}"


def is_installed(module: str) -> bool:
    return bool(sys.modules.get(module) or importlib.util.find_spec(module))


def require(module: str) -> None:
    """ModuleNotFoundError where other processes would not find a module."""
    if not is_installed(module):
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)
