"""Lines of pen strokes: IAM-OnDB from files of its form, its parts, refusals; the made-up hand; (marked `data`) all."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tinysets
import torch
from tinysets import FORMS, IDS, TEXTS

from normbench import data
from normbench.config import compose
from normbench.config.plan import train_specs
from normbench.core.streams import stream
from normbench.data import files, smoke, strokes
from normbench.data.examples import Ragged
from normbench.errors import NormbenchError

NPZ, TSV = "iam_ondb/strokes.npz", "iam_ondb/sentences.tsv"
LISTS = ("trainset", "testset_t", "testset_f", "testset_v")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def config(root: Path) -> dict[str, Any]:
    return tinysets.iam_ondb(root)


def lines_of(split: Any, name: str) -> list[torch.Tensor]:
    tensor = split[name]
    assert isinstance(tensor, Ragged)
    return [tensor[row : row + 1].values for row in range(len(tensor))]


def forms_of(split: Any) -> set[str]:
    return {IDS[row].rsplit("-", 1)[0] for row in split.index.tolist()}


# -- tensors


@pytest.mark.parametrize("points", [2, 5, 500])
def test_offsets_are_standardized_by_the_training_lines(config: dict[str, Any], root: Path, points: int) -> None:
    loaded = data.load(config | {"points": points}, root)
    given = tinysets.strokes()
    trained = [m for row in loaded.splits["train"].index.tolist() for m in given[row][0][1:points]]
    mean, deviation = np.mean(trained, 0), np.std(trained, 0)
    assert np.allclose(loaded.scale.mean, mean) and np.allclose(loaded.scale.deviation, deviation)
    seen = 0
    for split in loaded.splits.values():
        for row, line in zip(split.index.tolist(), lines_of(split, "strokes"), strict=True):
            moves, ends = given[row]
            assert line.dtype == torch.float32 and line.shape == (min(points, len(moves)), 3)
            assert line[0].tolist() == [0, 0, ends[0]]
            assert line[:, 2].tolist() == ends[:points]
            back = line[1:, :2].numpy() * loaded.scale.deviation + loaded.scale.mean
            assert np.allclose(back, moves[1:points], atol=1e-3)
            seen += 1
    assert seen == len(given)


def test_texts_are_whole_and_rare_symbols_are_one(config: dict[str, Any], root: Path) -> None:
    loaded = data.load(config | {"points": 2}, root)
    assert len(loaded.words) == 57 == config["declares"]["symbols"] and loaded.words[56] == strokes.OTHER
    for split in loaded.splits.values():
        for row, numbers in zip(split.index.tolist(), lines_of(split, "characters"), strict=True):
            assert numbers.dtype == torch.int64
            text = [loaded.words[number] for number in numbers.tolist()]
            assert text == [symbol if symbol in loaded.words else strokes.OTHER for symbol in TEXTS[row]]
    others = sum(int((split["characters"].values == 56).sum()) for split in loaded.splits.values())
    assert others == 1 + 4 + 1  # & é ' 1 2 -


def test_a_batch_has_masks(config: dict[str, Any], root: Path) -> None:
    split = data.load(config, root).splits["train"]
    batch = split.batch(slice(0, 3)).tensors
    assert set(batch) == {"strokes", "strokes_mask", "characters", "characters_mask"}
    lengths = [len(line) for line in lines_of(split, "strokes")[:3]]
    assert batch["strokes"].shape == (3, max(lengths), 3) and batch["strokes_mask"].sum(1).tolist() == lengths
    assert not batch["strokes"][~batch["strokes_mask"]].any()
    assert batch["characters_mask"].sum(1).tolist() == [len(TEXTS[row]) for row in split.index.tolist()[:3]]


@pytest.mark.parametrize("name", ["iam_ondb", "made_strokes"])
def test_what_models_ask_the_declarations_for(name: str) -> None:
    declares = compose.declaration("data", name)
    alphabet = declares.get("alphabet") or "".join(smoke.LETTERS)
    assert declares["shape"] == ["strokes", "characters"]
    assert declares["symbols"] == len([*alphabet, strokes.OTHER]) == len(set(alphabet)) + 1


def test_points_of_a_line() -> None:
    def refusal(points: str) -> str:
        with pytest.raises(NormbenchError) as caught:
            train_specs(["model=handwriting", f"data.points={points}"], False)
        return str(caught.value)

    assert refusal("1") == "data.points=1 is too small: at least 2."
    assert refusal("10000000000000000000") == "data.points=10000000000000000000 is too large: it must be below 2^63."
    assert refusal("100001") == "data.points=100001 is too large: at most 100000."
    assert refusal("2.5") == "data.points=2.5 is not a whole number."


# -- parts


def test_parts_are_of_whole_forms_and_in_every_run_the_same(config: dict[str, Any], root: Path) -> None:
    first, again = data.load(config, root, seed=1), data.load(config, root, seed=2)
    assert set(first.splits) == {"train", "test"} and len(first.splits["test"]) == 4
    assert forms_of(first.splits["train"]) | forms_of(first.splits["test"]) == set(FORMS)
    assert not forms_of(first.splits["train"]) & forms_of(first.splits["test"])
    for part, split in first.splits.items():
        assert split.index.tolist() == sorted(split.index.tolist()) == again.splits[part].index.tolist()
        assert torch.equal(split["strokes"].values, again.splits[part]["strokes"].values)
    assert first.copy["sha256"] == files.checksum(config["declares"]["files"])
    remark = (
        "IAM-OnDB: 5 lines train, 4 test, of forms drawn here, and a writer may be in both: the owners' lists are not "
        "at hand"
    )
    assert first.copy["deviations"] == [remark]
    places = ", ".join(f"iam_ondb/{name}.txt" for name in LISTS)
    assert first.notes == (f"{remark} (below {root}: {places})",)


def test_forms_are_drawn_whatever_others_there_are() -> None:
    draw = stream(1, "forms")
    forms = [f"a{place // 100:02}-{place:03}" for place in range(1700) for _ in range(draw.integers(1, 14))]
    parts = strokes.random_parts(forms, 1438, 1)
    assert sum(form in parts["test"] for form in forms) == 1438
    assert parts["train"] | parts["test"] == set(forms) and not parts["train"] & parts["test"]
    assert strokes.random_parts(forms[::-1], 1438, 1) == parts
    fewer = strokes.random_parts([form for form in forms if form != forms[900]], 1438, 1)["test"]
    assert len(fewer ^ parts["test"]) < 12
    other = strokes.random_parts(forms, 1438, 2)["test"]
    assert len(other & parts["test"]) < len(other) / 4


def listed(root: Path, train: str, first: str = "", second: str = "", test: str = "") -> None:
    """The owners' lists, a form a line behind a blank."""
    for name, forms in zip(LISTS, (train, first, second, test), strict=True):
        (root / f"iam_ondb/{name}.txt").write_text("".join(f" {form}\n" for form in forms.split()))


def test_the_owners_lists_are_used_where_they_are(config: dict[str, Any], root: Path) -> None:
    random_copy = data.load(config, root).copy["sha256"]
    listed(root, "a01-001", "d04-111 e05-000", "c03-007a", "b02-010z")
    loaded = data.load(config, root)
    assert forms_of(loaded.splits["test"]) == {"b02-010z"}
    assert forms_of(loaded.splits["train"]) == {"a01-001", "c03-007a", "d04-111"}
    assert loaded.copy["deviations"] == [
        "IAM-OnDB: 5 lines train, 3 test, of the forms in the owners' lists, which leave out 1 of those here"
    ]
    assert loaded.notes == tuple(loaded.copy["deviations"]) and loaded.copy["sha256"] != random_copy
    # Of the lists alone.
    listed(root, "a01-001", "d04-111", "c03-007a a01-000u", "b02-010z")
    other = data.load(config, root)
    assert other.copy["deviations"] == ["IAM-OnDB: 6 lines train, 3 test, of the forms in the owners' lists"]
    assert other.copy["sha256"] not in (random_copy, loaded.copy["sha256"])


def test_the_test_part_is_the_rest_where_its_list_is_not_passed_on(config: dict[str, Any], root: Path) -> None:
    listed(root, "a01-001", "d04-111 e05-000", "c03-007a", "b02-010z")
    (root / "iam_ondb/testset_v.txt").unlink()
    loaded = data.load(config, root)
    assert forms_of(loaded.splits["train"]) == {"a01-001", "c03-007a", "d04-111"}
    assert forms_of(loaded.splits["test"]) == set(FORMS) - {"a01-001", "c03-007a", "d04-111"}
    assert loaded.copy["deviations"] == ["IAM-OnDB: 5 lines train, 4 test, of the forms in the owners' lists"]


def test_lists_that_cannot_be_used(config: dict[str, Any], root: Path) -> None:
    folder = root / "iam_ondb"
    (folder / "testset_v.txt").write_text("a01-001\n")
    assert tinysets.refused(config, root) == (
        f"{folder}/trainset.txt is missing: of the owners' lists of forms all are used or none. Place it beside the "
        "others, or move those away."
    )
    listed(root, "a01-001", "d04-111", "b02-010z", "c03-007a d04-111")
    assert tinysets.refused(config, root).startswith("d04-111 is in the owners' lists for test and in others")
    listed(root, "a01-001", "d04-111", "b02-010z", "z09-001")
    assert tinysets.refused(config, root) == f"{folder} has no line of the forms that are there to test."


# -- the real set


@pytest.mark.data
def test_real_lines() -> None:
    config = compose.choice("data", "iam_ondb")
    loaded = data.load(config)
    assert {part: len(split) for part, split in loaded.splits.items()} == {"train": 10740, "test": 1438}
    assert config["declares"]["train_size"]["of"] == 10740
    rows = torch.cat([split.index for split in loaded.splits.values()])
    assert torch.equal(rows.sort().values, torch.arange(12178))
    ids = [line.split("\t")[0] for line in (data.root() / TSV).read_text(encoding="utf-8").splitlines()]
    forms = [{ids[row].rsplit("-", 1)[0] for row in split.index.tolist()} for split in loaded.splits.values()]
    assert len(forms[0]) + len(forms[1]) == 1728 and not forms[0] & forms[1]
    assert loaded.copy["sha256"] == files.checksum(config["declares"]["files"])
    # By another program on all lines, uncut: 8.21 and 0.12, 42.3 and 37.1.
    assert np.allclose(loaded.scale.mean, (8.6926, 0.0870), atol=1e-3)
    assert np.allclose(loaded.scale.deviation, (43.836, 38.460), atol=1e-2)
    lengths = torch.cat([split["strokes"].lengths for split in loaded.splits.values()])
    assert int(lengths.min()) == 31 and int(lengths.max()) == 500
    assert round(float((lengths == 500).float().mean()), 3) == 0.764
    numbers = torch.cat([split["characters"].values for split in loaded.splits.values()])
    counts = numbers.bincount(minlength=57)
    frequencies = {
        symbol: int(counts[loaded.words.index(symbol)]) for symbol in (" ", "e", ".", ",", '"', "X", strokes.OTHER)
    }
    assert frequencies == {" ": 53072, "e": 35832, ".": 5197, ",": 2826, '"': 1840, "X": 4, strokes.OTHER: 4066}
    assert int(counts.sum()) == 351556
    for split in loaded.splits.values():
        values, offsets = split["strokes"].values, split["strokes"].offsets[:-1]
        assert not values[offsets, :2].any() and bool(values.isfinite().all())
        assert set(values[:, 2].unique().tolist()) == {0, 1}


@pytest.mark.data
def test_a_stride_of_the_real_lines_is_like_all_of_them() -> None:
    """Forms are in alphabetical order: would every n-th line be of another length, place on its form or speed?"""
    split = data.load(compose.choice("data", "iam_ondb") | {"points": 250}).splits["test"]
    ids = [line.split("\t")[0] for line in (data.root() / TSV).read_text(encoding="utf-8").splitlines()]
    offsets = split["strokes"].offsets.tolist()
    found = {
        "place": np.array([int(ids[row].rsplit("-", 1)[1]) for row in split.index.tolist()]),
        "length": split["characters"].lengths.numpy(),
        "moves": np.array([split["strokes"].values[a:b, :2].abs().mean() for a, b in itertools.pairwise(offsets)]),
    }
    for stride in (3, 5, 6, 7, 8):
        for name, values in found.items():
            part = values[::stride]
            assert abs(part.mean() - values.mean()) < 2.5 * values.std() / len(part) ** 0.5, (name, stride)
