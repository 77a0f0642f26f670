"""Runs' ids, computed anew from their configurations; runs that differ in their seed alone are composed once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from normbench import runs
from normbench.config import compose, identity
from normbench.errors import NormbenchError


class Ids:
    """What this version's maths, and choices beside its own, make of stored configurations.

    Those are in `config_dir`, and, of normalizers that were given as a file, in the results folder itself.
    """

    def __init__(self, config_dir: Path | None = None, results: Path | None = None) -> None:
        self.config_dir = config_dir
        self._own = runs.own(results) if results else None
        self._known: dict[str, _Known | NormbenchError] = {}

    def of(self, config: Mapping[str, Any], filed: str = "") -> str:
        """NormbenchError where this version has no such configuration.

        The file of an author's own normalizer goes on changing: of a run that has its hash this version's file need
        not be the same. Where another id than `filed` comes of one, nobody can say what was changed, and that is an
        error too.
        """
        seed = config.get("seed")
        if type(seed) is not int:
            raise NormbenchError(f"its configuration says seed={seed!r:.40}.")
        key = json.dumps({**config, "seed": 0}, sort_keys=True)
        if key not in self._known:
            self._known[key] = self._found(config)
        known = self._known[key]
        if isinstance(known, NormbenchError):
            raise known
        found = identity.hashed({**known.maths, "seed": seed})
        if known.edited and filed not in ("", found):
            raise NormbenchError(
                f"with {known.edited} its id is {found}: the normalizer was changed since, or the configuration"
            )
        return found

    def _found(self, config: Mapping[str, Any]) -> _Known | NormbenchError:
        first = _known(config, self.config_dir)
        if not isinstance(first, NormbenchError):
            return first
        named = json.dumps(config.get("norm"))
        if self._own and any(json.dumps(file.stem) in named for file in self._own.glob("norm/*.yaml")):
            return _known(config, self._own)  # which says more than that there is no such normalizer
        return first


@dataclass(frozen=True)
class _Known:
    """What is hashed, and the files of an author's own normalizers that are, or may be, others than they were."""

    maths: dict[str, Any]
    edited: str = ""


def _known(config: Mapping[str, Any], config_dir: Path | None) -> _Known | NormbenchError:
    try:
        restored = compose.restore(config, config_dir)
        choices = identity.assign(restored, config_dir)
        found = identity.maths(restored, choices)
    except NormbenchError as error:
        return error
    except (ArithmeticError, LookupError, TypeError, ValueError, RecursionError) as error:
        return NormbenchError(f"its configuration is none: {error!r:.80}.")
    had, edited = config.get(identity.OWN, {}), set()
    for path, site in found["sites"].items():
        if "file" in site and had.get(site["name"]) != site["file"]:
            edited.add(choices[path].file)
            site["file"] = had.get(site["name"], site["file"])
    return _Known(found, " and ".join(sorted(edited)))
