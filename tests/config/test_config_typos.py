"""Whatever a user mistypes: one line with the value, the place and the way out; never a traceback, never a run."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import tiny
from hypothesis import given, settings
from hypothesis import strategies as st

from normbench.config import compose, declaration_keys, grammar, identity, plan
from normbench.errors import NormbenchError

BASE = ("model=mnist_mlp", "data=digits")
FIG6 = ("experiment=ln2016/fig6", "arm=ln")


def refusal(words: list[str] | tuple[str, ...], multirun: bool = False) -> str:
    with pytest.raises(NormbenchError) as caught:
        plan.train_specs(words, multirun)
    message = str(caught.value)
    assert "\n" not in message and caught.value.code == 2
    return message


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        # the group
        (("modle=mnist_mlp",), "modle is not an option. Did you mean 'model'?"),
        ((*BASE, "nrom=layer"), "nrom is not an option. Did you mean 'norm'?"),
        (("norm=layer",), "no model given. Write model=NAME"),
        ((), "no model given"),
        # the choice
        (("model=mnist_mpl",), "model=mnist_mpl is not a model. Did you mean 'mnist_mlp'? (normbench list models;"),
        ((*BASE, "norm=layr"), "norm=layr is not a normalizer. Did you mean 'layer'? (normbench list norms;"),
        ((*BASE, "data=digit"), "data=digit is not a data set. Did you mean 'digits'? (normbench list data;"),
        ((*BASE, "launcher=pol"), "launcher=pol is not a launcher. Did you mean 'pool'?"),
        ((*BASE, "norm="), "norm= is not a normalizer. (normbench list norms)"),
        ((*BASE, "model=null"), "is not a model"),
        ((*BASE, "model=[a,b]"), "is not a model"),
        ((*BASE, "norm=../model/mnist_mlp"), "is not a normalizer"),
        # the key
        ((*BASE, "train.epocs=3"), "train.epocs is not an option. Did you mean 'train.epochs'?"),
        ((*BASE, "trian.epochs=3"), "trian.epochs is not an option. Did you mean 'train.epochs'?"),
        ((*BASE, "norm=layer", "norm.epz=1"), "norm.epz is not an option. Did you mean 'norm.eps'?"),
        ((*BASE, "train=3"), "train is not an option."),
        ((*BASE, "train={epochs:3}"), "train is not an option."),
        ((*BASE, "norm.name=layer"), "norm.name is not an option."),
        ((*BASE, "norm.declares.maths=2"), "norm.declares.maths is not an option."),
        ((*BASE, "declares.maths=2"), "declares.maths is not an option."),
        ((*BASE, "hydra.run.dir=x"), "hydra.run.dir is not an option."),
        # the grammar
        ((*BASE, "+train.epochs=3"), "'+train.epochs=3': options are not added (+), "),
        ((*BASE, "lr=0.1"), "lr is not an option. Did you mean 'optim.lr'?"),
        ((*BASE, "train.lr=0.1"), "train.lr is not an option. Did you mean 'optim.lr'?"),
        ((*BASE, "learning_rate=0.1"), "learning_rate is not an option. Did you mean 'optim.lr'?"),
        ((*BASE, "wd=0.1"), "wd is not an option. Did you mean 'optim.weight_decay'?"),
        ((*BASE, "optim.batch_size=3"), "optim.batch_size is not an option. Did you mean 'train.batch_size'?"),
        ((*BASE, "++train.epocs=3"), "train.epocs is not an option. Did you mean 'train.epochs'?"),
        ((*BASE, "~train.epochs"), "'~train.epochs': options are not added (+), removed (~)"),
        ((*BASE, "norm@foo=layer"), "'norm@foo=layer': options are not added (+), "),
        ((*BASE, "seed"), "'seed' is not an override: write key=value"),
        ((*BASE, "optim.lr=[1"), "is not an override"),
        ((*BASE, "seed=1,2"), "'seed=1,2' is a sweep. Add -m"),
        ((*BASE, "seed=range(3)"), "'seed=range(3)' is a sweep. Add -m"),
        ((*BASE, "seed=${nope}"), "nope"),
        # the type
        ((*BASE, "train.epochs=abc"), "train.epochs=abc is not a whole number."),
        ((*BASE, "train.epochs=1.5"), "train.epochs=1.5 is not a whole number."),
        ((*BASE, "train.epochs=null"), "train.epochs=None is not a whole number."),
        ((*BASE, "seed=true"), "seed=True is not a whole number."),
        ((*BASE, "optim.lr=fast"), "optim.lr=fast is not a number."),
        ((*BASE, "norm=layer", "norm.affine=1"), "norm.affine=1 is not true or false."),
        ((*BASE, "model.hidden_sizes=3"), "model.hidden_sizes=3 must be a list"),
        ((*BASE, "model.hidden_sizes=[3,x]"), "model.hidden_sizes=x is not a whole number."),
        ((*BASE, "train.keep=last"), "train.keep=last must be a list"),
        # the range
        ((*BASE, "train.epochs=0"), "train.epochs=0 and train.steps=0: give one of them"),
        ((*BASE, "seed=-1"), "seed=-1 is too small"),
        ((*BASE, "norm=batch", "norm.momentum=2"), "norm.momentum=2.0 is too large: at most 1."),
        ((*BASE, "norm=batch", "norm.also_momenta=[0.1,2]"), "norm.also_momenta=2.0 is too large"),
        ((*BASE, "optim.lr=nan"), "optim.lr=nan must be finite"),
        ((*BASE, "optim.lr=inf"), "optim.lr=inf must be finite."),
        ((*BASE, "optim.lr=1" + "0" * 400), "must be finite."),
        ((*BASE, "norm=layer", "norm.eps_mode=inn"), "norm.eps_mode=inn is not possible. Did you mean 'in'?"),
        ((*BASE, "train.keep=[bets]"), "train.keep=bets is not possible: it must be of the form last|best|"),
        ((*BASE, "norm.preceding_bias=kep"), "norm.preceding_bias=kep is not possible. Did you mean 'keep'?"),
        ((*BASE, "optim.betas=[0.9]"), "optim.betas=[0.9] must have 2 values."),
        ((*BASE, "optim.betas=[0.9,1]"), "optim.betas=1.0 is too large: it must be below 1."),
        ((*BASE, "norm=batch", "norm.eps=0"), "norm.eps=0.0 is too small"),
        ((*BASE, "data.valid=801"), "data.valid=801 is too large: at most 800."),
        # optimizer, schedule, clipping: known ones that cannot be had say why
        ((*BASE, "optim=lbfgs"), "optim=lbfgs needs a closure that computes the loss again"),
        ((*BASE, "optim=sparseadam"), "optim=sparseadam needs sparse gradients"),
        ((*BASE, "optim=none"), "optim=none trains nothing: model=mnist_mlp needs another."),
        ((*BASE, "optim=adma"), "optim=adma is not an optimizer. Did you mean 'adam'? (adadelta, "),
        ((*BASE, "clip=globl"), "Did you mean 'global'? (attr_legacy, global, none, per_tensor)"),
        ((*BASE, "norm=mine.py"), "norm=mine.py is not a normalizer. (one's own: normbench train norm=FILE.py"),
        ((*BASE, "optim=xyz"), "optim=xyz is not an optimizer. (adadelta, adafactor, adagrad, adam, "),
        ((*BASE, "optim=sgd", "optim.betas=[0.9,0.9]"), "optim.betas is not an option."),
        ((*BASE, "optim.learning_rate=0.1"), "optim.learning_rate is not an option. Did you mean 'optim.lr'?"),
        ((*BASE, "optim=sgd", "optim.momentm=0.9"), "optim.momentm is not an option. Did you mean 'optim.momentum'?"),
        ((*BASE, "optim.bias_correction=kirs"), "optim.bias_correction=kirs is not possible. Did you mean 'kiros'?"),
        ((*BASE, "schedule=cosin"), "schedule=cosin is not a schedule. Did you mean 'cosine'?"),
        ((*BASE, "schedule=reduce_on_plateau"), "schedule=reduce_on_plateau needs a metric"),
        ((*BASE, "schedule=lambda"), "schedule=lambda needs a function"),
        ((*BASE, "schedule=sequential"), "schedule=sequential is made of other schedules"),
        ((*BASE, "schedule=step"), "schedule.step_size=None is not a whole number. Give one: schedule.step_size=..."),
        ((*BASE, "schedule=step", "schedule.T_max=3"), "schedule.T_max is not an option."),
        (
            (*BASE, "schedule=one_cycle", "schedule.total_steps=599", "train.batch_size=120", "train.epochs=60"),
            "schedule.total_steps=599: schedule=one_cycle ends there, and the run has 600 updates.",
        ),
        ((*BASE, "clip=golbal", "clip.at=1"), "clip=golbal is not a way of clipping. Did you mean 'global'?"),
        ((*BASE, "clip=global"), "clip.at=None is not a number. Give one: clip.at=..."),
        ((*BASE, "clip=global", "clip.at=-1"), "clip.at=-1.0 is too small: at least 0."),
        ((*BASE, "clip.at=1"), "clip.at is not an option."),
        (
            (*BASE, "train.sampler=bucketed"),
            "train.sampler=bucketed is not possible. Choose from: shuffled, lengths_in_turn, ",
        ),
        # arm, fidelity, control, experiment
        (
            ("experiment=ln2016/fig7", "arm=ln"),
            "experiment=ln2016/fig7 is not an experiment. Did you mean 'ln2016/fig6'?",
        ),
        (("experiment=ln2016/fig6", "arm=lnn"), "arm=lnn: ln2016/fig6 has no such arm. Did you mean 'ln'?"),
        (("experiment=ln2016/fig6",), "needs an arm: arm=none | bn | bn-all | ln | ln-all"),
        ((*FIG6, "fidelity=smok"), "fidelity=smok: ln2016/fig6 has no such fidelity. Did you mean 'smoke'?"),
        ((*FIG6, "control=lr-hi"), "control=lr-hi: ln2016/fig6 has no such control. Did you mean 'lr-high'?"),
        (("model=mnist_mlp", "arm=ln"), "arm=ln belongs to an experiment: add experiment=NAME."),
        # sites
        ((*BASE, "norm=layer", "norm.sites=[hiden]"), "mnist_mlp has no site 'hiden'. Did you mean 'hidden'?"),
        ((*BASE, "norm=layer", "norm.sites=[hidden.2]"), "mnist_mlp has no site 'hidden.2'. Did you mean 'hidden."),
        ((*BASE, "norm=layer", "norm.sites=5"), "norm.sites=5 must be a list of sites or a map"),
        ((*BASE, "norm=layer", "norm.sites=[5]"), "must be a list of sites or a map"),
        (
            (*BASE, "norm.sites={hidden: layer, hidden: weight}"),
            "has hidden twice: give it once, and hidden.weight for the layer's weight.",
        ),
        ((*BASE, "norm.sites={hidden:{name:layer,eps:1e-5,eps:1e-3}}"), "has eps twice"),
        ((*BASE, "norm=layer", "norm.sites={hidden:0}"), "norm.sites={'hidden': 0} must be a list of sites or a map"),
        ((*BASE, "norm.sites={hidden:layr}"), "norm=layr is not a normalizer. Did you mean 'layer'?"),
        ((*BASE, "norm.sites={hidden:{name:3}}"), "norm=3 is not a normalizer."),
        ((*BASE, "norm.sites={hidden:{name:null}}"), "is not a normalizer."),
        (
            (*BASE, "norm=layer", "norm.sites={hidden:{epz:3}}"),
            "norm.sites.hidden.0.epz is not an option. Did you mean 'norm",
        ),
        ((*BASE, "norm=layer", "norm.sites={hidden:{eps:abc}}"), "norm.sites.hidden.0.eps=abc is not a number."),
        ((*BASE, "norm=layer", "norm.sites={hidden:{sites:[logits]}}"), "norm.sites.hidden.0.sites is not an option."),
        ((*BASE, "norm=layer", "norm.sites={hidden:{preceding_bias:kep}}"), "preceding_bias=kep is not possible."),
        ((*BASE, "norm=batch", "train.batch_size=1"), "one value per feature in batches"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value)[-60:],
)
def test_one_line_with_the_way_out(words: tuple[str, ...], wanted: str) -> None:
    assert wanted in refusal(words)


@pytest.mark.parametrize("word", ["optim.lr=interval(0,1)", "norm=glob(*)"])
def test_a_sweep_without_a_list_of_values_is_refused(word: str) -> None:
    assert "cannot be swept. Write the values" in refusal([*BASE, word], multirun=True)


def test_artifact_requests_are_checked() -> None:
    for keywords, wanted in (
        ({"fidelity": "smok"}, "--fidelity smok: ln2016/fig6 does not have it. Did you mean 'smoke'?"),
        ({"only": ["lnn"]}, "--only lnn: ln2016/fig6 has no such arm. Did you mean 'ln'?"),
        ({"only": ["lr-high"]}, "--control lr-high"),
        ({"controls": ["lr-hihg"]}, "--control lr-hihg: ln2016/fig6 has no such control. Did you mean 'lr-high'?"),
        (
            {"only": ["LN-F1"], "controls": ["tanh"], "groups": {"LN-F1": [{"control": ""}]}},
            "--only LN-F1 --control tanh: no run of ln2016/fig6 is in all of them.",
        ),
        (
            {"only": ["LN-F11"], "groups": {"LN-F1": [{}]}},
            "--only LN-F11: ln2016/fig6 has no such arm or claim. Did you mean 'LN-F1'?",
        ),
        ({"only": ["LN-F9"], "groups": {"LN-F9": []}}, "--only LN-F9: no run of ln2016/fig6 is in all of them."),
        (
            {"only": ["LN-F1", "none"], "groups": {"LN-F1": [{"arm": "ln"}]}},
            "--only LN-F1 --only none: no run of ln2016/fig6 is in all of them.",
        ),
    ):
        with pytest.raises(NormbenchError) as caught:
            plan.artifact_specs("ln2016/fig6", **({"fidelity": "paper", "seeds": 1} | keywords))
        assert wanted in str(caught.value)


@pytest.mark.parametrize("word", ["dropout=0.1", "norm.track_running_stats=true", "ema=0.9"])
def test_nothing_is_proposed_where_nothing_is_near(word: str) -> None:
    assert refusal([*BASE, "norm=batch", word]) == f"{word.partition('=')[0]} is not an option."


def test_what_hydra_forces_is_set() -> None:
    assert tiny.spec("++train.epochs=3", "++norm=layer").id == tiny.spec("train.epochs=3", "norm=layer").id


@pytest.mark.parametrize(
    ("group", "words", "found"),
    [
        ("launcher", ["launcher=pool", "launcher.jobs=3", "seed=1"], {"name": "pool", "jobs": 3}),
        ("launcher", ["seed=1", "logger=wandb"], {"name": "local", "jobs": 1}),
        ("logger", ["launcher=pool", "seed=1"], {"name": "none"}),
        ("logger", ["logger=wandb"], {"name": "wandb", "mode": "offline", "project": "normbench", "entity": ""}),
        (
            "logger",
            ["logger.mode=online", "logger=wandb", "logger.entity=us"],
            {"name": "wandb", "mode": "online", "project": "normbench", "entity": "us"},
        ),
    ],
)
def test_words_of_the_command_are_found(group: str, words: list[str], found: dict[str, Any]) -> None:
    assert plan.command_options(group, words) == found


@pytest.mark.parametrize(
    "word",
    [
        "launcher=x", "launcher.jobs=x", "launcher.jobs=-1", "launcher.jobs=2", "launcher=local,pool",
        "launcher.jobs=1,2", "logger=wnadb", "logger=none,wandb", "logger.mode=offline", "launcher.job=1",
    ],
)  # fmt: skip
def test_words_of_the_command_are_checked(word: str) -> None:
    with pytest.raises(NormbenchError):
        plan.command_options(word.split("=")[0].split(".")[0], [word])


# --- whatever else may come ------------------------------------------------------------------------------------------

KEYS = [
    "model",
    "norm",
    "data",
    "optim",
    "launcher",
    "logger",
    "seed",
    "train.epochs",
    "train.batch_size",
    "optim.lr",
    "norm.eps",
    "norm.sites",
    "model.hidden_sizes",
    "train.keep",
    "norm.preceding_bias",
    "norm.momentum",
    "optim.betas",
    "schedule",
    "clip",
    "clip.at",
    "experiment",
    "arm",
    "fidelity",
    "control",
    "train",
    "x.y",
]
VALUES = st.one_of(
    st.text(alphabet="abcdefgh019.,-+[]{}()=:'\"\\ $~@*é\n\0", max_size=8),
    st.sampled_from(
        [
            "layer",
            "batch",
            "none",
            "mnist_mlp",
            "digits",
            "null",
            "true",
            "1",
            "0.5",
            "[8]",
            "{hidden:layer}",
            "{hidden:{name:batch,momentum:0.5}}",
            "[hidden]",
            "ln2016/fig6",
            "ln",
            "smoke",
            "range(2)",
            "nan",
        ]
    ),
)


@settings(max_examples=150)
@given(st.lists(st.tuples(st.sampled_from(KEYS), VALUES), max_size=3), st.booleans())
def test_words_either_plan_runs_or_are_refused_in_one_line(words: list[tuple[str, str]], multirun: bool) -> None:
    try:
        for spec in plan.train_specs([*BASE, *(f"{key}={value}" for key, value in words)], multirun):
            assert len(spec.id) == 12 and spec.steps > 0
    except NormbenchError as error:
        assert "\n" not in str(error)


PLACES = st.sampled_from(
    [
        ("seed",),
        ("model",),
        ("model", "name"),
        ("model", "hidden_sizes"),
        ("norm",),
        ("norm", "sites"),
        ("norm", "name"),
        ("norm", "eps"),
        ("train",),
        ("train", "epochs"),
        ("train", "more"),
        ("optim", "betas"),
        ("data", "name"),
        ("data", "declares"),
    ]
)
JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
    st.sampled_from(["a,b", "../x", "${oc.env:HOME}", "os.system", "layer"]),
)


@settings(max_examples=150)
@given(PLACES, JUNK)
def test_a_damaged_stored_configuration_is_refused_or_valid(place: tuple[str, ...], junk: Any) -> None:
    """A stored file chooses among registered names and sets declared options; nothing in it is ever carried out."""
    stored = copy.deepcopy(compose.stored_form(tiny.spec("norm=layer").config))
    node = stored
    for key in place[:-1]:
        node = node[key]
    node[place[-1]] = junk
    try:
        restored = compose.restore(stored)
        identity.run_id(restored)
        assert (
            restored["data"]["declares"] == compose.declaration("data", "digits")
            or restored["data"]["name"] != "digits"
        )
    except NormbenchError as error:
        assert "\n" not in str(error)


# --- schema ----------------------------------------------------------------------------------------------------------


def test_every_shipped_choice_is_declared_rightly() -> None:
    for group in grammar.GROUPS:
        for name in compose.choices(group):
            path = compose.choice_path(group, name)
            content = compose.choice(group, name) if group == "norm" else compose.content(path)
            declaration_keys.check(group, path, {k: v for k, v in content.items() if k != "defaults"})


def test_every_experiment_composes_at_every_fidelity() -> None:
    for name in compose.choices("experiment"):
        for fidelity in plan.experiment(name).fidelities:
            specs = plan.artifact_specs(name, fidelity, 1, controls=True)
            ids = [spec.id for spec in specs]
            assert len(set(ids)) == len(ids), f"{name} {fidelity}: a run is planned twice"


@pytest.mark.parametrize(
    ("word", "wanted"),
    [
        ("seed=range(5,1)", "'seed=range(5,1)' has no values: seed=range(START,STOP)"),
        ("seed=range(3,3)", "'seed=range(3,3)' has no values"),
        ("seed=range(1,5,0)", "'seed=range(1,5,0)' cannot be swept"),
        ("optim.lr=range(0,1,0.0)", "'optim.lr=range(0,1,0.0)' cannot be swept"),
        ("seed=range(1000000000000)", "'seed=range(1000000000000)' is too large a sweep"),
    ],
)
def test_a_range_of_nothing_or_without_end_is_no_sweep(word: str, wanted: str) -> None:
    assert wanted in refusal([*BASE, word], multirun=True)


def test_the_product_of_sweeps_is_bounded_as_well() -> None:
    words = [*BASE, "seed=range(1000)", "optim.lr=range(1,102)"]
    assert "over 101000 combinations is too large" in refusal(words, multirun=True)
