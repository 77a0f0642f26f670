"""The guarded import of torchvision: beside a torch that it fits, beside one that it does not, and not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

# Stand-ins for the package: what decides is only whether its import raises, and what.
WORKS = "__version__ = 'stand-in'\n"
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
BROKEN = "raise RuntimeError('something else')\n"
ABSENT = "raise ModuleNotFoundError(\"No module named 'torchvision'\")\n"

TRY = """
from normbench.data import vision
from normbench.errors import NormbenchError
try:
    print(vision.torchvision().__version__, vision.torchvision() is vision.torchvision())
except NormbenchError as error:
    print(error.code, error)
"""


@pytest.mark.parametrize(
    ("package", "said"),
    [
        pytest.param(WORKS, "stand-in True", id="works"),
        pytest.param(NEEDS_SCHEMAS, "stand-in True", id="needs-schemas"),
        pytest.param(DEFINES, "stand-in True", id="defines-them-itself"),
        pytest.param(BROKEN, "2 torchvision cannot be imported beside torch", id="broken"),
        pytest.param(ABSENT, "No module named 'torchvision'. Install the torchvision release", id="absent"),
    ],
)
def test_import(tmp_path: Path, package: str, said: str) -> None:
    (tmp_path / "torchvision.py").write_text(package)
    paths = os.pathsep.join([str(tmp_path), str(Path(__file__).resolve().parents[2])])
    done = subprocess.run(
        [sys.executable, "-c", TRY], env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True, check=True
    )
    assert said in done.stdout


def test_the_installed_one() -> None:
    from normbench.data import vision

    package = vision.torchvision()
    assert vision.torchvision() is package
    assert package.datasets.MNIST.mirrors and package.transforms and package.models
