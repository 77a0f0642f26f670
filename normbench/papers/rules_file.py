"""The numbers of `rules.yaml`, which `rules` decides by."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

RULES: Mapping[str, Any] = yaml.safe_load((Path(__file__).parent / "rules.yaml").read_text(encoding="utf-8"))
ALPHA: float = RULES["alpha"]
FEWEST: int = RULES["fewest_seeds"]
POWER: float = RULES["power"]
