"""Features of images by a VGG-19 of torchvision: the fc7 layer after its ReLU, averaged over ten crops.

The one place that imports torchvision, because its import needs help beside a CPU build of torch.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import torch

from normbench.core import extras
from normbench.data import content, files
from normbench.errors import BadInput
from normbench.files import durable, reading

SIDE, CROP, FEATURES = 256, 224, 4096
EVERY = 100  # images after which what is there is safe
# torchvision's own schemas of the operators for which it registers fake kernels whether or not its library loaded.
_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of torchvision's weights, RGB


def extract(
    names: Sequence[str],
    images: Path,
    weights: Path,
    target: Path,
    device: torch.device,
    progress: Callable[[int], None] = lambda done: None,
) -> None:
    """Write `target`, (images, 4096) float32, a row for each of `names` below `images`; 4 corners and the centre of
    224 after the shorter side is 256, each mirrored too. ReLU before the mean (order-embedding's code).

    An interrupted call for the same names and weights goes on where it was. Errors: weights of another network, an
    image that is missing or damaged, a disk without room for all features.
    Not the same as: the paper's features, which are of Caffe's VGG-19 with BGR means.
    """
    network = _network(weights).to(device).eval()
    part, counter = target.with_name(f".{target.name}.part.npy"), target.with_name(f".{target.name}.done")
    target.parent.mkdir(parents=True, exist_ok=True)
    of = content.checksum([list(names), files.digest(weights)])
    rows, done = _open(part, counter, of, len(names))
    for row in range(done, len(names)):
        with torch.no_grad():
            rows[row] = network(_crops(images / names[row]).to(device)).mean(0).cpu().numpy()
        if (row + 1) % EVERY == 0 or row + 1 == len(names):
            rows.flush()
            counter.write_text(f"{of} {row + 1}")
        progress(row + 1)
    del rows
    durable.replace(part, target)
    counter.unlink(missing_ok=True)


def _open(part: Path, counter: Path, of: str, count: int) -> tuple[np.memmap, int]:
    """The unfinished file of an interrupted call for the same checksum and how many of its rows are there, else a new
    one.
    """
    try:
        (begun, done), rows = counter.read_text().split(), np.lib.format.open_memmap(part, "r+")
        if begun == of and rows.shape == (count, FEATURES) and int(done) <= count:
            return rows, int(done)
    except reading.NO_ARCHIVE:  # not there, or damaged
        pass
    counter.unlink(missing_ok=True)  # it would vouch for rows of the new file
    rows = np.lib.format.open_memmap(part, "w+", np.float32, (count, FEATURES))
    try:
        # All of it now: where the disk is full, a write to mapped memory kills the process.
        if hasattr(os, "posix_fallocate"):  # macOS has none
            with part.open("rb+") as file:
                os.posix_fallocate(file.fileno(), 0, part.stat().st_size)
    except OSError as error:
        part.unlink()
        raise OSError(error.errno, error.strerror, str(part)) from None
    return rows, 0


def _network(weights: Path) -> torch.nn.Module:
    """VGG-19 up to fc7 and its ReLU."""
    model = torchvision().models.vgg19()
    try:
        model.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    except Exception as error:  # of torch's unpickler too, whose own class only pickle has
        reason = str(error).splitlines()[0]
        raise BadInput(
            f"{files.as_text(weights)} does not hold the weights of torchvision's vgg19 ({reason}). Take its "
            "vgg19-dcbb9e9d.pth (download.pytorch.org/models)."
        ) from None
    model.classifier = model.classifier[:5]
    return model


def _crops(path: Path) -> torch.Tensor:
    """(10, 3, 224, 224), as torchvision's weights want them."""
    from PIL import Image

    transforms = torchvision().transforms.functional
    try:
        with Image.open(path) as image:
            whole = transforms.resize(image.convert("RGB"), SIDE, antialias=True)
    except Exception as error:  # Pillow's for a broken or immense image, of many kinds
        raise BadInput(f"{files.as_text(path)} cannot be read as an image ({error}). Bring it anew.") from None
    crops = [transforms.to_tensor(crop) for crop in transforms.ten_crop(whole, CROP)]
    return torch.stack([transforms.normalize(crop, MEAN, STD) for crop in crops])


@functools.cache
def torchvision() -> ModuleType:
    """The torchvision package; NormbenchError when it is installed and cannot be imported."""
    extras.require("torchvision")
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
        raise BadInput(
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
