"""The guarded import of torchvision: beside a torch that it fits, beside one that it does not, and not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from normbench.data import vision
from normbench.errors import NormbenchError

# Stand-ins for the package: what decides is only whether its import raises, and what.
NEEDS_SCHEMAS = """
import torch
for name in ("nms", "qnms"):
    torch.library.register_fake(f"torchvision::{name}")(lambda dets, scores, iou_threshold: dets)
__version__ = 'stand-in'
"""
# As the library of a fitting build does: a second definition of the same operator would raise.
DEFINES = """
import torch
library = torch.library.Library("torchvision", "DEF")
library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
torch.library.register_fake("torchvision::nms")(lambda dets, scores, iou_threshold: dets)
__version__ = 'stand-in'
"""

TRY = """
from normbench.data import vision
print(vision.torchvision().__version__, vision.torchvision() is vision.torchvision())
"""


@pytest.mark.parametrize("package", [NEEDS_SCHEMAS, DEFINES], ids=["needs-schemas", "defines-them-itself"])
def test_import(tmp_path: Path, package: str) -> None:
    (tmp_path / "torchvision.py").write_text(package)
    paths = os.pathsep.join([str(tmp_path), str(Path(__file__).resolve().parents[2])])
    done = subprocess.run(
        [sys.executable, "-c", TRY], env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "stand-in True\n"


@pytest.mark.parametrize(
    "error",
    [ModuleNotFoundError("No module named 'torchvision'"), RuntimeError("something else"), OSError("no libcudart")],
)
def test_cannot_be_imported(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> None:
        raise error

    monkeypatch.setattr(vision.importlib, "import_module", refuse)
    with pytest.raises(NormbenchError) as caught:
        # Below the cache, which may hold the real package by now.
        vision.torchvision.__wrapped__()
    assert caught.value.code == 2
    line = str(caught.value)
    assert line.startswith("torchvision cannot be imported beside torch ") and f": {error}. Install the" in line


def test_the_installed_one() -> None:
    package = vision.torchvision()
    assert vision.torchvision() is package
    assert package.datasets.MNIST.mirrors and package.transforms and package.models
