"""scripts/vgg_features.py: rows for images in their order, of ten crops; an interrupted call goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scripted
import torch
from PIL import Image

vgg = scripted.load("vgg_features")


def rows(paths: list[Path]) -> np.ndarray:
    return np.stack([np.full(vgg.FEATURES, int(path.stem) + 1, np.float32) for path in paths])


def test_an_interrupted_extraction_goes_on(tmp_path: Path) -> None:
    paths, target, asked = [Path(f"{number}.png") for number in range(5)], tmp_path / "features.npy", []

    def features(path: Path) -> torch.Tensor:
        asked.append(path)
        if asked == paths[:3]:
            raise KeyboardInterrupt
        return torch.from_numpy(rows([path])[0])

    with pytest.raises(KeyboardInterrupt):
        vgg.extract(paths, features, target)
    assert not target.exists()
    part = np.load(tmp_path / "features.npy.part", mmap_mode="r+")
    part[1, 9:] = 0  # half a row
    part.flush()
    vgg.extract(paths, features, target)
    assert asked == [*paths[:3], *paths[1:]], "the last row of an interrupted call is made again"
    assert (np.load(target) == rows(paths)).all()
    assert list(tmp_path.iterdir()) == [target]


def test_crops_are_corners_and_centre_and_their_mirror_images(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (300, 260, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    crops = vgg.ten_crops(tmp_path / "a.png")
    assert crops.shape == (10, 3, vgg.CROP, vgg.CROP)
    torch.testing.assert_close(crops[5:], crops[[1, 0, 3, 2, 4]].flip(3))  # left corners become right ones
    resized = Image.fromarray(pixels).resize((vgg.SIDE, 256 * 300 // 260), Image.Resampling.BILINEAR)
    corner = torch.from_numpy(np.asarray(resized)[: vgg.CROP, : vgg.CROP].copy()).permute(2, 0, 1) / 255
    mean, std = (torch.tensor(values)[:, None, None] for values in (vgg.MEAN, vgg.STD))
    torch.testing.assert_close(crops[0], (corner - mean) / std)


@pytest.mark.slow  # 0.6 GB of weights
def test_the_network_is_torchvisions(repaired_torchvision: Any) -> None:
    theirs, ours = repaired_torchvision.models.vgg19().eval(), vgg.vgg19()
    weights = theirs.state_dict()
    ours.load_state_dict({name: weights[name] for name in ours.state_dict()})
    theirs.classifier = theirs.classifier[:5]
    x = torch.randn(1, 3, vgg.CROP, vgg.CROP)
    with torch.no_grad():
        torch.testing.assert_close(ours(x), theirs(x))
