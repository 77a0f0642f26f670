"""What several files of tests ask of trainings."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tiny


@pytest.fixture(scope="session")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[bytes, bytes]]:
    """What an undisturbed run ends with, by its words; each is trained once."""
    made: dict[tuple[str, ...], tuple[bytes, bytes]] = {}

    def result(*words: str) -> tuple[bytes, bytes]:
        if words not in made:
            folder = tmp_path_factory.mktemp("calm") / "run"
            assert tiny.train(folder, *words) == "done"
            made[words] = tiny.result(folder)
        return made[words]

    return result
