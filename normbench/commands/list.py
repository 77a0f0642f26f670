"""`normbench list`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from normbench.commands import terminal
from normbench.commands.options import ConfigDir, Json, Results, argument
from normbench.config import compose
from normbench.errors import NormbenchError
from normbench.papers import artifact as artifacts

GROUPS = {"artifacts": "", "models": "model", "norms": "norm", "data": "data"}
EPILOG = """examples:
  normbench list norms
  normbench list data --config-dir DIR    also your own, DIR/data/NAME.yaml (normbench data --help)
  normbench list --json

--json prints, shortened:
  {"artifacts": [{"id": "ln2016/fig6", "title": "LN Fig. 6 · permutation-invariant MNIST"}],
   "models": [{"id": "mnist_mlp", "title": "an MLP for MNIST", "source": "LN 2016, section 6.6", "sites": ["hidden"]}],
   "norms": [{"id": "ada", "title": "AdaNorm", "source": "Xu et al. 2019, section 4"}],
   "data": [{"id": "mnist", "title": "MNIST", "source": "LeCun et al. 1998"}]}
"""


def command(
    results: Results,
    kind: Annotated[Literal["artifacts", "models", "norms", "data"] | None, argument("", show_default="all")] = None,
    config_dir: ConfigDir = None,
    as_json: Json = False,
) -> None:
    """Print every entry with its id and title."""
    content = {name: entries(name, config_dir) for name in ([kind] if kind else GROUPS)}
    if as_json:
        return terminal.say_json(content)
    console = terminal.console()
    for name, listed in content.items():
        terminal.say(console, name)
        width = max(len(entry["id"]) for entry in listed)
        for entry in listed:
            terminal.say_under(console, f"{entry['id']:<{width}}  ", entry["title"])
        terminal.say(console, "")


def entries(kind: str, config_dir: Path | None) -> list[dict[str, Any]]:
    if kind == "artifacts":
        return [{"id": name, "title": artifacts.title(name, config_dir)} for name in artifacts.ids(config_dir)]
    listed: list[dict[str, Any]] = []
    for name in compose.choices(GROUPS[kind], config_dir):
        try:
            declares = compose.declaration(GROUPS[kind], name, config_dir)
        except NormbenchError as error:  # one bad file of the user's must not hide the others
            listed.append({"id": name, "title": f"cannot be used: {error}", "source": ""})
            continue
        replaces = ", replaces the activation" if declares.get("replaces") else ""
        listed.append({"id": name, "title": declares["title"] + replaces, "source": declares["source"]})
        if kind == "models":
            listed[-1]["sites"] = [*declares["sites"]]
    return listed
