"""Runs' ids, computed anew from their configurations; runs that differ in their seed alone are composed once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from normbench.config import compose, identity
from normbench.errors import NormbenchError


class Ids:
    """What this version's maths, and choices beside its own, make of stored configurations.

    Those are in `config_dir`, and, of normalizers that a battery took on, in the results folder itself.
    """

    def __init__(self, config_dir: Path | None = None, results: Path | None = None) -> None:
        self.config_dir = config_dir
        self._batteries = sorted((results / "battery").glob("*/conf")) if results else []
        self._known: dict[str, _Known | NormbenchError] = {}

    def of(self, config: Mapping[str, Any], filed: str = "") -> str:
        """NormbenchError where this version has no such configuration.

        A battery's choice leads to a file that its author goes on changing: where another id than `filed` comes of
        that, nobody can say which of the two was changed, and that is an error too.
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
        if known.battery and filed not in ("", found):
            raise NormbenchError(
                f"with the choices in {known.battery} its id is {found}: the normalizer's file was changed since, or "
                "the configuration"
            )
        return found

    def _found(self, config: Mapping[str, Any]) -> _Known | NormbenchError:
        first = _maths(config, self.config_dir)
        if not isinstance(first, NormbenchError):
            return _Known(first)
        named = json.dumps(config.get("norm"))
        for folder in self._batteries:
            if json.dumps(folder.parent.name) in named:
                found = _maths(config, folder)
                if not isinstance(found, NormbenchError):
                    return _Known(found, folder)
                first = found  # it says more than that there is no such normalizer
        return first


@dataclass(frozen=True)
class _Known:
    """What is hashed, and the battery's folder of choices that was needed for it."""

    maths: dict[str, Any]
    battery: Path | None = None


def _maths(config: Mapping[str, Any], extra: Path | None) -> dict[str, Any] | NormbenchError:
    try:
        restored = compose.restore(config, extra)
        return identity.maths(restored, identity.assign(restored, extra))
    except NormbenchError as error:
        return error
    except OSError as error:
        return NormbenchError(f"a file that it needs cannot be read: {error.filename}: {error.strerror}.")
    except (ArithmeticError, LookupError, TypeError, ValueError, RecursionError) as error:
        return NormbenchError(f"its configuration is none: {error!r:.80}.")
