"""Hydra over the shipped choices: each file is read once per process, where Hydra parses it for every composition.

By Hydra's interfaces for plugins: a source of configurations, and a search path in which that source stands before the
folder of the same files. Hydra's own groups (logging, sweeper, help) are composed with nothing in them. Where all
choices are shipped ones, what they declare, most of their content, stays outside: nothing is merged into it.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.global_hydra import GlobalHydra
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf

from normbench.config import choice_file, compose

SCHEME = "normbench"
GROUPS = ("output", "launcher", "sweeper", "help", "hydra_help", "hydra_logging", "job_logging", "env")
DECLARES = "declares"
_ALONE = threading.RLock()  # Hydra's state is the process', and so are our source's settings


def composed(words: Sequence[str], own: bool) -> compose.Config:
    """What these override words choose; `own`: there are choices of the user's. Errors as Hydra's."""
    for plugin in (ShippedSource, ShippedFirst):
        Plugins.instance().register(plugin)
    with _ALONE:
        ShippedSource.whole = own
        GlobalHydra.instance().clear()
        with initialize_config_dir(str(compose.conf_dir()), version_base="1.3"):
            found = hydra_compose("config", overrides=[*words, *(f"hydra/{group}=[]" for group in GROUPS)])
    merged = OmegaConf.to_container(found, resolve=False)
    assert isinstance(merged, dict)
    return {str(key): value if own else _declaring(value) for key, value in _declaring(merged).items()}


def _apart(node: Any, path: Path) -> Any:
    """With the name of its file in the place of what it declares."""
    return {**node, DECLARES: str(path)} if isinstance(node, dict) and DECLARES in node else node


def _declaring(node: Any) -> Any:
    """The inverse of `_apart`."""
    if not isinstance(node, dict) or not isinstance(node.get(DECLARES), str):
        return node
    content = compose.content(Path(node[DECLARES]))
    inner = content if DECLARES in content else content[Path(node[DECLARES]).parent.name]
    return {**node, DECLARES: copy.deepcopy(inner[DECLARES])}


class ShippedSource(ConfigSource):
    """Files of the shipped folder, which stay as they are, and `compose.torch_choices`."""

    whole: ClassVar[bool] = True  # with what they declare

    @staticmethod
    def scheme() -> str:
        return SCHEME

    def load_config(self, config_path: str) -> ConfigResult:
        path = self._file(config_path)
        text = choice_file.text(path) if path.is_file() else ""
        header, content = self._get_header_dict(text), compose.content(path)
        if not self.whole:
            content = _apart({key: _apart(value, path) for key, value in content.items()}, path)
        # made anew: Hydra takes the nodes out of it
        return ConfigResult(self.provider, self.full_path(), OmegaConf.create(content), header)

    def available(self) -> bool:
        return self.is_group("")

    def is_group(self, config_path: str) -> bool:
        return Path(self.path, config_path).is_dir()

    def is_config(self, config_path: str) -> bool:
        path = self._file(config_path)
        return path.is_file() or path in compose.torch_choices()

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        names: list[str] = []
        for path in Path(self.path, config_path).iterdir():
            self._list_add_result(names, f"{config_path}/{path.name}", path.name, results_filter)
        return sorted({*names})

    def _file(self, config_path: str) -> Path:
        return Path(self.path, self._normalize_file_name(config_path))


class ShippedFirst(SearchPathPlugin):
    """Where the main folder is that of the shipped choices: other uses of Hydra in this process keep their own."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        folder = str(compose.conf_dir())
        if any(place.provider == "main" and place.path == folder for place in search_path.get_path()):
            search_path.prepend(SCHEME, f"{SCHEME}://{folder}", anchor="main")
