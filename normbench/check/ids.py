"""Runs' ids, computed anew from their configurations; runs that differ in their seed alone are composed once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from normbench import runs
from normbench.config import compose, identity
from normbench.errors import BadInput, NormbenchError
from normbench.files.stored import OWN


class Ids:
    """Computes ids with this version's maths and choices.

    A user's choices are in `config_dir`; normalizers that were given as a file are in the results folder itself.
    """

    def __init__(self, config_dir: Path | None = None, results: Path | None = None) -> None:
        self.config_dir = config_dir
        self._own = runs.own(results) if results else None
        self._cache: dict[str, _Maths | NormbenchError] = {}

    def of(self, config: Mapping[str, Any], filed: str = "") -> str:
        """NormbenchError where this version has no such configuration.

        A user may edit the file of a normalizer after the run. If that file has another hash than the run recorded,
        and the id differs from `filed`, either may have changed, and that is an error too.
        """
        key = json.dumps({**config, "seed": 0}, sort_keys=True)
        if key not in self._cache:
            self._cache[key] = self._found(config)
        cached = self._cache[key]
        if isinstance(cached, NormbenchError):
            raise cached
        computed = identity.hashed({**cached.maths, "seed": config.get("seed")})
        if cached.edited and filed not in ("", computed):
            raise BadInput(
                f"with {cached.edited} its id is {computed}: the normalizer was changed since, or the configuration"
            )
        return computed

    def _found(self, config: Mapping[str, Any]) -> _Maths | NormbenchError:
        first = _restored(config, self.config_dir)
        if not isinstance(first, NormbenchError):
            return first
        named = json.dumps(config.get("norm"))
        if self._own and any(json.dumps(file.stem) in named for file in self._own.glob("norm/*.yaml")):
            return _restored(config, self._own)  # its error is more specific than an unknown normalizer
        return first


@dataclass(frozen=True)
class _Maths:
    """The hashed content, and the files of a user's normalizers that were, or may have been, edited."""

    maths: dict[str, Any]
    edited: str = ""


def _restored(config: Mapping[str, Any], config_dir: Path | None) -> _Maths | NormbenchError:
    try:
        restored = compose.restore(config, config_dir)
        choices = identity.assign(restored, config_dir)
        maths = identity.maths(restored, choices)
    except NormbenchError as error:
        return error
    except (ArithmeticError, LookupError, TypeError, ValueError, RecursionError) as error:
        return BadInput(f"its configuration is none: {error!r:.80}.")
    files = identity.own_files(restored, choices)
    recorded, edited = config.get(OWN, {}), set()
    for name, part in identity.own_parts(maths):
        if recorded.get(name) != part["file"]:
            edited.add(files[name])
            part["file"] = recorded.get(name, part["file"])
    return _Maths(maths, " and ".join(sorted(edited)))
