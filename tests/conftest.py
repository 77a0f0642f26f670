"""What all tests share. This file's folder is on the path, so tests import `tiny` and `reference`."""

from __future__ import annotations

import functools
import importlib
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from itertools import combinations
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import pytest
from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
# before torch is imported: one thread, as in every run
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.fsync = lambda _: None  # no test cuts the power, and a disk takes milliseconds for each


@pytest.fixture(autouse=True, scope="session")
def state_of_tests(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The dashboard keeps its tokens in the user's folder of states: not in that of whoever tests."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Two threads add numbers up in another order; a run uses one."""
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def pictures_are_made_once() -> None:
    """To parse the digits takes as long as a tiny run on them, to draw the coloured ones ten times as long."""
    smoke = sys.modules.get("normbench.data.smoke")
    for name in ("embedded", "coloured") if smoke else ():
        if (make := getattr(smoke, name)).__name__ == name:
            setattr(smoke, name, copies(functools.cache(make)))


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool's workers are forked off this process, with all that they would have to import."""
    import torch
    from forked import Forked

    import normbench.train.loop  # noqa: F401  # for the forked
    from normbench.launch import pool

    if not torch.cuda.is_available():  # whose threads do not survive that
        monkeypatch.setattr(pool, "subprocess", SimpleNamespace(**{**vars(subprocess), "Popen": Forked}))


@pytest.fixture(scope="session")
def repaired_torchvision() -> Any:
    """The default wheel's operators are linked against CUDA; beside a CPU torch its import stops at their fake kernels.

    Models, transforms and timm need none of them: their schemas are defined here, and it is imported again.
    """
    import torch

    try:
        yield pytest.importorskip("torchvision")
        return
    except RuntimeError as error:
        assert "operator torchvision::" in str(error)
    library = torch.library.Library("torchvision", "FRAGMENT")  # a schema lives as long as its library
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
        del sys.modules[name]
    yield importlib.import_module("torchvision")


def copies(make: Callable[[], tuple[Any, ...]]) -> Callable[[], tuple[Any, ...]]:
    return lambda: tuple(part.copy() for part in make())


@pytest.hookimpl(tryfirst=True)  # before -m looks at the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a test with `thinned(t)`, cases that add no new combination of t parameters' values get the mark `slow`."""
    families = defaultdict(list)
    for item in items:
        if item.get_closest_marker("thinned") and not item.get_closest_marker("slow"):
            families[item.nodeid.partition("[")[0]].append(item)
    for family in families.values():
        (t,) = family[0].get_closest_marker("thinned").args
        family.sort(key=lambda item: crc32(item.nodeid.encode()))  # so that each value has its share
        shown = {item: set(combinations(parameters(item), t)) for item in family}
        seen: set[tuple[tuple[str, str], ...]] = set()
        for least in range(max(map(len, shown.values())), 0, -1):  # those with most that is new come first
            for item, its in list(shown.items()):
                if len(its - seen) >= least:
                    seen |= shown.pop(item)
        for item in shown:
            item.add_marker("slow")


def parameters(item: pytest.Item) -> list[tuple[str, str]]:
    return sorted((name, repr(value)) for name, value in item.callspec.params.items())
