"""Lines of pen strokes: IAM-OnDB from files of its form, its parts, refusals; the made-up hand; (marked `data`) all."""

from __future__ import annotations

import hashlib
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tars import packed
from test_data_prepare import handwriting

from normbench import data
from normbench.config import compose
from normbench.config.identity import data_checksum
from normbench.config.plan import train_specs
from normbench.data import fetch, iam_ondb, made_strokes, strokes
from normbench.data.examples import Ragged
from normbench.errors import NormbenchError
from normbench.streams import stream

FORMS = ("a01-000u", "a01-001", "b02-010z", "c03-007a", "d04-111")  # of 1, 2, 3, 1, 2 lines
IDS = [f"{form}-0{i}" for form, n in zip(FORMS, (1, 2, 3, 1, 2), strict=True) for i in range(1, n + 1)]
TEXTS = ["A move.", "x & y", 'he said, "no"', "Zoé's 12", "q", "to be", "or not", "A-Z", "end"]
NPZ, TSV = "iam_ondb/strokes.npz", "iam_ondb/sentences.tsv"
LISTS = ("trainset", "testset_t", "testset_f", "testset_v")
Line = tuple[list[tuple[int, int]], list[int]]  # moves, the pen's place first, and ends of strokes


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def config(root: Path) -> dict[str, Any]:
    return write(root)


def written() -> list[Line]:
    """Lines of 2 to 12 points, far out on the sheet."""
    draw, lines = stream(1, "lines"), []
    for length in (2, 12, 5, 7, 3, 9, 4, 6, 8):
        moves = draw.integers(-30, 90, (length, 2))
        moves[0] += 5000
        lines.append(([(int(x), int(y)) for x, y in moves], (draw.random(length) < 0.3).astype(int).tolist()))
    return lines


def arrays(lines: list[Line]) -> dict[str, np.ndarray]:
    return {
        "dxy": np.array([move for moves, _ in lines for move in moves], np.int16),
        "eos": np.packbits(np.array([end for _, ends in lines for end in ends], np.uint8)),
        "length": np.array([len(moves) for moves, _ in lines], np.int32),
    }


def table() -> bytes:
    return "".join(f"{line}\t{text}\n" for line, text in zip(IDS, TEXTS, strict=True)).encode()


def write(root: Path) -> dict[str, Any]:
    """The set's files, and a configuration that declares them."""
    (root / "iam_ondb").mkdir(parents=True, exist_ok=True)
    np.savez_compressed(root / NPZ, **arrays(written()))
    (root / TSV).write_bytes(table())
    return declaring(root)


def declaring(root: Path) -> dict[str, Any]:
    config = compose.choice("data", "iam_ondb")
    sums = {name: hashlib.sha256((root / name).read_bytes()).hexdigest() for name in (NPZ, TSV)}
    declares = {key: value for key, value in config["declares"].items() if key != "content"}
    return config | {"declares": declares | {"files": sums, "split": {"test": 4, "seed": 1}}}


def lines_of(split: Any, name: str) -> list[torch.Tensor]:
    tensor = split[name]
    assert isinstance(tensor, Ragged)
    return [tensor[row : row + 1].values for row in range(len(tensor))]


def forms_of(split: Any) -> set[str]:
    return {IDS[row].rsplit("-", 1)[0] for row in split.index.tolist()}


def refused(config: dict[str, Any], root: Path) -> str:
    with pytest.raises(NormbenchError) as caught:
        data.load(config, root)
    assert caught.value.code == 2 and "\n" not in str(caught.value)
    return str(caught.value)


# -- tensors


@pytest.mark.parametrize("points", [2, 5, 500])
def test_offsets_are_standardized_by_the_training_lines(config: dict[str, Any], root: Path, points: int) -> None:
    loaded = data.load(config | {"points": points}, root)
    given = written()
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
    alphabet = declares.get("alphabet") or "".join(made_strokes.LETTERS)
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
    assert first.copy["sha256"] == data_checksum(config["declares"])
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
    parts = iam_ondb.random_parts(forms, 1438, 1)
    assert sum(form in parts["test"] for form in forms) == 1438
    assert parts["train"] | parts["test"] == set(forms) and not parts["train"] & parts["test"]
    assert iam_ondb.random_parts(forms[::-1], 1438, 1) == parts
    fewer = iam_ondb.random_parts([form for form in forms if form != forms[900]], 1438, 1)["test"]
    assert len(fewer ^ parts["test"]) < 12
    other = iam_ondb.random_parts(forms, 1438, 2)["test"]
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
    assert refused(config, root) == (
        f"{folder}/trainset.txt is missing: of the owners' lists of forms all are used or none. Place it beside the "
        "others, or move those away."
    )
    listed(root, "a01-001", "d04-111", "b02-010z", "c03-007a d04-111")
    assert refused(config, root) == f"{folder}/testset_v.txt names d04-111, as another of the lists does."
    listed(root, "a01-001", "", "b02-010z", "c03-007a")
    assert refused(config, root) == f"{folder}/testset_t.txt names no form: it is empty. Bring it anew."
    listed(root, "a01-001", "<html>", "", "c03-007a")
    assert refused(config, root) == f"{folder}/testset_t.txt names '<html>', which is no form (a01-000u)."
    listed(root, "a01-001", "d04-111", "b02-010z", "z09-001")
    assert refused(config, root) == f"{folder} has no line of the forms that are there to test."
    (folder / "testset_f.txt").write_bytes(b"\xff")
    assert refused(config, root).startswith(f"{folder}/testset_f.txt cannot be read: 'utf-8'")
    for name in ("trainset", "testset_t", "testset_f", "testset_v"):  # they were meant to be used
        (folder / f"{name}.txt").unlink()
        (folder / f"{name}.txt").symlink_to("nowhere")
    assert f"{folder}/trainset.txt cannot be read" in refused(config, root)


# -- from the owners' archives


def test_from_archives_to_tensors(root: Path) -> None:
    texts, place = handwriting(), root / "source" / "iam_ondb"
    place.mkdir(parents=True)
    for name, files in zip(("lineStrokes", "ascii"), texts, strict=True):
        (place / f"{name}-all.tar.gz").write_bytes(packed(files))
    config = compose.choice("data", "iam_ondb")
    config = config | {"declares": config["declares"] | {"split": {"test": 1, "seed": 1}}}
    fetch.get(config, root)
    loaded = data.load(config, root)
    assert {part: len(split) for part, split in loaded.splits.items()} == {"train": 2, "test": 1}
    (first, second), (test,) = (lines_of(loaded.splits[part], "strokes") for part in ("train", "test"))
    # Offsets (3, -1), (-13, 11) | (0, -1): means -10/3 and 3.
    mean, deviation = np.array([-10 / 3, 3]), np.array([(434 / 9) ** 0.5, 32**0.5])
    assert np.allclose(first, [[0, 0, 0], [*(([3, -1] - mean) / deviation), 1], [*(([-13, 11] - mean) / deviation), 1]])
    assert np.allclose(second, [[0, 0, 0], [*(([0, -1] - mean) / deviation), 1]])
    assert np.allclose(test, [[0, 0, 0], [*(([1, 0] - mean) / deviation), 1]])
    assert "".join(loaded.words[n] for n in lines_of(loaded.splits["train"], "characters")[0].tolist()) == "A MUVE"
    # Another content than the declared one, and told apart by the run's records.
    assert loaded.copy["sha256"] != data_checksum(config["declares"])


# -- files that are not as they should be


def test_line_ends_of_windows(config: dict[str, Any], root: Path) -> None:
    lists = [f"iam_ondb/{name}.txt" for name in LISTS]
    for name, form in zip(lists, FORMS, strict=False):
        (root / name).write_text(f"{form}\n")
    unix = data.load(config, root)
    for name in (TSV, *lists):
        (root / name).write_bytes(b"\xef\xbb\xbf" + (root / name).read_bytes().replace(b"\n", b"\r\n"))
    again = data.load(config, root)
    assert again.copy == unix.copy and again.notes == unix.notes


def test_files_that_are_missing_or_damaged(config: dict[str, Any], root: Path, tmp_path: Path) -> None:
    assert refused(config, tmp_path).startswith(f"IAM_ONDB is not in {tmp_path}: strokes.npz is missing. Bring it with")
    (root / NPZ).write_bytes((root / NPZ).read_bytes()[:-40])
    assert refused(config, root).startswith(f"{root / NPZ} is damaged (sha256 ")


# -- the hand made here


@pytest.fixture
def made() -> dict[str, Any]:
    return compose.choice("data", "made_strokes")


def test_made_words_are_the_same_in_every_run(made: dict[str, Any], tmp_path: Path) -> None:
    data.check(made, tmp_path / "absent")
    first, other = (data.load(made, tmp_path / "absent", seed).splits for seed in (1, 2))
    assert {part: len(split) for part, split in first.items()} == made["declares"]["sizes"]
    for part, split in first.items():
        for name in ("strokes", "characters"):
            assert torch.equal(split[name].values, other[part][name].values)
        assert int(split["strokes"].lengths.max()) == made["points"]
    assert not torch.equal(first["train"]["strokes"].values[:100], first["test"]["strokes"].values[:100])


def test_made_words_are_strokes_of_their_letters(made: dict[str, Any]) -> None:
    loaded = data.load(made | {"points": 1000})
    counts = np.zeros(len(loaded.words), int)
    for split in loaded.splits.values():
        for line, numbers in zip(lines_of(split, "strokes"), lines_of(split, "characters"), strict=True):
            text = [loaded.words[number] for number in numbers.tolist()]
            assert 3 <= len(text) <= 6 and line[0, :2].tolist() == [0, 0]
            assert int(line[:, 2].sum()) == sum(len(made_strokes.LETTERS[letter]) - 1 for letter in text)
            assert line[-1, 2] == 1 and 5 < len(line) / len(text) < 22
            # Ends of strokes but the last: the pen goes on elsewhere; within a stroke it moves evenly.
            moves = line[1:, :2].double().numpy() * loaded.scale.deviation + loaded.scale.mean
            assert np.allclose(moves, np.rint(moves), atol=1e-3)
            far = np.hypot(*moves.T)[line[:-1, 2].numpy() == 0]
            assert far.max() < made_strokes.STEP * 2.4 * made_strokes.UNIT and np.median(far) > 15
            x = np.concatenate([[0], moves[:, 0].cumsum()])
            assert 30 < (x.max() - x.min()) / len(text) < 190
            np.add.at(counts, numbers.numpy(), 1)
    assert counts[-1] == 0 and abs(counts[:-1] / counts.sum() - 1 / 12).max() < 0.012


def test_curves_go_through_their_points_and_are_cut_evenly() -> None:
    weights = made_strokes._catmull_rom(5)
    assert np.allclose(weights[:: made_strokes.FINE], np.eye(5)) and np.allclose(weights.sum(1), 1)
    # A straight line of evenly placed points stays one, but near its ends, which count twice, as fast.
    inner = (weights @ np.arange(5))[made_strokes.FINE : -made_strokes.FINE]
    assert np.allclose(np.diff(inner), 1 / made_strokes.FINE)
    angle = np.linspace(0, np.pi, 200) ** 2 / np.pi
    points = made_strokes._even(np.stack([np.cos(angle), np.sin(angle)], 1))
    far = np.hypot(*np.diff(points, axis=0).T)
    assert len(points) == round(np.pi / made_strokes.STEP) + 1 and far.max() - far.min() < 1e-3
    assert np.allclose(points[[0, -1]], [[1, 0], [-1, 0]])
    assert made_strokes._even(np.array([[0.0, 0], [0.01, 0]])).shape == (2, 2)


def test_made_words_of_other_random_numbers(made: dict[str, Any]) -> None:
    other = made | {"declares": made["declares"] | {"sha256": "0" * 64}}
    with pytest.raises(NormbenchError, match=r"the lines of data=made_strokes .*sha256 [0-9a-f]{8}… instead of 0{8}…"):
        data.load(other)


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
    assert loaded.copy["sha256"] == data_checksum(config["declares"])
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
