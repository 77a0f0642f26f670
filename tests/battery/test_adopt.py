"""From a word to a normalizer: files and names; and what a bad one is told."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from normbench.battery import adopt as adopting
from normbench.battery import trials
from normbench.battery.adopt import adopt
from normbench.config import compose, plan
from normbench.errors import NormbenchError

NORMS = Path(adopting.__file__).parents[1] / "norms"
CENTRE = Path(__file__).parents[2] / "examples" / "own_normalizer" / "norm" / "centre.py"


@pytest.mark.parametrize("name", ["layer", "rms", "instance", "ada", "ghost_batch", "batch_renorm", "spectral"])
def test_what_a_file_does_is_what_our_own_yaml_declares(name: str, tmp_path: Path) -> None:
    """Our own files under another name, without their YAML: the facts taken from them are those we wrote by hand."""
    source = (NORMS / f"{name}.py").read_text().replace(f'@normalizer("{name}")', '@normalizer("mine")')
    (tmp_path / "mine.py").write_text(source)
    adopted = adopt(str(tmp_path / "mine.py"), None, tmp_path / "made")
    taken, ours = yaml.safe_load(adopted.derived), compose.declaration("norm", name)
    assert taken["name"] == adopted.name == "mine"
    for fact in ("recentres", "rescales", "reads_mask", "pools_steps"):
        assert bool(taken["declares"].get(fact)) == bool(ours.get(fact)), fact
    if isinstance(ours["mode_dependent"], bool):
        assert taken["declares"]["mode_dependent"] == ours["mode_dependent"]
    assert "state" in taken["declares"]["kinds"] or "state" not in ours["kinds"]
    assert set(ours["axes"]) <= set(taken["declares"]["axes"]) | {"time"}
    assert (taken["declares"].get("needs") or []) == (ours.get("needs") or [])
    defaults = {key: compose.choice("norm", name)[key] for key in ours["options"]}
    assert {key: taken[key] for key in defaults} == defaults
    assert {k: s["type"] for k, s in ours["options"].items()} == {
        k: s["type"] for k, s in taken["declares"]["options"].items()
    }
    assert adopted.subject().file == str(tmp_path / "mine.py")


def test_a_yaml_next_to_it_is_used_unchanged(tmp_path: Path) -> None:
    for word in (CENTRE, CENTRE.with_suffix(".yaml")):
        adopted = adopt(str(word), None, tmp_path)
        assert adopted.name == "centre" and not adopted.derived
        assert adopted.subject().facts["title"] == "Centring (example)"


def test_a_registered_name_is_itself(tmp_path: Path) -> None:
    assert adopt("rms", None, tmp_path).config_dir is None
    own = CENTRE.parents[1]
    assert adopt("centre", own, tmp_path).config_dir == own
    assert not list(tmp_path.iterdir())


CLASS = CENTRE.read_text()
OTHER = CLASS[CLASS.index("@norm") :].replace('"centre"', '"other"').replace("class Centre", "class Other")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1\n", "class"),
        (CLASS + OTHER, "centre, other"),
        ("import nothing_like_it\n", "ModuleNotFoundError"),
        ("def broken(:\n", "SyntaxError"),
        ("raise SystemExit(3)\n", "SystemExit"),
        (CLASS.replace('"centre"', '"layer"'), "norm=layer"),
        *((CLASS.replace('"centre"', f'"{name}"'), f"'{name}' is no name") for name in ("a/b", "größe", "true")),
        ("from normbench.extend import normalizer\n@normalizer('f')\ndef f(): pass\n", "class"),
        (CLASS.replace("*, bias: bool = True", "*, bias"), "'bias' of Centre"),
        (CLASS.replace("*, bias: bool = True", "bias: bool = True"), "'bias' of Centre"),
        (CLASS.replace("bias: bool = True", "bias=(1, 2)"), "'bias' of Centre"),
    ],
)
def test_a_bad_file_gets_one_line(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(text)
    with pytest.raises(NormbenchError, match=words) as caught:
        adopt(str(path), None, tmp_path / "made")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "made").exists(), "nothing is half-written"


@pytest.mark.parametrize("text", ["name: [", "- 1\n", "name: mine\n", "name: mine\ndeclares: {file: gone.py}\n"])
def test_a_bad_yaml_gets_one_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(NormbenchError, match=r"mine\.yaml"):
        adopt(str(tmp_path / "mine.yaml"), None, tmp_path / "made")


def test_a_mistake_in_its_yaml_is_reported_with_the_users_file(tmp_path: Path) -> None:
    (tmp_path / "centre.py").write_text(CLASS)
    text = CENTRE.with_suffix(".yaml").read_text()
    (tmp_path / "centre.yaml").write_text(text.replace("axes: [batch", "axes: [bach"))
    with pytest.raises(NormbenchError, match=rf"^{tmp_path}/centre\.yaml: declares\.axes.0.: .*Did you mean 'batch'"):
        adopt(str(tmp_path / "centre.py"), None, tmp_path / "made")
    assert not (tmp_path / "made").exists(), "it hides no good one of that name"
    (tmp_path / "centre.yaml").write_text(text.replace("name: centre", "name: middle"))
    with pytest.raises(NormbenchError, match=r"centre\.py: no class is registered with @normalizer\('middle'\)"):
        adopt(str(tmp_path / "centre.py"), None, tmp_path / "made")
    (tmp_path / "other.py").write_text(CLASS)
    (tmp_path / "centre.yaml").write_text(text.replace("file: centre.py", "file: other.py"))
    with pytest.raises(NormbenchError, match=r"lies beside .*centre\.py, is of .*other\.py\. Name the one"):
        adopt(str(tmp_path / "centre.py"), None, tmp_path / "made")


def test_options_that_a_time_loop_needs_are_set_and_reported() -> None:
    """Only where the shipped options are refused."""
    found, _ = trials.trials("rms", "smoke", 1, ["ln2016/recall", "ln2016/online"], None)
    recall = [trial for trial in found if trial.experiment == "ln2016/recall"]
    assert len(recall) == 4 and all(trial.changed == {"batch": "norm.stats=per_step"} for trial in recall)
    assert all(set(trial.specs) == {"rms", "none", "batch", "layer"} and not trial.refused for trial in recall)
    (online,) = (trial for trial in found if trial.experiment == "ln2016/online")
    assert not online.changed and "one value per feature" in online.refused["batch"] and "batch" not in online.specs


def test_every_trial_of_a_battery_is_as_small_as_its_experiment_at_that_fidelity() -> None:
    """And none refuses no normalization."""
    found, _ = trials.trials("rms", "smoke", 1, [], None)
    assert {"ln2016/fig2", "ln2016/fig3", "ln2016/fig6"} <= {trial.experiment for trial in found}
    for trial in found:
        assert "none" not in trial.refused, trial.refused
        expected = plan.artifact_specs(trial.experiment, "smoke", 1, limited=False)
        longest = max(spec.steps for spec in expected if {**spec.axes} == {**trial.axes})
        for norm, (spec,) in trial.specs.items():
            assert spec.steps <= longest, (trial.experiment, norm)


def test_the_arm_without_normalization_is_the_experiments_run() -> None:
    (trial,), _ = trials.trials("rms", "smoke", 1, ["ln2016/fig3"], None)
    (expected,) = plan.artifact_specs("ln2016/fig3", "smoke", 1, ["none"])
    assert (
        trial.specs["none"][0].id == expected.id and trial.specs["rms"][0].config["model"] == expected.config["model"]
    )


def test_runs_that_two_experiments_share_are_one_trial() -> None:
    named = ["bln2022/fig4", "bln2022/ablation"]
    found, left_out = trials.trials("rms", "smoke", 1, named, None)
    assert len(found) == 2 and len({trial.experiment for trial in found}) == 1
    assert len(left_out) == 2 and all("once more: left out" in line for line in left_out)
    _, (line,) = trials.trials("rms", "smoke", 1, ["ln2016/fig1", "rms2019/captions"], None)
    assert line.startswith("rms2019/captions would be"), "it has no axis"


def test_an_experiment_whose_arms_choose_the_model_needs_no_arm_none(tmp_path: Path) -> None:
    """And one whose arms bring a probe's model trains nothing, and is none of the battery."""
    (tmp_path / "experiment").mkdir()
    for name, model in (("learns", "mnist_mlp"), ("computes", "glm")):
        node = {"title": name, "arms": {"own": [f"model={model}", "norm=layer"]}, "fidelities": {"smoke": {"set": []}}}
        node["fidelities"]["smoke"]["set"] = ["data=digits"] if model == "mnist_mlp" else []
        (tmp_path / "experiment" / f"{name}.yaml").write_text(yaml.safe_dump(node))
    (trial,), _ = trials.trials("rms", "smoke", 1, ["learns"], tmp_path)
    assert set(trial.specs) == {"rms", "none", "batch", "layer"} and not trial.refused
    assert {spec.config["model"]["name"] for (spec,) in trial.specs.values()} == {"mnist_mlp"}
    with pytest.raises(NormbenchError, match="--only computes is no experiment of the battery"):
        trials.trials("rms", "smoke", 1, ["computes"], tmp_path)


def test_an_option_of_a_file_is_declared_in_its_yaml(tmp_path: Path) -> None:
    mine, conf = tmp_path / "mine.py", tmp_path / "own"
    mine.write_text("from torch import nn\nclass Mine(nn.Module):\n    def forward(self, x):\n        return x\n")
    words, _ = adopting.in_words(["model=mnist_mlp", "data=digits", f"norm={mine}", "norm.alpha=2"], None, conf)
    with pytest.raises(NormbenchError, match=r"norm.alpha is not an option.*declares\.options of its YAML"):
        plan.train_specs(words, False, conf)


@pytest.mark.parametrize("text", ["{hidden: layer, logits: PATH}", "{hidden: layer,logits: {name: 'PATH'}}"])
def test_a_file_at_a_single_site_gets_its_name(text: str, tmp_path: Path) -> None:
    mine, conf = tmp_path / "mine.py", tmp_path / "own"
    mine.write_text("from torch import nn\nclass Mine(nn.Module):\n    def forward(self, x):\n        return x\n")
    sites = text.replace("PATH", str(mine))
    words, (adopted,) = adopting.in_words(["model=mnist_mlp", "data=digits", f"norm.sites={sites}"], None, conf)
    assert words[2] == f"norm.sites={text.replace('PATH', 'mine')}" and adopted.name == "mine"
    (spec,) = plan.train_specs(words, False, conf)
    logits = spec.config["norm"]["sites"]["logits"]
    assert logits in ("mine", {"name": "mine"}) and spec.config["norm"]["sites"]["hidden"] == "layer"
    with pytest.raises(NormbenchError, match="is a file: leave out --config-dir"):
        adopting.in_words([f"norm.sites={sites}"], conf, tmp_path / "none")


def test_files_among_override_words_get_their_names(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(CENTRE.read_text().replace('@normalizer("centre")', '@normalizer("mine")'))
    conf = tmp_path / "own"
    words = ["model=mnist_mlp", f"norm=none,{mine},{CENTRE.with_suffix('.yaml')}", "seed=1,2"]
    named, adopted = adopting.in_words(words, None, conf)
    assert named == ["model=mnist_mlp", "norm=none,mine,centre", "seed=1,2"]
    assert [(one.name, bool(one.remark), one.config_dir) for one in adopted] == [
        ("mine", True, conf), ("centre", False, conf)
    ]  # fmt: skip
    specs = plan.train_specs([*named, "data=digits"], True, conf)
    assert [spec.config["norm"]["name"] for spec in specs] == ["none"] * 2 + ["mine"] * 2 + ["centre"] * 2
    unchanged = ["norm=layer", "norm.sites=[hidden]", "model=mnist_mlp"]
    assert adopting.in_words(unchanged, None, tmp_path / "none") == (unchanged, []) and not (tmp_path / "none").exists()
    other = tmp_path / "with space" / "other file.py"
    other.parent.mkdir()
    other.write_text(mine.read_text().replace('"mine"', '"other"'))
    named, adopted = adopting.in_words([f"norm=none,'{other}',{mine},{tmp_path}/./mine.py"], None, tmp_path / "two")
    assert named == ["norm=none,other,mine,mine"] and len(adopted) == 2
    other.write_text(mine.read_text() + "# other maths")
    for word, says, config_dir in (
        (f"norm={tmp_path}/no.py", "no.py cannot be read: No such file", None),
        (f"norm={mine}", "is a file: leave out --config-dir", conf),
        (f"norm={mine},'{other}'", rf"other file\.py: there is a norm=mine of {mine} already", None),
    ):
        with pytest.raises(NormbenchError, match=says):
            adopting.in_words([word], config_dir, tmp_path / "none")
