"""Sets of images with captions: MSCOCO in Karpathy's split, and Flickr8k's captions without its images.

Examples are images: `image` (N, features) float32 of length 1, and `captions`, one ragged int64 sequence of all
captions of an image, END behind each.
"""

from __future__ import annotations

import json
import string
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from normbench.core.streams import stream
from normbench.data import Dataset, files, hub, words
from normbench.data.examples import Ragged, Split
from normbench.data.words import END, UNKNOWN
from normbench.errors import BadInput

Config = Mapping[str, Any]
Words = Sequence[str]
FIRST = 2  # the number of the most frequent word, behind those of `words`
STRIPPED = str.maketrans("", "", string.punctuation)


def split(caption: str) -> list[str]:
    """The words of a caption as in Karpathy's splits: in small letters, without punctuation, at blanks."""
    return caption.lower().translate(STRIPPED).split()


def ranks(captions: Iterable[Words], most: int, of: str) -> dict[str, int]:
    """Each word's number as `words.ranks` gives it, from FIRST on.

    NormbenchError where there are more than `most` numbers allow (`data.words`); `of` names the set.
    """
    numbers = words.ranks(captions, FIRST)
    if (needed := len(numbers) + FIRST) > most:
        raise BadInput(f"data.words={most} is too few: the words of the captions of data={of} take {needed} numbers.")
    return numbers


def words_by_number(numbers: Mapping[str, int]) -> list[str]:
    """The word of each number."""
    return ["<end>", "<unknown>", *sorted(numbers, key=numbers.__getitem__)]


def joined(images: Iterable[Iterable[Sequence[int]]]) -> Ragged:
    """One sequence an image, of captions that are numbers: one after another, END behind each."""
    return Ragged.of(torch.tensor([n for caption in image for n in [*caption, END]]) for image in images)


def unit_rows(features: np.ndarray, of: str) -> Tensor:
    """Each image's features divided by their Euclidean norm, float32; zeros stay. NormbenchError for NaN or Inf."""
    if features.dtype == np.float16:  # its squares end at 65504
        features = features.astype(np.float32)
    if not np.isfinite(features).all():
        raise BadInput(f"{of} holds NaN or Inf. Extract the features anew.")
    norms = np.linalg.norm(features, axis=1, keepdims=True)
    return torch.from_numpy((features / np.where(norms > 0, norms, 1)).astype(np.float32))


# --- Flickr8k ---------------------------------------------------------------------------------------------------------

FLICKR_SPLITS = {"train": "train", "valid": "dev", "test": "test"}
EACH = 5  # captions of an image
LEAST = 5  # times that a word of the TF-IDF vectors occurs
DEVIATIONS = (
    "Flickr8k: an image is the TF-IDF vector of three of its captions, drawn by the seed, and is described by the "
    "other two; there are no pictures",
)


def flickr8k_captions(config: Config, root: Path, seed: int = 0) -> Dataset:
    """Three captions of an image stand for it, as a TF-IDF vector of length 1; the other two describe it.

    TF-IDF as scikit-learn's `TfidfVectorizer` by default, over the words that occur at least `LEAST` times in the
    captions of the training images, whose document is all five. A number for every word of the training and validation
    captions (order-embedding's code), 1 for any other. Validation and test have `caption_features` (N, captions,
    features) beside it, their TF-IDF vectors.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    name, count, most = str(config["name"]), int(config["declares"]["captions"]), int(config["words"])
    paths = files.paths(config, root)
    arrays, notes = files.cached(config, paths, most, lambda: _numbered(paths, most, name))
    known, texts = arrays["words"].tolist(), {part: _captions(arrays, part) for part in FLICKR_SPLITS}
    counts = np.bincount(arrays["train_values"], minlength=len(known))
    frequent = sorted((n for n in range(FIRST, len(known)) if counts[n] >= LEAST), key=known.__getitem__)
    tfidf = TfidfVectorizer(
        analyzer=np.concatenate, lowercase=False, vocabulary={n: column for column, n in enumerate(frequent)}
    )
    tfidf.fit(texts["train"])

    def vectors(documents: list[list[np.ndarray]]) -> Tensor:
        return torch.from_numpy(tfidf.transform(documents).toarray().astype(np.float32))

    splits = {}
    for part, images in texts.items():
        draw = stream(seed, "captions", part)
        shuffled = [[image[place] for place in draw.permutation(len(image))] for image in images]
        sentences = [image[:count] for image in shuffled]
        tensors: dict[str, Any] = {"image": vectors([image[count:] for image in shuffled])}
        tensors["captions"] = joined(sentences)
        if part != "train":
            by_caption = vectors([[caption] for image in sentences for caption in image])
            tensors["caption_features"] = by_caption.view(len(images), count, -1)
        splits[part] = Split(**tensors)
    copy = {"sha256": files.checksum(config["declares"]["files"]), "deviations": list(DEVIATIONS)}
    return Dataset(name, splits, notes, copy, known)


def _captions(arrays: files.Arrays, part: str) -> list[list[np.ndarray]]:
    """The word numbers of each image's captions."""
    sentences = np.split(arrays[f"{part}_values"], arrays[f"{part}_lengths"].cumsum()[:-1])
    return [sentences[row : row + EACH] for row in range(0, len(sentences), EACH)]


def _numbered(paths: Sequence[Path], most: int, name: str) -> files.Arrays:
    """All captions as word numbers, by part, and the words."""
    rows = _rows_of_text(*paths) if paths[0].suffix == ".txt" else hub.columns(paths, "split", "captions")
    texts: dict[str, list[list[str]]] = {}
    for part, wanted in FLICKR_SPLITS.items():
        images = [given for of, given in zip(rows["split"], rows["captions"], strict=True) if of == wanted]
        texts[part] = [split(caption) for image in images for caption in image]
    numbers = ranks([*texts["train"], *texts["valid"]], most, name)
    arrays: files.Arrays = {"words": np.array(words_by_number(numbers))}
    for part, sentences in texts.items():
        arrays[f"{part}_values"] = np.array([numbers.get(w, UNKNOWN) for c in sentences for w in c], np.int32)
        arrays[f"{part}_lengths"] = np.array([len(caption) for caption in sentences], np.int32)
    return arrays


def _rows_of_text(tokens: Path, *lists: Path) -> dict[str, list[Any]]:
    """A row an image, in the order of the token file: the list that it is in, "" if in none, and its captions."""
    captions: dict[str, dict[str, str]] = {}
    for line in filter(None, tokens.read_text("utf-8").split("\n")):
        key, _, caption = line.partition("\t")
        image, _, place = key.partition("#")
        # One line of the official file has the broken name 2258277193_586949ec62.jpg.1.
        captions.setdefault(image.removesuffix(".1"), {})[place] = caption
    parts: dict[str, str] = {}
    for path in lists:  # Flickr_8k.devImages.txt
        part = path.name.partition(".")[2].removesuffix("Images.txt")
        parts |= dict.fromkeys(path.read_text("utf-8").split(), part)
    in_order = [[given[place] for place in sorted(given)] for given in captions.values()]
    return {"split": [parts.get(image, "") for image in captions], "captions": in_order}


# --- MSCOCO -----------------------------------------------------------------------------------------------------------

COCO_SPLITS = {"train": "train", "restval": "train", "val": "valid", "test": "test"}
JSON, FEATURES = "coco/dataset_coco.json", "coco/features.npy"


def coco(config: Config, root: Path, seed: int = 0) -> Dataset:
    """The first five captions of each image, their words as the split has them (`tokens`), and its features.

    A number for every word of the training and validation captions, 1 for any other (order-embedding's code).
    Validation is the first fold: of the validation images, of which the split has five folds, the others are left out.
    `seed` is not used: the parts are fixed. NormbenchError for files that are not these.
    """
    declares, name = config["declares"], str(config["name"])
    entries, features = coco_images(root, int(declares["captions"])), np.load(root / FEATURES, "r", allow_pickle=False)
    if features.shape != (len(entries), declares["features"]):
        raise BadInput(
            f"{files.as_text(root / FEATURES)} is of {features.shape}: it needs a row of {declares['features']} for "
            f"each of the {len(entries)} images of {JSON}, in its order. Extract the features anew."
        )
    rows: dict[str, list[int]] = {part: [] for part in ("train", "valid", "test")}
    for row, entry in enumerate(entries):
        rows[entry["split"]].append(row)
    rows["valid"] = rows["valid"][: int(config["fold"])]
    sizes = declares["sizes"] | {"valid": int(config["fold"])}
    if (given := {part: len(chosen) for part, chosen in rows.items()}) != sizes:
        raise BadInput(
            f"{files.as_text(root / JSON)} has images for {given} instead of {sizes}: it is not Karpathy's split. "
            "Bring it anew."
        )
    texts = {part: [entries[row]["captions"] for row in chosen] for part, chosen in rows.items()}
    vocabulary = (caption for part in ("train", "valid") for image in texts[part] for caption in image)
    numbers = ranks(vocabulary, int(config["words"]), name)
    splits = {
        part: Split(
            image=unit_rows(np.asarray(features[chosen]), files.as_text(root / FEATURES)),
            captions=joined(
                [[numbers.get(word, UNKNOWN) for word in caption] for caption in image] for image in texts[part]
            ),
            index=torch.tensor(chosen),
        )
        for part, chosen in rows.items()
    }
    sums = [files.digest(root / file) for file in (JSON, FEATURES)]
    copy = {"sha256": files.checksum(sums), "deviations": []}
    return Dataset(name, splits, copy=copy, words=words_by_number(numbers))


def coco_images(root: Path, count: int) -> list[dict[str, Any]]:
    """Every image of the split in its order: `file`, part (`split`) and the words of its first `count` captions."""
    try:
        return [
            {
                "file": str(Path(image.get("filepath", ""), image["filename"])),
                "split": COCO_SPLITS[image["split"]],
                "captions": [list(map(str, sentence["tokens"])) for sentence in image["sentences"][:count]],
            }
            for image in json.loads((root / JSON).read_bytes())["images"]
        ]
    except (ValueError, LookupError, TypeError) as error:
        raise BadInput(
            f"{files.as_text(root / JSON)} is not Karpathy's dataset_coco.json ({error!r}). Bring it anew."
        ) from None
