"""The YAML file of a choice, read once per process: as OmegaConf reads it, but by libyaml, ten times as fast."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import yaml

from normbench.errors import BadInput
from normbench.files import reading

LARGEST = 1 << 20  # bytes


class Loader(reading.Loader):
    """1e-3 is a number, as it is in JSON; no key stands twice; `<<` is read, as such files come with code to run."""

    flatten_mapping = reading.SAFE_LOADER.flatten_mapping

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Any:
        names = set()
        for key, _ in node.value:
            if key.tag != reading.TEXT:
                continue
            if key.value in names:
                raise yaml.constructor.ConstructorError(
                    "while constructing a mapping", node.start_mark, f"found duplicate key {key.value}", key.start_mark
                )
            names.add(key.value)
        return super().construct_mapping(node, deep)


Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(?:_[0-9]+)*(?:\.[0-9_]*)?[eE][-+]?[0-9]+\Z"), [*"-+0123456789"]
)


def read(path: Path) -> dict[Any, Any]:
    """As data; of an empty file no keys. NormbenchError where it cannot be read, or holds something else."""
    try:
        node = reading.load_yaml(reading.read(path, LARGEST).decode(), Loader)
    except (yaml.YAMLError, OSError, ValueError, RecursionError) as error:
        raise BadInput(f"{path} cannot be read: {error}") from None
    if not isinstance(node, dict | None):
        raise BadInput(f"{path} must hold keys and values.")
    return node or {}


content = functools.cache(read)  # which nobody may change
