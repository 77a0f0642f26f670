"""Runs' ids, computed anew from their configurations; runs that differ in their seed alone are composed once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from normbench.config import compose, identity
from normbench.errors import NormbenchError


class Ids:
    """What this version's maths, and the choices in `config_dir` beside its own, make of stored configurations."""

    def __init__(self, config_dir: Path | None = None) -> None:
        self._extra = config_dir
        self._known: dict[str, dict[str, Any] | NormbenchError] = {}

    def of(self, config: Mapping[str, Any]) -> str:
        """NormbenchError where this version has no such configuration."""
        seed = config.get("seed")
        if type(seed) is not int:
            raise NormbenchError(f"its configuration says seed={seed!r:.40}.")
        key = json.dumps({**config, "seed": 0}, sort_keys=True)
        if key not in self._known:
            self._known[key] = self._maths(config)
        found = self._known[key]
        if isinstance(found, NormbenchError):
            raise found
        return identity.hashed({**found, "seed": seed})

    def _maths(self, config: Mapping[str, Any]) -> dict[str, Any] | NormbenchError:
        try:
            restored = compose.restore(config, self._extra)
            return identity.maths(restored, identity.assign(restored, self._extra))
        except NormbenchError as error:
            return error
        except (ArithmeticError, LookupError, TypeError, ValueError, RecursionError) as error:
            return NormbenchError(f"its configuration is none: {error!r:.80}.")
