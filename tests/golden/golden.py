"""The files that the guards compare with, and how each is made: python tests/golden/golden.py [NAME ...]

A golden file is written once, by the commit before the change that it guards; then a difference is an error of the
change. `judge`: `python tests/golden/golden.py judge FOLDER` compares the verdicts in a results folder, see
`scripts/judge_again.sh`.
"""

from __future__ import annotations

import ast
import contextlib
import csv
import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from normbench.files.stored import RUN_GROUPS

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PACKAGE = ROOT / "normbench"
NUMBERS = ("effect", "interval", "level", "n", "prediction", "tost", "signed_rank", "sign_test", "detectable")


def read(name: str) -> Any:
    return json.loads((HERE / f"{name}.json").read_text())


def losses() -> dict[str, list[float]]:
    """Losses of three updates of every model with three normalizers: float64, one thread."""
    sys.path[:0] = [str(HERE.parent), str(HERE.parent / "models")]
    import torch
    from smallest import MODELS, able
    from test_models import losses as of  # type: ignore[import-not-found]

    torch.set_num_threads(1)
    pairs = [(model, norm) for model in MODELS for norm in ("none", "batch", "layer") if able(model, norm)]
    return {f"{model} {norm}": of(model, norm, 3, torch.float64) for model, norm in pairs}


def commands() -> dict[str, list[str]]:
    """The options of every command, as its help names them."""
    listed = helped().split("\nCommands:")[1].split("\nexamples:")[0]
    return {name: options(name) for name in re.findall(r"^  ([a-z][a-z-]+)\b", listed, re.MULTILINE)}


def options(command: str) -> list[str]:
    return sorted(set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", helped(command).split("\nexamples:")[0])))


def helped(*words: str) -> str:
    from normbench.cli import main

    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.suppress(SystemExit):
        main((*words, "--help"))
    return out.getvalue()


def arrows() -> list[str]:
    """Which room of the package imports which: `room -> room`. A file directly in the package is a room too, and the
    probes of all papers are one.
    """
    found = set()
    for path in PACKAGE.rglob("*.py"):
        here = path.relative_to(PACKAGE)
        room = "probes" if "probes" in here.parts else here.parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text())):
            found |= {f"{room} -> {other}" for other in imported(node) if other != room}
    return sorted(found)


def imported(node: ast.AST) -> set[str]:
    """The rooms that an import statement names."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        names = [f"{node.module}.{alias.name}" for alias in node.names]
    else:
        return set()
    parts = [name.split(".") for name in names if name.startswith("normbench.")]
    return {part[1] for part in parts if (PACKAGE / part[1]).is_dir() or (PACKAGE / f"{part[1]}.py").is_file()}


def defaults() -> dict[str, dict[str, Any]]:
    """Of components with published runs, and of `train`, all options at their defaults; of presets their values."""
    from normbench.config import compose, identity
    from normbench.runs import pack

    ours = pack.own(ROOT / "results")  # what somebody made in this checkout is not published
    packs = (path for path in pack.published(ROOT / "results") if ours not in path.parents)
    configs = (run.config for path in packs for run in pack.read(path).runs)
    used = set()
    for config in {json.dumps({**config, "seed": 0}): config for config in configs}.values():
        choices = identity.assign(compose.restore(config)).values()
        used |= {(group, config[group]["name"]) for group in RUN_GROUPS}
        used |= {("norm", name) for choice in choices for name in (choice.name, choice.preset) if name}
    found = {f"{group}={name}": compose.defaults(group, name) for group, name in used}
    for name in [name for group, name in used if group == "norm" and "like" in compose.declaration(group, name)]:
        preset = compose.choice("norm", name)
        keys = {*preset["declares"]["options"], "sites", "preceding_bias"}
        found[f"norm={name}"] = {key: preset[key] for key in sorted(keys)} | {"at": preset["declares"].get("at", {})}
    return {"train": compose.root_defaults("train"), **found}


def verdicts(results: Path = ROOT / "results") -> dict[str, Any]:
    """Of every published verdict its word and numbers; of every table its cells; sentences are left out."""
    found = {}
    for path in sorted(results.glob("*/*/*/verdicts.json")):
        if path.parent.name == "smoke":
            continue
        node = json.loads(path.read_text())
        cells = list(csv.reader(io.StringIO((path.parent / "table.csv").read_text())))
        found[path.parent.relative_to(results).as_posix()] = {
            "pack": node["pack_sha256"],
            "claims_sha256": node["claims_sha256"],
            "claims": {
                claim["id"]: {
                    "words": [claim[key] for key in ("verdict", "word", "robustness")],
                    **numbers(claim),
                    "parts": {part["id"]: [part["word"], numbers(part)] for part in claim["parts"]},
                }
                for claim in node["claims"]
            },
            "table": cells,
        }
    return found


def numbers(node: dict[str, Any]) -> dict[str, Any]:
    return {key: node[key] for key in NUMBERS if node.get(key) is not None}


def judge(results: Path) -> int:
    """Compare a folder that today's code has judged with the golden verdicts; print every difference."""
    golden, published, ours = read("verdicts"), verdicts(), verdicts(results)
    differences = []
    for name in sorted(golden.keys() | published.keys() | ours.keys()):
        wanted = golden.get(name)
        if wanted is None or (name in published and wanted["pack"] != published[name]["pack"]):
            print(f"{name}: its pack is newer than the golden verdicts; compared with its own publication")
            wanted = published.get(name)
        differences += [f"{name} {line}" for line in compare(wanted, ours.get(name))]
    print("\n".join(differences) or f"no difference in {len(golden)} publications")
    return 1 if differences else 0


def compare(wanted: Any, found: Any, at: str = "") -> list[str]:
    if isinstance(wanted, dict) and isinstance(found, dict):
        keys = sorted(wanted.keys() | found.keys())
        return [line for key in keys for line in compare(wanted.get(key), found.get(key), f"{at}/{key}")]
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        pairs = enumerate(zip(wanted, found, strict=True))
        return [line for i, (a, b) in pairs for line in compare(a, b, f"{at}/{i}")]
    return [] if wanted == found else [f"{at}: {found} instead of {wanted}"]


def lines(node: Any) -> str:
    """JSON with a line for each entry of the outermost map or list."""
    if isinstance(node, list):
        return "[\n" + ",\n".join(json.dumps(entry) for entry in node) + "\n]\n"
    return "{\n" + ",\n".join(f"{json.dumps(key)}: {json.dumps(node[key])}" for key in sorted(node)) + "\n}\n"


MAKERS: dict[str, Callable[[], Any]] = {
    "losses": losses,
    "commands": commands,
    "arrows": arrows,
    "defaults": defaults,
    "verdicts": verdicts,
}

if __name__ == "__main__":
    if sys.argv[1:2] == ["judge"]:
        sys.exit(judge(Path(sys.argv[2])))
    for name in sys.argv[1:] or MAKERS:
        (HERE / f"{name}.json").write_text(lines(MAKERS[name]()))
