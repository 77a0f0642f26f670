"""Norm sites: the places where a model can be normalized, and which normalizer goes where. Readable without torch.

A model declares its sites in `conf/model/NAME.yaml`; a path like `hidden.0` or `lstm.question.cell`, and

- `kinds`: what can be normalized there: `pre_activation` (summed inputs, before the non-linearity), `post_activation`,
  `state` (a recurrent term inside the time loop), `weight`, `block` (linear map and non-linearity together);
- `axes`: the axes of the tensor in order, of `batch`, `time`, `feature`, `space` (repeated for height and width);
- `features`: the size of the feature axis, `times` a factor on it (4 for four gates), `over` a divisor of it (heads);
  `space`: the sizes of the space axes; numbers, or the option that has them;
- `bias`: whether the preceding linear map drops its bias once the site is normalized (`drop` or `keep`);
- `mask`: whether the model passes a mask of valid positions;
- `causal`: whether no step may see a later one, as in a language model;
- `count`: the option with the number of sites, `*` in the name their numbers; `only`: the values of options with which
  there is such a site;
- `activation`: the non-linearity, for a `block` and what replaces it: its name, or the option that has it.

A normalizer declares in `conf/norm/NAME.yaml` which `kinds` it serves, which `axes` it can stand and further facts that
drive the contract; `config/declaration_keys.py` has them all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from normbench.core import eval_variants, schema
from normbench.core.eval_variants import Declared, Variant
from normbench.errors import BadInput
from normbench.norms.patterns import match_patterns, matches, prefixes

KINDS = ("pre_activation", "post_activation", "state", "weight", "block")
AXES = ("batch", "time", "feature", "space")
WEIGHT = ".weight"  # at the end of a pattern: the weight of the layer there
INVARIANT, NOT = 1e-9, 1e-3  # max |f' - f| / max |f| up to which nothing changes, and from which something does
BIAS = {"type": "str", "choices": ["site", "keep", "drop"]}  # of `preceding_bias`
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
    causal: bool = False

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
    preset: str = ""  # the name under which it was chosen, if that is a preset of it
    evaluation: tuple[str, ...] = ()  # options that leave training as it is
    variants: Declared = field(default_factory=dict)  # options that an evaluation may set otherwise, and their values
    weight: Choice | None = None  # beside it, of the weight of the layer there
    same_as: Mapping[str, Any] = field(default_factory=dict)  # the simpler normalizer that it is in a small run
    replaces: str = ""  # the model's non-linearity, where the normalizer brings one of its own

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Choice:
        """The inverse of `dataclasses.asdict`, after JSON."""
        weight = content["weight"] and cls.from_json(content["weight"])
        return cls(**{**content, "weight": weight, "evaluation": tuple(content["evaluation"])})

    @property
    def label(self) -> str:
        name = self.preset or self.name
        return f"{name}-replaces-{self.replaces}" if self.replaces else name


def simpler(choice: Choice, sizes: Mapping[str, int]) -> str:
    """ "norm=ghost_batch trains as batch: batch_size is at most 128" in a run of these sizes; "" where it does not."""
    for size, factors in choice.same_as.get("at_most", {}).items():
        bound = math.prod(choice.options[factor] if isinstance(factor, str) else factor for factor in factors)
        if sizes[size] <= bound:
            options = ", ".join(f"{key}={choice.options[key]}" for key in factors if isinstance(key, str))
            why = f"{size} {sizes[size]} is at most {bound:g}{f' ({options})' if options else ''}"
            return f"norm={choice.label} trains as {choice.same_as['norm']}: {why}."
    return ""


def lookup(config: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path of a configuration, e.g. `model.hidden_sizes`."""
    node: Any = config
    for key in path.split("."):
        node = node[key]
    return node


def least_eps(specs: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The options eps..., which prevent division by 0, at their smallest values: larger ones hide invariances."""
    least = {key: spec.get("min", 1e-12) for key, spec in specs.items() if spec["type"] == "float"}
    return {key: value for key, value in least.items() if key.startswith("eps") and options[key] > value}


def _size(config: Mapping[str, Any], value: Any) -> Any:
    """A size of a site: a number, or the value of the option that has it."""
    if not isinstance(value, str):
        return value
    try:
        return lookup(config, value)
    except KeyError:
        model, data = config["model"]["name"], config["data"]["name"]
        raise BadInput(f"model={model} needs {value}, which data={data} does not have.") from None


def _activation(config: Mapping[str, Any], value: str) -> str:
    return str(lookup(config, value)) if "." in value else value


def declared(config: Mapping[str, Any]) -> dict[str, Site]:
    """All sites of the configured model, in the model's order. `each: model.sizes` makes one site per list entry."""
    sites: dict[str, Site] = {}
    for name, spec in config["model"]["declares"]["sites"].items():
        if any(lookup(config, option) not in values for option, values in spec.get("only", {}).items()):
            continue
        if "each" in spec:
            sizes = {f"{name}.{i}": size for i, size in enumerate(lookup(config, spec["each"]))}
        else:
            numbers = range(_size(config, spec.get("count", 1)))
            size = _size(config, spec["features"]) * _size(config, spec.get("times", 1))
            sizes = {name.replace("*", str(i)): size // _size(config, spec.get("over", 1)) for i in numbers}
        for path, size in sizes.items():
            site = Site(
                path=path,
                kinds=tuple(spec["kinds"]),
                axes=tuple(spec["axes"]),
                features=size,
                space=tuple(_size(config, spec["space"])) if "space" in spec else (),
                bias=spec.get("bias", "drop"),
                mask=bool(spec.get("mask", False)),
                activation=_activation(config, spec.get("activation", "")),
                causal=bool(spec.get("causal", False)),
            )
            if not set(site.kinds) <= set(KINDS) or not set(site.axes) <= set(AXES) or "feature" not in site.axes:
                raise BadInput(f"model {config['model']['name']} declares site '{path}' wrongly: {spec}")
            sites[path] = site
    return sites


def assign(config: Mapping[str, Any], norm_node: Callable[[str], Mapping[str, Any]]) -> dict[str, Choice]:
    """The normalizer of each site; sites without one do not appear.

    `norm.sites` is null (the model's default sites), a list of patterns (all get `norm`), or a map from pattern to a
    normalizer's name or `{name, option: value}`. The most specific pattern wins. A pattern that ends in `.weight`
    chooses the normalizer of the layer's weight: the site's where it has no other, else a second one, at PATH.weight.
    `norm_node(name)` gives a normalizer's YAML. Errors: a pattern without a site, two patterns equally specific, an
    option that does not exist, a normalizer that cannot serve the site, two of one weight.
    """
    sites, entries, model = declared(config), _patterns(config), config["model"]["name"]
    of_sites = [pattern for pattern in entries if not pattern.endswith(WEIGHT)]
    of_weights = [pattern.removesuffix(WEIGHT) for pattern in entries if pattern.endswith(WEIGHT)]
    patterns = match_patterns("norm.sites", model, "site", of_sites, sites)
    weights = match_patterns("norm.sites", model, "the weight of", of_weights, _with_weight(config, sites, of_weights))

    def choice(site: Site, pattern: str) -> Choice | None:
        chosen = _resolve(site, entries[pattern], config, norm_node) if pattern in entries else None
        return None if chosen is None or chosen.name == "none" else chosen

    result: dict[str, Choice] = {}
    for path, site in sites.items():
        activation = choice(site, patterns.get(path, ""))
        weight = choice(replace(site, path=path + WEIGHT, kinds=("weight",)), weights.get(path, "") + WEIGHT)
        if activation and weight:
            result |= _both(model, path, activation, weight)
        elif only := activation or weight:
            result[path] = only
    return result


def _both(model: str, path: str, choice: Choice, weight: Choice) -> dict[str, Choice]:
    if choice.kind in ("weight", "block"):
        raise BadInput(
            f"norm.sites: {choice.name} at '{path}' and {weight.name} at '{path}{WEIGHT}' of {model} would both "
            "normalize that weight. Take one of them."
        )
    keep_bias = choice.keep_bias and weight.keep_bias
    return {path: replace(choice, keep_bias=keep_bias, weight=weight), path + WEIGHT: weight}


def _with_weight(config: Mapping[str, Any], sites: Mapping[str, Site], patterns: Iterable[str]) -> list[str]:
    """The sites of layers whose weight can be normalized; NormbenchError for a pattern that matches none of them."""
    model = config["model"]
    paths = [path for path, site in sites.items() if "weight" in site.kinds and not model["declares"].get("probe")]
    for pattern in patterns:
        if not any(matches(pattern, path) for path in paths):
            raise BadInput(
                f"norm.sites: {model['name']} has no weight '{pattern}{WEIGHT}' to normalize. "
                f"(it has {', '.join(path + WEIGHT for path in paths) or 'none'})"
            )
    return paths


def _patterns(config: Mapping[str, Any]) -> dict[str, Any]:
    value = config["norm"]["sites"]
    if value is None:
        paths = declared(config)  # with some options a model lacks some of its default sites
        patterns = config["model"]["declares"]["default_sites"]
        value = [pattern for pattern in patterns if any(matches(pattern, path) for path in paths)]
    if isinstance(value, str):
        value = [value]
    if isinstance(value, list) and all(isinstance(v, str) for v in value):
        return {pattern: {} for pattern in value}
    if isinstance(value, Mapping) and all(isinstance(entry, Mapping | str | None) for entry in value.values()):
        return {str(k): {"name": v} if isinstance(v, str) else v or {} for k, v in value.items()}
    raise BadInput(
        f"norm.sites={value} must be a list of sites or a map from a site to a normalizer's name or to its options."
    )


def _resolve(
    site: Site, entry: Mapping[str, Any], config: Mapping[str, Any], norm_node: Callable[[str], Mapping[str, Any]]
) -> Choice:
    base = config["norm"]
    name = str(entry.get("name", base["name"]))
    node, place = base if name == base["name"] else norm_node(name), f"norm.sites.{site.path}"
    declares = node["declares"]
    options = {key: value for key, value in _values(site, node).items() if key not in COMMON_KEYS}
    options |= {key: value for key, value in entry.items() if key not in ("name", "preceding_bias")}
    options = schema.check_options(place, options, declares.get("options") or {}, set())
    why_not = refusal(site, declares)
    if why_not and name != "none":
        sites = declared(config)
        able = ",".join(prefixes([path for path, other in sites.items() if not refusal(other, declares)], sites))
        raise BadInput(
            f"{name} cannot serve site '{site.path}' of {config['model']['name']}: {why_not}. "
            f"(sites that it can serve here: {f'norm.sites=[{able}]' if able else 'none'})"
        )
    return _choice(
        site,
        node,
        options,
        schema.check(f"{place}.preceding_bias", entry.get("preceding_bias", base["preceding_bias"]), BIAS),
    )


def _values(site: Site, node: Mapping[str, Any]) -> Mapping[str, Any]:
    """A normalizer's YAML with the values that it has at this site."""
    return {**node, **node["declares"].get("at", {}).get(site.path.rsplit(".", 1)[-1], {})}


def choose(site: Site, node: Mapping[str, Any], given: Mapping[str, Any]) -> Choice:
    """A normalizer, by its YAML and the options that are `given`, for a site that belongs to no model's configuration.

    Errors: an option that does not exist or has another type, a site that it cannot serve.
    """
    name, declares = str(node["name"]), node["declares"]
    values = {key: value for key, value in _values(site, node).items() if key not in COMMON_KEYS} | dict(given)
    options = schema.check_options(name, values, declares.get("options") or {}, set())
    if why_not := refusal(site, declares):
        raise BadInput(f"{name} cannot serve '{site.path}': {why_not}.")
    return _choice(site, node, options, str(node.get("preceding_bias", "site")))


def _choice(site: Site, node: Mapping[str, Any], options: Mapping[str, Any], policy: str) -> Choice:
    name, declares = str(node["name"]), node["declares"]
    kind = next((k for k in declares["kinds"] if k in site.kinds), "")
    if kind == "state":
        _refuse_whole_sequence(name, site, options, declares.get("state") or {})
    if groups := declares.get("groups"):
        _refuse_groups(name, site, groups, options[groups])
    if site.causal and declares.get("pools_steps"):
        _refuse_later_steps(name, site, options, declares.get("apart", {}).get("time", {}))
    # The authors' choice for normalizers that take the mean away; `preceding_bias` overrides it. One without a shift
    # of its own (`own_shift: false`) has nothing to put in the bias's place.
    drops = site.bias == "drop" and bool(declares.get("recentres")) and declares.get("own_shift", True)
    keep = {"site": not drops, "keep": True, "drop": False}[policy]
    by_mode = declares.get("mode_dependent")
    return Choice(
        name=declares.get("like", name),
        kind=kind,
        options=options,
        keep_bias=keep,
        mode_dependent=bool(options[by_mode] if isinstance(by_mode, str) else by_mode),
        maths=declares["maths"],
        file=declares.get("file", ""),
        preset=name if "like" in declares else "",
        evaluation=schema.unhashed(declares),
        variants=declares.get("variants") or {},
        same_as=declares.get("same_as") or {},
        replaces=site.activation if declares.get("replaces") else "",
    )


def asked_variants(evaluation: Mapping[str, Any], choices: Mapping[str, Choice], key: str) -> list[Variant]:
    """The variants that `eval.KEY` names; NormbenchError for one that none of the chosen normalizers has."""
    declared: dict[str, list[Any]] = {}
    for choice in choices.values():
        for option, values in choice.variants.items():
            declared.setdefault(option, []).extend(values)
    norms = f"norm={', '.join(sorted({choice.name for choice in choices.values()})) or 'none'}"
    return [eval_variants.parse(words, declared, f"eval.{key}", norms) for words in evaluation[key]]


def refusal(site: Site, declares: Mapping[str, Any]) -> str:
    """Why a normalizer with these declarations cannot serve the site; "" if it can."""
    if not set(declares["kinds"]) & set(site.kinds):
        return f"it serves {' and '.join(declares['kinds'])}, the site is {' or '.join(site.kinds)}"
    if declares.get("replaces") and not site.activation:
        return "it brings a non-linearity of its own, and there is none to replace"
    missing = [axis for axis in declares.get("needs") or [] if axis not in site.axes]
    if missing:
        return f"it needs {' and '.join(missing)} axes"
    unserved = [axis for axis in dict.fromkeys(site.axes) if axis not in declares["axes"]]
    if unserved:
        return f"it has no rule for {' and '.join(unserved)} axes"
    if list(site.axes) not in declares.get("layouts", [list(site.axes)]):
        return f"it serves {' or '.join(' × '.join(axes) for axes in declares['layouts'])} alone"
    if declares.get("one_length") and site.mask and "time" in site.axes:
        return "it has statistics for every step, and the sequences there are of several lengths"
    activations = declares.get("activations")
    if activations is not None and site.activation not in activations:
        names = " and ".join(activations)
        return f"it knows the moments of {names}, the activation there is {site.activation or 'none'}"
    if "space" in (declares.get("needs") or []) and site.space and math.prod(site.space) == 1:
        return "it needs more than one position in space"
    return ""


def _refuse_whole_sequence(name: str, site: Site, options: Mapping[str, Any], needed: Mapping[str, Any]) -> None:
    for option, value in needed.items():
        if options[option] != value:
            raise BadInput(
                f"{name} at site '{site.path}': {option}={options[option]} needs the whole sequence, but a time loop "
                f"has one step at a time. Take norm.{option}={value}."
            )


def _refuse_later_steps(name: str, site: Site, options: Mapping[str, Any], apart: Mapping[str, Any]) -> None:
    """NormbenchError where each step's output would depend on later ones; `apart`: options with which it does not."""
    if apart and apart.items() <= options.items():
        return
    instead = "".join(f" or norm.{option}={value}" for option, value in apart.items())
    raise BadInput(
        f"{name} cannot serve site '{site.path}': its statistics are of all steps, so each prediction would see the "
        f"characters that it predicts. Take norm=layer{instead}."
    )


def _refuse_groups(name: str, site: Site, option: str, groups: int) -> None:
    values = site.features * math.prod(site.space)
    if site.features % groups:
        fitting = [str(n) for n in range(1, site.features + 1) if site.features % n == 0 and n < values]
        raise BadInput(
            f"{name} at site '{site.path}': {option}={groups} does not divide its {site.features} features. "
            f"Choose from: {', '.join(fitting)}."
        )
    if values == groups:
        raise BadInput(f"{name} at site '{site.path}': {option}={groups} leaves one value in each group.")


def single_refused(declares: Mapping[str, Any], axes: Collection[str], options: Mapping[str, Any]) -> str:
    """The option that would permit one value per feature, if a batch of one has only one at such a site; else ""."""
    option, apart = declares.get("single_batch"), declares.get("apart", {})
    several = [  # steps and positions give several values, unless each has its own statistics
        axis
        for axis in ("time", "space")
        if axis in axes and not (axis in apart and apart[axis].items() <= options.items())
    ]
    return str(option) if option and not options[option] and not several else ""
