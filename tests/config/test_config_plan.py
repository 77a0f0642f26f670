"""Sweeps, experiments, and choices of a user's own."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
import tiny
import yaml

from normbench.config import compose, plan
from normbench.config.spec import Spec
from normbench.errors import NormbenchError

OWN = '''
"""A normalizer of one's own: centre each sample."""
from torch import Tensor
from normbench.norms.base import Normalizer, normalizer


@normalizer("centre")
class Centre(Normalizer):
    def __init__(self, site, *, scale: float = 1.0) -> None:
        super().__init__(site)
        self.scale = scale

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.scale * (x - x.mean(-1, keepdim=True))
'''
OWN_YAML = """
name: centre
sites: null
preceding_bias: site
scale: 1.0
declares:
  title: Centred
  source: of one's own
  maths: 1
  file: {file}
  kinds: [pre_activation]
  axes: [batch, feature]
  options:
    scale: {{type: float, min: 0}}
"""
OWN_EXPERIMENT = """
title: A question of one's own
base: [model=mnist_mlp, data=digits, "model.hidden_sizes=[8]", train.epochs=1]
arms:
  plain: [norm=none]
  mine: [norm=centre]
axes:
  train.batch_size: [200, 100]
fidelities:
  smoke:
    set: []
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A configuration directory as a user writes it: a normalizer's file beside its YAML, and an experiment."""
    (tmp_path / "norm").mkdir()
    (tmp_path / "experiment" / "mine").mkdir(parents=True)
    (tmp_path / "norm" / "centre.py").write_text(OWN)
    (tmp_path / "norm" / "centre.yaml").write_text(OWN_YAML.format(file="centre.py"))
    (tmp_path / "experiment" / "mine" / "one.yaml").write_text(OWN_EXPERIMENT)
    plan.forget()
    return tmp_path


# --- sweeps ----------------------------------------------------------------------------------------------------------


def swept(*words: str) -> list[Spec]:
    return plan.train_specs([*tiny.WORDS, *words], True)


def test_a_sweep_is_all_combinations_in_the_order_written() -> None:
    specs = swept("norm=none,layer", "seed=range(1,3)", "optim.lr=1e-3")
    assert [(s.config["norm"]["name"], s.seed) for s in specs] == [("none", 1), ("none", 2), ("layer", 1), ("layer", 2)]


@pytest.mark.parametrize(
    ("word", "seeds"),
    [
        ("seed=3,1,2", [3, 1, 2]),
        ("seed=range(3)", [0, 1, 2]),
        ("seed=range(1,6,2)", [1, 3, 5]),
        ("seed=choice(4,5)", [4, 5]),
        ("seed=7", [7]),
        ("seed=1,1,2,1", [1, 2]),
    ],
)
def test_sweep_forms(word: str, seeds: list[int]) -> None:
    assert [spec.seed for spec in swept(word)] == seeds


def test_equal_runs_collapse_however_they_are_written() -> None:
    assert len(swept("optim.lr=1e-3,0.001,1.0e-03")) == 1
    assert len(swept("norm=layer", "norm.sites=[hidden],hidden,{hidden:layer},null")) == 1
    assert len(swept("launcher=local,pool")) == 1
    assert len(swept("logger=none,wandb")) == 1


@pytest.mark.parametrize("word", ["train.epochs=1,3,2", "train.epochs=3,1", "train.epochs=1,3"])
def test_of_equal_runs_the_longest_stays(word: str) -> None:
    (spec,) = swept(word)
    assert spec.epochs == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("norm=batch_layer", "norm.configuration=TTFF,FFFF"),
            "'norm.configuration=TTFF' and 'norm.configuration=FFFF'",
        ),
        (("monitor.metric=nll,error",), "'monitor.metric=nll' and 'monitor.metric=error'"),
        (("eval.every=4,6",), "'eval.every=4' and 'eval.every=6'"),
        (("train.epochs=3,4", "eval.every=2"), "'train.epochs=3' and 'train.epochs=4'"),
    ],
)
def test_equal_runs_of_which_none_serves_the_other_are_refused(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(NormbenchError) as refused:
        swept(*words)
    assert said in str(refused.value) and "eval.variants" in str(refused.value)


def test_one_wrong_value_refuses_the_whole_sweep() -> None:
    with pytest.raises(NormbenchError, match=r"train\.batch_size=0 is too small"):
        swept("seed=range(3)", "train.batch_size=100,0")
    with pytest.raises(NormbenchError, match="Did you mean 'layer'"):
        swept("norm=none,layr")
    with pytest.raises(NormbenchError, match="one value per feature"):
        swept("norm=batch", "train.batch_size=100,1")


def test_a_list_is_one_value() -> None:
    (one,) = swept("model.hidden_sizes=[8,9]")
    assert one.config["model"]["hidden_sizes"] == [8, 9]
    assert [s.config["model"]["hidden_sizes"] for s in swept("model.hidden_sizes=[8],[9,9]")] == [[8], [9, 9]]


# --- experiments -----------------------------------------------------------------------------------------------------


def test_conditions_hold_where_they_are_written_for() -> None:
    for arm in ("none", "bn", "bn-all", "ln"):
        for batch in (128, 4):
            config = plan.experiment_spec("ln2016/fig6", arm, "paper", [f"train.batch_size={batch}"]).config
            assert config["norm"].get("unbiased_norm") == {"bn": batch == 4, "bn-all": batch == 4}.get(arm)


def test_own_words_win_over_conditions_and_are_filed_apart() -> None:
    spec = plan.experiment_spec("ln2016/fig6", "bn", "paper", ["train.batch_size=4", "norm.unbiased_norm=false"])
    assert spec.config["norm"]["unbiased_norm"] is False
    assert (spec.experiment, spec.fidelity) == ("adhoc", "adhoc")
    spec = plan.experiment_spec("ln2016/fig6", "bn", "paper", ["train.batch_size=4", "seed=3", "launcher=pool"])
    assert (spec.experiment, spec.arm, spec.fidelity, spec.axes) == (
        "ln2016/fig6",
        "bn",
        "paper",
        {"train.batch_size": 4},
    )
    assert plan.experiment_spec("ln2016/fig6", "bn", "paper", ["train.batch_size=100"]).experiment == "adhoc"
    assert plan.experiment_spec("ln2016/fig6", "bn", "paper", ["train.epochs=1"]).experiment == "adhoc"


def test_an_artifact_gives_every_arm_its_first_seed_first() -> None:
    specs = plan.artifact_specs("ln2016/fig6", "paper", 2, limited=False)
    first = [(spec.arm, spec.seed) for spec in specs[:5]]
    assert first == [(arm, 1) for arm in ("none", "bn", "bn-all", "ln", "ln-all")]
    assert len(specs) == 5 * 2 * 2
    assert len(plan.artifact_specs("ln2016/fig6", "paper", 1, controls=True, limited=False)) == 5 * 2 * 5
    assert {spec.arm for spec in plan.artifact_specs("ln2016/fig6", "paper", 1, ["ln", "bn"])} == {"ln", "bn"}


def test_a_group_has_the_runs_of_its_places_and_no_others() -> None:
    """As a claim has, which compares one arm at one batch size with another at another."""
    places = [
        {"arm": "ln", "train.batch_size": 128, "seed": [2, 3], "control": ["", "tanh"]},
        {"arm": "none", "train.batch_size": 4, "control": ""},
    ]

    def runs(*only: str, controls: bool | Sequence[str] = True) -> list[tuple[str, int, int, str]]:
        specs = plan.artifact_specs(
            "ln2016/fig6", "paper", 3, only, controls, limited=False, groups={"some": places, "more": [{"arm": "bn"}]}
        )
        return sorted((s.arm, s.axes["train.batch_size"], s.seed, s.control) for s in specs)

    far = [("none", 4, seed, "") for seed in (1, 2, 3)]
    near = [("ln", 128, seed, control) for seed in (2, 3) for control in ("", "tanh")]
    assert runs("some") == sorted([*near, *far])
    assert runs("some", controls=False) == sorted([*near[::2], *far])
    assert runs("some", "none") == far, "an arm beside it narrows it"
    assert runs("some", controls=["tanh"]) == [run for run in near if run[3]], "without the paper's setting"
    assert runs("some", "more", controls=False) == sorted([*near[::2], *far, *runs("bn", controls=False)])


def test_arms_of_a_seed_share_all_that_they_do_not_vary() -> None:
    specs = plan.artifact_specs("ln2016/fig6", "paper", 1)
    for spec in specs:
        assert spec.config["optim"] == specs[0].config["optim"] and spec.config["model"] == specs[0].config["model"]


def test_a_spec_travels_to_a_worker_unchanged(own: Path) -> None:
    for spec in (*plan.artifact_specs("ln2016/fig6", "smoke", 1), tiny.spec("norm=centre", config_dir=own)):
        again = Spec.from_json(json.loads(json.dumps(spec.to_json())))
        assert again == spec and again.id == spec.id and again.sites == spec.sites


def test_a_worker_composes_nothing(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Choices that were edited after planning do not matter: the run is the planned one."""
    spec = tiny.spec("norm=centre", config_dir=own)
    message = json.loads(json.dumps(spec.to_json()))
    for name in ("compose", "restore", "choice", "checked"):
        monkeypatch.delattr(compose, name)
    assert Spec.from_json(message).stored_config() == spec.stored_config()


# --- a user's own directory ------------------------------------------------------------------------------------------


def test_its_file_and_its_options_are_part_of_the_id(own: Path) -> None:
    first = tiny.spec("norm=centre", config_dir=own).id
    assert tiny.spec("norm=centre", "norm.scale=2", config_dir=own).id != first
    (own / "norm" / "centre.py").write_text(OWN + "\n# another file\n")
    changed = tiny.spec("norm=centre", config_dir=own).id
    assert changed != first
    (own / "norm" / "centre.py").write_text(OWN)
    assert tiny.spec("norm=centre", config_dir=own).id == first
    assert tiny.spec("norm.sites={hidden:centre}", config_dir=own).id == first, "in the map form too"


def test_the_folder_that_it_lies_in_is_not(own: Path, tmp_path: Path) -> None:
    first = tiny.spec("norm=centre", config_dir=own).id
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    (own / "norm").rename(moved / "norm")
    assert tiny.spec("norm=centre", config_dir=moved).id == first


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("import nothing_of_this_name\n", "cannot be imported: ModuleNotFoundError"),
        ("1/0\n", "cannot be imported: ZeroDivisionError"),
        ("def\n", "cannot be imported: SyntaxError"),
        ("x = 1\n", r"no class is registered with @normalizer\('centre'\)"),
    ],
)
def test_a_broken_file_is_named(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, wanted: str
) -> None:
    from normbench.norms import base

    monkeypatch.setattr(base, "REGISTRY", {})
    (own / "norm" / "centre.py").write_text(code)
    spec = tiny.spec("norm=centre", config_dir=own)
    with pytest.raises(NormbenchError, match=wanted) as caught:
        base.build(None, spec.sites["hidden.0"])  # the site is not reached
    assert "centre.py" in str(caught.value) and "\n" not in str(caught.value)


def test_an_experiment_of_ones_own(own: Path) -> None:
    assert "mine/one" in compose.choices("experiment", own) and "ln2016/fig6" in compose.choices("experiment", own)
    specs = plan.artifact_specs("mine/one", "smoke", 2, config_dir=own)
    assert len(specs) == 2 * 2 * 2
    words = ["experiment=mine/one", "arm=mine", "fidelity=smoke", "seed=2"]
    assert {(spec.experiment, spec.arm) for spec in specs} == {("mine/one", "plain"), ("mine/one", "mine")}
    (spec,) = plan.train_specs([*words, "train.batch_size=200"], False, own)
    assert spec.id in {s.id for s in specs}
    with pytest.raises(NormbenchError, match="is not an experiment"):
        plan.artifact_specs("mine/one", "smoke", 1)


def test_a_shipped_name_cannot_be_taken(own: Path) -> None:
    """The same words would train another network beside it."""
    shipped = compose.choice_path("norm", "layer").read_text()
    (own / "norm" / "layer.yaml").write_text(shipped.replace("eps: 1.0e-5", "eps: 1.0e-3"))
    with pytest.raises(NormbenchError, match="another name"):
        tiny.spec("norm=layer", config_dir=own)


def test_the_arms_of_bln_part_by_part() -> None:
    specs = {(s.arm, s.axes["train.batch_size"]): s for s in plan.artifact_specs("bln2022/ablation", "paper", 1)}
    assert {s.config["data"]["name"] for s in specs.values()} == {"cifar10"} and len(specs) == 20 + 7
    assert not any(s.config["train"]["reshuffle"] for s in specs.values())
    assert {(s.steps, s.epochs) for (_, batch), s in specs.items() if batch == 25} == {(15 * 360, 15)}
    for (arm, batch), spec in specs.items():
        scaled = arm.endswith("-scaled") or arm in ("bln", "bln-before", "bln-adopted")
        for path, choice in spec.sites.items():
            assert path.startswith("summed.") == arm.endswith("-before"), arm
            assert (choice.options["scale"] == "inverse_root_d") == scaled, arm
            if choice.name == "batch":  # as tf.keras
                single = batch == 1 and arm != "bn-conv"
                assert choice.options["unbiased_running"] == ("conv" in path)
                assert choice.options["allow_single"] == choice.options["single_running"] == single
                assert (choice.options["positions"] == "separate") == arm.startswith("bn-pos")
            if arm.endswith("-gain"):
                features = {"conv.0": 6, "conv.1": 16, "dense.0": 120, "dense.1": 84}[path]
                assert choice.options["gain_init"] == pytest.approx(features**-0.5)
    fig4 = {(s.arm, s.axes["train.batch_size"]): s for s in plan.artifact_specs("bln2022/fig4", "paper", 1)}
    assert len(fig4) == 8 and all(specs[cell].id == spec.id for cell, spec in fig4.items())
    every = plan.artifact_specs("bln2022/table1", "paper", 1, limited=False)  # limited, BLN has fresh seeds
    table = {(s.arm, s.axes["data.fraction"]): s for s in every}
    assert {(fraction, s.steps) for (_, fraction), s in table.items()} == {(0.2, 15 * 360), (1.0, 15 * 1800)}
    for arm in ("bln", "bn", "ln"):
        assert table[arm, 0.2].id == fig4[arm, 25].id
        asked = [spec.config["eval"] for spec in (table[arm, 0.2], fig4[arm, 25], specs[arm, 25])]
        assert asked[0] == asked[1] == asked[2], "else one would repeat the other's runs"
    assert {s.config["data"]["name"] for s in plan.artifact_specs("bln2022/fig4", "smoke", 1)} == {"coloured_digits"}


def test_the_experiments_of_blns_rnn_are_the_authors_settings() -> None:
    specs = {
        (arm, batch): plan.experiment_spec("bln2022/fig6", arm, "paper", [f"train.batch_size={batch}", "seed=1"])
        for arm in plan.experiment("bln2022/fig6").arms
        for batch in (25, 1)
        if (arm, batch) != ("bn-pos-scaled", 1)
    }
    for (arm, batch), spec in specs.items():
        assert spec.steps == 10 * 4000 // batch and spec.config["optim"] | {"declares": {}} == {
            **{"name": "keras_adam", "lr": 3e-3, "betas": [0.9, 0.999], "eps": 1e-8},
            "declares": {},
        }
        choices = spec.sites
        assert set(choices) == (set() if arm == "none" else {"lstm.0", "lstm.1", "dense"})
        for choice in choices.values():
            if choice.name != "batch_layer":
                assert choice.options["eps"] == 1e-3
                assert (choice.options["scale"] == "inverse_root_d") == arm.endswith("-scaled")
            if choice.name == "batch":
                assert not choice.options["unbiased_running"] and choice.options["momentum"] == 0.01
                assert choice.options["single_running"] == (batch == 1)
    for arm in ("bln", "bn", "ln"):
        part, whole = (
            plan.experiment_spec("bln2022/table2", arm, "paper", [f"data.fraction={fraction}", "seed=1"])
            for fraction in (0.2, 1.0)
        )
        assert part.id == specs[arm, 25].id and part.config["eval"] == specs[arm, 25].config["eval"]
        assert (whole.steps, whole.config["optim"]["eps"]) == (10 * 800, 1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("fidelity", ["paper", "reduced", "proxy", "smoke"])
def test_the_reader_and_skip_thoughts_have_the_authors_settings_at_paper_fidelity(fidelity: str) -> None:
    """At the others, of which runs are published, what these were published with."""
    paper = fidelity == "paper"
    for control in ("", "lr-high"):
        for spec in plan.artifact_specs("ln2016/fig2", fidelity, 1, controls=True):
            if spec.arm == "rules" or spec.control != control:
                continue
            config, adam = spec.config, "keras_adam" if paper else "adam"
            assert (config["optim"]["name"], config["optim"]["eps"]) == (adam, 1e-8)
            assert config["train"]["sampler"] == ("in_order" if paper else "shuffled")
            assert config["eval"]["drop_last"] is paper
            assert not paper or config["optim"]["lr"] == pytest.approx(2.4e-4 if control else 8e-5)
    for spec in plan.artifact_specs("ln2016/fig3", fidelity, 1):
        assert spec.config["data"].get("filter", "before") == ("after" if paper else "before")


def test_limits_leave_cells_out_and_hold_their_seeds() -> None:
    def counts(**words: bool) -> Counter[tuple[str, int, str]]:
        specs = plan.artifact_specs("bln2022/ablation", "paper", 6, **words)
        return Counter((s.arm, s.axes["train.batch_size"], s.control) for s in specs)

    found = counts(controls=True)
    assert found["bn", 25, ""] == 6 and found["bn", 1, ""] == 5 and found["bn", 25, "lr-low"] == 5
    assert not found["bn-pos", 1, ""] and not found["none", 25, "lr-low"] and not found["bn-conv", 1, "lr-high"]
    more = counts(limited=False)
    assert more["bn", 1, ""] == 6 and not more["bn-pos", 1, ""], "a cell that is not there stays so"


def test_seeds_of_their_own_take_the_place_of_1_to_n_at_paper_fidelity() -> None:
    def seeds(
        fidelity: str = "paper", asked: int | range = 5, limited: bool = True
    ) -> dict[tuple[str, int, str], list[int]]:
        found: dict[tuple[str, int, str], list[int]] = {}
        for s in plan.artifact_specs("ln2016/fig6", fidelity, asked, controls=True, limited=limited):
            found.setdefault((s.arm, s.axes["train.batch_size"], s.control), []).append(s.seed)
        return found

    paper = seeds()
    assert paper["ln", 128, ""] == list(range(1, 11)) and paper["ln-all", 128, ""] == [1, 2, 3, 4, 5]
    assert paper["ln", 4, ""] == paper["ln", 128, "lr-low"] == paper["ln-all", 128, "tanh"] == [6, 7, 8, 9, 10]
    assert all(found == [1, 2, 3] for found in seeds("smoke").values())
    proxy = {(s.arm, s.seed) for s in plan.artifact_specs("ln2016/fig2", "proxy", 5)}  # a rule that names its fidelity
    assert {arm for arm, seed in proxy if seed > 5} >= {"ln", "none"} and ("ln-gain01", 6) not in proxy
    assert max(s.seed for s in plan.artifact_specs("ln2016/fig2", "smoke", 5)) == 2
    assert all(found == [7, 8] for found in seeds(asked=range(7, 9), limited=False).values()), "who names them means it"


@pytest.mark.parametrize("model", compose.choices("model"))
def test_a_model_is_trained_with_what_it_sets(model: str) -> None:
    """The root's values come first and overwrite none of a model's."""
    said = yaml.safe_load(compose.choice_path("model", model).read_text())
    if said["model"]["declares"].get("probe"):
        pytest.skip("a probe trains nothing")
    (spec,) = plan.train_specs([f"model={model}"], multirun=False)
    assert {key: spec.config["train"][key] for key in said["train"]} == said["train"]


def test_networks_that_are_compared_across_experiments_are_those_of_their_own() -> None:
    """Run by run: what one has trained, the other need not."""
    beside = {
        "recall": ("ln2016/recall", {"data.length": 40, "train.batch_size": 64}),
        "imdb": ("bln2022/fig6", {"train.batch_size": 25}),
        "mnist": ("ln2016/fig6", {"train.batch_size": 128}),
        "cifar10": ("bln2022/fig4", {"train.batch_size": 25}),
    }
    compared = {
        (s.arm, s.control): s
        for s in plan.artifact_specs("ln2016/benefit", "paper", [11], (), True, None, limited=False)
    }
    for network, (experiment, cell) in beside.items():
        for own in plan.artifact_specs(experiment, "paper", [11], ("none", "ln"), True, None, limited=False):
            other = compared.get((f"{network}-{own.arm}", own.control))
            if cell.items() <= own.axes.items() and other is not None:
                assert (other.id, other.config["eval"]) == (own.id, own.config["eval"]), (network, own.arm, own.control)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["norm=ghost_batch", "train.batch_size=128"], "norm=ghost_batch trains as batch: batch_size 128"),
        (["norm=ghost_batch", "train.batch_size=129"], ""),
        (["norm=ghost_batch", "train.batch_size=128", "norm.ghost_size=64"], ""),
        (["norm=batch_renorm", "train.steps=5000"], "norm=batch_renorm trains as batch: updates 5000"),
        (["norm=batch_renorm", "train.steps=5001"], ""),
        (["norm=batch_renorm", "train.steps=5000", "norm.warmup_frac=0.5"], ""),
        (["norm=power", "train.steps=10000"], "norm=power trains as PN-V"),
        (["norm=power", "train.steps=10001"], ""),
        (["norm=layer"], ""),
    ],
)
def test_a_normalizer_that_is_another_in_a_run_of_this_size_says_so(words: list[str], sentence: str) -> None:
    epochs = ["train.epochs=0"] if "steps" in " ".join(words) else []
    (spec,) = plan.train_specs(["model=mnist_mlp", "data=digits", *words, *epochs], False)
    assert [line.startswith(sentence) for line in spec.simpler] == ([True] if sentence else [])
