"""The shipped choices as Hydra reads them: each file once per process, where Hydra parses it for every composition.

By its interfaces for plugins: a source of configurations, and a search path in which that source stands before the
folder of the same files. Hydra's own groups (logging, sweeper, help) are composed with nothing in them.
"""

from __future__ import annotations

from pathlib import Path

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf

from normbench.config import compose

SCHEME = "normbench"
GROUPS = ("output", "launcher", "sweeper", "help", "hydra_help", "hydra_logging", "job_logging", "env")
WITHOUT_HYDRAS_OWN = [f"hydra/{group}=[]" for group in GROUPS]


class ShippedSource(ConfigSource):
    """Files of a folder that stay as they are."""

    @staticmethod
    def scheme() -> str:
        return SCHEME

    def load_config(self, config_path: str) -> ConfigResult:
        path = self._file(config_path)
        header = self._get_header_dict(compose.text(path))
        # made anew: Hydra takes the nodes out of it
        return ConfigResult(self.provider, self.full_path(), OmegaConf.create(compose.content(path)), header)

    def available(self) -> bool:
        return self.is_group("")

    def is_group(self, config_path: str) -> bool:
        return Path(self.path, config_path).is_dir()

    def is_config(self, config_path: str) -> bool:
        return self._file(config_path).is_file()

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


def register() -> None:
    """Make them known to Hydra, as often as one likes."""
    for plugin in (ShippedSource, ShippedFirst):
        Plugins.instance().register(plugin)
