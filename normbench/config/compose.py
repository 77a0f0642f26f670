"""From override words to one checked configuration, by Hydra's compose API.

Hydra composes once per set of group choices (50 ms); values are applied afterwards. Every word is looked up before
it is used, so a typo in a group, a choice or a key becomes one line with the nearest name.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from normbench import reading, schema, user_code
from normbench.config import choice_file, grammar
from normbench.errors import NormbenchError, did_you_mean, unknown
from normbench.stored import LABELS, LATER_GROUPS, RUN_GROUPS

if TYPE_CHECKING:  # imported late: commands that compose nothing do without it
    from hydra.core.override_parser.types import Override

NOUN = {"norm": "normalizer", "data": "data set", "optim": "optimizer", "clip": "way of clipping"}
DECLARED = "data.declares."  # how a model's sites ask for a size that its data declare
CODED = ("norm", "model", "data")  # groups whose code may be a file of the user's
READ = {"train_size"}  # what a data set declares once models read it
MARKS = {*READ, "classes", "features"}  # what tells that they do: the others it has or has not
# ... and `shape: [height, width, channels]`, `[time, features]`, `[time, word]`, `[document, question]`,
# `[image, captions]`, `[strokes, characters]` or `[sentence, next, previous]`, where inputs are images, sequences,
# numbers of words, cloze questions, features of images with captions, lines of writing or neighbouring sentences; a
# model of those declares the one that it `reads`
ALONE = "norm"  # the group that no shipped choice of another group changes: Hydra need not merge it
Config = dict[str, Any]


@functools.cache
def conf_dir() -> Path:
    """The shipped choices: `conf/` beside the package in a checkout, inside it in an installed wheel."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "conf"
    return inside if inside.is_dir() else package.parent / "conf"


def search_dirs(config_dir: Path | None) -> list[Path]:
    """The user's own `--config-dir` first, then the shipped choices."""
    if config_dir is not None and not config_dir.is_dir():
        raise NormbenchError(f"--config-dir {config_dir} is not a directory.")
    return ([config_dir.resolve()] if config_dir else []) + [conf_dir()]


def is_shipped(path: Path) -> bool:
    """Whether a choice's file is one of ours: the tests validate those, so that composing need not."""
    return path.is_relative_to(conf_dir())


@functools.cache
def torch_choices() -> dict[Path, Config]:
    """The choices that `conf/torch.yaml` lists instead of a file each, by the path that such a file would have."""
    found = {}
    for group, listed in choice_file.content(conf_dir() / "torch.yaml").items():
        for name, facts in listed["choices"].items():
            defaults, title = facts.get("options", {}), f"{listed['module']}.{facts['class']}"
            specs = {
                key: {**listed["options"][key], **({"list": True, "length": len(v)} if isinstance(v, list) else {})}
                for key, v in defaults.items()
            }
            declares = {"title": title, "source": title, "maths": 1, **facts, "options": specs}
            found[conf_dir() / group / f"{name}.yaml"] = {"name": name, **defaults, "declares": declares}
    return found


def content(path: Path) -> Any:
    """What a choice's file holds, or would hold. Errors as of `choice_file.content`."""
    return torch_choices()[path] if path in torch_choices() else choice_file.content(path)


def choices(group: str, config_dir: Path | None = None) -> list[str]:
    """Names in a group, e.g. `choices("norm")`; nested ones with slashes (`ln2016/fig6`)."""
    listed = {path.stem for path in torch_choices() if path.parent == conf_dir() / group}
    names = {
        path.relative_to(base / group).with_suffix("").as_posix()
        for base in search_dirs(config_dir)
        for path in (base / group).rglob("*.yaml")
    }
    return sorted(names | listed)


def is_probe(model: str, config_dir: Path | None = None) -> bool:
    """Whether a model is examined instead of trained."""
    return bool(declaration("model", model, config_dir).get("probe"))


@functools.cache
def choice_path(group: str, name: str, config_dir: Path | None = None) -> Path:
    """The YAML file of a choice, or where it would be; a name that does not exist is answered with the nearest one."""
    found = [
        path
        for base in search_dirs(config_dir)
        if name
        and ((path := base / group / f"{name}.yaml").is_file() or path in torch_choices())
        and path.resolve().is_relative_to(base / group)
    ]
    if len(found) > 1 and group in grammar.GROUPS:  # Hydra goes on with the shipped one: never silently not the user's
        raise NormbenchError(f"{found[0]}: there is a shipped {group}={name}. Give it another name.")
    if found:
        if group in grammar.GROUPS:
            grammar.check_name(str(found[0]), name)
        return found[0]
    listed = {"model": "models", "norm": "norms", "data": "data", "experiment": "artifacts"}
    names = choices(group, config_dir)
    if group in listed:
        listing = f"normbench list {listed[group]}{_of_ones_own(group, name, config_dir)}"
    else:
        names = [other for other in names if can_be_chosen(group, other, config_dir)]
        listing = ", ".join(names)
    if group == "norm" and (user_code.is_normalizer_file(name) or Path(f"{name}.py").is_file()):
        commands = "normbench train norm=FILE.py, normbench battery --norm FILE.py"
        listing = f"one's own: {commands}; at single sites by its name: --config-dir DIR, with DIR/norm/NAME.yaml"
    noun = NOUN.get(group, group)
    article = "an" if noun[0] in "aeiou" else "a"
    raise unknown(f"{group}={name} is not {article} {noun}.", name, names, listing)


def _of_ones_own(group: str, name: str, config_dir: Path | None) -> str:
    """Where a choice of this name would lie, if it is one of the user's own: what a stored run names may be."""
    if not name or ".." in name or grammar.NO_NAME.search(name):
        return ""
    if config_dir is None:
        file = ", or norm=FILE.py" if group == "norm" else ""
        return f"; one's own: --config-dir DIR, with DIR/{group}/{name}.yaml{file}"
    return f"; {config_dir / group / name}.yaml is not there"


def forget() -> None:
    """Read files anew from now on: one was changed."""
    files = (choice_file.text, choice_file.content, torch_choices)
    for cached in (*files, choice_path, choice, declaration, _compose_groups, _chosen):
        cached.cache_clear()


@functools.cache
def choice(group: str, name: str, config_dir: Path | None = None) -> Config:
    """The content of a choice file as data, without what it inherits."""
    path = choice_path(group, name, config_dir)
    try:
        node = copy.deepcopy(content(path))
    except (yaml.YAMLError, OSError, ValueError, RecursionError) as error:
        raise NormbenchError(f"{path} cannot be read: {error}") from None
    if not isinstance(node, dict):
        raise NormbenchError(f"{path} must hold keys and values.")
    _refuse_interpolation(str(path), node)
    defaults = node.pop("defaults", None)
    for entry in defaults if isinstance(defaults, list) else []:  # what Hydra reads with it
        for key, other in entry.items() if isinstance(entry, dict) else []:
            if (part := str(key).rpartition("/")[2].partition("@")[0]) in grammar.GROUPS and isinstance(other, str):
                choice(part, other, config_dir)
    found = {str(key): value for key, value in node.items()}
    if group in grammar.GROUPS and not is_shipped(path):
        from normbench.config import declaration_keys  # late: it validates

        declaration_keys.check(group, path, found)
    _place_file(found.get(group, found), path)
    if group == "data":
        _find_owner(found, config_dir)
    return found


def _refuse_interpolation(place: str, node: Any) -> None:
    """No value of the environment, or of anything else that OmegaConf asks, may get into a run."""
    if found := reading.interpolation(node):
        raise NormbenchError(f"{place}: {found!r}: interpolations ${{...}} are not known here. Write the value.")


def _place_file(node: Config, path: Path) -> None:
    """`declares.file` of a user's own normalizer, model or data set is written relative to its YAML."""
    if "file" in (declares := node.get("declares") or {}):
        declares["file"] = str((path.parent / declares["file"]).resolve())
        if not Path(declares["file"]).is_file():
            raise NormbenchError(f"{path}: declares.file {declares['file']} does not exist.")


def _find_owner(node: Config, config_dir: Path | None) -> None:
    """A data set made of another one's files, `declares.files_of: NAME`, gets that one's content for its name; one with
    downstream tasks, `declares.tasks: [NAMES]`, those of the sets that these are; a user's own in a shipped one's
    format, `declares.like: NAME`, what it does not declare itself.
    """
    declares = node.get("declares") or {}
    if "like" in declares:
        node["declares"] = _like(f"data={node.get('name')}: declares", declares)
        return
    if "files_of" in declares:
        declares["files_of"] = choice("data", declares["files_of"], config_dir)
    if "tasks" in declares:
        declares["tasks"] = [choice("data", name, config_dir) for name in declares["tasks"]]


def _like(place: str, own: Config) -> Config:
    """What a user's own data set declares, completed by the shipped one of its format."""
    shipped = choice("data", str(own["like"]))["declares"]
    if "format" not in shipped:
        formats = [name for name in choices("data") if "format" in choice("data", name)["declares"]]
        raise unknown(f"{place}.like={own['like']} is no format for data of your own.", str(own["like"]), formats)
    taken = {key: shipped[key] for key in ("maths", "classes", "features", "sizes", "train_size", "options")}
    if len(own["files"]) != len(shipped["files"]):
        raise NormbenchError(f"{place}.files must be {shipped['format']}, each with its md5 or sha256 or nothing.")
    declares = {**taken, **own, "files": {name: checksum or "" for name, checksum in own["files"].items()}}
    if declares["sizes"].keys() != shipped["sizes"].keys():
        raise NormbenchError(f"{place}.sizes must be of {' and '.join(shipped['sizes'])}.")
    return {**declares, "train_size": {**shipped["train_size"], "of": declares["sizes"]["train"]}}


@functools.cache
def declaration(group: str, name: str, config_dir: Path | None = None) -> Config:
    """The `declares` block of a choice: title, source, maths version, options, sites; readable without torch."""
    node = choice(group, name, config_dir)
    return dict(node.get(group, node)["declares"])


def normalizer(name: str, config_dir: Path | None = None) -> Config:
    """The choice of a normalizer for a single site, checked as one of all sites is."""
    node, path = choice("norm", name, config_dir), choice_path("norm", name, config_dir)
    if node.get("name") != name:
        raise NormbenchError(f"{path} must say name: {name}, as its file is called.")
    return node


@functools.cache
def root_declaration() -> Config:
    """The `declares` block of the root: the options of training and evaluation."""
    return dict(choice_file.content(conf_dir() / "config.yaml")["declares"])


def can_be_chosen(group: str, name: str, config_dir: Path | None = None) -> bool:
    """Whether a run can have this choice: some are declared only for the reason why not."""
    facts = declaration(group, name, config_dir)
    return "refused" not in facts and (group != "data" or bool(MARKS & facts.keys()))


# --- composing -------------------------------------------------------------------------------------------------------


@functools.cache
def _compose_groups(selection: tuple[tuple[str, str], ...], config_dir: Path | None) -> Config:
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    from normbench.config import shipped

    words = [f"{group}={name}" for group, name in selection]
    for group, name in selection:
        choice(group, name, config_dir)
    rest = tuple((group, name) for group, name in selection if group != ALONE)
    if len(rest) < len(selection) and config_dir is None:
        return {
            **_compose_groups(rest, None),
            ALONE: copy.deepcopy(content(choice_path(ALONE, dict(selection)[ALONE]))),
        }
    if config_dir is not None:
        path = str(config_dir.resolve()).replace("\\", "\\\\").replace("'", "\\'")
        words.append(f"hydra.searchpath=['file://{path}']")
    try:
        config = shipped.composed(words, own=config_dir is not None)
    except (HydraException, OmegaConfBaseException, yaml.YAMLError, OSError) as error:
        raise NormbenchError(f"configuration {' '.join(words)}: {error}") from None
    _refuse_interpolation(" ".join(words), config)
    return config


def compose(overrides: Sequence[Override], config_dir: Path | None = None) -> Config:
    """One checked configuration as data, with each component's `declares` block still in it.

    Later words win. Errors: unknown group choice, unknown key, wrong type or range, no model.
    """
    return checked(_unchecked(overrides, config_dir))


def _unchecked(overrides: Sequence[Override], config_dir: Path | None) -> Config:
    groups = {o.key_or_group: o for o in overrides if o.key_or_group in grammar.GROUPS}
    selection = {}
    for group, override in groups.items():
        name = override.value()
        choice_path(group, str(name), config_dir)
        selection[group] = str(name)
    if "model" not in selection:
        words = [*grammar.GROUPS, *LABELS]
        for key in (o.key_or_group for o in overrides):
            if key not in words and did_you_mean(key, words):
                raise unknown(f"{key} is not an option.", key, words)
        raise NormbenchError("no model given. Write model=NAME or experiment=NAME arm=NAME. (normbench list models)")
    chosen, keys = _chosen(tuple(sorted(selection.items())), config_dir)
    config: Config = _copied(chosen)
    for override in overrides:
        key = override.key_or_group
        if key in grammar.GROUPS:
            continue
        if key not in keys:
            raise unknown(f"{key} is not an option.", key, sorted(keys.union(grammar.GROUPS, LABELS)))
        *path, last = key.split(".")
        node = config
        for name in path:
            node = node[name]
        node[last] = override.value()
    _one_budget(config, {o.key_or_group for o in overrides})
    return config


def _copied(value: Any) -> Any:
    """Without the declarations, which all configurations of the same choices share: nobody changes them."""
    if isinstance(value, dict):
        return {key: inner if key == "declares" else _copied(inner) for key, inner in value.items()}
    return [_copied(inner) for inner in value] if isinstance(value, list) else value


def _one_budget(config: Config, given: Set[str]) -> None:
    """Who says one of `train.epochs` and `train.steps` need not take back the model's other one."""
    for unit, other in (("epochs", "steps"), ("steps", "epochs")):
        if f"train.{unit}" in given and f"train.{other}" not in given and config["train"][unit]:
            config["train"][other] = 0


@functools.cache
def _chosen(choices: tuple[tuple[str, str], ...], config_dir: Path | None) -> tuple[Config, set[str]]:
    """What these choices give before any value is set, and the keys that can be."""
    selection = dict(choices)
    config = copy.deepcopy(_compose_groups(choices, config_dir))  # what follows is written into it
    keys = _option_keys(config, selection, config_dir)
    for group in selection.keys() & {"optim", *LATER_GROUPS}:  # a model's own options are of its choice there
        options = config[group]["declares"].get("options") or {}
        config[group] = {k: v for k, v in config[group].items() if k in ("name", "declares") or k in options}
    for group in CODED:
        _place_file(config[group], choice_path(group, config[group]["name"], config_dir))
    _find_owner(config["data"], config_dir)
    return config, keys


def command_choice(group: str, name: str | None, config_dir: Path | None = None) -> Config:
    """The launcher or logger called `name`, or the default one, with its declarations."""
    search_dirs(config_dir)  # refused here: Hydra warns of a folder that is not there and goes on
    if name is not None:
        choice_path(group, name, config_dir)
    return dict(_compose_groups(((group, name),) if name is not None else (), config_dir)[group])


def _option_keys(config: Config, selection: Mapping[str, str], config_dir: Path | None) -> set[str]:
    keys = set(config["declares"]["options"])
    for group in grammar.GROUPS:
        node = config.get(group) or {}
        if "name" not in node and group not in selection:
            path = choice_path("model", selection["model"], config_dir)
            raise NormbenchError(f"{path} has no {group}: write /{group}: NAME below defaults, or add {group}=NAME.")
        if "name" not in node or selection.get(group, node["name"]) != node["name"]:
            place = choice_path(group, selection.get(group, str(node.get("name"))), config_dir)
            raise NormbenchError(f"{place} must say name: {selection.get(group, '...')}, as its file is called.")
        facts = declaration(group, node["name"], config_dir)
        if "refused" in facts:  # declared for its reason
            raise NormbenchError(f"{group}={node['name']} {facts['refused']}.")
        if group == "data":
            _refuse_unread(node["name"], config_dir)
        keys |= {f"{group}.{key}" for key in node if key not in ("name", "declares")}
    _refuse_unfit(config, config_dir)
    return keys


def _refuse_unread(name: str, config_dir: Path | None) -> None:
    if not can_be_chosen("data", name, config_dir):
        read = [other for other in choices("data", config_dir) if can_be_chosen("data", other, config_dir)]
        raise NormbenchError(
            f"data={name} can be brought, but no model here reads it yet. (data sets that are read: {', '.join(read)})"
        )


def _refuse_unfit(config: Config, config_dir: Path | None) -> None:
    """Images or sequences for a model of vectors, and the other way round; a model to be trained, and by nothing."""
    model, data = config["model"]["name"], config["data"]["name"]
    if not is_probe(model, config_dir) and "class" not in config["optim"]["declares"]:
        raise NormbenchError(f"optim={config['optim']['name']} trains nothing: model={model} needs another.")
    wanted, given = (
        declaration("model", model, config_dir).get("reads"),
        declaration("data", data, config_dir).get("shape"),
    )
    if wanted != given:
        reads, has = (f"inputs of {' x '.join(map(str, s))}" if s else "vectors" for s in (wanted, given))
        facts = {other: declaration("data", other, config_dir) for other in choices("data", config_dir)}
        sizes = [str(spec.get("features")) for spec in declaration("model", model, config_dir)["sites"].values()]
        needed = {*READ, *(size.removeprefix(DECLARED) for size in sizes if size.startswith(DECLARED))}
        fitting = [other for other, f in facts.items() if needed <= f.keys() and f.get("shape") == wanted]
        raise NormbenchError(f"model={model} reads {reads}, data={data} has {has}. (that fit: {', '.join(fitting)})")


def checked(config: Config) -> Config:
    """The configuration with every option in its declared type; anything undeclared is refused."""
    config = dict(config)
    root = config["declares"]["options"]
    flat = {key: config[key] for key in grammar.SCALARS} | {
        f"{part}.{key}": v for part in grammar.PARTS for key, v in config[part].items()
    }
    for key, value in flat.items():
        if key not in root:
            raise unknown(f"{key} is not an option.", key, sorted(root))
        flat[key] = schema.check(key, value, root[key])
    config |= {key: flat[key] for key in grammar.SCALARS}
    for part in grammar.PARTS:
        config[part] = {key: flat[f"{part}.{key}"] for key in config[part]}
    if bool(config["train"]["epochs"]) == bool(config["train"]["steps"]):
        given = " and ".join(f"train.{unit}={config['train'][unit]}" for unit in ("epochs", "steps"))
        raise NormbenchError(f"{given}: a run is as long as one of them says, and the other is 0.")
    for group in grammar.GROUPS:
        node = config[group]
        special = {"name", "declares"} | ({"sites", "preceding_bias"} if group == "norm" else set())
        options = schema.check_options(group, node, node["declares"].get("options") or {}, special)
        config[group] = {**node, **options}
    bias = {"type": "str", "choices": ["site", "keep", "drop"]}
    schema.check("norm.preceding_bias", config["norm"]["preceding_bias"], bias)
    return config


def restore(stored: Mapping[str, Any], config_dir: Path | None = None) -> Config:
    """The configuration of a stored run, composed anew: choices by name, then the stored values.

    A stored file can only choose among registered names and set declared options; it never imports code.
    """
    try:
        words = [f"{group}={stored[group]['name']}" for group in RUN_GROUPS if group in stored]
        words += [f"{group}=none" for group in LATER_GROUPS if group not in stored]
        config = _unchecked(
            grammar.parse(words), config_dir
        )  # some options have no value until the stored one is there
        for group in RUN_GROUPS:
            if group in stored:
                facts = config[group]["declares"]
                config[group] = {**schema.legacy_defaults(facts), **stored[group], "declares": facts}
        _one_budget(config, {f"train.{key}" for key, value in stored["train"].items() if value})
        config["train"] = {**config["train"], **schema.legacy_defaults(config["declares"], "train."), **stored["train"]}
        for part in ("eval", "monitor"):
            config[part] = {**config[part], **stored.get(part, {})}
        config["seed"], config["device"] = stored["seed"], stored.get("device", config["device"])
        return checked(config)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise NormbenchError(f"the stored configuration is damaged: {error!r}", code=4) from None


def stored_form(config: Config) -> Config:
    """What a run keeps of its configuration: choices and values, without the declarations and the command's own."""
    stored = {key: value for key, value in config.items() if key not in ("declares", *grammar.COMMAND_GROUPS)}
    for group in RUN_GROUPS:
        stored[group] = {key: value for key, value in config[group].items() if key != "declares"}
    return stored
