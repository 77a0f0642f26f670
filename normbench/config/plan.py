"""From a command to the runs it asks for; all of them are checked before the first one starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import cache
from itertools import chain, count, product
from pathlib import Path
from types import MappingProxyType
from typing import Any

from normbench.config import compose, experiment_file, grammar, identity
from normbench.config.experiment_file import Experiment
from normbench.config.grammar import Override
from normbench.config.spec import Spec
from normbench.config.updates import train_size, updates_per_epoch
from normbench.core import schema
from normbench.errors import BadInput, NormbenchError, unknown
from normbench.files.stored import LABELS
from normbench.norms import sites

ADHOC = "adhoc"
experiment = experiment_file.load


def forget() -> None:
    """Read files anew from now on: one was changed."""
    compose.forget()
    for cached in (experiment_file.load, data_name, _cell_spec, _somewhere):
        cached.cache_clear()


def artifact_specs(
    name: str,
    fidelity: str,
    seeds: int | Sequence[int],
    only: Sequence[str] = (),
    controls: bool | Sequence[str] = False,
    config_dir: Path | None = None,
    limited: bool = True,
    groups: Mapping[str, Sequence[Mapping[str, Any]]] = MappingProxyType({}),
) -> list[Spec]:
    """All runs of an experiment at one fidelity: axes, then seeds, then arms, so that arms are paired early.

    `seeds`: 1 to a number, or these. `only`: arms (`ln`), values of axes (`train.batch_size=128`), names of `groups`;
    of each kind, all where none is named. `controls`: all of them as well; or these alone, without the paper's setting.
    `limited`: the seeds that the experiment's `seeds` give a cell, and no more than its `limits` allow; cells that have
    0 there do not exist. `groups`: by name, the places where runs may lie, as values, or lists of them, of arm,
    control, seed and axes.
    """
    node = experiment(name, config_dir)
    _check_fidelity(name, node, fidelity)
    alone = () if isinstance(controls, bool) else controls
    for control in alone:
        if control not in node.controls:
            raise unknown(f"--control {control}: {name} has no such control.", control, [*node.controls])
    kinds: list[Mapping[str, Sequence[Mapping[str, Any]]]] = [
        {arm: [{"arm": arm}] for arm in node.arms},
        *({f"{key}={value}": [{key: value}] for value in values} for key, values in node.axes.items()),
        groups,
    ]
    for word in only:
        if any(word in kind for kind in kinds):
            continue
        if word in node.controls:
            raise BadInput(f"--only {word}: it is a control. Run it alone with --control {word}.")
        noun = "value" if "=" in word else "arm or claim" if groups else "arm"
        raise unknown(f"--only {word}: {name} has no such {noun}.", word, [*chain(*kinds)])
    wanted = [[at for word in only for at in kind.get(word, ())] for kind in kinds if kind.keys() & {*only}]
    wanted += [[{"control": control} for control in alone]] if alone else []
    runs = []
    cells = planned_seeds(name, fidelity, seeds, config_dir, bool(controls), limited)
    for number, (cell, planned) in enumerate(cells):
        place, arm = divmod(number, len(node.arms))
        for run in ({**cell, "seed": seed} for seed in {*planned}):
            if all(any(_lies(run, at) for at in places) for places in wanted):
                runs.append((place, run["seed"], arm, run))
    specs = [run_spec(name, fidelity, run, config_dir) for *_, run in sorted(runs)]
    if not specs:
        words = " ".join([*(f"--only {word}" for word in only), *(f"--control {control}" for control in alone)])
        raise BadInput(f"{words}: no run of {name} is in all of them.")
    return specs


def _check_fidelity(name: str, node: Experiment, fidelity: str) -> None:
    if fidelity not in node.fidelities:
        raise unknown(f"--fidelity {fidelity}: {name} does not have it.", fidelity, list(node.fidelities))


def planned_seeds(
    name: str,
    fidelity: str,
    seeds: int | Sequence[int],
    config_dir: Path | None = None,
    controls: bool = True,
    limited: bool = True,
) -> list[tuple[Mapping[str, Any], Sequence[int]]]:
    """Every cell, with its arm, control setting ("" is the paper's) and axes, and the seeds that are planned for it.

    Arguments as of `artifact_specs`; the arms of a place one after another.
    """
    node = experiment(name, config_dir)
    requested = range(1, seeds + 1) if isinstance(seeds, int) else seeds
    axes = product(*([(key, value) for value in values] for key, values in node.axes.items()))
    cells = product(["", *(node.controls if controls else ())], axes, node.arms)
    places = [{"control": control, "arm": arm, **dict(values)} for control, values, arm in cells]
    return [(place, _seeds(node, fidelity, place, requested, limited)) for place in places]


@cache
def data_name(name: str, fidelity: str, config_dir: Path | None = None, arm: str = "") -> str:
    """The data set of an arm of an experiment at a fidelity; without an arm, of its first one."""
    node = experiment(name, config_dir)
    _check_fidelity(name, node, fidelity)
    arm = arm or next(iter(node.arms))
    with experiment_file.naming(compose.choice_path("experiment", name, config_dir), f"arm {arm} at {fidelity}"):
        return str(_composed(name, node, arm, fidelity, [], "", config_dir)["data"]["name"])


def place_text(place: Mapping[str, Any]) -> str:
    """'batch size 25, fraction 0.2' for values of axes."""
    return ", ".join(f"{axis_text(key)} {value}" for key, value in place.items())


def axis_text(key: str) -> str:
    """'batch size' for `train.batch_size`."""
    return key.rsplit(".", 1)[-1].replace("_", " ")


def _seeds(
    node: Experiment, fidelity: str, cell: Mapping[str, Any], seeds: Sequence[int], limited: bool
) -> Sequence[int]:
    """Seeds of a cell: those asked for, or those of the last of the experiment's `seeds` that fits it."""
    place = {**cell, "fidelity": fidelity}
    for rule in node.seeds if limited else []:
        if _lies(place, {"fidelity": "paper", **rule.when}):
            seeds = range(rule.from_, rule.to + 1)
    limits = [rule.at_most for rule in node.limits if _lies(place, rule.when)]
    most = [count for count in limits if limited or count == 0]
    if limited and fidelity in node.fidelities:
        most.append(node.fidelities[fidelity].at_most or len(seeds))
    return seeds[: min(most, default=len(seeds))]


def run_spec(name: str, fidelity: str, place: Mapping[str, Any], config_dir: Path | None = None) -> Spec:
    """The run at a place: its arm, control, axes and seed. Runs that differ in their seed alone are composed once."""
    node = experiment(name, config_dir)
    seed, named = place["seed"], _named_seeds(node)
    composed_seed = seed if seed in named else next(other for other in count(1) if other not in named)
    words = (*(f"{key}={place[key]}" for key in node.axes), f"seed={composed_seed}")
    # an author edits the files of a --config-dir while a process runs
    compose_cell = experiment_spec if config_dir else _cell_spec
    return compose_cell(name, place["arm"], fidelity, words, place["control"], config_dir).with_seed(seed)


def cell_specs(
    name: str, fidelity: str, cells: Sequence[Mapping[str, Any]], config_dir: Path | None = None
) -> dict[int | None, list[tuple[Mapping[str, Any], Spec]]]:
    """A run, of any seed, of each cell that can be run; by the seeds that conditions name, None for all others."""
    specs: dict[int | None, list[tuple[Mapping[str, Any], Spec]]] = {}
    for seed, cell in product((None, *_named_seeds(experiment(name, config_dir))), cells):
        with suppress(NormbenchError):  # raised for who asks for it
            spec = run_spec(name, fidelity, {**cell, "seed": seed}, config_dir)
            specs.setdefault(seed, []).append((cell, spec))
    return specs


def _named_seeds(node: Experiment) -> list[int]:
    wanted = [condition.when.get("seed", []) for condition in node.conditions]
    return [*chain(*(seeds if isinstance(seeds, list) else [seeds] for seeds in wanted))]


def experiment_spec(
    name: str, arm: str, fidelity: str, words: Sequence[str], control: str = "", config_dir: Path | None = None
) -> Spec:
    """One run of an experiment. Precedence, last wins: base, arm, fidelity, control, conditions, then `words`."""
    node = experiment(name, config_dir)
    for label, value, names in (
        ("arm", arm, node.arms),
        ("fidelity", fidelity, node.fidelities),
        ("control", control, ["", *node.controls]),
    ):
        if value not in names:
            raise unknown(f"{label}={value}: {name} has no such {label}.", value, [name for name in names if name])
    overrides = grammar.parse(words)
    user_words = [o for o in overrides if not _is_planned(o, node)]
    path = compose.choice_path("experiment", name, config_dir)
    of_file = (str(o.input_line) for o in overrides if o.key_or_group in node.axes)
    where = ", ".join([f"arm {arm}", *([f"control {control}"] if control else []), *of_file])
    with nullcontext() if user_words else experiment_file.naming(path, where):
        return _filed(name, arm, fidelity, overrides, control, config_dir)


_cell_spec = cache(experiment_spec)


def _is_planned(override: Override, node: Experiment) -> bool:
    """Whether a word is of a run that the experiment plans, a seed or a value of an axis, or says where it runs."""
    key, value = override.key_or_group, override.value()
    if key == "seed":
        return type(value) is int and value >= 0
    return key.split(".")[0] in grammar.COMMAND_GROUPS or value in node.axes.get(key, ())


def _filed(
    name: str, arm: str, fidelity: str, overrides: Sequence[Override], control: str, config_dir: Path | None
) -> Spec:
    node = experiment(name, config_dir)
    config = _composed(name, node, arm, fidelity, overrides, control, config_dir)
    values = _values(config)
    for key in node.axes:
        if key not in values:
            raise unknown(f"axes: {key} is not an option.", key, sorted(values))
    axes = {key: values[key] for key in node.axes}
    in_axes = all(value in node.axes[key] for key, value in axes.items())
    extra_words = [
        o
        for o in overrides
        if o.key_or_group not in ("seed", *grammar.COMMAND_GROUPS, *node.axes) and _matters(o, config)
    ]
    if extra_words or not in_axes:  # somebody's own question: never mixed with the experiment's runs
        return resolved(config, ADHOC, f"{name.replace('/', '-')}-{arm}", ADHOC, config_dir=config_dir)
    return resolved(config, name, arm, fidelity, control, axes, config_dir)


def config_without_arm(
    name: str, fidelity: str, words: Sequence[str], config_dir: Path | None = None
) -> compose.Config:
    """What an experiment is about without what its arms bring: that of its arm `norm=none`, or of none of them.

    The model is that of `model_of`, `words` come last. NormbenchError as of `compose.compose`.
    """
    node = experiment(name, config_dir)
    if model := model_of(name, config_dir):
        node = replace(node, base=(f"model={model}", *node.base))
    return _composed(name, node, _baseline_arm(node), fidelity, grammar.parse(words), "", config_dir)


def model_of(name: str, config_dir: Path | None = None) -> str:
    """The model of an experiment: of its arm `norm=none`, of all arms, or of the first that has one; or ""."""
    node = experiment(name, config_dir)
    places = [node.arms.get(_baseline_arm(node), ()), node.base, *node.arms.values()]
    words = (word for place in places for word in reversed(place) if word.startswith("model="))
    return next(words, "").removeprefix("model=")


def _baseline_arm(node: Experiment) -> str:
    return next((arm for arm, words in node.arms.items() if "norm=none" in words), "")


def _composed(
    name: str,
    node: Experiment,
    arm: str,
    fidelity: str,
    overrides: Sequence[Override],
    control: str,
    config_dir: Path | None,
) -> compose.Config:
    path = compose.choice_path("experiment", name, config_dir)
    parsed = _parsed(path, node, arm, fidelity, control)
    config = compose.compose([*parsed, *overrides], config_dir)
    place = {**_values(config), "arm": arm, "control": control} if node.conditions else {}
    conditional = []
    for number, condition in enumerate(node.conditions):
        key = f"conditions[{number}]"
        for wanted in condition.when:
            if wanted not in place and not _somewhere(name, wanted, config_dir):
                raise unknown(f"{path}: {key}: when: '{wanted}' is not a key.", wanted, sorted(place))
        if _lies(place, condition.when):
            conditional += experiment_file.parse(path, f"{key}: set", condition.set)
    return compose.compose([*parsed, *conditional, *overrides], config_dir) if conditional else config


def _parsed(path: Path, node: Experiment, arm: str, fidelity: str, control: str) -> list[Override]:
    """The words of the file for a run, without conditions."""
    places = {"base": node.base, f"arms.{arm}": node.arms.get(arm, ())}
    places[f"fidelities.{fidelity}.set"] = node.fidelities[fidelity].set
    if control:
        places[f"controls.{control}"] = node.controls[control]
    return [override for key, words in places.items() for override in experiment_file.parse(path, key, words)]


def _values(config: compose.Config) -> dict[str, Any]:
    """By their keys all options of a configuration, and the names of its choices."""
    values = {key: config[key] for key in grammar.SCALARS}
    for part in (*grammar.PARTS, *grammar.GROUPS):
        values |= {f"{part}.{key}": value for key, value in config[part].items() if key != "declares"}
    return values


@cache
def _somewhere(name: str, key: str, config_dir: Path | None) -> bool:
    """Whether some run of the experiment has this option: one of a choice that not all of them make."""
    node, path = experiment(name, config_dir), compose.choice_path("experiment", name, config_dir)
    for arm, fidelity, control in product(node.arms, node.fidelities, ["", *node.controls]):
        try:
            config = compose.compose(_parsed(path, node, arm, fidelity, control), config_dir)
        except NormbenchError:  # raised for the one that is asked for
            continue
        if key in _values(config):
            return True
    return False


def _lies(place: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(place.get(key) in (value if isinstance(value, list) else [value]) for key, value in wanted.items())


def _matters(override: Override, config: compose.Config) -> bool:
    """Whether a word changes what an experiment's run is; where and how it runs does not."""
    key = override.key_or_group
    if key.split(".")[0] in grammar.COMMAND_GROUPS:
        return False
    spec = config["declares"]["options"].get(key, {})
    return key in ("train.epochs", "train.steps") or bool(spec.get("hashed", True))


def train_specs(words: Sequence[str], multirun: bool, config_dir: Path | None = None) -> list[Spec]:
    """The runs that `normbench train` is asked for; duplicates collapse into the longest: a run is its config.

    NormbenchError where two differ in their evaluations alone and neither has those of the other.
    """
    overrides = grammar.parse(words)
    for override in overrides:
        if override.is_sweep_override() and not multirun:
            raise BadInput(f"'{override.input_line}' is a sweep. Add -m to run all of it.")
    specs: dict[tuple[str, str], Spec] = {}
    words_of: dict[tuple[str, str], list[Override]] = {}
    for combination in grammar.expand(overrides):
        spec = _train_spec(combination, config_dir)
        key = spec.id, spec.experiment
        if key in specs:
            spec = _both(specs[key], spec, words_of[key], combination)
        specs[key] = spec
        words_of.setdefault(key, combination)
    return list(specs.values())


def _both(first: Spec, second: Spec, *words_of: list[Override]) -> Spec:
    """The longer of two specs of one id, which differ in length and evaluations, if it has those of the shorter."""
    # the length is no part of the id
    longer, shorter = (first, second) if first.steps >= second.steps else (second, first)
    if shorter.accepts(longer.config):
        return longer
    first_words, second_words = ([str(override.input_line) for override in words] for words in words_of)
    pairs = (first_words, second_words), (second_words, first_words)
    differing = (" ".join(word for word in words if word not in others) for words, others in pairs)
    raise BadInput(
        f"'{next(differing)}' and '{next(differing)}' differ only in length or evaluations. Use eval.variants=[A,B], "
        "or one --results folder for each."
    )


def _train_spec(overrides: list[Override], config_dir: Path | None) -> Spec:
    labels = {o.key_or_group: str(o.value()) for o in overrides if o.key_or_group in LABELS}
    if "experiment" not in labels:
        for label in labels:
            raise BadInput(f"{label}={labels[label]} belongs to an experiment: add experiment=NAME.")
        config = compose.compose(overrides, config_dir)
        return _in_effect(resolved(config, ADHOC, "", ADHOC, config_dir=config_dir))
    name = labels["experiment"]
    arms = experiment(name, config_dir).arms
    if "arm" not in labels:
        raise BadInput(f"experiment={name} needs an arm: arm={' | '.join(arms)} (several with -m and commas).")
    words = [str(o.input_line) for o in overrides if o.key_or_group not in LABELS]
    return experiment_spec(
        name, labels["arm"], labels.get("fidelity", "paper"), words, labels.get("control", ""), config_dir
    )


def _in_effect(spec: Spec) -> Spec:
    """The same spec; NormbenchError for what a user asks for and the run would silently be without."""
    norm, optim = spec.config["norm"], spec.config["optim"]
    faults = {  # a norm without sites has the id of norm=none, and would be listed as another
        f"norm.sites={norm['sites']}: norm={norm['name']} would stand nowhere. Name sites, or take norm=none.": (
            norm["name"] != "none" and not spec.sites
        ),
        "optim.decay_norms=false leaves nothing out at optim.weight_decay=0. Give a weight decay.": (
            not optim.get("decay_norms", True) and not optim["weight_decay"]
        ),
    }
    for fault, is_so in faults.items():
        if is_so:
            raise BadInput(fault)
    for key in ("train.keep", "eval.also_after"):
        part, option = key.split(".")
        for update in spec.config[part][option]:
            if str(update).isdecimal() and int(update) > spec.steps:
                raise BadInput(f"{key}={update} is after the run's end: it has {spec.steps} updates.")
    return spec


def resolved(
    config: compose.Config,
    experiment: str,
    arm: str,
    fidelity: str,
    control: str = "",
    axes: Mapping[str, Any] = MappingProxyType({}),
    config_dir: Path | None = None,
) -> Spec:
    """The run of a composed configuration; an impossible combination is refused here.

    Without an arm its model and normalizers, with what these replace, name it.
    """
    _refuse_batch(config)
    updates_per_epoch(config)
    choices = identity.assign(config, config_dir)
    names = sorted({choice.label for choice in choices.values()}) or ["none"]
    arm = arm or "-".join([config["model"]["name"], *names])
    maths = identity.maths(config, choices)
    config = {key: node for key, node in config.items() if key not in grammar.COMMAND_GROUPS}
    run = Spec(config, experiment, arm, fidelity, choices, maths, control, dict(axes), config_dir)
    for key in ("variants", "reshuffled", "also_at_best"):
        sites.asked_variants(config["eval"], choices, key)
    _refuse_monitor(config)
    schedule = config["schedule"]
    ends = schedule["declares"].get("ends")
    if ends and run.steps > schedule[ends]:
        raise BadInput(
            f"schedule.{ends}={schedule[ends]}: schedule={schedule['name']} ends there, and the run has {run.steps} "
            "updates."
        )
    if "rate" in schedule["declares"] and "matrices" in config["optim"]["declares"]:
        name, optim = schedule["name"], config["optim"]["name"]
        raise BadInput(f"schedule={name} takes one learning rate, optim={optim} has two. Take another schedule.")
    return run


def _refuse_batch(config: compose.Config) -> None:
    size, batch = train_size(config), config["train"]["batch_size"]
    if batch > size and not config["model"]["declares"].get("probe"):
        raise BadInput(
            f"train.batch_size={batch} is more than there are training examples: data={config['data']['name']} has "
            f"{size}."
        )


def _refuse_monitor(config: compose.Config) -> None:
    model, metric = config["model"], config["monitor"]["metric"]
    metrics = model["declares"].get("metrics")  # a probe has none
    if metrics is not None and metric not in metrics:
        raise unknown(f"monitor.metric={metric}: model={model['name']} has no such metric.", metric, metrics)
    if metric in model["declares"].get("rising", ()) and config["monitor"]["goal"] == "min":
        raise BadInput(f"monitor.metric={metric}: more of it is better. Add monitor.goal=max.")


def command_options(group: str, words: Sequence[str], config_dir: Path | None = None) -> compose.Config:
    """The launcher or logger among override words, with its options: they concern the command, not the single run."""
    name: str | None = None
    values: dict[str, Any] = {}
    for override in grammar.parse(words):
        key = override.key_or_group
        if key.split(".")[0] != group:
            continue
        if override.is_sweep_override():
            raise BadInput(f"'{override.input_line}': one {group} serves the whole sweep. Choose one.")
        if key == group:
            name = str(override.value())
        else:
            values[key.removeprefix(f"{group}.")] = override.value()
    node = compose.command_choice(group, name, config_dir)
    specs = node.pop("declares").get("options") or {}
    return schema.check_options(group, {**node, **values}, specs, {"name"}) | {"name": node["name"]}
