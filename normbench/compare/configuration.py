"""A run's configuration as flat keys, what differs between runs, and the words that select some of them.

A key is a dotted one of the configuration (`optim.lr`); the name of a choice is that of its group (`norm`, not
`norm.name`). Keys that do not change what is trained are left out: the seed, the length,
the interval of saving and evaluation, and evaluations other than the default one.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import operator
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import compress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import orjson
import yaml

from normbench.config import compose, grammar
from normbench.config.spec import Spec
from normbench.core import schema
from normbench.errors import BadInput, NormbenchError, unknown
from normbench.files import reading
from normbench.files.stored import IMPORT, OWN, RUN_GROUPS
from normbench.runs.run import FINISHED, LABELS, SHORTEST, Run, begun_by
from normbench.runs.table import Runs

GROUPS = RUN_GROUPS
ARM_GROUP = "norm"  # what this project compares, where it differs
SITES = "sites"  # its option that can name further normalizers
FILE = "own_file"  # an author's own file, by its hash: runs before and after it was edited are not alike
Values = Mapping[str, Any]
_FORMS = [f".{digits}g" for digits in range(4, 17)]  # of a number, the shortest first
_COMMA = re.compile(r",(?![^\[{]*[\]}])")  # between values; not one within brackets, as of [784,10]
_RANGE = re.compile(r"(\d+)-(\d+)")
EQUAL = ("=", "!=")
_SIGNS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
_SIGN = re.compile("(!=|[<>]=?|=)")


def flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """The leaves of a stored configuration by key, groups first; lists as they are.

    An option that came since a run was trained is filled in: it has its default. Of another program's run nothing is.

    >>> leaves = flat({"seed": 1, "model": {"name": "lenet5"}, "norm": {"name": "layer", "eps": 1e-3}})
    >>> leaves["model"], leaves["norm"], leaves["norm.eps"], leaves["norm.bias"]
    ('lenet5', 'layer', 0.001, True)
    """
    leaves: dict[str, Any] = {}
    is_ours = IMPORT not in config
    for group in GROUPS:
        node = config.get(group)
        if not isinstance(node, Mapping):
            continue
        name = str(node.get("name", ""))
        options = {**(compose.defaults(group, name) if is_ours else {}), **node}
        passing = _passing(group, name)
        leaves |= {group: name} if "name" in node else {}
        for key, value in options.items():
            if key not in ("name", "declares") and key not in passing:
                _leaves(f"{group}.{key}", value, leaves)
    if isinstance(norm := config.get(ARM_GROUP), Mapping):
        leaves[ARM_GROUP] = _of_sites(norm)
    file_hashes = config.get(OWN) or {}
    for group in ("model", "data", ARM_GROUP):
        names = [name for name in sorted(file_hashes) if (name if name in ("model", "data") else ARM_GROUP) == group]
        leaves |= {f"{group}.{FILE}": "+".join(file_hashes[name][:8] for name in names)} if names else {}
    train = {**(compose.root_defaults("train") if is_ours else {}), **(config.get("train") or {})}
    leaves |= {key: value for option, value in train.items() if (key := f"train.{option}") not in _passing("", "")}
    return leaves


def _of_sites(norm: Mapping[str, Any]) -> str:
    """A normalizer's name; where sites have ones of their own the names of all: `layer+batch`, never none."""
    name, sites = str(norm.get("name", "")), norm.get(SITES)
    of_sites = sites.values() if isinstance(sites, Mapping) else ()
    names = [site if isinstance(site, str) else (site or {}).get("name", name) for site in of_sites]
    return "+".join(dict.fromkeys(str(n) for n in names if n != "none")) or (name if not names else "none")


def flats(configurations: Sequence[Mapping[str, Any]]) -> list[Values]:
    """Of each its `flat` form, computed once for those that have the same parts but for their seed."""
    cached: dict[bytes, Values] = {}
    flattened = []
    for config in configurations:
        content = {key: part for key, part in config.items() if key != "seed"}
        without_seed = orjson.dumps(content, str, orjson.OPT_NON_STR_KEYS)  # ten times as fast as `fingerprint`
        if without_seed not in cached:
            cached[without_seed] = flat(config)
        flattened.append(cached[without_seed])
    return flattened


def differing(configurations: Iterable[Values]) -> dict[str, list[Any]]:
    """The keys that differ, groups first, with their values in the order in which they appear.

    An option of a choice is compared among configurations with that choice alone: that batch normalization has a
    momentum and layer normalization has none is what their names say.
    """
    values_of: dict[str, dict[str, Any]] = {}  # by key the values, by their text
    peers = defaultdict[tuple[str, Any], Counter[str]](Counter)  # how many of each value, among those of one choice
    choices: Counter[tuple[str, Any]] = Counter()
    for values in configurations:
        choices.update((group, values.get(group)) for group in GROUPS)
        choices["", None] += 1
        for key, value in values.items():
            written = text(value)
            values_of.setdefault(key, {}).setdefault(written, value)
            group, dot, _ = key.partition(".")
            place = (group, values.get(group)) if dot and group in GROUPS else ("", None)
            peers[key, place][written] += 1
    # a key that some of its peers lack differs too
    differ = dict.fromkeys(
        key for (key, place), counts in peers.items() if len(counts) > 1 or counts.total() < choices[place]
    )
    order = {group: number for number, group in enumerate(GROUPS)}
    ranked = sorted(differ, key=lambda key: order.get(key, len(order)))  # stable: options stay in their order
    return {key: list(values_of[key].values()) for key in ranked}


def text(value: Any) -> str:
    """A value as the command line takes it: none, true, 0.001, [784,10]."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}" if math.isfinite(value) and float(f"{value:g}") == value else repr(value)
    if isinstance(value, list | tuple):
        return f"[{','.join(map(text, value))}]"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}: {text(item)}" for key, item in value.items()) + "}"
    return str(value)


def rank(value: Any) -> tuple[bool, float, str]:
    """Sort key: numbers by size, then all other values by their text."""
    number = isinstance(value, int | float)
    return not number, float(value) if number else 0.0, text(value)


def short(value: Any, among: Iterable[float] = ()) -> str:
    """A value as people read it: of a number four digits, or as many as tell it from the others `among` it."""
    if not isinstance(value, float):
        return text(value)
    others = [other for other in among if other != value]
    alike = ([format(number, form) for number in (value, *others)] for form in _FORMS)
    return next((digits for digits, *theirs in alike if digits not in theirs), text(value))


def numbers(configurations: Iterable[Values]) -> dict[str, set[float]]:
    """The numbers that each key has in them, among which `label` says one."""
    numbers: dict[str, set[float]] = {}
    for values in configurations:
        for key, value in values.items():
            if isinstance(value, int | float):
                numbers.setdefault(key, set()).add(value)
    return numbers


def label(values: Values, keys: Iterable[str], among: Mapping[str, Iterable[float]] = MappingProxyType({})) -> str:
    """What these keys say of a run: `norm=layer optim.lr=0.001`; a key that it does not have is left out."""
    return " ".join(f"{key}={short(values[key], among.get(key, ()))}" for key in keys if key in values)


def labels(runs: Sequence[Spec]) -> list[str]:
    """For each run to be what tells it from the others at hand: what differs in its configuration, and its seed."""
    configurations = [{**flat(run.config), "seed": run.seed} for run in runs]
    keys = [key for key in differing(configurations) if key != "seed"]
    keys += ["seed"] if not keys or len({run.seed for run in runs}) > 1 else []
    among = numbers(configurations)
    return [label(values, keys, among) for values in configurations]


def overrides(config: Mapping[str, Any], epochs: int, steps: int, config_dir: Path | None = None) -> dict[str, str]:
    """Override words, by key, that compose this configuration anew: groups, then what differs from their defaults.

    The length is in epochs, or where there are none in updates; `config_dir`: a folder of the user's own choices.
    NormbenchError for a choice that is not known here.
    """
    values = flat(config)
    words = {group: str(config[group]["name"]) for group in ("model", ARM_GROUP)}
    for group in (g for g in GROUPS if g not in words):
        if group in values and _composed(config_dir, *format_words(words))[0].get(group) != values[group]:
            words[group] = str(values[group])
    defaults, length = _composed(config_dir, *format_words(words))
    for key, value in values.items():
        fixed = key in GROUPS or key.endswith(f".{FILE}") or _is_site(key)
        if not fixed and text(defaults.get(key)) != text(value):
            words[key] = text(value)
    if any(text(defaults.get(key)) != text(values.get(key)) for key in {*defaults, *values} if _is_site(key)):
        words[f"{ARM_GROUP}.{SITES}"] = text(config[ARM_GROUP][SITES])
    if epochs and epochs != length[0]:
        words["train.epochs"] = str(epochs)
    if not epochs and steps != length[1]:
        words["train.steps"] = str(steps)
        if length[0]:
            words["train.epochs"] = "0"
    return words


def _is_site(key: str) -> bool:
    """Whether it is of the sites, which are one word of a command."""
    return key == f"{ARM_GROUP}.{SITES}" or key.startswith(f"{ARM_GROUP}.{SITES}.")


def format_words(words: Mapping[str, str]) -> list[str]:
    """The words of a command."""
    return [f"{key}={value}" for key, value in words.items()]


def describe_config(config: Mapping[str, Any]) -> str:
    """A run by itself: its model and normalizer, and what differs from their defaults: `lenet5 layer optim.lr=0.01`."""
    words = names = {key: text(value) for key, value in flat(config).items() if key in ("model", ARM_GROUP)}
    with contextlib.suppress(NormbenchError, KeyError):
        words = overrides(config, 0, 0)
        words.pop("train.steps", None)
        words.pop("train.epochs", None)
    return " ".join(names.get(key, f"{key}={value}") for key, value in words.items())


def finished(words: Sequence[str], results: Path, note: Callable[[str], None]) -> tuple[list[Run], list[Run]]:
    """The finished runs that fit, with their curves; all finished ones, without. Errors: as `select`; that none fits.

    note: called with a line about each that cannot be read.
    """
    stored = Runs(results)
    runs, notes = stored.finished(lambda heads: select(words, heads))
    for line in notes:
        note(line)
    every = [head for head in stored.heads if head.status in FINISHED]  # now: loading finds damage
    if every and not runs:
        raise BadInput(f"no finished run below {results} fits {' '.join(words)}.")
    return runs, every


def select(words: Sequence[str], runs: Sequence[Run], more: Mapping[str, Values] = MappingProxyType({})) -> list[Run]:
    """The runs that fit: `model=lenet5 norm=layer,batch seed=1-5 lr>1e-3 -experiment='ln2016/*'`, all words.

    A key is one of the configuration, of the labels or of the length: `train.epochs`, `train.steps`; its last part is
    enough where it names one. A word without a key is an experiment, an arm, or the beginning of an id (4 characters);
    of those one has to fit. `>`, `>=`, `<` and `<=` compare numbers, and texts by the alphabet. `-` before a word, or
    `!=`, leaves out what it selects.

    `run=` takes the beginning of an id too. more: further keys, by id. Errors: a key or value that no run has, but
    where it is left out; a word by itself that is none of these; the beginning of several ids.
    """
    if not runs or not words:
        return list(runs)
    configurations = flats([run.config for run in runs])
    candidates = [
        {**more.get(run.id, {}), **labels_of(run), **length_of(run), **values}
        for run, values in zip(runs, configurations, strict=True)
    ]
    names = {name for run in runs for place in ((run.experiment, run.arm), *run.elsewhere) for name in place}
    named: list[str] = []  # by a word without a key
    keep = [True] * len(runs)
    for word in words:
        key, sign, wanted = (*_SIGN.split(word.removeprefix("-"), maxsplit=1), "", "")[:3]
        out = word.startswith("-")
        if sign:
            fits, out = _fitting(word, (key, sign, wanted), runs, candidates, out), out != (sign == "!=")
        else:
            if key not in names and not (len(key) >= SHORTEST and begun_by(key, (run.id for run in runs))):
                raise unknown(f"'{key}' is no experiment, arm or id of a run here, and no KEY=VALUE.", key, names)
            named += [] if out else [key]
            fits = [run.is_called(key) for run in runs] if out else keep
        keep = [selected and fit != out for selected, fit in zip(keep, fits, strict=True)]
    return [run for run in compress(runs, keep) if not named or any(map(run.is_called, named))]


def is_filter(word: str) -> bool:
    """Whether a word has a key and a value, `norm=layer`, `-lr>1e-3`: it is no name."""
    key, sign, _ = (*_SIGN.split(word.removeprefix("-"), maxsplit=1), "", "")[:3]
    return bool(key and sign)


def fitting(words: Sequence[str], runs: Sequence[Run], further: Sequence[Run]) -> list[Run]:
    """Which further runs these words, which fit among the runs, would select too."""
    selected = {id(run) for run in select(words, [*runs, *further])}
    return [run for run in further if id(run) in selected]


def _fitting(
    word: str, parts: tuple[str, str, str], runs: Sequence[Run], candidates: Sequence[Values], out: bool
) -> list[bool]:
    """Which runs a word with a key fits, `!=` read as `=`."""
    key, sign, wanted = parts
    keys = dict.fromkeys(key for values in candidates for key in values)
    if key not in keys:
        ending = [full for full in keys if full.endswith(f".{key}")]
        if len(ending) != 1 or not key:
            raise unknown(f"{word}: no run here has a key '{key}'.", key, keys)
        key = ending[0]
    by_text = {text(values[key]): values[key] for values in candidates if key in values}
    patterns = [part.strip() for part in _COMMA.split(wanted)] if sign in EQUAL else [wanted]
    if key == "run":  # by its beginning, as everywhere
        patterns = [begun_by(pattern, by_text) or pattern for pattern in patterns]
    fitting = {pattern: {w for w, value in by_text.items() if _fits(value, pattern, sign)} for pattern in patterns}
    for pattern in (p for p in patterns if not fitting[p] and not out and sign != "!="):
        if sign == "=" and (bounds := _RANGE.fullmatch(pattern)) and int(bounds[1]) > int(bounds[2]):
            turned = f"{bounds[2]}-{bounds[1]}"
            raise BadInput(f"{word}: {pattern} is an empty range. Did you mean '{turned}'?")
        apart = _filed_apart(pattern, runs) if key == "experiment" else ""
        alike = () if key == "run" or sign != "=" else by_text  # no id is like another
        raise unknown(f"{word}: no run here has {key}{sign}{pattern}{apart}.", pattern, alike)
    every = set().union(*fitting.values())
    return [key in values and text(values[key]) in every for values in candidates]


def _filed_apart(experiment: str, runs: Sequence[Run]) -> str:
    """Where the runs of an experiment are that somebody has changed: these are never mixed with its own."""
    arms = dict.fromkeys(run.arm for run in runs if run.arm.startswith(f"{experiment.replace('/', '-')}-"))
    return f"; those with changes are arm={','.join(arms)}" if arms else ""


def labels_of(run: Run) -> dict[str, Any]:
    """How a run is filed: its id, experiment, arm, seed and so on; and its source."""
    return {key: run.id if key == "run" else getattr(run, key) for key in (*LABELS, "source")}


def length_of(run: Run) -> dict[str, int]:
    """How long it was trained: in epochs, 0 where its length is in updates, and in updates."""
    return {"train.epochs": run.epochs, "train.steps": run.steps}


def _fits(value: Any, pattern: str, sign: str = "=") -> bool:
    """Whether a pattern names the value, as it is or in a shorter form, or bounds it; of several values, one."""
    if isinstance(value, tuple):
        return any(_fits(entry, pattern, sign) for entry in value)
    written = text(value)
    if sign not in EQUAL:
        bound = _parsed(pattern)
        numbers = isinstance(value, int | float) and isinstance(bound, int | float)
        return bool(_SIGNS[sign](value, bound)) if numbers else isinstance(value, str) and _SIGNS[sign](value, pattern)
    if (bounds := _RANGE.fullmatch(pattern)) and written.isdecimal():
        return int(bounds[1]) <= int(written) <= int(bounds[2])
    if isinstance(value, float) and pattern in (format(value, form) for form in _FORMS):
        return True
    return fnmatchcase(written, pattern.replace("[", "[[]")) or written == text(_parsed(pattern))


@functools.cache
def _parsed(pattern: str) -> Any:
    """The value that a word means, so that 1e-3 finds 0.001."""
    try:
        return float(pattern) if "e" in pattern.lower() else reading.load_yaml(pattern)
    except (ValueError, yaml.YAMLError):
        return pattern


def _leaves(key: str, value: Any, into: dict[str, Any]) -> None:
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            _leaves(key if name == "name" else f"{key}.{name}", inner, into)
    else:
        into[key] = value


@functools.cache
def _passing(group: str, name: str) -> frozenset[str]:
    """Keys that do not say what was trained: of the root all that leave it as it is, of a choice the further ones."""
    specs = declares(group, name).get("options") or {}
    unhashed = schema.unhashed(declares(group, name))
    return frozenset(key for key in unhashed if not group or specs[key].get("list"))


@functools.cache
def declares(group: str, name: str) -> Mapping[str, Any]:
    """The declaration of a choice; empty for an unknown one: a user's own, or of another version."""
    try:
        return compose.declaration(group, name) if group else compose.root()["declares"]
    except NormbenchError:
        return {}


def is_probe(model: str) -> bool:
    """Whether a model is examined instead of trained; an unknown one is trained."""
    return bool(declares("model", model).get("probe"))


def fingerprint(values: Any) -> str:
    """One text for equal values, to tell configurations apart."""
    return json.dumps(values, sort_keys=True, separators=(",", ":"), default=str)


@functools.cache
def _composed(config_dir: Path | None, *words: str) -> tuple[Mapping[str, Any], tuple[int, int]]:
    """What these words compose to, flat, and its epochs and updates."""
    config = compose.stored_form(compose.compose(grammar.parse(list(words)), config_dir))
    return flat(config), (int(config["train"]["epochs"]), int(config["train"]["steps"]))
