"""Sets of images with captions: Flickr8k's without pictures, MSCOCO with features of the user's own; VGG-19."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tinysets
import torch

from normbench import data
from normbench.config import compose
from normbench.core import extras
from normbench.data import captions, files, vgg
from normbench.data.words import END, UNKNOWN
from normbench.errors import NormbenchError


def captions_of(ragged: Any, row: int) -> list[list[int]]:
    """The captions of one image, without their ends."""
    numbers = ragged.padded(torch.tensor([row]))[0][0].tolist()
    assert numbers[-1] == END
    ends = [i for i, n in enumerate(numbers) if n == END]
    return [numbers[a:b] for a, b in zip([0, *(e + 1 for e in ends)], ends, strict=False)]


def test_captions_are_split_and_numbered_as_the_code_does() -> None:
    assert captions.split("A t-shirt, two dogs .") == ["a", "tshirt", "two", "dogs"]
    numbers = captions.ranks([["b", "a"], ["a"]], 4, "x")
    assert numbers == {"a": 2, "b": 3} and captions.words_by_number(numbers)[2:] == ["a", "b"]
    assert captions.joined([[[2, UNKNOWN], [3]]]).values.tolist() == [2, UNKNOWN, END, 3, END]
    with pytest.raises(NormbenchError, match=r"data.words=3 is too few: the captions of data=x have 2 words"):
        captions.ranks([["b", "a"]], 3, "x")
    with pytest.raises(NormbenchError, match="features: row 1 holds NaN or Inf"):
        captions.unit_rows(np.array([[1.0], [np.nan]]), "features")


@pytest.mark.data
def test_flickr8k_draws_which_captions_are_the_image() -> None:
    config = compose.choice("data", "flickr8k_captions")
    one, other = (data.load(config, seed=seed) for seed in (1, 2))
    assert {name: len(split) for name, split in one.splits.items()} == {"train": 6000, "valid": 1000, "test": 1000}
    for split in one.splits.values():
        torch.testing.assert_close(split["image"].norm(dim=1), torch.ones(len(split)))
        assert len(captions_of(split["captions"], 0)) == 2
    assert not torch.equal(one.splits["test"]["image"], other.splits["test"]["image"])
    assert int(one.splits["train"]["captions"].values.min()) == END
    assert UNKNOWN not in one.splits["valid"]["captions"].values, "its words have numbers too"
    assert UNKNOWN in one.splits["test"]["captions"].values


@pytest.fixture
def own(tmp_path: Path) -> Callable[..., Any]:
    """A small copy of MSCOCO, and what loading it gives."""
    config = tinysets.coco(tmp_path)
    entries = json.loads((tmp_path / captions.JSON).read_text())["images"]

    def loaded(change: Callable[[list[Any]], None] = lambda entries: None, features: Any = None) -> data.Dataset:
        change(entries)
        (tmp_path / captions.JSON).write_text(json.dumps({"images": entries}))
        if features is not None:
            np.save(tmp_path / captions.FEATURES, features)
        return data.load(config, tmp_path)

    return loaded


def test_coco_is_karpathys_split_with_the_first_five_captions(own: Callable[..., Any]) -> None:
    found = own()
    assert {name: split.index.tolist() for name, split in found.splits.items()} == {
        "train": [0, 1], "valid": [2, 3], "test": [5, 6, 7],
    }  # fmt: skip
    first = captions_of(found.splits["test"]["captions"], 0)
    assert len(first) == 5 and [found.words[n] for n in first[0]] == ["a", "dog", "<unknown>"], "w5 is of a test image"
    assert "w4" not in found.words, "of the validation images the first fold alone is known"
    assert "many" not in found.words
    torch.testing.assert_close(found.splits["train"]["image"].norm(dim=1), torch.ones(2))


@pytest.mark.parametrize(
    ("change", "features", "message"),
    [
        (lambda e: e[3]["sentences"].clear(), None, "all/3.png has 0 captions instead of 5"),
        (lambda e: e[0].update(split="dev"), None, "is not Karpathy's dataset_coco.json (KeyError: 'dev')"),
        (lambda e: [x.update(split="train") for x in e], None, "has 8 images for train instead of 2: it is not Karp"),
        (lambda e: e[0].update(split="test"), None, "has 1 images for train instead of 2"),
        (lambda e: [x.update(split="test") for x in e[2:4]], None, "has 1 images for valid instead of 2"),
        (lambda e: e[0].pop("sentences"), None, "is not Karpathy's dataset_coco.json (KeyError"),
        (
            lambda e: None,
            np.zeros((8, 512), np.float32),
            "no .npy file of 4096 floats an image (it has float32 of shape (8, 512))",
        ),
        (lambda e: None, np.zeros((7, 4096), np.float32), "has 7 rows"),
        (lambda e: None, np.full((8, 4096), np.nan, np.float32), "row 0 holds NaN or Inf"),
    ],
)
def test_what_does_not_fit_is_one_line(
    own: Callable[..., Any], change: Callable[[list[Any]], None], features: Any, message: str
) -> None:
    with pytest.raises(NormbenchError) as caught:
        own(change, features)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_features_of_half_precision_are_of_length_1_too(own: Callable[..., Any]) -> None:
    rows = np.full((8, 4096), 100, np.float16)  # whose squares are beyond that type
    image = own(features=rows).splits["train"]["image"]
    torch.testing.assert_close(image, torch.full((2, 4096), 1 / 64))


HEAD = b"{'descr': '<f4', 'fortran_order': False, 'shape': (8, 4096), }"


@pytest.mark.parametrize(
    ("damage", "file"),
    [
        (lambda body: b"", captions.FEATURES),
        (lambda body: body[:-1], captions.FEATURES),
        (lambda body: body.replace(HEAD, b"(" * len(HEAD)), captions.FEATURES),
        (lambda body: body.replace(b"(8, 4096)", b"(-8,4096)"), captions.FEATURES),
        (lambda body: b"PK\x03\x04" + body, captions.FEATURES),  # numpy would open it as .npz
        (lambda body: body[:-1], captions.JSON),
        (lambda body: b"[" * 100_000, captions.JSON),
    ],
)
def test_damaged_files_are_one_line(
    own: Callable[..., Any], tmp_path: Path, damage: Callable[[bytes], bytes], file: str
) -> None:
    own()
    body = (tmp_path / file).read_bytes()
    (tmp_path / file).write_bytes(damage(body))
    with pytest.raises(NormbenchError, match=rf"{file} is no"):
        data.load(compose.choice("data", "coco"), tmp_path)


def test_a_split_with_a_byte_order_mark_in_a_folder_deeper(own: Callable[..., Any], tmp_path: Path) -> None:
    own()
    path, found_images = tmp_path / captions.JSON, captions.coco_images(tmp_path, 5)
    (path.parent / "unpacked").mkdir()
    (path.parent / "unpacked" / path.name).write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    path.unlink()
    assert data.problems(compose.choice("data", "coco"), tmp_path) == []
    assert captions.coco_images(tmp_path, 5) == found_images


def test_features_are_of_ten_crops_and_an_interrupted_extraction_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a small network in the place of VGG-19's 140 million weights; its real one is built in torchvision."""
    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 256, (3, 300, 260, 3), dtype=np.uint8)
    for i, image in enumerate(pixels):
        Image.fromarray(image).save(tmp_path / f"{i}.png")
    mean = torch.nn.AdaptiveAvgPool2d(1)

    class Small(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return mean(x).flatten(1).repeat(1, vgg.FEATURES // 3 + 1)[:, : vgg.FEATURES].relu()

    monkeypatch.setattr(vgg, "_network", lambda weights: Small())
    target, names = tmp_path / "features.npy", [f"{i}.png" for i in range(3)]
    weights, other = tmp_path / "w", tmp_path / "x"
    weights.write_bytes(b"one")
    other.write_bytes(b"another")

    class Stop(Exception):
        pass

    def stop(done: int) -> None:
        if done == 2:
            raise Stop

    monkeypatch.setattr(vgg, "EVERY", 1)

    def interrupted() -> None:
        with pytest.raises(Stop):
            vgg.extract(names, tmp_path, weights, target, torch.device("cpu"), stop)
        assert not target.exists()

    for given, by in ((names[::-1], weights), (names, other)):
        interrupted()
        anew: list[int] = []
        vgg.extract(given, tmp_path, by, target, torch.device("cpu"), anew.append)
        assert anew == [1, 2, 3], "nothing of other images or weights is kept"
        target.unlink()
    interrupted()
    seen: list[int] = []
    vgg.extract(names, tmp_path, weights, target, torch.device("cpu"), seen.append)
    assert seen == [3], "two were there"
    crops = torch.stack([vgg._crops(tmp_path / name) for name in names])
    assert crops.shape == (3, 10, 3, vgg.CROP, vgg.CROP)
    wanted = torch.stack([Small()(of_image).mean(0) for of_image in crops])
    np.testing.assert_allclose(np.load(target), wanted, rtol=1e-6)
    assert sorted(p.name for p in tmp_path.iterdir()) == [*names, "features.npy", "w", "x"]
    resized = vgg.torchvision().transforms.functional.resize(Image.fromarray(pixels[0]), vgg.SIDE)
    assert min(resized.size) == vgg.SIDE
    (tmp_path / "1.png").write_bytes(b"no image")
    with pytest.raises(NormbenchError, match=r"1.png cannot be read as an image"):
        vgg._crops(tmp_path / "1.png")
    (tmp_path / "w.pth").write_bytes(b"no weights")
    monkeypatch.undo()
    monkeypatch.setattr(vgg.torchvision().models, "vgg19", lambda: torch.nn.Linear(1, 1))
    with pytest.raises(NormbenchError, match=r"w.pth does not hold the weights of torchvision's vgg19"):
        vgg._network(tmp_path / "w.pth")


def test_a_full_disk_is_met_before_the_first_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(vgg, "_network", lambda weights: torch.nn.Identity())
    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    (tmp_path / "w").write_bytes(b"")
    with pytest.raises(OSError, match=r"No space left on device: .*features\.npy\.part\.npy"):
        vgg.extract(["0.png"], tmp_path, tmp_path / "w", tmp_path / "features.npy", torch.device("cpu"))
    assert [path.name for path in tmp_path.iterdir()] == ["w"]


def test_two_processes_do_not_extract_into_one_file(own: Callable[..., Any], tmp_path: Path) -> None:
    own()
    config = compose.choice("data", "coco")
    with (
        files.filling(tmp_path / "coco", wait=0),
        pytest.raises(NormbenchError, match=r"coco is being filled by process \d+ on this machine") as caught,
    ):
        captions.extract_coco(config, tmp_path, tmp_path, tmp_path / "w", "cpu")
    assert caught.value.code == 5


# --- the import of torchvision: beside a torch that it fits, beside one that it does not, and not at all
# Stand-ins for the package: what decides is only whether its import raises, and what.


NEEDS_SCHEMAS = """
import torch
for name in ("nms", "qnms"):
    torch.library.register_fake(f"torchvision::{name}")(lambda dets, scores, iou_threshold: dets)
__version__ = 'stand-in'
"""


DEFINES = """
import torch
library = torch.library.Library("torchvision", "DEF")
library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
torch.library.register_fake("torchvision::nms")(lambda dets, scores, iou_threshold: dets)
__version__ = 'stand-in'
"""


TRY = """
from normbench.data import vgg
print(vgg.torchvision().__version__, vgg.torchvision() is vgg.torchvision())
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "package",
    [NEEDS_SCHEMAS, pytest.param(DEFINES, marks=pytest.mark.slow)],
    ids=["needs-schemas", "defines-them-itself"],
)
def test_import(tmp_path: Path, package: str) -> None:
    (tmp_path / "torchvision.py").write_text(package)
    paths = os.pathsep.join([str(tmp_path), str(Path(__file__).resolve().parents[2])])
    done = subprocess.run(
        [sys.executable, "-c", TRY], env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "stand-in True\n"


@pytest.mark.parametrize(
    "error",
    [ImportError("libcudart.so"), RuntimeError("something else"), OSError("no libcudart")],
)
def test_cannot_be_imported(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> None:
        raise error

    monkeypatch.setattr(vgg.importlib, "import_module", refuse)
    with pytest.raises(NormbenchError) as caught:
        # Below the cache, which may hold the real package by now.
        vgg.torchvision.__wrapped__()
    assert caught.value.code == 2
    line = str(caught.value)
    assert line.startswith("torchvision cannot be imported beside torch ") and f": {error}. Install the" in line


def test_without_it_one_line_says_how_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(ModuleNotFoundError) as caught:
        vgg.torchvision.__wrapped__()
    assert extras.missing("data", caught.value) == "data needs torchvision: pip install 'normbench[vgg]'"
