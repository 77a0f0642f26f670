"""`normbench list` and `normbench data`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from normbench import data
from normbench.commands.terminal import say, say_json, say_under
from normbench.config import compose
from normbench.data import files
from normbench.errors import NormbenchError
from normbench.papers import artifact as artifacts

KINDS = ("artifacts", "models", "norms", "data")
GROUP = {"models": "model", "norms": "norm", "data": "data"}


def show(kind: str | None, as_json: bool, config_dir: Path | None, console: Console) -> int:
    """Print every entry with its id and title, as text or as JSON."""
    kinds = [kind] if kind else list(KINDS)
    content = {name: _entries(name, config_dir) for name in kinds}
    if as_json:
        say_json(content)
        return 0
    for name, entries in content.items():
        say(console, name)
        width = max(len(entry["id"]) for entry in entries)
        for entry in entries:
            say_under(console, f"{entry['id']:<{width}}  ", entry["title"])
        say(console, "")
    return 0


def _entries(kind: str, config_dir: Path | None) -> list[dict[str, Any]]:
    if kind == "artifacts":
        return [{"id": name, "title": artifacts.title(name, config_dir)} for name in artifacts.ids(config_dir)]
    group = GROUP[kind]
    entries = []
    for name in compose.choices(group, config_dir):
        try:
            declares = compose.declaration(group, name, config_dir)
        except NormbenchError as error:  # one bad file of the user's must not hide the others
            entries.append({"id": name, "title": f"cannot be used: {error}", "source": ""})
            continue
        entry = {"id": name, "title": declares["title"], "source": declares["source"]}
        if kind == "models":
            entry["sites"] = list(declares["sites"])
        entries.append(entry)
    return entries


def data_sets(console: Console, config_dir: Path | None = None) -> int:
    """Print each data set and its state."""
    for name, state in states(config_dir):
        title = compose.declaration("data", name, config_dir)["title"]
        say_under(console, f"{name:<17} ", f"{title}: {state}")
    root = data.root()
    other = "" if os.path.isdir(root) or _absent(root) else ", which is no folder that can be read"
    say(console, f"looked in {root} (NORMBENCH_DATA){other}")
    return 0


def states(config_dir: Path | None = None) -> Iterator[tuple[str, str]]:
    """Every data set's name and state, with the command that mends it."""
    for name in compose.choices("data", config_dir):
        yield name, _state(compose.choice("data", name, config_dir))


def _state(config: Mapping[str, Any]) -> str:
    """ready, missing, damaged or in need of registration, with the remedy."""
    root, config = data.root(), data.made_of(config)
    names = [name for kind in files.KINDS for name in files.declared(config, kind)]
    if not names:
        return "ready (embedded)"
    if all(_absent(files.find(root, name, os.path.exists)) for name in names):
        return f"missing. {files.remedy(config, root, names[0])}"
    if problems := data.problems(config):
        return problems[0]
    if not (paths := files.paths(config, root)):
        return "ready"
    remark = files.remark(config, root)
    total = sum(path.stat().st_size for path in paths)
    return f"ready, {total / 1e6:.1f} MB" + (f"; {remark}" if remark else "")


def _absent(place: Path) -> bool:
    """Whether nothing is there; False where that cannot be seen."""
    try:
        place.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        pass
    return False


def data_get(name: str, console: Console, config_dir: Path | None = None) -> int:
    """Download a data set: the one command that uses the network."""
    from normbench.data import fetch

    compose.choice_path("data", name, config_dir)
    config = data.made_of(compose.choice("data", name, config_dir))
    if files.only_users_have(config):
        here = data.problems(config)
        raise NormbenchError(f"{name}: its files are yours to bring. {here[0] if here else 'They are there.'}")
    if not files.declared(config):
        raise NormbenchError(f"{name} is embedded: there is nothing to bring.")
    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn()
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress:
        tasks: dict[str, Any] = {}

        def show(file: str, done: int, total: int | None) -> None:
            if file not in tasks:
                tasks[file] = progress.add_task(file, total=total)
            # complete files are hidden: a set may have a hundred
            progress.update(tasks[file], completed=done, total=total, visible=done != total)

        brought = fetch.get(config, progress=show, waiting=lambda line: say(console, line))
    lines = [f"brought {path}" for path in brought] or [f"{name} is complete below {data.root()}"]
    if remark := files.remark(config, data.root()):
        lines.append(f"{name}: {remark}")
    if brought and "terms" in config["declares"]:
        lines.append(f"terms of use: {config['declares']['terms']}")
    for line in lines:
        say(console, line)
    return 0


def data_prepare(name: str, images: Path | None, weights: Path | None, device: str, console: Console) -> int:
    """Extract the features of a set whose images the user has."""
    compose.choice_path("data", name)
    config, root = compose.choice("data", name), data.root()
    try:
        extract = data.function(config, "extract_")
    except NormbenchError:
        raise NormbenchError(
            f"{name} has no features to extract from images. (normbench data says what is missing)"
        ) from None
    if images is None or weights is None:
        raise NormbenchError(f"data prepare {name} needs --images DIR and --weights FILE.")
    for path, what in ((images, "--images"), (weights, "--weights")):
        if not path.exists():
            raise NormbenchError(f"{what} {path} does not exist.")
    from normbench.train import environment

    environment.device(device)  # refuses a missing device before everything is read
    with Progress(console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task("features", total=None)
        written = extract(
            config, root, images, weights, device, lambda done, all: progress.update(task, completed=done, total=all)
        )
    say(console, f"wrote {written}")
    return 0
