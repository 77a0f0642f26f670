"""The embedded sets: what is in them, beyond what the contract of all sets asks for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from test_data_captions import captions_of
from test_data_strokes import lines_of

from normbench import data
from normbench.config import compose
from normbench.config.updates import train_size
from normbench.data import smoke
from normbench.data.cloze import BLANK, ENTITY
from normbench.data.examples import Ragged
from normbench.errors import NormbenchError
from normbench.sentences import sets

AROUND = ("previous", "sentence", "next")


def config(name: str) -> dict[str, Any]:
    return dict(compose.choice("data", name))


def splits(name: str, seed: int = 0, **options: Any) -> dict[str, Any]:
    return data.load(config(name) | options, seed=seed).splits


DRAWN = ["recall", "made_reviews", "made_captions", "made_cloze", "made_triples"]


@pytest.mark.parametrize("name", DRAWN)
def test_the_seed_draws_all(name: str) -> None:
    first, other = (next(iter(splits(name, seed)["train"].tensors.values())) for seed in (1, 2))
    values, others = (tensor.values if isinstance(tensor, Ragged) else tensor for tensor in (first, other))
    assert values.shape != others.shape or not torch.equal(values, others)


@pytest.mark.parametrize(
    ("name", "options", "key"),
    [
        ("coloured_digits", {"fraction": 1e-4}, "data.fraction"),
        ("recall", {"length": 1, "asked": "later"}, "data.length"),
        ("made_cloze", {"words": 13}, "data.words"),
    ],
)
def test_options_that_leave_nothing(name: str, options: dict[str, Any], key: str) -> None:
    with pytest.raises(NormbenchError, match=key):
        splits(name, **options)


@pytest.mark.parametrize(("name", "size"), [("coloured_digits", 960), ("recall", 1000), ("made_reviews", 200)])
def test_a_fraction_is_the_beginning_of_the_whole(name: str, size: int) -> None:
    assert train_size({"data": config(name) | {"fraction": 0.2}}) == size
    whole, part, other = (splits(name, seed, fraction=f) for seed, f in ((1, 1.0), (1, 0.2), (2, 0.2)))
    symbols = slice(8 if name == "recall" else None)  # the marked places are drawn after all symbols
    assert torch.equal(part["train"]["inputs"][..., symbols], whole["train"]["inputs"][:size, ..., symbols])
    assert torch.equal(part["test"]["inputs"], whole["test"]["inputs"])
    assert not torch.equal(part["train"]["inputs"], other["train"]["inputs"])


def test_digits_are_scikit_learns() -> None:
    parts = [splits("digits")[name] for name in ("valid", "train", "test")]
    assert [len(part) for part in parts] == [197, 1200, 400]
    images, labels = load_digits(return_X_y=True)
    assert torch.equal(torch.cat([part["inputs"] for part in parts]), torch.from_numpy(images / 16).float())
    assert torch.equal(torch.cat([part["targets"] for part in parts]), torch.from_numpy(labels))


def test_binarized_digits_are_drawn_by_their_grey_values() -> None:
    found, other = (splits("binarized_digits", seed) for seed in (1, 2))
    for part, split in found.items():
        assert set(split["inputs"].unique().tolist()) == {0.0, 1.0}
        assert torch.equal(split["inputs"], other[part]["inputs"]), "the seed has no part in it"
    whole = torch.cat([found[part]["inputs"] for part in ("valid", "train", "test")]).double().numpy()
    grey = load_digits().data / 16
    assert (whole[grey == 0] == 0).all() and (whole[grey == 1] == 1).all()
    for least, most in ((0.1, 0.3), (0.3, 0.6), (0.6, 0.9)):
        chosen = (grey > least) & (grey < most)
        assert abs(whole[chosen].mean() - grey[chosen].mean()) < 0.01


def test_coloured_digits_are_standardized_by_the_training_pictures() -> None:
    assert sorted(np.concatenate([np.arange(1797)[rows] for rows in smoke.BOUNDS.values()]).tolist()) == [*range(1797)]
    train = splits("coloured_digits", 1)["train"]["inputs"].double()
    torch.testing.assert_close(train.mean(0), torch.zeros(32, 32, 3).double(), rtol=0, atol=1e-5)
    torch.testing.assert_close(train.std(0, correction=0), torch.ones(32, 32, 3).double(), rtol=1e-5, atol=0)


def test_a_picture_is_its_digit() -> None:
    """Where the noise is small against the contrast, the digit's ink is found again, whole, at one place."""
    pictures, labels = smoke.coloured()
    digits, targets = load_digits(return_X_y=True)
    assert labels.tolist() == targets.repeat(4).tolist()
    found = 0
    for place in range(0, 400, 7):
        ink = np.kron(digits[place // 4].reshape(8, 8), np.ones((3, 3)))
        picture = pictures[place].astype(float)
        scores = [
            abs(np.corrcoef(ink.ravel(), picture[y : y + 24, x : x + 24, c].ravel())[0, 1])
            for c in range(3)
            for y in range(9)
            for x in range(9)
        ]
        found += max(scores) > 0.8
    assert found > 40  # of 58


def test_the_target_is_the_marked_symbol() -> None:
    for part in splits("recall", 3, length=7).values():
        symbols, marker = part["inputs"][..., :8], part["inputs"][..., 8]
        assert torch.equal(symbols.sum(-1), torch.ones_like(marker)) and set(part["inputs"].unique().tolist()) == {
            0.0,
            1.0,
        }
        assert torch.equal(marker.sum(-1), torch.ones(len(marker)))
        assert torch.equal((symbols * marker[..., None]).sum(1).argmax(-1), part["targets"])


def test_of_two_marked_symbols_the_later_one_is_the_target() -> None:
    once, twice = (splits("recall", 3, length=7, asked=asked) for asked in ("marked", "later"))
    for part, split in twice.items():
        symbols, marker = split["inputs"][..., :8], split["inputs"][..., 8]
        assert torch.equal(marker.sum(-1), torch.full((len(marker),), 2.0)), "two places, never the same"
        places = torch.arange(marker.shape[1]) * marker
        later = places.argmax(-1)
        assert torch.equal(symbols[torch.arange(len(symbols)), later].argmax(-1), split["targets"])
        first = once[part]["inputs"]
        assert torch.equal(symbols, first[..., :8]) and bool((first[..., 8] <= marker).all()), "one more is marked"
    pairs = {tuple(row.nonzero().flatten().tolist()) for row in twice["train"]["inputs"][..., 8]}
    assert len(pairs) == 21, "any two places"


def test_parts_have_their_sizes_and_lengths() -> None:
    found = splits("recall", 1, length=7, fraction=0.1)
    shapes = {name: tuple(split["inputs"].shape) for name, split in found.items()}
    assert shapes == {
        "train": (500, 7, 9), "valid": (500, 7, 9), "test": (1000, 7, 9),
        "test 2x": (1000, 14, 9), "test 4x": (1000, 28, 9),
    }  # fmt: skip
    places = found["test 4x"]["inputs"][..., 8].argmax(-1)
    assert np.bincount(places.numpy(), minlength=28).min() > 0, "every place can be marked"


def test_the_majority_of_opinions_decides() -> None:
    turned = 0
    for review, good in zip(*(t.tolist() for t in splits("made_reviews")["test"].tensors.values()), strict=True):
        score = 0
        for before, word in zip([0, *review], review, strict=False):
            likes = (word in smoke.GOOD) - (word in smoke.BAD)
            score += -likes if before == smoke.NOT else likes
        assert good == (score > 0) and score % 2
        turned += smoke.NOT in review
    assert 100 < turned < 300  # of 400


def test_made_captions_name_what_their_image_shows() -> None:
    made = data.load(compose.choice("data", "made_captions"), seed=3)
    split = made.splits["valid"]
    things = [{n for caption in captions_of(split["captions"], row) for n in caption if made.words[n][:5] == "thing"}
              for row in range(len(split))]  # fmt: skip
    assert all(len(captions_of(split["captions"], row)) == 5 for row in range(len(split)))
    assert max(map(len, things)) <= 5, "five captions name no more than the image shows"
    alike = split["image"] @ split["image"].T
    shared = torch.tensor([[len(a & b) for b in things] for a in things]).float()
    assert torch.corrcoef(torch.stack([alike.flatten(), shared.flatten()]))[0, 1] > 0.5


def test_one_sentence_of_the_document_answers_the_question() -> None:
    options = config("made_cloze")
    entities = set(range(ENTITY, ENTITY + options["entities"]))
    for split in splits("made_cloze", 1).values():
        assert set(split["answer"].bincount().nonzero().flatten().tolist()) == entities
        shapes = set()
        for place in range(len(split)):
            document, question = (split[name][place : place + 1].values for name in ("document", "question"))
            assert max(document) < options["words"] and len(document) <= options["length"]
            sentences = [set(sentence[:3].tolist()) for sentence in document.split(smoke.SENTENCE)]
            wanted = set(question.tolist()) - {BLANK}
            (found,) = (sentence for sentence in sentences if wanted < sentence)
            assert found - wanted == {int(split["answer"][place])} == found & entities
            assert len(set(document.tolist()) & entities) > 1
            shapes.add(len(sentences))
        assert shapes == set(range(2, 6))


def test_made_words_are_strokes_of_their_letters() -> None:
    loaded = data.load(config("made_strokes") | {"points": 1000})
    counts = np.zeros(len(loaded.words), int)
    for split in loaded.splits.values():
        for line, numbers in zip(lines_of(split, "strokes"), lines_of(split, "characters"), strict=True):
            text = [loaded.words[number] for number in numbers.tolist()]
            assert 3 <= len(text) <= 6 and line[0, :2].tolist() == [0, 0]
            assert int(line[:, 2].sum()) == sum(len(smoke.LETTERS[letter]) - 1 for letter in text)
            assert line[-1, 2] == 1 and 5 < len(line) / len(text) < 22
            # Ends of strokes but the last: the pen goes on elsewhere; within a stroke it moves evenly.
            moves = line[1:, :2].double().numpy() * loaded.scale.deviation + loaded.scale.mean
            assert np.allclose(moves, np.rint(moves), atol=1e-3)
            far = np.hypot(*moves.T)[line[:-1, 2].numpy() == 0]
            assert far.max() < smoke.STEP * 2.4 * smoke.UNIT and np.median(far) > 15
            x = np.concatenate([[0], moves[:, 0].cumsum()])
            assert 30 < (x.max() - x.min()) / len(text) < 190
            np.add.at(counts, numbers.numpy(), 1)
    assert counts[-1] == 0 and abs(counts[:-1] / counts.sum() - 1 / 12).max() < 0.012


def test_curves_go_through_their_points_and_are_cut_evenly() -> None:
    weights = smoke._catmull_rom(5)
    assert np.allclose(weights[:: smoke.FINE], np.eye(5)) and np.allclose(weights.sum(1), 1)
    # A straight line of evenly placed points stays one, but near its ends, which count twice, as fast.
    inner = (weights @ np.arange(5))[smoke.FINE : -smoke.FINE]
    assert np.allclose(np.diff(inner), 1 / smoke.FINE)
    angle = np.linspace(0, np.pi, 200) ** 2 / np.pi
    points = smoke._even(np.stack([np.cos(angle), np.sin(angle)], 1))
    far = np.hypot(*np.diff(points, axis=0).T)
    assert len(points) == round(np.pi / smoke.STEP) + 1 and far.max() - far.min() < 1e-3
    assert np.allclose(points[[0, -1]], [[1, 0], [-1, 0]])
    assert smoke._even(np.array([[0.0, 0], [0.01, 0]])).shape == (2, 2)


def test_made_up_stories_go_on() -> None:
    loaded = data.load(config("made_triples"), seed=1)
    verbs = [loaded.words.index(verb) for verb in smoke.VERBS]
    for split in loaded.splits.values():
        batch = split.batch(slice(None)).tensors
        before, here, after = (batch[name][:, 3] for name in AROUND)
        assert all((here - verbs[0] + 1) % 6 == after - verbs[0]) and all(
            (before - verbs[0] + 1) % 6 == here - verbs[0]
        )
        stays = (batch["sentence"][:, 2] == batch["next"][:, 2]).float().mean()
        assert 0.7 < stays < 0.95
    assert config("made_triples")["words"] == len(loaded.words)


def test_made_up_tasks_have_the_form_of_the_real_ones() -> None:
    with smoke.tasks(1) as folder:
        found = {name: sets.read(name, folder) for name in sets.ALL}
        with smoke.tasks(2) as other:
            assert sets.read("mr", other).all != found["mr"].all
    assert not folder.exists()
    for name in sets.CLASSIFIED:
        labels = found[name].targets[name]
        assert len(labels) == len(found[name].all) == smoke.TASK_SIZES[name] and 0.3 < labels.mean() < 0.7
    good = [bool(set(text.split()) & {"good", "fine", "glad"}) for text in found["mr"].all]
    assert np.array_equal(good, found["mr"].targets["mr"])
    scores = found["sick"].targets["train"]
    assert scores.min() >= 1 and scores.max() == 5 and len(set(scores)) == 4
