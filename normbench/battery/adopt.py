"""Finds the normalizer that a word means: a registered one, or a file.

For a file without a YAML next to it, layouts and facts are measured at several scales and reported with the numbers.
Options are never guessed: a Normalizer's are the keyword-only arguments of its constructor, each with a default that
gives its type; an nn.Module has none, the defaults of its constructor hold.
Requirements, such as correct gradients and an evaluation of each sample alone, are never derived from a file.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import nn

from normbench.battery import contract
from normbench.battery.cases import LAYOUTS, Axes, Subject
from normbench.config import choice_file, compose, grammar, plan
from normbench.core import user_code
from normbench.errors import BadInput, NormbenchError, unknown
from normbench.files import reading, scratch
from normbench.norms import base
from normbench.norms.sites import NOT
from normbench.runs import files

TYPES = {bool: "bool", int: "int", float: "float", str: "str"}


@dataclass(frozen=True)
class Adopted:
    """A normalizer's name, its folder of choices, and its YAML if that was derived here."""

    name: str
    config_dir: Path | None
    derived: str = ""

    @property
    def measured(self) -> dict[str, str]:
        """The facts that were measured, with their numbers; none if its YAML declares them."""
        if not self.derived:
            return {}
        declares = yaml.safe_load(self.derived)["declares"]
        facts = (
            "axes",
            "kinds",
            "needs",
            *contract.CHANGES,
            "mode_dependent",
            "reads_mask",
            "own_shift",
            "pools_steps",
        )
        texts = {fact: _format_fact(declares[fact]) for fact in facts if fact in declares}
        for fact, text in declares.get("measured", {}).items():
            texts[fact] = f"{texts[fact]} (changes by {text})" if fact in texts else text
        return texts

    @property
    def remark(self) -> str:
        """The measured facts in one line; "" if its YAML declares them."""
        facts = ", ".join(f"{fact}: {text}" for fact, text in self.measured.items())
        return f"{self.name}: no YAML beside the file; measured: {facts}" if facts else ""

    def subject(self) -> Subject:
        return Subject.registered(self.name, self.config_dir)


def adopt(word: str, config_dir: Path | None, conf: Path) -> Adopted:
    """A path, whose YAML is written to the folder `conf`, or a registered name.

    Errors: no such file or name, a file that cannot be imported, has no class or serves no layout, a constructor with
    options without a simple default, a name that another file has in `conf`.
    """
    if is_file(word):
        _refuse_folder(f"--norm {word}", config_dir)
        return _file(reading.place(word), conf)
    if word == "none":
        raise BadInput("--norm none is no normalizer: it is the baseline that a battery compares with.")
    registered = [name for name in compose.choices("norm", config_dir) if name != "none"]
    if word in registered:
        return Adopted(word, config_dir)
    raise unknown(f"--norm {word} is no file and no normalizer.", word, registered, "normbench list norms")


def in_words(words: Sequence[str], config_dir: Path | None, conf: Path) -> tuple[list[str], list[Adopted]]:
    """Override words with each file in `norm=FILE,...` and `norm.sites={SITE: FILE}` replaced by its normalizer's name,
    and the adopted normalizers.

    Errors: those of `adopt`; a file together with a config_dir.
    """
    adopted: dict[str, Adopted] = {}  # by name

    def named(value: str) -> str:
        if not user_code.is_normalizer_file(value):
            return value
        _refuse_folder(f"norm={value}", config_dir)
        normalizer = _file(reading.place(value), conf, trains=True)
        adopted[normalizer.name] = normalizer
        return normalizer.name

    replaced = []
    for word, override in zip(words, grammar.parse(words), strict=True):
        choices = grammar.chosen([override], "norm")
        if any(map(user_code.is_normalizer_file, choices)):
            word = f"norm={','.join(map(named, choices))}"
        for file in filter(user_code.is_normalizer_file, dict.fromkeys(grammar.chosen_at_sites([override]))):
            word = re.sub(rf"(?<=[\s:'\"]){re.escape(file)}(?=[\s,}}'\"])", named(file), word)
        replaced.append(word)
    return replaced, [*adopted.values()]


def _refuse_folder(word: str, config_dir: Path | None) -> None:
    """NormbenchError where a word that is a file stands beside a folder of choices, whose normalizers have names."""
    if config_dir is not None:
        raise BadInput(
            f"{word} is a file: leave out --config-dir, or copy it to {config_dir / 'norm'} with a YAML like that of "
            "examples/own_normalizer/norm, and give the name in this."
        )


def keep(adopted: Adopted, conf: Path) -> Adopted:
    """Copy its YAML to the folder of choices `conf`. Error: another file's normalizer has the name there."""
    assert adopted.config_dir is not None
    name = Path("norm") / f"{adopted.name}.yaml"
    content = (adopted.config_dir / name).read_bytes()
    target = conf / name
    files.make_folder(target.parent)
    with files.alone(target.parent):
        file, other = _file_of(content), _file_of(target.read_bytes()) if target.exists() else ""
        if other not in ("", file) and Path(other).exists():
            raise BadInput(
                f"{file}: there is a norm={adopted.name} of {other} already. Give yours another name, or take another "
                "--results."
            )
        files.atomic_write(target, content)
    plan.forget()
    return replace(adopted, config_dir=conf)


def _format_fact(value: Any) -> str:
    return ("no", "yes")[value] if isinstance(value, bool) else " ".join(value)


def _file_of(choice: bytes) -> str:
    return str(yaml.safe_load(choice)["declares"]["file"])


def _file(path: Path, conf: Path, trains: bool = False) -> Adopted:
    """The normalizer of a file, as a choice in the folder `conf`."""
    adopted = user_code.apart(path, _tried, path, conf, trains)
    plan.forget()
    return adopted


def _tried(path: Path, conf: Path, trains: bool) -> Adopted:
    node, derived = described(path)
    return _place(node, conf, path if derived else _yaml(path) or path, derived, trains)


def _yaml(path: Path) -> Path | None:
    """The YAML that `path` is or that lies next to it (for a link: first next to the link); None without one."""
    if path.suffix.lower() != ".py":
        return path
    candidates = [file.with_suffix(".yaml") for file in (path, path.resolve())]
    return next((file for file in candidates if file.is_file()), None)


def is_file(word: str) -> bool:
    """Whether a word means a file, existing or not, rather than a normalizer's name."""
    return user_code.is_normalizer_file(word) or Path(word).is_file()


def described(path: Path) -> tuple[dict[str, Any], bool]:
    """The choice of a user's file: its YAML, or one derived from its class; and whether it was derived."""
    if declared := _yaml(path):
        node = _read(declared)
        file = Path(node["declares"]["file"])
        if path not in (declared, file) and path.resolve() != file:
            raise BadInput(f"{declared}, which lies beside {path}, is of {file}. Name the one that you mean.")
        base.class_of(node["name"], str(file))
        return node, False
    path = path.resolve()
    return _derived_choice(path, user_code.digest(path)), True


@functools.cache
def _derived_choice(path: Path, sha256: str) -> dict[str, Any]:
    """A YAML for a file without one, from its class and from trying it."""
    classes = base.import_file(str(path))
    if len(classes) != 1:
        fault = f"registers {', '.join(classes)}: a file each, please" if classes else "has no class"
        raise BadInput(f"{path} {fault}. It needs one, an nn.Module; @normalizer('NAME') gives it a name.")
    ((name, cls),) = classes.items()
    options, specs = _options(cls, path) if issubclass(cls, base.Normalizer) else ({}, {})
    of_weights = issubclass(cls, base.WeightNormalizer)
    doc = (inspect.getdoc(cls) or name).split("\n")[0]
    facts: dict[str, Any] = {
        "title": f"{name} (one's own)",
        "source": doc,
        "maths": 1,
        "file": str(path),
        "kinds": ["weight"] if of_weights else ["pre_activation", "post_activation"],
        "axes": ["batch", "time", "feature", "space"],
        "options": specs,
    }
    subject = Subject(name, facts, options)
    try:
        _measure(subject, facts)
    except Exception as error:  # raised by the user's code
        raise BadInput(f"{path}: {contract.format_error(error)}") from error
    return {"name": name, "sites": None, "preceding_bias": "site", **options, "declares": facts}


def _read(path: Path) -> dict[str, Any]:
    node = choice_file.read(path)
    declares = node.get("declares")
    if not isinstance(declares, dict) or "name" not in node or "file" not in declares:
        raise BadInput(f"{path} needs name, and declares with file, as examples/own_normalizer/norm has them.")
    compose.place_file(node, path)
    return node


def _place(node: Mapping[str, Any], conf: Path, source: Path, derived: bool, trains: bool) -> Adopted:
    """Write the YAML where its name is looked up; the Python file stays where it is.

    It is first composed and tried in a temporary folder, so that an error leaves nothing behind.
    """
    name = str(node["name"])
    is_identifier = name.isascii() and name.isidentifier()
    if not is_identifier or grammar.chosen(grammar.parse([f"norm={name}"]), "norm") != [name]:
        raise BadInput(
            f"{source}: '{name}' is no name for a normalizer: letters a to z, digits and _ alone, and no word that "
            "YAML takes for something else. Rename it."
        )
    text = yaml.safe_dump(dict(node), sort_keys=False, allow_unicode=True)
    with scratch.folder("normbench-own-") as folder:
        target = folder / "norm" / f"{name}.yaml"
        files.make_folder(target.parent)
        files.atomic_write(target, text.encode())
        plan.forget()
        try:
            compose.compose(grammar.parse(["model=mnist_mlp", f"norm={name}", "norm.sites=[]"]), folder)
        except NormbenchError as error:
            raise BadInput(str(error).replace(str(target.resolve()), str(source))) from None
        subject = Subject.registered(name, folder)
        _refuse_unserved(subject, source)
        if trains:
            _refuse_untrainable(subject, source)
        return keep(Adopted(name, folder, text if derived else ""), conf)


def _refuse_unserved(subject: Subject, source: Path) -> None:
    """NormbenchError if it serves no layout, with the errors of trying."""
    troubles = {axes: contract.broken(contract.FITS, subject, axes) for axes in subject.layouts()}
    if None in subject.defaults.values() or not all(troubles.values()):  # an override will give the missing value
        return
    plainest = {troubles[axes]: axes for axes in (LAYOUTS[2], subject.layouts()[0]) if axes in troubles}
    reasons = "; ".join(f"{' × '.join(axes)}: {text}" for text, axes in reversed(plainest.items()))
    raise BadInput(
        f"{source}: {subject.name} serves no layout ({reasons}). A forward takes x, a Normalizer's also mask=None, and "
        "gives one tensor of x's shape and type."
    )


def _refuse_untrainable(subject: Subject, source: Path) -> None:
    """NormbenchError if it changes its input or a checkpoint would lack part of its state; a battery reports it."""
    axes = subject.layouts()[0]
    try:
        x = subject.inputs(axes)
        subject.make(axes, subject.defaults)(given := x.clone())
        contract.demand(torch.equal(x, given), contract.IN_PLACE)
        contract.whole_state(subject, axes)
    except contract.Broken as error:
        raise BadInput(f"{source}: {subject.name}: {error}.") from None
    except Exception:  # another fault, perhaps in float64 only, which the contract reports
        return


def _measure(subject: Subject, facts: dict[str, Any]) -> None:
    """Narrow the facts (the subject's own mapping) by trying; unchanged if it serves no layout."""
    served = [axes for axes in subject.layouts() if not contract.broken(contract.FITS, subject, axes)]
    if not served:
        return
    facts["axes"] = [axis for axis in facts["axes"] if any(axis in axes for axes in served)]
    if "space" in facts["axes"] and LAYOUTS[0] not in served:
        facts["needs"] = ["space"]
    if subject.layouts() != served:
        facts["layouts"] = [list(axes) for axes in served]
    facts["mode_dependent"] = _promises_break(_with(subject, mode_dependent=False), served[0], "mode_and_neighbours")
    if not subject.of_weights:
        facts["measured"] = {}
        for fact in contract.CHANGES:
            by_scale = contract.deviations(subject, served[0], fact)
            facts[fact] = max(by_scale.values()) < NOT
            facts["measured"][fact] = ", ".join(f"{value:.0e} at {scale:g}" for scale, value in by_scale.items())
        if LAYOUTS[2] in served and isinstance(norm := subject.make(LAYOUTS[2], subject.defaults), base.WrappedModule):
            facts["measured"]["space"] = f"x is {'(N, C, H, W)' if norm.channels_first else '(positions, features)'}"
        facts["reads_mask"] = any(_promises_break(subject, axes, "mask_counts") for axes in served)
        zeros = torch.zeros_like(subject.inputs(served[0]))  # its parameters may add a shift
        facts["own_shift"] = bool(subject.make(served[0], subject.defaults)(zeros).abs().sum() > 0)
        in_time, kinds = ("batch", "time", "feature"), [*facts["kinds"], "state"]
        if in_time in served and not _promises_break(_with(subject, kinds=kinds), in_time, "stepwise"):
            facts["kinds"] = kinds
        if in_time in served and _promises_break(subject, in_time, "later_steps"):
            facts["pools_steps"] = True


def _with(subject: Subject, **facts: Any) -> Subject:
    return Subject(subject.name, {**subject.facts, **facts}, subject.defaults)


def _options(cls: type[nn.Module], path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Keyword arguments of the constructor with their defaults, and their types."""
    options, specs = {}, {}
    for parameter in list(inspect.signature(cls).parameters.values())[1:]:  # the first is the site
        kind = TYPES.get(type(parameter.default))
        if kind is None or parameter.kind is not parameter.KEYWORD_ONLY:
            raise BadInput(
                f"{path}: the option '{parameter.name}' of {cls.__name__} needs to be keyword-only with a default that "
                f"is a bool, int, float or str. Or declare it in {path.with_suffix('.yaml').name} beside it."
            )
        options[parameter.name], specs[parameter.name] = parameter.default, {"type": kind}
    return options, specs


def _promises_break(subject: Subject, axes: Axes, name: str) -> bool:
    check = next(c for c in contract.CHECKS if c.name == name)
    return bool(contract.broken(check, subject, axes))
