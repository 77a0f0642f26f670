"""Norm sites: the places where a model can be normalized, and which normalizer goes where. Readable without torch.

A model declares its sites in `conf/model/NAME.yaml`; a path like `hidden.0` or `lstm.question.cell`, and

- `kinds`: what can be normalized there: `pre_activation` (summed inputs, before the non-linearity), `post_activation`,
  `state` (a recurrent term inside the time loop), `weight`, `block` (linear map and non-linearity together);
- `axes`: the axes of the tensor in order, of `batch`, `time`, `feature`, `space` (repeated for height and width);
- `features`: the size of the feature axis, `times` a factor on it (4 for four gates); `space`: the sizes of the space
  axes; numbers, or the option that has them;
- `bias`: whether the preceding linear map drops its bias once the site is normalized (`drop` or `keep`);
- `mask`: whether the model passes a mask of valid positions;
- `activation`: the name of the non-linearity, for a `block`.

A normalizer declares in `conf/norm/NAME.yaml` which `kinds` it serves, which `axes` it can stand and which it `needs`;
`layouts` lists the axes in their order, where not every order will do; one of blocks, which `activations` it knows.
`one_length`: its statistics take sequences of one length, which those at a site with a `mask` are not.
`mode_dependent` says whether training and evaluation compute different functions: true, false, or the name of the
option that makes it so.
`groups: OPTION` names the option that must divide the features. `state: {OPTION: VALUE}` holds the options without
which it cannot stand inside a time loop. `variants: {OPTION: [VALUE, ...]}` are the options that an evaluation may set
otherwise (`eval.variants`); an option with `hashed: false` concerns evaluation alone. Further facts
there drive the contract:
`recentres`, `rescales` (a shift, a positive factor on all data changes nothing), `own_shift`, `mode_dependent`,
`reads_mask`, `detaches` (something takes no part in the gradient on purpose), `single_batch: OPTION`, which permits one
value per feature; `measured`: what was found by trying, in words. `apart: {AXIS: {OPTION: VALUE}}`: with these each
position of an axis is normalized by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from normbench import schema, variants
from normbench.errors import NormbenchError, did_you_mean, unknown
from normbench.variants import Declared, Variant

KINDS = ("pre_activation", "post_activation", "state", "weight", "block")
AXES = ("batch", "time", "feature", "space")
INVARIANT, NOT = 1e-9, 1e-3  # max |f' - f| / max |f| up to which nothing changes, and from which something does
COMMON_KEYS = {"name", "sites", "preceding_bias", "declares"}


@dataclass(frozen=True)
class Site:
    """One place that can be normalized; `axes` in the order of the tensor, e.g. ("batch", "feature")."""

    path: str
    kinds: tuple[str, ...]
    axes: tuple[str, ...]
    features: int
    space: tuple[int, ...] = ()
    bias: str = "drop"
    mask: bool = False
    activation: str = ""

    @property
    def feature_axis(self) -> int:
        """Index of the feature axis in the tensor."""
        return self.axes.index("feature")


@dataclass(frozen=True)
class Choice:
    """The normalizer chosen for one site, with every option; `keep_bias`: the preceding linear map keeps its bias."""

    name: str
    kind: str
    options: Mapping[str, Any]
    keep_bias: bool
    mode_dependent: bool
    maths: int
    file: str = ""
    legacy: Mapping[str, Any] = field(default_factory=dict)  # options that came later: their value of the time before
    evaluation: tuple[str, ...] = ()  # options that leave training as it is
    variants: Declared = field(default_factory=dict)  # options that an evaluation may set otherwise, and their values


def lookup(config: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path of a configuration, e.g. `model.hidden_sizes`."""
    node: Any = config
    for key in path.split("."):
        node = node[key]
    return node


def check_facts(place: str, declares: Mapping[str, Any]) -> None:
    """What a normalizer's YAML declares beside its options, for its author: NormbenchError for a fact that is none."""
    for key, known in (("kinds", KINDS), ("axes", AXES), ("needs", AXES)):
        found = declares.get(key, [])
        if not isinstance(found, list) or not (found or key == "needs"):
            raise NormbenchError(f"{place}: declares.{key}: {found} must be a list of {', '.join(known)}.")
        for value in found:
            if value not in known:
                raise unknown(f"{place}: declares.{key}: {value} is not known.", str(value), known)
    layouts = declares.get("layouts", [])
    if not isinstance(layouts, list) or not all(isinstance(axes, list) and set(axes) <= set(AXES) for axes in layouts):
        raise NormbenchError(f"{place}: declares.layouts: {layouts} must be a list of lists of {', '.join(AXES)}.")
    known = declares.get("activations", [])
    if not isinstance(known, list) or not all(isinstance(value, str) for value in known):
        raise NormbenchError(f"{place}: declares.activations: {known} must be a list of names.")
    options = list(map(str, declares.get("options") or {}))
    _check_apart(place, declares.get("apart", {}), options)
    for key in ("groups", "single_batch", "mode_dependent", "state", "variants"):
        found = declares.get(key)
        if found is None or (key == "mode_dependent" and isinstance(found, bool)):
            continue
        mapped = key in ("state", "variants")
        if not isinstance(found, Mapping if mapped else str):
            form = "a map from option to value" if mapped else "the name of an option"
            raise NormbenchError(f"{place}: declares.{key}: {found} must be {form}.")
        if key == "variants" and not all(isinstance(values, list) for values in declares[key].values()):
            raise NormbenchError(f"{place}: declares.variants: {found} must have a list of values for each option.")
        for option in map(str, found if isinstance(found, Mapping) else [found]):
            if option not in options:
                raise unknown(f"{place}: declares.{key}: {option} is not in declares.options.", option, options)


def _check_apart(place: str, found: Any, options: list[str]) -> None:
    if not isinstance(found, Mapping) or not all(isinstance(told, Mapping) for told in found.values()):
        raise NormbenchError(f"{place}: declares.apart: {found} must be a map from axis to options with their values.")
    for axis, told in found.items():
        if axis not in AXES:
            raise unknown(f"{place}: declares.apart: {axis} is not known.", str(axis), AXES)
        for option in map(str, told):
            if option not in options:
                raise unknown(f"{place}: declares.apart: {option} is not in declares.options.", option, options)


def least_eps(specs: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """What is added so that nothing is divided by 0, made as small as it may be, for it hides invariances."""
    least = {key: spec.get("min", 1e-12) for key, spec in specs.items() if spec["type"] == "float"}
    return {key: value for key, value in least.items() if key.startswith("eps") and options[key] > value}


def check_options(place: str, node: Mapping[str, Any]) -> None:
    """That a normalizer's YAML has values of their types for the options that it declares, and declares all it has."""
    options = node["declares"].get("options") or {}
    for key, usual in (("sites", "null"), ("preceding_bias", "site")):
        if key not in node:
            raise NormbenchError(f"{place}: '{key}' must be given; usual is {key}: {usual}.")
    for key in node:
        if key not in options and key not in COMMON_KEYS:
            said = f"{place}: norm.{key} is not an option: declares.options has no line for it."
            raise NormbenchError(said + did_you_mean(str(key), map(str, options)))
    for key, spec in options.items():
        if key not in node:
            raise NormbenchError(f"{place}: norm.{key} is declared but has no value: write {key}: VALUE beside name.")
        if node[key] is not None:  # what has no value of its own yet is given one by a command
            schema.check(f"{place}: norm.{key}", node[key], spec)


def _given(config: Mapping[str, Any], value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return lookup(config, value)
    except KeyError:
        model, data = config["model"]["name"], config["data"]["name"]
        raise NormbenchError(f"model={model} needs {value}, which data={data} does not have.") from None


def declared(config: Mapping[str, Any]) -> dict[str, Site]:
    """All sites of the configured model, in the model's order. `each: model.sizes` makes one site per list entry."""
    sites: dict[str, Site] = {}
    for name, spec in config["model"]["declares"]["sites"].items():
        if "each" in spec:
            sizes = {f"{name}.{i}": size for i, size in enumerate(lookup(config, spec["each"]))}
        else:
            sizes = {name: _given(config, spec["features"]) * _given(config, spec.get("times", 1))}
        for path, size in sizes.items():
            site = Site(
                path=path,
                kinds=tuple(spec["kinds"]),
                axes=tuple(spec["axes"]),
                features=size,
                space=tuple(_given(config, spec["space"])) if "space" in spec else (),
                bias=spec.get("bias", "drop"),
                mask=bool(spec.get("mask", False)),
                activation=str(lookup(config, spec["activation"])) if "activation" in spec else "",
            )
            if not set(site.kinds) <= set(KINDS) or not set(site.axes) <= set(AXES) or "feature" not in site.axes:
                raise NormbenchError(f"model {config['model']['name']} declares site '{path}' wrongly: {spec}")
            sites[path] = site
    return sites


def matches(pattern: str, path: str) -> bool:
    """A prefix selects all below it; `*` stands for one part: `lstm`, `lstm.*.cell`, `hidden.0`."""
    parts, names = pattern.split("."), path.split(".")
    return len(parts) <= len(names) and all(fnmatchcase(n, p) for p, n in zip(parts, names, strict=False))


def _specificity(pattern: str) -> tuple[int, int]:
    parts = pattern.split(".")
    return len(parts), sum("*" not in part and "?" not in part and "[" not in part for part in parts)


def assign(config: Mapping[str, Any], norm_node: Callable[[str], Mapping[str, Any]]) -> dict[str, Choice]:
    """Which normalizer stands at which site; sites left as they are do not appear.

    `norm.sites` is null (the model's default sites), a list of patterns (all get `norm`), or a map from pattern to a
    normalizer's name or `{name, option: value}`. The most specific pattern wins. `norm_node(name)` gives a
    normalizer's YAML. Errors: a pattern without a site, two patterns equally specific, an option that does not
    exist, a normalizer that cannot serve the site.
    """
    sites, entries = declared(config), _patterns(config)
    chosen = claims("norm.sites", config["model"]["name"], "site", entries, sites)
    result = {}
    for path, site in sites.items():
        if path in chosen:
            choice = _resolve(site, entries[chosen[path]], config, norm_node)
            if choice.name != "none":
                result[path] = choice
    return result


def claims(place: str, model: str, noun: str, patterns: Iterable[str], paths: Collection[str]) -> dict[str, str]:
    """The pattern that each path goes by, the most specific one; paths that none matches do not appear.

    Errors, beginning with `place`: a pattern without a path, two patterns equally specific.
    """
    chosen: dict[str, str] = {}
    # the most specific first, so that only claims that could win are compared, in whatever order they were written
    for pattern in sorted(patterns, key=_specificity, reverse=True):
        hits = [path for path in paths if matches(pattern, path)]
        if not hits:
            prefixes = {path.rsplit(".", i)[0] for path in paths for i in range(path.count(".") + 1)}
            raise unknown(f"{place}: {model} has no {noun} '{pattern}'.", pattern, sorted(prefixes))
        for path in hits:
            other = chosen.setdefault(path, pattern)
            if other != pattern and _specificity(other) == _specificity(pattern):
                raise NormbenchError(f"{place}: '{other}' and '{pattern}' both claim {noun} '{path}' of {model}.")
    return chosen


def _patterns(config: Mapping[str, Any]) -> dict[str, Any]:
    value = config["norm"]["sites"]
    if value is None:
        value = config["model"]["declares"]["default_sites"]
    if isinstance(value, str):
        value = [value]
    if isinstance(value, list) and all(isinstance(v, str) for v in value):
        return {pattern: {} for pattern in value}
    if isinstance(value, Mapping):
        return {str(k): {"name": v} if isinstance(v, str) else {} if v is None else v for k, v in value.items()}
    raise NormbenchError(f"norm.sites={value} must be a list of sites or a map from site to normalizer.")


def _resolve(
    site: Site, entry: Any, config: Mapping[str, Any], norm_node: Callable[[str], Mapping[str, Any]]
) -> Choice:
    if not isinstance(entry, Mapping):
        raise NormbenchError(
            f"norm.sites: site '{site.path}' needs a normalizer's name or a map of options, not {entry}."
        )
    base = config["norm"]
    name = str(entry.get("name", base["name"]))
    if misplaced := sorted({"sites", "declares"} & set(entry)):
        raise NormbenchError(f"norm.sites: '{misplaced[0]}' cannot be set for the single site '{site.path}'.")
    node = base if name == base["name"] else norm_node(name)
    declares = node["declares"]
    options = {key: value for key, value in {**node, **entry}.items() if key not in COMMON_KEYS}
    options = schema.check_options(f"norm.sites.{site.path}", options, declares.get("options") or {}, set())
    why_not = refusal(site, declares)
    if why_not and name != "none":
        able = [p for p, s in declared(config).items() if not refusal(s, declares)]
        raise NormbenchError(
            f"{name} cannot serve site '{site.path}' of {config['model']['name']}: {why_not}. "
            f"(sites that it can serve here: {', '.join(able) or 'none'})"
        )
    if single := single_refused(declares, site.axes, options):
        _refuse_single_batch(name, site, config, single)
    return _choice(site, node, options, entry.get("preceding_bias", base["preceding_bias"]))


def choose(site: Site, node: Mapping[str, Any], given: Mapping[str, Any]) -> Choice:
    """A normalizer, by its YAML and the options that are `given`, for a site that belongs to no model's configuration.

    Errors: an option that does not exist or has another type, a site that it cannot serve.
    """
    name, declares = str(node["name"]), node["declares"]
    values = {key: value for key, value in node.items() if key not in COMMON_KEYS} | dict(given)
    options = schema.check_options(name, values, declares.get("options") or {}, set())
    if why_not := refusal(site, declares):
        raise NormbenchError(f"{name} cannot serve '{site.path}': {why_not}.")
    return _choice(site, node, options, str(node.get("preceding_bias", "site")))


def _choice(site: Site, node: Mapping[str, Any], options: Mapping[str, Any], policy: str) -> Choice:
    name, declares = str(node["name"]), node["declares"]
    kind = next((k for k in declares["kinds"] if k in site.kinds), "")
    if kind == "state":
        _refuse_whole_sequence(name, site, options, declares.get("state") or {})
    if groups := declares.get("groups"):
        _refuse_groups(name, site, groups, options[groups])
    if policy not in ("site", "keep", "drop"):
        raise unknown(f"preceding_bias={policy} is not possible.", str(policy), ["site", "keep", "drop"])
    # The authors' choice for normalizers that take the mean away; `preceding_bias` overrides it. One without a shift
    # of its own (`own_shift: false`) has nothing to put in the bias's place.
    drops = site.bias == "drop" and bool(declares.get("recentres")) and declares.get("own_shift", True)
    keep = {"site": not drops, "keep": True, "drop": False}[policy]
    by_mode = declares.get("mode_dependent")
    return Choice(
        name=name,
        kind=kind,
        options=options,
        keep_bias=keep,
        mode_dependent=bool(options[by_mode] if isinstance(by_mode, str) else by_mode),
        maths=declares["maths"],
        file=declares.get("file", ""),
        legacy=schema.legacy_defaults(declares),
        evaluation=schema.unhashed(declares),
        variants=declares.get("variants") or {},
    )


def asked_variants(asked: Mapping[str, Any], choices: Mapping[str, Choice], key: str) -> list[Variant]:
    """The variants that `eval.KEY` names; NormbenchError for one that none of the chosen normalizers has."""
    declared: dict[str, list[Any]] = {}
    for choice in choices.values():
        for option, values in choice.variants.items():
            declared.setdefault(option, []).extend(values)
    of = f"norm={', '.join(sorted({choice.name for choice in choices.values()})) or 'none'}"
    return [variants.parse(words, declared, f"eval.{key}", of) for words in asked[key]]


def refusal(site: Site, declares: Mapping[str, Any]) -> str:
    """Why a normalizer that declares this cannot serve the site; empty where it can."""
    if not set(declares["kinds"]) & set(site.kinds):
        return f"it serves {' and '.join(declares['kinds'])}, the site is {' or '.join(site.kinds)}"
    missing = [axis for axis in declares.get("needs") or [] if axis not in site.axes]
    if missing:
        return f"it needs {' and '.join(missing)} axes"
    extra = [axis for axis in dict.fromkeys(site.axes) if axis not in declares["axes"]]
    if extra:
        return f"it has no rule for {' and '.join(extra)} axes"
    if list(site.axes) not in declares.get("layouts", [list(site.axes)]):
        return f"it serves {' or '.join(' × '.join(axes) for axes in declares['layouts'])} alone"
    if declares.get("one_length") and site.mask and "time" in site.axes:
        return "it has statistics for every step, and the sequences there are of several lengths"
    known = declares.get("activations")
    if known is not None and site.activation not in known:
        return f"it knows the moments of {' and '.join(known)}, the activation there is {site.activation or 'none'}"
    if "space" in (declares.get("needs") or []) and site.space and math.prod(site.space) == 1:
        return "it needs more than one position in space"
    return ""


def _refuse_whole_sequence(name: str, site: Site, options: Mapping[str, Any], needed: Mapping[str, Any]) -> None:
    for option, value in needed.items():
        if options[option] != value:
            raise NormbenchError(
                f"{name} at site '{site.path}': {option}={options[option]} needs the whole sequence, but a time loop "
                f"has one step at a time. Take norm.{option}={value}."
            )


def _refuse_groups(name: str, site: Site, option: str, groups: int) -> None:
    values = site.features * math.prod(site.space)
    if site.features % groups:
        fitting = [str(n) for n in range(1, site.features + 1) if site.features % n == 0 and n < values]
        raise NormbenchError(
            f"{name} at site '{site.path}': {option}={groups} does not divide its {site.features} features. "
            f"Choose from: {', '.join(fitting)}."
        )
    if values == groups:
        raise NormbenchError(f"{name} at site '{site.path}': {option}={groups} leaves one value in each group.")


def single_refused(declares: Mapping[str, Any], axes: Collection[str], options: Mapping[str, Any]) -> str:
    """The option that would permit one value per feature, where a batch of one has no more at such a site; else ''."""
    option, apart = declares.get("single_batch"), declares.get("apart", {})
    several = [  # steps and positions give more than one value, unless each is by itself
        axis
        for axis in ("time", "space")
        if axis in axes and not (axis in apart and apart[axis].items() <= options.items())
    ]
    return str(option) if option and not options[option] and not several else ""


def _refuse_single_batch(name: str, site: Site, config: Mapping[str, Any], option: str) -> None:
    batch, examples = config["train"]["batch_size"], train_size(config)
    if batch == 1 or examples % batch == 1:
        which = "batches" if batch == 1 else f"the last batch ({examples} examples in batches of {batch})"
        raise NormbenchError(
            f"{name} at site '{site.path}' has one value per feature in {which}. "
            f"Choose another train.batch_size, or norm.{option}=true."
        )


def updates_per_epoch(config: Mapping[str, Any]) -> int:
    """Updates that go once through the training examples, computed without reading them."""
    train, size = config["train"], train_size(config)
    if train["sampler"] in ("equal_lengths", "lengths_in_turn"):
        if train["epochs"] or config["eval"]["unit"] == "epochs":
            raise NormbenchError(
                f"train.sampler={train['sampler']}: how many updates an epoch has is known with the data alone. "
                "Count in updates: train.steps=N eval.unit=updates eval.every=N."
            )
        return 1
    drop = train["drop_last"] and train["sampler"] != "infinite"
    found = size // train["batch_size"] if drop else -(-size // train["batch_size"])
    if not found:
        raise NormbenchError(
            f"train.drop_last=true leaves no batch of train.batch_size={train['batch_size']} of {size} examples."
        )
    return found


def train_size(config: Mapping[str, Any]) -> int:
    """How many training examples the configured data set leaves, computed without reading it."""
    rule = config["data"]["declares"]["train_size"]
    size = int(rule["of"]) - sum(config["data"][key] for key in rule["less"])
    if "times" in rule:
        size = round(size * config["data"][rule["times"]])
    if size < 1:
        raise NormbenchError(f"data={config['data']['name']} leaves no training examples: {rule['of']} in all.")
    return size
