"""What every registered data set promises: sizes, types, determinism, its checksum, parts apart, words of training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tinysets

from normbench import data
from normbench.check import contract
from normbench.check.contract import same
from normbench.commands import data as data_command
from normbench.config import compose
from normbench.data import files
from normbench.errors import NormbenchError
from normbench.runs.table import Runs


def is_read(name: str) -> bool:
    try:
        return bool(data.function(compose.choice("data", name)))
    except NormbenchError:
        return False


SETS = [name for name in compose.choices("data") if is_read(name)]
EMBEDDED = [name for name in SETS if "sha256" in compose.declaration("data", name) and name not in tinysets.WRITERS]
TEXTS = ["imdb", "flickr8k_captions", "coco", "cnn_cloze", "novel_cloze", "novel_triples", "book_corpus", "novel_text"]
CACHED = [*(name for name in TEXTS if name != "coco"), "cifar10"]
WORD = "zebra"
Found = tuple[str, dict[str, Any], data.Dataset]


def small(name: str, root: Path, held: str = "") -> dict[str, Any]:
    return compose.choice("data", name) if name in EMBEDDED else tinysets.write(name, root, held)


def test_all_sets_are_tried() -> None:
    assert set(SETS) == set(EMBEDDED) | set(tinysets.WRITERS) and len(SETS) == 24


@pytest.fixture(scope="module", params=SETS)
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Found:
    """A set's name, configuration and data, loaded once for the tests that only look at it."""
    root = tmp_path_factory.mktemp(request.param)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(root))
        config = small(request.param, root)
        return request.param, config, data.load(config, root, seed=1)


def test_sizes_shapes_and_types_are_the_declared_ones(found: Runs) -> None:
    name, config, loaded = found
    facts, sizes = config["declares"], {part: len(split) for part, split in loaded.splits.items()}
    assert loaded.name == name and {"train", "test"} <= set(sizes) and all(sizes.values())
    declared = facts.get("sizes", {})
    if "valid" not in declared and "valid" in sizes:  # it is taken from the training part
        sizes["train"] += sizes["valid"]
    assert {part: sizes[part] for part in declared if part in sizes} == {
        p: n for p, n in declared.items() if p != "all"
    }
    contract.sizes_and_types(loaded, facts)
    for split in loaded.splits.values():
        if "inputs" in split.tensors and all(isinstance(size, int) for size in facts.get("shape", [])):
            assert split["inputs"][0].numel() == facts["features"]


@pytest.mark.slow
@pytest.mark.parametrize("name", SETS)
def test_every_process_reads_the_same(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, found = small(name, tmp_path), []
    for cache in ("one", "one", "other"):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / cache))
        found.append(data.load(config, tmp_path, seed=3))
    for again in found[1:]:
        assert (again.copy, again.scale, list(again.words)) == (found[0].copy, found[0].scale, list(found[0].words))
        contract.alike(found[0], again)


# drawn independently of few possible ones: two parts have some in common by chance
BY_CHANCE = {
    "made_cloze",
    "made_reviews",
    "made_text",
    "cnn_cloze",
    "novel_cloze",
    "novel_triples",
    "flickr8k_captions",
    "book_corpus",
}


def test_no_example_is_in_two_parts(found: Runs) -> None:
    name, splits = found[0], found[2].splits
    if name not in BY_CHANCE:
        assert not contract.common(splits)
    if "valid" in splits and splits["valid"].index is not None and name in ("cifar10", "imdb"):
        assert not set(splits["train"].index.tolist()) & set(splits["valid"].index.tolist())


@pytest.mark.parametrize("name", EMBEDDED)
def test_an_embedded_set_of_other_bits_is_refused(name: str, tmp_path: Path) -> None:
    config = compose.choice("data", name)
    data.check(config, tmp_path / "absent")
    assert data.problems(config, tmp_path / "absent") == []
    line = tinysets.refused(config | {"declares": config["declares"] | {"sha256": "0" * 64}}, tmp_path / "absent")
    assert f"data={name}" in line and "instead of 00000000…" in line


@pytest.mark.parametrize("name", tinysets.WRITERS)
def test_missing_and_damaged_files_are_named(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By planning, by loading, and by `normbench data`."""
    monkeypatch.setenv("NORMBENCH_DATA", str(tmp_path))
    config = small(name, tmp_path)
    assert data.problems(config, tmp_path) == [] and data_command._state(config).startswith("ready")
    of = data.made_of(config)
    for file, sums in files.declared(of, tmp_path).items():
        body = (tmp_path / file).read_bytes()
        if sums:
            (tmp_path / file).write_bytes(body[: len(body) // 2])
            (line,) = data.problems(config, tmp_path)
            assert f"{tmp_path / file} is damaged" in line and line == tinysets.refused(config, tmp_path)
            assert data_command._state(config) == line
        (tmp_path / file).unlink()
        (line,) = data.problems(config, tmp_path)
        assert f"{Path(file).name} is missing" in line and line == tinysets.refused(config, tmp_path)
        (tmp_path / file).write_bytes(body)
    monkeypatch.setenv("NORMBENCH_DATA", str(tmp_path / "none"))
    assert data_command._state(config).startswith("missing. ")
    line = tinysets.refused(config, tmp_path / "none")
    assert line.startswith(f"{of['name'].upper()} is not in {tmp_path / 'none'}: ") and "NORMBENCH_DATA" in line
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("name", TEXTS)
def test_words_are_those_of_training_alone(name: str, tmp_path: Path) -> None:
    """Those of captions also of validation (order-embedding's code)."""
    plain, other = (data.load(small(name, tmp_path / held, held), tmp_path / held, seed=1) for held in ("", WORD))
    assert list(plain.words) == list(other.words) and WORD not in other.words
    assert same(plain.splits["train"], other.splits["train"])
    assert not same(plain.splits["test"], other.splits["test"]) or name == "imdb", "words that no training text has"


@pytest.mark.parametrize("name", CACHED)
def test_the_cache_is_used_and_made_anew_where_it_is_damaged(
    name: str, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small(name, tmp_path)
    first = data.load(config, tmp_path)
    assert first.notes == () or name == "cifar10"
    (kept,) = (cache / name).iterdir()
    whole = kept.read_bytes()
    for damaged in (whole[:-9], b"", b"PK nonsense", whole.replace(b"descr", b"dexcr")):
        kept.write_bytes(damaged)
        assert same(data.load(config, tmp_path).splits["train"], first.splits["train"])
    with monkeypatch.context() as patch:
        patch.setattr(files, "scratch", None)  # what would be written again fails
        assert same(data.load(config, tmp_path).splits["test"], first.splits["test"])
    for path in (tmp_path / "cache").rglob("*.npz"):
        with np.load(path) as arrays:
            assert arrays.files
    (tmp_path / "blocked").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "blocked"))
    blocked = data.load(config, tmp_path)
    assert f"blocked/normbench/{name} cannot be used (Not a directory)" in blocked.notes[0]
    assert same(blocked.splits["train"], first.splits["train"])
