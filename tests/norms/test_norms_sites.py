"""Sites: which pattern claims which site, which normalizer may stand there, what becomes of the bias before it."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normbench.config.plan import train_specs
from normbench.config.updates import refuse_batches_of_one, train_size
from normbench.errors import NormbenchError
from normbench.norms.patterns import match_patterns, matches, prefixes
from normbench.norms.sites import Choice, Site, assign, declared

NORMS: dict[str, dict[str, Any]] = {
    "none": {
        "kinds": ["pre_activation", "post_activation", "state", "weight", "block"],
        "axes": ["batch", "time", "feature", "space"],
    },
    "flat": {"kinds": ["pre_activation", "post_activation"], "axes": ["batch", "feature"], "recentres": True},
    "scale": {"kinds": ["post_activation", "pre_activation"], "axes": ["batch", "time", "feature", "space"]},
    "picture": {
        "kinds": ["pre_activation"],
        "axes": ["batch", "feature", "space"],
        "needs": ["space"],
        "recentres": True,
    },
    "weights": {"kinds": ["weight"], "axes": ["batch", "time", "feature", "space"], "mode_dependent": "allow_single"},
    "blocks": {"kinds": ["block"], "axes": ["batch", "feature"], "activations": ["relu", "tanh"]},
    "state": {"kinds": ["state"], "axes": ["batch", "time", "feature"], "needs": ["time"], "recentres": True},
    "grouped": {"kinds": ["pre_activation"], "axes": ["batch", "feature", "space"], "groups": "num_groups"},
    "unshifted": {"kinds": ["pre_activation"], "axes": ["batch", "feature"], "recentres": True, "own_shift": False},
    "batchy": {
        "kinds": ["pre_activation", "state"],
        "axes": ["batch", "time", "feature", "space"],
        "recentres": True,
        "single_batch": "allow_single",
        "apart": {"time": {"stats": "per_step"}},
    },
    "activating": {"kinds": ["pre_activation"], "axes": ["batch", "feature"], "replaces": "activation"},
    "stepwise": {"kinds": ["state"], "axes": ["batch", "time", "feature"], "state": {"stats": "per_step"}},
}
SITES = {
    "conv": {
        "each": "model.channels",
        "kinds": ["pre_activation"],
        "axes": ["batch", "feature", "space", "space"],
        "space": "model.space",
    },
    "lstm.question.cell": {
        "features": "model.size",
        "kinds": ["state"],
        "axes": ["batch", "time", "feature"],
        "mask": True,
    },
    "lstm.question.gates": {
        "features": "model.size",
        "times": 4,
        "kinds": ["state"],
        "axes": ["batch", "time", "feature"],
    },
    "lstm.answer.cell": {"features": "model.size", "kinds": ["state"], "axes": ["batch", "time", "feature"]},
    "dense": {"each": "model.hidden", "kinds": ["pre_activation", "post_activation"], "axes": ["batch", "feature"]},
    "readout": {"features": "model.size", "kinds": ["pre_activation"], "axes": ["batch", "feature"], "bias": "keep"},
    "kernel": {"features": "model.size", "kinds": ["weight"], "axes": ["feature"]},
}
BLOCK = {"features": "model.size", "kinds": ["weight", "block"], "axes": ["batch", "feature"]}


def node(name: str, **options: Any) -> dict[str, Any]:
    facts = copy.deepcopy(NORMS[name])
    specs = {"eps": {"type": "float", "min": 0}}
    if "single_batch" in facts or facts.get("mode_dependent") == "allow_single":
        specs["allow_single"] = {"type": "bool"}
    if {"single_batch", "state"} & set(facts):
        specs["stats"] = {"type": "str"}
    if "groups" in facts:
        specs["num_groups"] = {"type": "int", "min": 1}
    values = {"eps": 1e-5, "allow_single": False, "num_groups": 2, "stats": "pooled"}
    return {
        "name": name,
        "sites": None,
        "preceding_bias": "site",
        **{k: values[k] for k in specs},
        "declares": {"maths": 1, "options": specs, **facts},
    } | options


def config(name: str = "none", sites: Any = None, batch: int = 10, left: int = 100, **options: Any) -> dict[str, Any]:
    return {
        "norm": node(name, sites=sites, **options),
        "model": {
            "name": "net",
            "channels": [3, 4],
            "space": [6, 6],
            "size": 5,
            "hidden": [7, 8],
            "declares": {"sites": copy.deepcopy(SITES), "default_sites": ["dense"]},
        },
        "data": {"name": "d", "valid": 10, "declares": {"train_size": {"of": left + 10, "less": ["valid"]}}},
        "train": {"batch_size": batch},
    }


def chosen(*arguments: Any, **keywords: Any) -> dict[str, Choice]:
    given = config(*arguments, **keywords)
    found = assign(given, node)
    refuse_batches_of_one(given, found, node)
    return found


def names(*arguments: Any, **keywords: Any) -> dict[str, str]:
    return {path: choice.name for path, choice in chosen(*arguments, **keywords).items()}


def refusal(*arguments: Any, **keywords: Any) -> str:
    with pytest.raises(NormbenchError) as caught:
        chosen(*arguments, **keywords)
    return str(caught.value)


def test_sites_are_read_from_the_declaration() -> None:
    found = declared(config())
    assert list(found) == [
        "conv.0",
        "conv.1",
        "lstm.question.cell",
        "lstm.question.gates",
        "lstm.answer.cell",
        "dense.0",
        "dense.1",
        "readout",
        "kernel",
    ]
    assert found["conv.1"] == Site("conv.1", ("pre_activation",), ("batch", "feature", "space", "space"), 4, (6, 6))
    assert found["lstm.question.cell"].mask and found["lstm.question.cell"].feature_axis == 2
    assert found["conv.0"].feature_axis == 1
    assert (found["lstm.question.gates"].features, found["lstm.answer.cell"].features) == (20, 5)


@pytest.mark.parametrize("wrong", [{"kinds": ["activation"]}, {"axes": ["batch", "channel"]}, {"axes": ["batch"]}])
def test_a_wrong_declaration_is_refused(wrong: dict[str, Any]) -> None:
    bad = config()
    bad["model"]["declares"]["sites"]["readout"] |= wrong
    with pytest.raises(NormbenchError, match="declares site 'readout' wrongly"):
        declared(bad)


@pytest.mark.parametrize(
    ("pattern", "path", "hit"),
    [
        ("lstm", "lstm.question.cell", True),
        ("lstm.question", "lstm.question.cell", True),
        ("lstm.*.cell", "lstm.question.cell", True),
        ("lstm.*.cell", "lstm.question.gates", False),
        ("*", "readout", True),
        ("*.0", "dense.0", True),
        ("*.0", "dense.1", False),
        ("dense.?", "dense.1", True),
        ("dense.[01]", "dense.1", True),
        ("dens", "dense.0", False),
        ("dense.0.x", "dense.0", False),
        ("lstm.cell", "lstm.question.cell", False),
        ("", "readout", False),
        ("Dense", "dense.0", False),
    ],
)
def test_patterns(pattern: str, path: str, hit: bool) -> None:
    assert matches(pattern, path) == hit


def test_the_models_own_choice_a_list_and_a_prefix() -> None:
    assert names("flat") == {"dense.0": "flat", "dense.1": "flat"}
    assert names("flat", ["dense.1", "readout"]) == {"dense.1": "flat", "readout": "flat"}
    assert names("state", ["lstm"]) == dict.fromkeys(
        ["lstm.question.cell", "lstm.question.gates", "lstm.answer.cell"], "state"
    )
    assert names("state", "lstm.*.cell") == {"lstm.question.cell": "state", "lstm.answer.cell": "state"}
    assert names("flat", []) == {} == names("none")


def test_a_map_gives_each_site_its_own() -> None:
    found = chosen(
        "flat", {"dense": {"eps": 0.5}, "lstm": "state", "conv.0": {"name": "picture", "eps": 1}, "readout": None}
    )
    assert {p: (c.name, c.options["eps"]) for p, c in found.items()} == {
        "conv.0": ("picture", 1.0),
        "lstm.question.cell": ("state", 1e-5),
        "lstm.question.gates": ("state", 1e-5),
        "lstm.answer.cell": ("state", 1e-5),
        "dense.0": ("flat", 0.5),
        "dense.1": ("flat", 0.5),
        "readout": ("flat", 1e-5),
    }
    assert list(found) == [path for path in declared(config()) if path in found], "in the model's order"


def test_options_of_the_shorthand_go_with_its_own_name_alone() -> None:
    found = chosen("flat", {"dense.0": "scale", "dense.1": {}}, eps=0.25)
    assert (found["dense.0"].options["eps"], found["dense.1"].options["eps"]) == (1e-5, 0.25)


@pytest.mark.parametrize("turn", range(6))
def test_the_most_specific_pattern_wins_in_any_order(turn: int) -> None:
    patterns = [
        ("*", "none"),
        ("lstm", "state"),
        ("lstm.*.cell", "none"),
        ("lstm.question.cell", "state"),
        ("lstm.question", "none"),
        ("*.question.cell", "none"),
    ]
    norms = dict(patterns[turn:] + patterns[:turn])
    assert names("none", norms) == {"lstm.question.cell": "state"}


@given(st.permutations(["*", "*.0", "dense.*", "dense.0", "dense"]))
def test_a_tie_below_the_winner_is_no_tie(order: list[str]) -> None:
    """`*.0` and `dense.*` are equally specific, but `dense.0` beats both, wherever it is written."""
    wanted = {"*": "none", "dense": "scale", "dense.*": "none", "*.0": "none", "dense.0": "flat"}
    sites = {pattern: wanted[pattern] for pattern in order}
    bad = config("none", sites)
    del bad["model"]["declares"]["sites"]["conv"]  # `*.0` would tie there with nothing, but needs no second case
    assert {p: c.name for p, c in assign(bad, node).items()} == {"dense.0": "flat"}


@pytest.mark.parametrize("sites", [{"*.0": "flat", "dense.*": "scale"}, {"dense.?": "flat", "dense.*": "scale"}])
def test_a_tie_is_refused_with_both_names(sites: dict[str, str]) -> None:
    message = refusal("none", sites)
    assert all(pattern in message for pattern in sites) and "both match site 'dense." in message


def test_an_unknown_pattern_names_those_of_a_network_with_many_places() -> None:
    paths = [f"block.{number}.{part}" for number in range(9) for part in ("attention", "mlp")]
    with pytest.raises(
        NormbenchError, match=r"has no site 'last'. \(it has block\.\*\.attention, block\.\*\.mlp, final\)"
    ):
        match_patterns("norm.sites", "net", "site", ["last"], [*paths, "final"])


@pytest.mark.parametrize(
    ("pattern", "hint"),
    [
        ("dens", "Did you mean 'dense'?"),
        ("dense.2", "Did you mean 'dense."),
        ("lstm.qestion", "Did you mean 'lstm.question'?"),
        ("lstm.question.cel", "Did you mean 'lstm.question.cell'?"),
        ("", "net has no site ''."),
        ("lstm.*.sell", "Did you mean 'lstm."),
    ],
)
def test_an_unknown_pattern_is_refused(pattern: str, hint: str) -> None:
    message = refusal("flat", [pattern])
    assert f"net has no site '{pattern}'." in message
    assert hint in message


def test_what_cannot_stand_there_is_refused_with_what_can() -> None:
    assert (
        "weights cannot serve site 'dense.0' of net: it serves weight, the site is pre_activation or post_activation. "
        "(sites that it can serve here: norm.sites=[kernel])"
    ) in refusal("weights")
    assert (
        "picture cannot serve site 'dense.0' of net: it needs space axes. "
        "(sites that it can serve here: norm.sites=[conv])"
    ) in refusal("picture")
    assert "flat cannot serve site 'conv.0' of net: it has no rule for space axes." in refusal("flat", ["conv"])
    assert "state cannot serve site 'readout' of net: it serves state" in refusal("state", {"readout": {}})
    bare = config("weights")
    del bare["model"]["declares"]["sites"]["kernel"]
    with pytest.raises(NormbenchError, match="can serve here: none"):
        assign(bare, node)


def layers(norm: str, sites: Any, **options: Any) -> dict[str, Choice]:
    """With two layers whose weight can be normalized as well."""
    net = config(norm, sites, **options)
    net["model"]["declares"]["sites"]["stem"] = {"each": "model.hidden", **BLOCK, "activation": "model.act"} | {
        "kinds": ["pre_activation", "weight", "block"]
    }
    net["model"]["act"] = "relu"
    return assign(net, node)


def test_a_pattern_of_the_weight_chooses_beside_that_of_the_activations() -> None:
    found = layers("flat", {"stem": {}, "stem.0.weight": "weights"})
    assert [(path, c.name, c.kind) for path, c in found.items()] == [
        ("stem.0", "flat", "pre_activation"),
        ("stem.0.weight", "weights", "weight"),
        ("stem.1", "flat", "pre_activation"),
    ]
    assert found["stem.0"].weight == found["stem.0.weight"] and found["stem.1"].weight is None


def test_patterns_of_weights_are_patterns() -> None:
    found = layers("none", {"stem": "flat", "*.weight": "weights", "stem.1.weight": {"name": "weights", "eps": 0.5}})
    assert [path for path, c in found.items() if c.kind == "weight"] == ["kernel", "stem.0.weight", "stem.1.weight"]
    assert (found["stem.0.weight"].options["eps"], found["stem.1.weight"].options["eps"]) == (1e-5, 0.5)
    assert layers("flat", {"stem.0": {}, "stem.weight": "none"}) == layers("flat", ["stem.0"])


@pytest.mark.parametrize(
    "sites", [["stem.weight"], {"stem": "none", "stem.weight": {}}, {"*.weight": {}, "kernel": "none"}]
)
def test_a_weights_normalizer_alone_is_that_of_its_site(sites: Any) -> None:
    alone = layers("weights", ["stem"])
    assert {path: c for path, c in layers("weights", sites).items() if path != "kernel"} == alone


@pytest.mark.parametrize("of", ["own", "weight"])
def test_either_choice_may_drop_the_bias(of: str) -> None:
    policy = {"own": {"stem.0": {"preceding_bias": "drop"}}, "weight": {"stem.0": {"preceding_bias": "keep"}}}[of]
    weight = {"name": "weights", "preceding_bias": "drop" if of == "weight" else "site"}
    assert not layers("flat", {**policy, "stem.0.weight": weight})["stem.0"].keep_bias


@pytest.mark.parametrize(
    ("sites", "words"),
    [
        ({"stem.0": "weights"}, "weights at 'stem.0' and weights at 'stem.0.weight' of net would both normalize"),
        ({"stem.0": "blocks"}, "blocks at 'stem.0' and weights at 'stem.0.weight' of net would both normalize"),
        (
            {"readout.weight": "weights"},
            "net has no weight 'readout.weight' to normalize. (it has kernel.weight, stem.0.",
        ),
        ({"stem.1.weight": "flat"}, "flat cannot serve site 'stem.1.weight' of net: it serves pre_activation and"),
        ({"*.0.weight": "weights"}, "both match the weight of 'stem.0' of net"),
        ({".weight": "weights"}, "net has no weight '.weight' to normalize."),
    ],
)
def test_what_cannot_stand_on_a_weight_is_refused(sites: dict[str, str], words: str) -> None:
    with pytest.raises(NormbenchError) as caught:
        layers("flat", {"stem.*.weight" if "*.0.weight" in sites else "stem.0.weight": "weights", **sites})
    assert words in str(caught.value)


@pytest.mark.parametrize(("activation", "served"), [("relu", True), ("tanh", True), ("sigmoid", False), (None, False)])
def test_a_block_is_served_where_its_activation_is_known(activation: str | None, served: bool) -> None:
    net = config("blocks", ["readout"])
    net["model"]["nonlinearity"] = activation
    net["model"]["declares"]["sites"]["readout"] = BLOCK | ({"activation": "model.nonlinearity"} if activation else {})
    if served:
        assert assign(net, node)["readout"].kind == "block"
        assert declared(net)["readout"].activation == activation
        return
    says = (
        f"it knows the moments of relu and tanh, the activation there is {activation or 'none'}. .*can serve here: none"
    )
    with pytest.raises(NormbenchError, match=f"blocks cannot serve site 'readout' of net: {says}"):
        assign(net, node)


@pytest.mark.parametrize("named", ["relu", "model.act"])
def test_one_that_brings_a_non_linearity_replaces_the_one_that_is_declared(named: str) -> None:
    net = config("activating", ["readout"])
    net["model"]["act"] = "relu"
    assert "brings a non-linearity of its own, and there is none to replace. " in refusal("activating", ["readout"])
    with pytest.raises(NormbenchError, match=r"it serves pre_activation, the site is state"):
        assign(config("activating", ["lstm"]), node)
    net["model"]["declares"]["sites"]["readout"]["activation"] = named
    found = assign(net, node)["readout"]
    assert (found.replaces, found.label) == ("relu", "activating-replaces-relu")
    net["norm"] = node("flat", sites=["readout"])
    assert (assign(net, node)["readout"].replaces, assign(net, node)["readout"].label) == ("", "flat")
    net["norm"] = node("activating", sites=None)
    with pytest.raises(NormbenchError, match=r"cannot serve site 'dense\.0'.*here: norm\.sites=\[readout\]\)"):
        assign(net, node)


@pytest.mark.parametrize(
    ("chosen", "found"),
    [
        (["a.0.x", "a.1.x"], ["a.0.x", "a.1"]),
        (["a.0.x", "a.0.y", "a.1.x"], ["a"]),
        (["a.0.x", "a.0.y", "b"], ["a.0", "b"]),
        (["b.0"], ["b.0"]),
        ([], []),
    ],
)
def test_prefixes_select_these_and_no_others(chosen: list[str], found: list[str]) -> None:
    paths = ["a.0.x", "a.0.y", "a.1.x", "b", "b.0"]
    assert prefixes(chosen, paths) == found
    assert {path for path in paths for prefix in found if matches(prefix, path)} >= {*chosen}


@pytest.mark.parametrize("value", [True, False])
def test_an_option_can_make_the_modes_differ(value: bool) -> None:
    assert chosen("weights", ["kernel"], allow_single=value)["kernel"].mode_dependent is value


def test_one_position_in_space_is_none() -> None:
    bare = config("picture", ["conv.0"])
    assert assign(bare, node)
    bare["model"]["space"] = [1, 1]
    with pytest.raises(NormbenchError, match=r"picture cannot serve site 'conv\.0'.*more than one position in space"):
        assign(bare, node)


def test_groups_must_divide_the_features() -> None:
    """conv.0 has 3 features in 6x6, conv.1 has 4; dense.0 has 7 and nothing else."""
    assert chosen("grouped", ["conv.1"])["conv.1"].options["num_groups"] == 2
    message = refusal("grouped", ["conv.0"])
    assert "num_groups=2 does not divide its 3 features. Choose from: 1, 3." in message and "conv.0" in message
    assert chosen("grouped", {"conv.0": {"num_groups": 3}})
    assert "Choose from: 1." in refusal("grouped", ["dense.0"]), "7 groups of one value are none"
    assert "leaves one value in each group" in refusal("grouped", ["dense.0"], num_groups=7)


def test_the_kind_is_the_normalizers_first_that_the_site_has() -> None:
    assert chosen("flat", ["dense.0"])["dense.0"].kind == "pre_activation"
    assert chosen("scale", ["dense.0"])["dense.0"].kind == "post_activation"
    assert chosen("scale", ["readout"])["readout"].kind == "pre_activation"


@pytest.mark.parametrize(
    ("name", "site", "policy", "keeps"),
    [
        ("flat", "dense.0", "site", False),
        ("flat", "readout", "site", True),  # the site says keep
        ("scale", "dense.0", "site", True),  # it does not recentre: the bias is not redundant
        ("flat", "dense.0", "keep", True),
        ("scale", "dense.0", "drop", False),
        ("flat", "readout", "drop", False),
        ("unshifted", "dense.0", "site", True),  # it has nothing to put in the bias's place
    ],
)
def test_the_bias_before_a_normalizer(name: str, site: str, policy: str, keeps: bool) -> None:
    assert chosen(name, [site], preceding_bias=policy)[site].keep_bias == keeps
    assert chosen(name, {site: {"preceding_bias": policy}})[site].keep_bias == keeps


@pytest.mark.parametrize(
    ("batch", "left", "refused"),
    [
        (1, 100, "in batches."),
        (33, 100, "the last batch (100 examples in batches of 33)"),
        (50, 51, "the last batch"),
        (10, 100, ""),
        (33, 101, ""),
        (200, 100, ""),
        (2, 100, ""),
    ],
)
def test_batches_of_one_value_are_refused_before_anything_runs(batch: int, left: int, refused: str) -> None:
    if refused:
        message = refusal("batchy", ["dense"], batch=batch, left=left)
        assert refused in message and "norm.allow_single=true" in message
    else:
        chosen("batchy", ["dense"], batch=batch, left=left)
    assert chosen("batchy", ["dense"], batch=batch, left=left, allow_single=True)
    cell = "lstm.question.cell"
    assert chosen("batchy", [cell], batch=batch, left=left), "time gives more than one value per feature"
    if refused:
        assert refused in refusal("batchy", [cell], batch=batch, left=left, stats="per_step"), "a step does not"
    assert chosen("batchy", ["conv"], batch=batch, left=left), "space gives more than one value per feature"
    assert chosen("flat", ["dense"], batch=batch, left=left), "only for those that declare it"


@pytest.mark.parametrize("size", [1, 4799])  # of 4 800 images: the last batch is one
def test_positions_that_are_normalized_apart_give_one_value_each(size: int) -> None:
    words = "model=lenet5", "data=coloured_digits", "norm=batch", "norm.sites=[conv]", f"train.batch_size={size}"
    with pytest.raises(NormbenchError, match="has one value per feature in"):
        train_specs([*words, "norm.positions=separate"], False)
    assert train_specs([*words, "norm.positions=separate", "norm.allow_single=true"], False)


def test_a_set_without_training_examples_is_refused() -> None:
    with pytest.raises(NormbenchError, match="leaves no training examples"):
        train_size(config(left=0))
    assert train_size(config(left=3)) == 3


def test_what_needs_the_whole_sequence_is_refused_inside_a_time_loop() -> None:
    for site in ("lstm.question.cell", "lstm.question.gates"):
        message = refusal("stepwise", [site])
        assert (
            f"stepwise at site '{site}': stats=pooled needs the whole sequence" in message
            and "stats=per_step" in message
        )
        assert chosen("stepwise", [site], stats="per_step")[site].kind == "state"


def test_sizes_may_be_written_out() -> None:
    net = config()
    net["model"]["declares"]["sites"]["conv"] |= {"space": [9, 5]}
    net["model"]["declares"]["sites"]["stem"] = {"kinds": ["weight"], "axes": ["batch", "feature"], "features": 6}
    found = declared(net)
    assert found["conv.1"].space == (9, 5) and found["stem"].features == 6


def test_training_on_a_fraction() -> None:
    net = config(left=45000)
    net["data"] |= {"fraction": 0.2}
    net["data"]["declares"]["train_size"]["times"] = "fraction"
    assert train_size(net) == 9000
    net["data"]["fraction"] = 0.00001
    with pytest.raises(NormbenchError, match="leaves no training examples"):
        train_size(net)
