"""From override words to one checked configuration: the root's values, the choices of each group, and over both the
model's own; then the words' values.

The choices' files are laid out as Hydra's. Every word is looked up before it is used, so a typo in a group, a choice or
a key becomes one line with the nearest name.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from normbench.config import choice_file, grammar
from normbench.config.grammar import Override
from normbench.core import schema, user_code
from normbench.errors import BadInput, Failed, did_you_mean, unknown
from normbench.files import reading
from normbench.files.stored import LABELS, RUN_GROUPS
from normbench.norms import sites

NOUN = {"norm": "normalizer", "data": "data set", "optim": "optimizer", "clip": "way of clipping"}
DECLARED = "data.declares."  # how a model's sites ask for a size that its data declare
# Data declare `train_size`, some of them `classes` or `features`; where inputs are no vectors a `shape`, which models
# of those `read`: `[height, width, channels]` of images, `[time, features]` of sequences, `[time, word]` of numbers of
# words, `[document, question]` of cloze questions, `[image, captions]` of features of images with captions,
# `[strokes, characters]` of lines of writing, `[sentence, next, previous]` of neighbouring sentences
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
        raise BadInput(f"--config-dir {config_dir} is not a directory.")
    return ([config_dir.resolve()] if config_dir else []) + [conf_dir()]


def is_shipped(path: Path) -> bool:
    """Whether a choice's file is one of ours: the tests validate those, so that composing need not."""
    return path.is_relative_to(conf_dir())


@functools.cache
def torch_choices() -> dict[Path, Config]:
    """The choices that `conf/torch.yaml` lists instead of a file each, by the path that such a file would have."""
    by_path = {}
    for group, listed in choice_file.content(conf_dir() / "torch.yaml").items():
        for name, facts in listed["choices"].items():
            defaults, title = facts.get("options", {}), f"{listed['module']}.{facts['class']}"
            specs = {
                key: {**listed["options"][key], **({"list": True, "length": len(v)} if isinstance(v, list) else {})}
                for key, v in defaults.items()
            }
            declares = {"title": title, "source": title, "maths": 1, **facts, "options": specs}
            by_path[conf_dir() / group / f"{name}.yaml"] = {"name": name, **defaults, "declares": declares}
    return by_path


def content(path: Path) -> Config:
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
    paths = [
        path
        for base in search_dirs(config_dir)
        if name
        and ((path := base / group / f"{name}.yaml").is_file() or path in torch_choices())
        and path.resolve().is_relative_to(base / group)
    ]
    if len(paths) > 1 and group in grammar.GROUPS:  # never silently the shipped one
        raise BadInput(f"{paths[0]}: there is a shipped {group}={name}. Give it another name.")
    if paths:
        if group in grammar.GROUPS:
            grammar.check_name(str(paths[0]), name)
        return paths[0]
    listed = {"model": "models", "norm": "norms", "data": "data", "experiment": "artifacts"}
    names = choices(group, config_dir)
    if group in listed:
        listing = f"normbench list {listed[group]}{_of_ones_own(group, name, config_dir)}"
    else:
        names = [other for other in names if can_be_chosen(group, other, config_dir)]
        listing = ", ".join(names)
    if config_dir is None and group == "norm" and (user_code.is_normalizer_file(name) or Path(f"{name}.py").is_file()):
        listing = (
            "one's own: normbench train norm=FILE.py, 'norm.sites={SITE: FILE.py}', normbench battery --norm FILE.py"
        )
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
    """Read choices anew from now on; `plan.forget` experiments too."""
    read = choice_file.content, torch_choices, choice_path, choice, declaration
    for cached in (*read, defaults, root_defaults, _chosen):
        cached.cache_clear()


@functools.cache
def choice(group: str, name: str, config_dir: Path | None = None) -> Config:
    """The content of a choice file as data, without what it inherits."""
    path = choice_path(group, name, config_dir)
    node = copy.deepcopy(content(path))
    if text := reading.interpolation(node):  # no value of the environment may get into a run
        raise BadInput(f"{path}: {text!r}: interpolations ${{...}} are not known here. Write the value.")
    kept = {str(key): value for key, value in node.items() if (group, key) != ("model", "defaults")}
    if group == "norm" and isinstance(kept.get("declares"), dict) and "like" in kept["declares"]:
        kept = _preset(kept, config_dir)
    if group not in grammar.GROUPS:
        return kept
    if not is_shipped(path):
        from normbench.config import declaration_keys  # late: it validates

        declaration_keys.check(group, path, kept)
    if kept.get(group, kept).get("name") != name:
        raise BadInput(f"{path} must say name: {name}, as its file is called.")
    place_file(kept.get(group, kept), path)
    if group == "data":
        _find_owner(kept, config_dir)
    return kept


def place_file(node: Config, path: Path) -> None:
    """`declares.file` of a user's own normalizer, model or data set is written relative to its YAML."""
    if "file" in (declares := node.get("declares") or {}):
        declares["file"] = str((path.parent / str(declares["file"])).resolve())
        if not Path(declares["file"]).is_file():
            raise BadInput(f"{path}: declares.file {declares['file']} does not exist.")


def _find_owner(node: Config, config_dir: Path | None) -> None:
    """A data set made of another one's files, `declares.files_of: NAME`, gets that one's content for its name; one with
    downstream tasks, `declares.tasks: [NAMES]`, those of the sets that these are; a user's own in a shipped one's
    format, `declares.like: NAME`, what it does not declare itself.
    """
    declares = node.get("declares") or {}
    if "files" in declares:
        declares["files"] = {name: checksum or "" for name, checksum in declares["files"].items()}
    if "like" in declares:
        node["declares"] = _like(f"data={node.get('name')}: declares", declares)
        return
    if "files_of" in declares:
        declares["files_of"] = choice("data", declares["files_of"], config_dir)
    if "tasks" in declares:
        declares["tasks"] = [choice("data", name, config_dir) for name in declares["tasks"]]


def _preset(preset: Config, config_dir: Path | None) -> Config:
    """A normalizer that is another one with values of its own, `declares.like: NAME`: the rest is as there."""
    base = choice("norm", str(preset["declares"]["like"]), config_dir)
    merged: Config = _merged(base, preset)
    merged["declares"]["like"] = base["declares"].get("like", base["name"])
    return merged


def _like(place: str, given: Config) -> Config:
    """What a user's own data set declares, completed by the shipped one of its format."""
    shipped = choice("data", str(given["like"]))["declares"]
    if "format" not in shipped:
        formats = [name for name in choices("data") if "format" in choice("data", name)["declares"]]
        raise unknown(f"{place}.like={given['like']} is no format for data of your own.", str(given["like"]), formats)
    taken = {key: shipped[key] for key in ("maths", "classes", "features", "sizes", "train_size", "options")}
    declares = {**taken, **given}
    faults = {
        f"files must be {shipped['format']}, each with its md5 or sha256 or nothing.": (
            len(given["files"]) != len(shipped["files"])
        ),
        f"sizes must be of {' and '.join(shipped['sizes'])}.": declares["sizes"].keys() != shipped["sizes"].keys(),
    }
    for fault, is_so in faults.items():
        if is_so:
            raise BadInput(f"{place}.{fault}")
    return {**declares, "train_size": {**shipped["train_size"], "of": declares["sizes"]["train"]}}


@functools.cache
def declaration(group: str, name: str, config_dir: Path | None = None) -> Config:
    """The `declares` block of a choice: title, source, maths version, options, sites; readable without torch."""
    node = choice(group, name, config_dir)
    return dict(node.get(group, node)["declares"])


@functools.cache
def defaults(group: str, name: str) -> Config:
    """The values of a shipped choice's options in its own file, typed: what a stored run without an option means, and
    what is not part of an id. Of a preset those of its normalizer; none of a user's own choice.
    """
    if name not in choices(group):
        return {}
    node = choice(group, name)
    node = node.get(group, node)
    if "like" in node["declares"]:
        return dict(defaults(group, node["declares"]["like"]))
    specs = node["declares"].get("options") or {}
    return {key: schema.check(key, node[key], spec) for key, spec in specs.items() if node.get(key) is not None}


@functools.cache
def root_defaults(part: str) -> Config:
    """The root's values of `train`, `eval` or `monitor`, typed; never those of a model's file."""
    specs = root()["declares"]["options"]
    return {key: schema.check(key, value, specs[f"{part}.{key}"]) for key, value in root()[part].items()}


def root() -> Config:
    """The root's values; its `declares` block has the options of training and evaluation."""
    return dict(choice_file.content(conf_dir() / "config.yaml"))


def can_be_chosen(group: str, name: str, config_dir: Path | None = None) -> bool:
    """Whether a run can have this choice: some are declared only for the reason why not."""
    return "refused" not in declaration(group, name, config_dir)


# --- composing -------------------------------------------------------------------------------------------------------


def _made_in(path: Path) -> dict[str, str]:
    """By group the choices in a file's `defaults`, as Hydra has them: `/data: mnist`, `override /clip: global`."""
    made, entries = {}, content(path).get("defaults", [])
    for entry in entries if isinstance(entries, list) else [entries]:
        pairs = list(entry.items()) if isinstance(entry, dict) else [(str(entry), "")]
        group = str(pairs[0][0]).removeprefix("override ").removeprefix("/") if len(pairs) == 1 else ""
        if group in grammar.GROUPS:
            made[group] = str(pairs[0][1])
        elif entry != "_self_":
            raise BadInput(f"{path}: defaults: {entry} is no choice. Write /GROUP: NAME, then _self_.")
    return made


def _merged(values: Any, over: Any) -> Any:
    """Of two maps all keys, those of `over` first; of anything else `over`."""
    if isinstance(values, dict) and isinstance(over, dict):
        return {**values, **{key: _merged(values.get(key), value) for key, value in over.items()}}
    return over


def compose(overrides: Sequence[Override], config_dir: Path | None = None) -> Config:
    """One checked configuration as data, with each component's `declares` block still in it.

    Later words win. Errors: unknown group choice, unknown key, wrong type or range, no model.
    """
    return checked(_unchecked(overrides, config_dir))


def _unchecked(overrides: Sequence[Override], config_dir: Path | None) -> Config:
    selection = {o.key_or_group: str(o.value()) for o in overrides if o.key_or_group in grammar.GROUPS}
    if "model" not in selection:
        words = [*grammar.GROUPS, *LABELS]
        for key in (o.key_or_group for o in overrides):
            if key not in words and did_you_mean(key, words):
                raise unknown(f"{key} is not an option.", key, words)
        raise BadInput("no model given. Write model=NAME. (normbench list models)")
    chosen, keys = _chosen(tuple(sorted(selection.items())), config_dir)
    config: Config = _copied(chosen)
    for override in overrides:
        key = override.key_or_group
        if key in grammar.GROUPS:
            continue
        if key not in keys:
            group = key.partition(".")[0]
            is_own = group in grammar.GROUPS and "file" in config[group]["declares"]
            way_out = f"options of one's own {group}: declares.options of its YAML" if is_own else ""
            raise unknown(f"{key} is not an option.", key, sorted(keys.union(grammar.GROUPS, LABELS)), way_out)
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
def _chosen(selection: tuple[tuple[str, str], ...], config_dir: Path | None) -> tuple[Config, set[str]]:
    """What these choices give before any value is set, and the keys that can be."""
    chosen = dict(selection)
    path = choice_path("model", chosen["model"], config_dir)
    names = {**_made_in(conf_dir() / "config.yaml"), **_made_in(path), **chosen}
    for group in grammar.GROUPS:
        if group not in names:
            raise BadInput(f"{path} has no {group}: write /{group}: NAME below defaults, or add {group}=NAME.")
    of_groups = {group: choice(group, names[group], config_dir) for group in grammar.GROUPS}
    model = of_groups["model"] if "model" in of_groups["model"] else {"model": of_groups["model"]}
    config = {**root(), **of_groups, "model": {}}
    for part, value in model.items():
        if part not in config or part == "declares":
            raise unknown(f"{path}: '{part}' is not a key.", part, [*grammar.PARTS, *grammar.GROUPS])
        if isinstance(config[part], dict) and not isinstance(value, dict):
            raise BadInput(f"{path}: {part} must be a map of keys.")
    facts = model["model"]["declares"]
    falling = [metric for metric in facts.get("metrics", ()) if metric not in facts.get("rising", ())]
    if falling and config["monitor"]["metric"] not in falling:
        config["monitor"] = {**config["monitor"], "metric": falling[0]}
    config = _merged(config, model)
    del config["defaults"]
    keys = {*config["declares"]["options"]}
    for group in grammar.GROUPS:
        node, facts = config[group], config[group]["declares"]
        if "refused" in facts:
            others = [other for other in choices(group, config_dir) if can_be_chosen(group, other, config_dir)]
            raise BadInput(f"{group}={node['name']} {facts['refused']}. (others: {', '.join(others)})")
        if group in chosen and group in ("optim", "schedule", "clip"):  # a model's own options are of its choice there
            options = {"name", "declares", *(facts.get("options") or {})}
            config[group] = node = {key: value for key, value in node.items() if key in options}
        keys |= {f"{group}.{key}" for key in node if key not in ("name", "declares")}
    _refuse_unfit(config, config_dir)
    return config, keys


def command_choice(group: str, name: str | None, config_dir: Path | None = None) -> Config:
    """The launcher or logger called `name`, or the default one, with its declarations."""
    return dict(choice(group, name or _made_in(conf_dir() / "config.yaml")[group], config_dir))


def _refuse_unfit(config: Config, config_dir: Path | None) -> None:
    """Images or sequences for a model of vectors, and the other way round; a model to be trained, and by nothing."""
    model, data = config["model"]["name"], config["data"]["name"]
    reader = config["model"]["declares"]
    if not reader.get("probe") and "class" not in config["optim"]["declares"]:
        raise BadInput(f"optim={config['optim']['name']} trains nothing: model={model} needs another.")
    wanted, given = reader.get("reads"), config["data"]["declares"].get("shape")
    if not _fits(wanted, given):
        reads, has = (f"inputs of {' x '.join(map(str, s))}" if s else "vectors" for s in (wanted, given))
        facts = {other: declaration("data", other, config_dir) for other in choices("data", config_dir)}
        sizes = [str(site.get("features")) for site in reader["sites"].values()]
        needed = {"train_size", *(size.removeprefix(DECLARED) for size in sizes if size.startswith(DECLARED))}
        fitting = [other for other, f in facts.items() if needed <= f.keys() and _fits(wanted, f.get("shape"))]
        raise BadInput(f"model={model} reads {reads}, data={data} has {has}. (that fit: {', '.join(fitting)})")


def _fits(wanted: list[Any] | None, given: list[Any] | None) -> bool:
    """Whether the data have the shape that a model reads, in which a name like `height` stands for any number."""
    if wanted is None or given is None or len(wanted) != len(given):
        return wanted == given
    return all(w == g or (isinstance(w, str) and isinstance(g, int)) for w, g in zip(wanted, given, strict=True))


def checked(config: Config) -> Config:
    """The configuration with every option in its declared type; anything undeclared is refused."""
    root = config["declares"]["options"]
    config = {**config, **{key: schema.check(key, config[key], root[key]) for key in grammar.SCALARS}}
    for part in grammar.PARTS:
        specs = {key.removeprefix(f"{part}."): spec for key, spec in root.items() if key.startswith(f"{part}.")}
        config[part] = {**config[part], **schema.check_options(part, config[part], specs, set())}
    if bool(config["train"]["epochs"]) == bool(config["train"]["steps"]):
        given = " and ".join(f"train.{unit}={config['train'][unit]}" for unit in ("epochs", "steps"))
        raise BadInput(f"{given}: give one of them, the length of a run; the other one is 0.")
    for group in grammar.GROUPS:
        node = config[group]
        special = {"name", "declares"} | ({"sites", "preceding_bias"} if group == "norm" else set())
        options = schema.check_options(group, node, node["declares"].get("options") or {}, special)
        config[group] = {**node, **options}
    schema.check("norm.preceding_bias", config["norm"]["preceding_bias"], sites.BIAS)
    return config


def restore(stored: Mapping[str, Any], config_dir: Path | None = None) -> Config:
    """The configuration of a stored run, composed anew: choices by name, then the stored values.

    An option that it lacks has come since, and has its default.
    A stored file can only choose among registered names and set declared options; it never imports code.
    """
    try:
        names = {group: str(stored[group]["name"]) for group in RUN_GROUPS}
        config = _copied(_chosen(tuple(sorted(names.items())), config_dir)[0])
        for group, name in names.items():
            declares = config[group]["declares"]
            base = declares.get("like", name) if group == "norm" else name
            config[group] = {**defaults(group, base), **stored[group], "declares": declares}
        for part in grammar.PARTS:
            config[part] = {**root_defaults(part), **stored[part]}
        config["seed"], config["device"] = stored["seed"], stored["device"]
        return checked(config)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Failed(f"the stored configuration is damaged: {error!r}") from None


def stored_form(config: Config) -> Config:
    """What a run keeps of its configuration: choices and values, without the declarations and the command's own."""
    stored = {key: value for key, value in config.items() if key not in ("declares", *grammar.COMMAND_GROUPS)}
    for group in RUN_GROUPS:
        stored[group] = {key: value for key, value in config[group].items() if key != "declares"}
    return stored
