"""scripts/vgg_features.py: rows for images in their order, of ten crops; an interrupted call goes on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scripted
import torch
from PIL import Image

vgg = scripted.load("vgg_features")


def rows(paths: list[Path]) -> np.ndarray:
    return np.stack([np.full(vgg.FEATURES, int(path.stem), np.float32) for path in paths])


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
    with (tmp_path / "features.npy.part").open("ab") as file:
        file.write(b"half a row")
    vgg.extract(paths, features, target)
    assert asked == [*paths[:3], *paths[2:]]
    assert (np.load(target) == rows(paths)).all()
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.slow  # the import takes seconds
def test_crops_are_corners_and_centre_and_their_mirror_images(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (300, 260, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    crops = vgg.ten_crops(tmp_path / "a.png")
    assert crops.shape == (10, 3, vgg.CROP, vgg.CROP)
    torch.testing.assert_close(crops[5:], crops[[1, 0, 3, 2, 4]].flip(3))  # left corners become right ones
    resized = vgg.torchvision().transforms.functional.resize(Image.fromarray(pixels), vgg.SIDE)
    corner = torch.from_numpy(np.asarray(resized)[: vgg.CROP, : vgg.CROP].copy()).permute(2, 0, 1) / 255
    mean, std = (torch.tensor(values)[:, None, None] for values in (vgg.MEAN, vgg.STD))
    torch.testing.assert_close(crops[0], (corner - mean) / std)
