"""Features of MSCOCO's images for data=coco: python scripts/vgg_features.py IMAGES WEIGHTS [--device cuda]

IMAGES is the folder of the images, WEIGHTS torchvision's vgg19-dcbb9e9d.pth. Writes coco/features.npy below
NORMBENCH_DATA, (images, 4096) float32, a row for each image of coco/dataset_coco.json in its order: the fc7 layer after
its ReLU, averaged over ten crops (order-embedding's code). The paper's are of Caffe's VGG-19 with BGR means. An
interrupted command goes on; delete features.npy.part where the images or weights are others than before.
"""

from __future__ import annotations

import argparse
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from rich.progress import track
from torch import nn

from normbench import data
from normbench.config import compose
from normbench.data import captions

SIDE, CROP, FEATURES = 256, 224, 4096
MEAN, STD = np.array([(0.485, 0.456, 0.406), (0.229, 0.224, 0.225)], np.float32)  # of torchvision's weights, RGB


def vgg19() -> nn.Module:
    """Up to fc7 and its ReLU, for crops of 224 x 224; the names of parameters are torchvision's."""
    layers: list[nn.Module] = []
    channels = 3
    for width, convolutions in (64, 2), (128, 2), (256, 4), (512, 4), (512, 4):
        for _ in range(convolutions):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
            channels = width
        layers.append(nn.MaxPool2d(2))
    fc6, fc7 = nn.Linear(512 * 7 * 7, FEATURES), nn.Linear(FEATURES, FEATURES)
    classifier = nn.Sequential(fc6, nn.ReLU(), nn.Dropout(), fc7, nn.ReLU())
    parts = {"features": nn.Sequential(*layers), "flatten": nn.Flatten(), "classifier": classifier}
    return nn.Sequential(OrderedDict(parts)).eval()


def ten_crops(path: Path) -> torch.Tensor:
    """(10, 3, 224, 224): corners and centre after the shorter side is 256, each mirrored too."""
    with Image.open(path) as image:
        width, height = image.size
        size = (SIDE, SIDE * height // width) if width < height else (SIDE * width // height, SIDE)
        resized = np.asarray(image.convert("RGB").resize(size, Image.Resampling.BILINEAR), np.float32)
    pixels = (resized / 255 - MEAN) / STD
    bottom, right = pixels.shape[0] - CROP, pixels.shape[1] - CROP
    corners = [(0, 0), (0, right), (bottom, 0), (bottom, right), (round(bottom / 2), round(right / 2))]
    crops = [view[y : y + CROP, x : x + CROP] for view in (pixels, pixels[:, ::-1]) for y, x in corners]
    return torch.from_numpy(np.stack(crops).transpose(0, 3, 1, 2))


def extract(paths: Sequence[Path], features: Callable[[Path], torch.Tensor], target: Path) -> None:
    """Write `target`, a row of features for each path; rows of an interrupted call are kept, but for its last one."""
    part = target.with_name(f"{target.name}.part")
    rows = np.lib.format.open_memmap(part, "r+" if part.exists() else "w+", np.float32, (len(paths), FEATURES))
    done = max(int(rows.any(1).sum()) - 1, 0)
    for row in track(range(done, len(paths)), "features"):
        rows[row] = features(paths[row]).numpy()
    rows.flush()
    part.replace(target)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", type=Path)
    parser.add_argument("weights", type=Path)
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    entries = captions.coco_images(data.root(), int(compose.declaration("data", "coco")["captions"]))
    network = vgg19()
    weights = torch.load(given.weights, map_location="cpu", weights_only=True)
    network.load_state_dict({name: weights[name] for name in network.state_dict()})
    network.to(given.device)

    @torch.no_grad()
    def features(path: Path) -> torch.Tensor:
        return network(ten_crops(path).to(given.device)).mean(0).cpu()

    extract([given.images / entry["file"] for entry in entries], features, data.root() / captions.FEATURES)


if __name__ == "__main__":
    main()
