"""Features of MSCOCO's images for data=coco: python scripts/vgg_features.py IMAGES WEIGHTS [--device cuda]

IMAGES is the folder of the images, WEIGHTS torchvision's vgg19-dcbb9e9d.pth. Writes coco/features.npy below
NORMBENCH_DATA, (images, 4096) float32, a row for each image of coco/dataset_coco.json in its order: the fc7 layer after
its ReLU, averaged over ten crops (order-embedding's code). The paper's are of Caffe's VGG-19 with BGR means. An
interrupted command goes on; delete features.npy.part where the images or weights are others than before.
"""

from __future__ import annotations

import argparse
import importlib
import io
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import torch
from PIL import Image
from rich.progress import track

from normbench import data
from normbench.config import compose
from normbench.data import captions

SIDE, CROP, FEATURES = 256, 224, 4096
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of torchvision's weights, RGB
SCHEMA = "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
library = None  # a schema lives as long as its library


def torchvision() -> ModuleType:
    """The default wheel's operators are linked against CUDA; beside a CPU torch the import stops at their fake kernels.

    Transforms and models need none of them: define their schemas and import again.
    """
    global library
    try:
        return importlib.import_module("torchvision")
    except RuntimeError as error:
        if "operator torchvision::" not in str(error):
            raise
    library = torch.library.Library("torchvision", "FRAGMENT")
    for schema in (SCHEMA, f"q{SCHEMA}"):
        library.define(schema)
    for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
        del sys.modules[name]
    return importlib.import_module("torchvision")


def vgg19(weights: Path) -> torch.nn.Module:
    """Up to fc7 and its ReLU."""
    model = torchvision().models.vgg19()
    model.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    model.classifier = model.classifier[:5]
    return model.eval()


def ten_crops(path: Path) -> torch.Tensor:
    """(10, 3, 224, 224): corners and centre after the shorter side is 256, each mirrored too."""
    transforms = torchvision().transforms.functional
    with Image.open(path) as image:
        whole = transforms.resize(image.convert("RGB"), SIDE, antialias=True)
    crops = [transforms.to_tensor(crop) for crop in transforms.ten_crop(whole, CROP)]
    return torch.stack([transforms.normalize(crop, MEAN, STD) for crop in crops])


def extract(paths: Sequence[Path], features: Callable[[Path], torch.Tensor], target: Path) -> None:
    """Write `target`, a row of features for each path; rows of an interrupted call are kept."""
    head, part, width = io.BytesIO(), target.with_name(f"{target.name}.part"), 4 * FEATURES
    shape = (len(paths), FEATURES)
    np.lib.format.write_array_header_1_0(head, {"descr": "<f4", "fortran_order": False, "shape": shape})
    with part.open("ab") as file:
        if file.tell() < head.tell():
            file.truncate(0)
            file.write(head.getvalue())
        done = (file.tell() - head.tell()) // width
        file.truncate(head.tell() + done * width)
        for path in track(paths[done:], "features"):
            file.write(features(path).numpy().astype("<f4").tobytes())
    part.replace(target)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", type=Path)
    parser.add_argument("weights", type=Path)
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    entries = captions.coco_images(data.root(), int(compose.declaration("data", "coco")["captions"]))
    network = vgg19(given.weights).to(given.device)

    @torch.no_grad()
    def features(path: Path) -> torch.Tensor:
        return network(ten_crops(path).to(given.device)).mean(0).cpu()

    extract([given.images / entry["file"] for entry in entries], features, data.root() / captions.FEATURES)


if __name__ == "__main__":
    main()
