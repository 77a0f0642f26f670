"""What an experiment's file may say; a slip in it is one line: the file, the key, what is there, what belongs there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from normbench.config import FIDELITIES, compose, grammar
from normbench.errors import NormbenchError, unknown
from normbench.stored import LABELS, RUN_GROUPS

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

KEYS = ("title", "base", "arms", "axes", "conditions", "controls", "fidelities", "limits", "seeds")
WORDS = "a list of overrides, such as [norm=layer, optim.lr=1e-3]"
SCALAR = (str, int, float, bool)
PLAIN = re.compile(r"[A-Za-z0-9_.+/-]+")  # of an axis: it is written into commands and read from them
WIDEST = 60  # characters of what is shown of a value


def load(name: str, config_dir: Path | None = None) -> compose.Config:
    """Arms, axes, conditions, fidelities and the rest from `conf/experiment/NAME.yaml`, every key of them given."""
    node = compose.choice("experiment", name, config_dir)
    path = compose.choice_path("experiment", name, config_dir)
    for key in node:
        if key not in KEYS:
            raise unknown(f"{path}: '{key}' is not a key.", key, sorted(KEYS))
    node = {"title": name, "axes": {}, "conditions": [], "controls": {}, "base": [], "limits": [], "seeds": [], **node}
    if not isinstance(node["title"], str):
        raise wrong(path, "title", node["title"], "a text")
    _check_words(path, "base", node["base"])
    for key in ("arms", "controls"):
        for choice, words in _named(path, node, key, "NAME: [norm=layer]", filled=key == "arms").items():
            _check_words(path, f"{key}.{choice}", words)
    _check_axes(path, node)
    _check_fidelities(path, node)
    _check_conditions(path, node, config_dir)
    _check_rules(path, node, "limits", ("at_most",), least=0)
    _check_rules(path, node, "seeds", ("from", "to"), least=1)
    return node


def wrong(path: Path, key: str, found: Any, wanted: str) -> NormbenchError:
    """The line for a value of another form."""
    return NormbenchError(f"{path}: {key}: {format_value(found)} must be {wanted}.")


def format_value(value: Any) -> str:
    """A value as YAML may have it, cut where it is long; `null` is what a key has with nothing behind it."""
    text = "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 3]}..."


def conditions(node: compose.Config) -> Iterator[tuple[str, Any]]:
    """Each with the words that name it in an error."""
    for number, condition in enumerate(node["conditions"], 1):
        yield f"conditions, entry {number}", condition


@contextmanager
def naming(path: Path, place: str) -> Iterator[None]:
    """What is wrong with an experiment's words is said with its file and the place there."""
    try:
        yield
    except NormbenchError as error:
        said = str(error) if str(error).startswith(f"{path}: ") else f"{path}: {place}: {error}"
        raise NormbenchError(said, error.code) from None


def parse(path: Path, key: str, words: Sequence[str]) -> list[Override]:
    """The words of a place in the file, each with one value."""
    with naming(path, key):
        parsed = grammar.parse(words)
    for override in parsed:
        if override.is_sweep_override():
            raise NormbenchError(
                f"{path}: {key}: '{override.input_line}' has several values. An axis has, or an arm for each; "
                "a list is KEY=[a,b]."
            )
    return parsed


def _check_words(path: Path, key: str, words: Any) -> None:
    if not isinstance(words, list):
        raise wrong(path, key, words, WORDS)
    for word in words:
        if not isinstance(word, str) or "=" not in word:
            raise wrong(path, key, word, "an override, KEY=VALUE without a space")


def _named(path: Path, node: compose.Config, key: str, form: str, filled: bool) -> dict[str, Any]:
    """A map whose keys are names. YAML reads some words without quotes as something else: no, null, 1."""
    if key not in node:
        raise NormbenchError(f"{path}: '{key}' must be given: {key}: {{{form}, ...}}.")
    found: Any = node[key]
    if not isinstance(found, dict) or (filled and not found):
        raise wrong(path, key, found, f"a map: {{{form}, ...}}")
    for name in found:
        if not isinstance(name, str) or not name:
            raise wrong(path, key, name, "a name; what YAML takes for something else is put in quotes")
    return found


def _check_axes(path: Path, node: compose.Config) -> None:
    form = "train.batch_size: [128, 4]"
    for axis, values in _named(path, node, "axes", form, filled=False).items():
        key = f"axes.{axis}"
        if axis in (*grammar.GROUPS, *LABELS, *grammar.SCALARS):
            raise NormbenchError(
                f"{path}: {key}: an axis is an option, such as {form}. What has other {axis} is an arm."
            )
        if not isinstance(values, list) or not values:
            raise wrong(path, key, values, f"a list of values, as in {form}")
        for number, value in enumerate(values):
            if not isinstance(value, SCALAR) or not PLAIN.fullmatch(str(value)):
                raise wrong(path, key, value, f"a number or a word, as each in {form}")
            if value in values[:number]:
                raise NormbenchError(f"{path}: {key}: {format_value(value)} stands there twice.")


def _check_fidelities(path: Path, node: compose.Config) -> None:
    fidelities = _named(path, node, "fidelities", "paper: {set: []}", filled=True)
    for fidelity, content in fidelities.items():
        if fidelity not in FIDELITIES:
            raise unknown(f"{path}: fidelities: '{fidelity}' is not a fidelity.", fidelity, FIDELITIES)
        key = f"fidelities.{fidelity}"
        _check_keys(path, key, content, ("set",), ("at_most", "seconds"))
        _check_words(path, f"{key}.set", content["set"])
        most = content.get("at_most", 1)
        if type(most) is not int or most < 1:
            raise wrong(path, f"{key}.at_most", most, "a number of seeds, at least 1")
        if type(seconds := content.get("seconds", 1)) not in (int, float) or not seconds > 0:
            raise wrong(path, f"{key}.seconds", seconds, "how long one run takes on one core")


def _check_conditions(path: Path, node: compose.Config, config_dir: Path | None) -> None:
    if not isinstance(node["conditions"], list):
        raise wrong(path, "conditions", node["conditions"], "a list of {when: {KEY: VALUE}, set: [KEY=VALUE]}")
    for key, condition in conditions(node):
        _check_keys(path, key, condition, ("when", "set"))
        _check_words(path, f"{key}: set", condition["set"])
        if not isinstance(condition["when"], dict):
            raise wrong(path, f"{key}: when", condition["when"], "a map, such as {arm: [ln, rms]}")
        _check_place(path, f"{key}: when", condition["when"], _places(node), config_dir)


def _check_keys(path: Path, key: str, found: Any, required: Sequence[str], optional: Sequence[str] = ()) -> None:
    """A map that has all required keys, and else none but the optional ones."""
    form = "{when: {KEY: VALUE}, set: [KEY=VALUE]}" if "when" in required else "{set: [KEY=VALUE]}"
    if not isinstance(found, dict):
        raise wrong(path, key, found, f"a map: {form}")
    for name in map(str, found):
        if name not in (*required, *optional):
            raise unknown(f"{path}: {key}: '{name}' is not a key.", name, [*required, *optional])
    for name in required:
        if name not in found:
            raise NormbenchError(f"{path}: {key}: '{name}' must be given: {form}.")


def _places(node: compose.Config) -> dict[str, list[Any]]:
    """The values that the parts of a place can have."""
    return {"arm": [*node["arms"]], "control": ["", *node["controls"]], **node["axes"]}


def _check_place(
    path: Path, what: str, when: Mapping[Any, Any], known: Mapping[str, Sequence[Any]], config_dir: Path | None
) -> None:
    """Refuse values that no run has, of the keys whose values the file itself lists, or that name choices."""
    for key, wanted in when.items():
        if not isinstance(key, str):
            raise wrong(path, what, key, "a key, such as arm or train.batch_size")
        if isinstance(wanted, dict) or wanted in ([], None):
            raise wrong(path, f"{what}: {key}", wanted, "a value, or a list of them")
        for value in wanted if isinstance(wanted, list) else [wanted]:
            if key in known and value not in known[key]:
                raise unknown(f"{path}: {what}: no {key}={value}.", str(value), [str(k) for k in known[key] if k != ""])
            if (group := key.removesuffix(".name")) in RUN_GROUPS and group != key:
                with naming(path, what):
                    compose.choice_path(group, str(value), config_dir)


def _check_rules(path: Path, node: compose.Config, what: str, numbers: tuple[str, ...], least: int) -> None:
    """`limits: [{when: {arm: ..., control: ..., AXIS: ...}, at_most: N}]`, `seeds: [{when: ..., from: A, to: B}]`.

    A place's `fidelity` is `paper` for seeds where it is not named, any for limits.
    """
    known = {"fidelity": [*node["fidelities"]], **_places(node)}
    form = ", ".join(["when: {KEY: VALUE}", *(f"{number}: N" for number in numbers)])
    rules: list[Any] = node[what] if isinstance(node[what], list) else [node[what]]
    for rule in rules:
        whole = (
            rules is node[what]
            and isinstance(rule, dict)
            and rule.keys() == {"when", *numbers}
            and isinstance(rule["when"], dict)
        )
        values = [rule[number] for number in numbers] if whole else []
        # whole numbers, none below the one before it
        if not whole or any(type(v) is not int or v < least for v in values) or values != sorted(values):
            raise NormbenchError(f"{path}: {what} must be a list of {{{form}}}: {format_value(rule)}.")
        for key in map(str, rule["when"]):
            if key not in known:
                raise unknown(f"{path}: {what}: '{key}' is not a key.", key, sorted(known))
        _check_place(path, what, rule["when"], known, None)
