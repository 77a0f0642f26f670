"""Files of one's own as people have them, mostly plain modules: adopted and trained, or refused in one line."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
from pathlib import Path

import child
import pytest
import smallest
import torch
import yaml

from normbench import GRU, LSTM, create_norm
from normbench.battery import contract
from normbench.battery.adopt import adopt, in_words
from normbench.battery.cases import LAYOUTS, Subject
from normbench.config import compose, plan
from normbench.core import user_code
from normbench.errors import NormbenchError
from normbench.norms import modes
from normbench.norms.sites import NOT
from normbench.train import probes

ISRU = Path(__file__).parents[2] / "examples" / "own_normalizer" / "isru.py"
HEAD = "from __future__ import annotations\nimport torch\nfrom torch import nn\nfrom torch.nn import functional as F\n"
DENSE, IN_TIME, FIRST, LAST = LAYOUTS


def module(made: str, forward: str, signature: str = "d", name: str = "Mine", base: str = "nn.Module") -> str:
    """A class with these lines in its constructor and its forward."""
    return (
        f"class {name}({base}):\n"
        f"    def __init__(self{signature and ', ' + signature}):\n        super().__init__()\n        {made}\n"
        f"    def forward(self, x):\n        {forward}\n"
    )


GAIN = "self.gain = nn.Parameter(torch.ones(d))"
RUNNING = """self.register_buffer("mean", torch.zeros(d))
        self.register_buffer("var", torch.ones(d))"""
FUNCTION = """
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, g):
        return 2 * g

"""
CONFIGURED = """
from dataclasses import dataclass, field

@dataclass(frozen=True)
class Options:
    eps: float = 1e-5
    shape: tuple[int, ...] = field(default=())

"""
ALL, ROWS, PLANES = [*LAYOUTS], [DENSE, IN_TIME], [FIRST, LAST]
# what a file has, the layouts that it serves, and whether it serves inside a time loop
SERVED = {
    "buffers": (module(RUNNING, "return F.batch_norm(x, self.mean, self.var, training=self.training)"), ALL, False),
    "lazy": (module("self.norm = nn.LazyBatchNorm1d()", "return self.norm(x)", ""), ALL, False),
    "lazy planes": (module("self.norm = nn.LazyInstanceNorm2d(affine=True)", "return self.norm(x)", ""), PLANES, False),
    "dropout": (module("self.norm, self.drop = nn.LayerNorm(d), nn.Dropout(0.1)", "return self.drop(self.norm(x))"),
                ALL, False),
    "scripted": ("@torch.jit.script\ndef centred(x: torch.Tensor) -> torch.Tensor:\n    return x - x.mean(1, True)\n"
                 + module(GAIN, "return centred(x)"), ALL, True),
    "no parameters": (module("pass", "return F.normalize(x, dim=1)", ""), ALL, True),
    "nothing": ("class Mine(nn.Module):\n    def forward(self, x):\n        return x.tanh()\n", ALL, True),
    "dataclass": (CONFIGURED + module(GAIN, "return self.gain * x / (1 + options.eps)".replace("options", "self.o"),
                  "d, options: Options = Options()").replace(GAIN, f"{GAIN}; self.o = options"), ALL, True),
    "4-D only": (module("self.norm = nn.BatchNorm2d(c)", "n, c, h, w = x.shape\n        return self.norm(x)", "c"),
                 PLANES, False),
    "rows": (module("self.norm = nn.LayerNorm(d_model)", "return self.norm(x)", "d_model"), ALL, True),
    "groups": (module("self.norm = nn.GroupNorm(groups, channels)", "return self.norm(x)", "channels, groups=2"), ALL,
               True),
    "channels": (module("self.gain = nn.Parameter(torch.ones(1, n, 1, 1))", "return x * self.gain", "n"), PLANES, True),
    "function": (FUNCTION + module(GAIN, "return self.gain * Double.apply(x)"), ALL, True),
    "keyword": (module(GAIN, "return self.gain * x", "*, d, eps: float = 1e-5"), ALL, True),
    "marked": (module("pass", "return x", "", "Part") + "from normbench.extend import normalizer\n"
               "@normalizer('mine')\n" + module(GAIN, "return self.gain * x"), ALL, True),
    "mask": (module(GAIN, "return x if mask is None else x * mask[:, None]").replace("x):", "x, mask=None):"),
             ALL, True),
}  # fmt: skip
REFUSED = {
    "a tuple": (module(GAIN, "return x, self.gain"), "gives tuple, not a tensor like x"),
    "another type": (module(GAIN, "return (x * self.gain).double()"), "torch.float32 gives torch.float64"),
    "half": (module(GAIN, "return (x * self.gain).half()"), "torch.float32 gives torch.float16"),
    "another shape": (module(GAIN, "return x.mean(0)"), r"gives Tensor of shape \(6,\), not a tensor like x"),
    "turned": (module(GAIN, "return x.movedim(0, -1)"), r"\(4, 6\) gives Tensor of shape \(6, 4\)"),
    "constructor": (module("raise KeyError('mine')", "return x"), "KeyError: 'mine' .mine.py, line 8"),
    "two numbers": (module(GAIN, "return x", "d, eps"), "Mine: d is the number of features, eps must have a default"),
    "two classes": (module(GAIN, "return x", name="A") + module(GAIN, "return x", name="B"), "classes, A, B. Mark one"),
    "imported": ("from torch.nn import LayerNorm\n", "has no class"),
    "no mask": (
        "from normbench.extend import Normalizer\n" + module("pass", "return x", "", base="Normalizer").replace(
            "self):\n        super().__init__()", "self, site):\n        super().__init__(site)"),
        r"forward takes no mask. Write forward\(self, x, mask=None\)"),
    "scripted whole": ("class Mine(torch.jit.ScriptModule):\n    @torch.jit.script_method\n    def forward(self, x):\n"
                       "        return x, x\n", "serves no layout"),
}  # fmt: skip


def write(folder: Path, text: str, name: str = "mine.py") -> Path:
    (folder / name).write_text(HEAD + text)
    return folder / name


@pytest.mark.thinned(1)  # each file learns, and in each model some do
@pytest.mark.parametrize("model", ["mnist_mlp", "lenet5", "recall_lstm"])
@pytest.mark.parametrize("kind", SERVED)
def test_a_module_is_enough(kind: str, model: str, tmp_path: Path) -> None:
    """It serves the layouts that it can, learns at dense, recurrent and convolutional sites, or is refused there."""
    text, layouts, loops = SERVED[kind]
    path = write(tmp_path, text)
    words, (adopted,) = in_words([f"norm={path}"], None, tmp_path / "own")
    assert words == ["norm=mine"] and adopted.derived
    subject = adopted.subject()
    assert subject.layouts() == layouts and subject.specs == {}
    for axes in layouts:
        assert contract.broken(contract.FITS, subject, axes) == ""
    site, served = {
        "mnist_mlp": ("hidden", DENSE in layouts),
        "lenet5": ("conv", FIRST in layouts),
        "recall_lstm": ("lstm", IN_TIME in layouts and loops),
    }[model]
    asked = [f"model={model}", *smallest.SMALL[model], *words, f"norm.sites=[{site}]"]
    if served:
        (spec,) = plan.train_specs(asked, False, tmp_path / "own")
        learns(spec)
    else:
        with pytest.raises(NormbenchError, match=f"mine cannot serve site '{site}.*: it "):
            plan.train_specs(asked, False, tmp_path / "own")


def learns(spec) -> None:
    from normbench import data as datasets
    from normbench.models import base as models
    from normbench.train import optim

    torch.manual_seed(0)  # of dropout
    learner = models.build(spec.config, spec.sites).train()
    split = datasets.load(spec.config["data"]).splits["train"]
    batch, optimizer = split.only(models.takes(learner)).batch(slice(20)), optim.build(spec.config["optim"], learner)
    torch.manual_seed(0)
    losses = []
    for number in range(4):
        with models.update(learner, 1, number):
            loss = learner(**batch.tensors)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0]


UNTRAINABLE = {
    "attribute": (module("self.mean = torch.zeros(d)", "if self.training:\n            self.mean += 0.1 * (x.mean() - "
                         "self.mean).detach()\n        return x - self.mean.mean()"), "keep statistics in buffers"),
    "late": (module("self.gain = None", "if self.gain is None:\n            self.gain = nn.Parameter(x.new_ones(()))\n"
                    "        return self.gain * x"), "in the constructor"),
    "in place": (module(GAIN, "x -= x.mean()\n        return self.gain * x"), "changed in place"),
}  # fmt: skip


@pytest.mark.parametrize("kind", UNTRAINABLE)
def test_what_a_checkpoint_would_lack_is_refused_before_a_run(kind: str, tmp_path: Path) -> None:
    text, words = UNTRAINABLE[kind]
    with pytest.raises(NormbenchError, match=words):
        in_words([f"norm={write(tmp_path, text)}"], None, tmp_path / "own")
    assert not (tmp_path / "own").exists()


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (", mask: Tensor | None = None", "", r"centre\.py: Centre\.forward takes no mask"),
        ("return y if", "return y[0] if", r"Centre: x of \(5, 4\) gives Tensor of shape \(4,\), not a tensor like x"),
        ("return y if", "return None if", r"gives NoneType"),
    ],
)
def test_a_declared_one_that_no_model_can_call_says_so(old: str, new: str, says: str, tmp_path: Path) -> None:
    """One of --config-dir, which is not tried before a model calls it."""
    shutil.copytree(ISRU.parent / "norm", tmp_path / "norm")
    file = tmp_path / "norm" / "centre.py"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(NormbenchError, match=says):
        create_norm(str(file.with_suffix(".yaml")), 4, bias=False)(torch.ones(5, 4))


@pytest.mark.parametrize("kind", REFUSED)
def test_what_serves_nowhere_is_refused_in_one_line(kind: str, tmp_path: Path) -> None:
    text, words = REFUSED[kind]
    path = write(tmp_path, text)
    for with_yaml in (False, True):  # with a YAML beside it as well
        if with_yaml:
            node = {"name": "mine", "sites": None, "preceding_bias": "site", "declares": {
                "title": "t", "source": "s", "maths": 1, "file": "mine.py", "kinds": ["pre_activation"],
                "axes": ["batch", "time", "feature", "space"], "options": {}}}  # fmt: skip
            path.with_suffix(".yaml").write_text(yaml.safe_dump(node))
            words = words.replace("has no class", "no class")
        with pytest.raises(NormbenchError, match=words) as caught:
            adopt(str(path), None, tmp_path / "own")
        assert "\n" not in str(caught.value) and not (tmp_path / "own").exists()


def test_the_example_trains_with_none_and_layer_in_a_convolutional_network(tmp_path: Path) -> None:
    """As `normbench train model=lenet5 data=coloured_digits norm=none,layer,isru.py -m`; and in a recurrent layer."""
    asked = ["model=lenet5", "data=coloured_digits", f"norm=none,layer,{ISRU}", "train.batch_size=20"]
    words, _ = in_words(asked, None, tmp_path / "own")
    specs = plan.train_specs(words, True, tmp_path / "own")
    assert [{choice.name for choice in spec.sites.values()} for spec in specs] == [set(), {"layer"}, {"isru"}]
    assert len(specs[2].sites) == 4
    learns(specs[2])
    assert len([*modes.normalizers(LSTM(4, 6, norm=str(ISRU)))]) == 3, "input, hidden and cell, as of layer"


# --- Normalizer classes with torch's layers inside -------------------------------------------------------------------

OWN = "from normbench.extend import Normalizer, normalizer\n@normalizer('mine')\n" + module(
    "self.norm = MADE", "return self.norm(x)", "", "Mine", "Normalizer"
).replace("self):\n        super().__init__()", "self, site):\n        super().__init__(site)").replace(
    "self, x)", "self, x, mask=None)"
)


@pytest.mark.parametrize(
    ("made", "layouts"),
    [
        ("nn.BatchNorm2d(site.features)", [FIRST]),
        ("nn.GroupNorm(2, site.features)", [DENSE, FIRST]),
        ("nn.BatchNorm1d(site.features)", [DENSE]),
        ("nn.LayerNorm(site.features)", [DENSE, IN_TIME, LAST]),
    ],
)
def test_a_class_keeps_the_layouts_that_it_was_tried_at_with_success(made: str, layouts: list, tmp_path: Path) -> None:
    path = write(tmp_path, OWN.replace("MADE", made))
    adopted = adopt(str(path), None, tmp_path / "own")
    assert adopted.subject().layouts() == layouts
    for axes in LAYOUTS:
        space = ("model=lenet5", "data=coloured_digits") if axes == FIRST else ("model=mnist_mlp", "data=digits")
        if axes in (DENSE, FIRST):
            site = "conv" if axes == FIRST else "hidden"
            words = [*space, "norm=mine", f"norm.sites=[{site}]"]
            if axes in layouts:
                (spec,) = plan.train_specs(words, False, tmp_path / "own")
                assert {choice.name for choice in spec.sites.values()} == {"mine"}
            else:
                with pytest.raises(NormbenchError, match=rf"cannot serve site '{site}\.0' of .*: it "):
                    plan.train_specs(words, False, tmp_path / "own")
    x = torch.randn(4, 3, 5, 7)
    if FIRST in layouts and "GroupNorm" not in made:
        norm = create_norm(str(path), 3, axes="batch feature space space")
        assert torch.equal(norm(x), nn_batch(x))


def nn_batch(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.BatchNorm2d(x.shape[1])(x)


def test_x_is_rows_in_time_and_channels_first_in_space(tmp_path: Path) -> None:
    """Against torch's layers, called as torch's users call them."""
    planes = write(tmp_path, module("self.norm = nn.GroupNorm(2, d)", "return self.norm(x)"), "planes.py")
    rows = write(tmp_path, module("self.norm = nn.LayerNorm(d)", "return self.norm(x)"), "rows.py")
    x = torch.randn(3, 4, 5, 6)
    group, layer = torch.nn.GroupNorm(2, 6), torch.nn.LayerNorm(6)
    for axes, given in (("batch feature space space", x.movedim(-1, 1)), ("batch space space feature", x)):
        back = 1 if axes == "batch feature space space" else -1
        assert torch.equal(create_norm(str(planes), 6, axes=axes)(given), group(x.movedim(-1, 1)).movedim(1, back))
        assert torch.allclose(create_norm(str(rows), 6, axes=axes)(given), layer(x).movedim(-1, back))
    for axes, given in (("batch time feature", x[0]), ("batch feature", x[0, 0])):
        expected = group(given.flatten(0, -2)).view(given.shape)
        assert torch.equal(create_norm(str(planes), 6, axes=axes)(given), expected)
    masked = write(tmp_path, module("pass", "return x * mask[:, None]", "").replace("x):", "x, mask):"), "masked.py")
    mask = torch.tensor([[True, False, True, True]] * 3)
    with pytest.raises(NormbenchError, match="masked serves no layout"):  # it needs one, and there is none mostly
        adopt(str(masked), None, tmp_path / "own")
    masked.write_text(masked.read_text().replace("x * mask", "x if mask is None else x * mask"))
    norm = create_norm(str(masked), 6, axes="batch time feature")
    assert torch.equal(norm(x[:, :, 0], mask), x[:, :, 0] * mask[..., None])


def test_a_yaml_declares_the_options_of_a_module(tmp_path: Path) -> None:
    path = write(tmp_path, ISRU.read_text().replace("from __future__", "# from __future__"), "mine.py")
    node = yaml.safe_load(adopt(str(path), None, tmp_path / "own").derived)
    assert node["declares"]["options"] == {}, "options are never guessed"
    node["declares"] |= {"options": {"alpha": {"type": "float", "min": 0}}, "file": "mine.py"}
    path.with_suffix(".yaml").write_text(yaml.safe_dump({**node, "alpha": 2.0}))
    x = torch.randn(4, 3)
    for alpha, norm in ((2.0, create_norm(str(path), 3)), (1.0, create_norm(str(path), 3, alpha=1.0))):
        assert torch.equal(norm(x), x * torch.rsqrt(1 + (alpha * x).square()))


# --- what a file imports ---------------------------------------------------------------------------------------------

HELPED = "from helping import STRETCH\n" + module(GAIN, "return self.gain * STRETCH * x")


def test_modules_of_its_folder_are_found_and_are_part_of_what_it_is(tmp_path: Path) -> None:
    """Wherever they are imported, packages as a whole; others are not."""
    path = write(
        tmp_path, HELPED + "def later():\n    from packed_helpers.deep import a\nimport random, torch\n", "helped.py"
    )
    alone = user_code.digest(path)
    (tmp_path / "random.py").write_text("raise SystemExit")  # a standard module stays what it is
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "helped.py").write_text("")
    (tmp_path / "unused.py").write_text("")
    assert user_code.digest(path) == alone
    digests = {alone}
    deep = tmp_path / "packed_helpers" / "deep"  # without any __init__.py
    deep.mkdir(parents=True)
    for file, text in (
        (tmp_path / "helping.py", "STRETCH = 2\nimport further_helping\n"),
        (tmp_path / "further_helping.py", "import helped\n"),
        (deep / "a.py", "x = 1\n"),
        (deep / "a.py", "x = 2\n"),
        (tmp_path / "helping.py", "STRETCH = 3\nimport further_helping\n"),
    ):
        file.write_text(text)
        assert user_code.digest(path) not in digests
        digests.add(user_code.digest(path))
        if (tmp_path / "further_helping.py").exists():
            x = torch.randn(2, 3)
            stretch = int((tmp_path / "helping.py").read_text()[10])
            assert torch.equal(create_norm(str(path), 3)(x), stretch * x), "as it is now, not as it was"
    other = tmp_path / "other"
    other.mkdir()
    (other / "helping.py").write_text("STRETCH = 4\n")
    with pytest.raises(NormbenchError, match=r"`import helping` means .*, and not .*other/helping\.py"):
        create_norm(str(write(other, HELPED)), 3)


@pytest.mark.slow
def test_a_worker_finds_them_and_a_run_is_another_once_they_are_edited(tmp_path: Path) -> None:
    import tiny

    write(tmp_path, HELPED.replace("helping", "worker_helping"))
    helper = tmp_path / "worker_helping.py"
    helper.write_text("STRETCH = 0.5\n")

    def normbench(*words: str) -> str:
        done = subprocess.run([sys.executable, "-P", "-m", "normbench", *words], cwd=tmp_path, capture_output=True)
        return (done.stdout + done.stderr).decode()

    train = ("train", *tiny.WORDS, "norm=mine.py", "launcher=pool", "launcher.jobs=1")
    assert " done " in normbench(*train)
    (run,) = (tmp_path / "results" / "runs").rglob("*-mine.s1.*")
    assert "1 run · 1 done, 0 to run" in normbench(*train)
    helper.write_text("STRETCH = 0.25\n")
    assert "1 run · 0 done, 1 to run" in normbench(*train)
    assert len([*(tmp_path / "results" / "runs").rglob("*-mine.s1.*")]) == 2
    assert "mine.py was changed since the run was trained" in normbench(
        "rerun", run.name[-12:], "--config-dir", "results/own"
    )


@pytest.mark.parametrize("kind", [*SERVED, "own"])
def test_modules_of_ones_own_file_pickle(kind: str, tmp_path: Path) -> None:
    """Plain ones and Normalizers, with dataclasses and annotations that are text."""
    text, layouts, loops = SERVED.get(
        kind, (CONFIGURED + OWN.replace("MADE", "nn.LayerNorm(site.features)"), ROWS, True)
    )
    path = str(write(tmp_path, text))
    axes = layouts[0]
    made = [create_norm(path, 6, axes=" ".join(axes))]
    if loops and IN_TIME in layouts:
        made += [LSTM(4, 6, norm=path), GRU(4, 6, norm=path)]
    for one in made:
        buffer = io.BytesIO()
        torch.save(one.eval(), buffer)
        again = torch.load(io.BytesIO(buffer.getvalue()), weights_only=False)
        x = torch.randn(3, 6) if axes == DENSE else torch.randn(3, 6, 4, 5)
        x = torch.randn(3, 5, 4) if one is not made[0] else x
        ends = [module(x)[0] for module in (one, again)]
        assert torch.equal(*ends)


@pytest.mark.slow
@pytest.mark.parametrize("marked", [True, False])
def test_modules_of_ones_own_file_load_in_another_process(marked: bool, tmp_path: Path) -> None:
    text = OWN.replace("MADE", "nn.LayerNorm(site.features)") if marked else module(GAIN, "return self.gain * x")
    path = str(write(tmp_path, text))
    torch.save(create_norm(path, 6), tmp_path / "norm.pt")
    saved = str(tmp_path / "norm.pt")
    load = f"import torch; m = torch.load({saved!r}, weights_only=False); print(m(torch.ones(2, 6)).shape)"
    assert child.run("-c", load) == "torch.Size([2, 6])\n"
    Path(path).write_text(Path(path).read_text() + "# edited\n")
    with pytest.raises(AssertionError, match="was changed since what is loaded here was saved"):
        child.run("-c", load)


# --- facts -----------------------------------------------------------------------------------------------------------


def test_what_is_flat_at_large_inputs_is_invariant_to_nothing(tmp_path: Path) -> None:
    made = "self.alpha, self.gain = nn.Parameter(torch.full((1,), 0.5)), nn.Parameter(torch.ones(d))"
    text = module(made, "return self.gain * torch.tanh(self.alpha * x)")
    adopted = adopt(str(write(tmp_path, text, "flat.py")), None, tmp_path)
    facts = adopted.subject().facts
    assert facts["recentres"] is False and facts["rescales"] is False
    assert facts["measured"]["rescales"].startswith("2e+00 at 0.01, ")
    assert f"rescales: no (changes by {facts['measured']['rescales']})" in adopted.remark
    found = contract.deviations(adopted.subject(), DENSE, "rescales")
    assert found[1e2] < NOT < found[1e-2], "flat at the large end"
    (spec,) = plan.train_specs(["model=invariances", "norm=flat"], False, tmp_path)
    (record,) = probes.compute(spec)
    assert min(record["data_rescale"], record["summed_recenter"]) > NOT, "as its row of Table 1 has it"


SQUASHES = {
    "tanh": (module("pass", "return torch.tanh(50 * x)", ""), False, False),
    "clamp": (module("pass", "return x.clamp(-1, 1)", ""), False, False),
    "softsign": (module("pass", "return F.softsign(x)", ""), False, False),
    "sign": (module("pass", "return x.sign() * x.abs().clamp(max=1e-6) * 1e6", ""), False, True),
    "floored": (module("pass", "return x / x.norm(dim=1, keepdim=True).clamp(min=1e-3)", ""), False, True),
    "linear": (module("pass", "return 2 * x", ""), False, False),
    "centred": (module("pass", "return x - x.mean(1, keepdim=True)", ""), True, False),
    "spread": (
        module("pass", "y = x - x.mean(1, keepdim=True)\n        return y / y.std(1, keepdim=True)", ""),
        True,
        True,
    ),
    "hidden eps": (module("pass", "return F.layer_norm(x, x.shape[1:])", ""), True, False),  # 0.01 at inputs of 0.01
}


@pytest.mark.parametrize("kind", SQUASHES)
def test_facts_are_measured_at_several_scales(kind: str, tmp_path: Path) -> None:
    text, recentres, rescales = SQUASHES[kind]
    adopted = adopt(str(write(tmp_path, text)), None, tmp_path / "own")
    facts = adopted.subject().facts
    assert (facts["recentres"], facts["rescales"]) == (recentres, rescales), facts["measured"]
    assert contract.broken(next(c for c in contract.CHECKS if c.name == "invariances"), adopted.subject(), DENSE) == ""


@pytest.mark.parametrize("name", [n for n in compose.choices("norm") if n != "none"])
def test_facts_contradict_no_column_of_table_1(name: str) -> None:
    """On one page stand `rescales` and the re-scaling of data, `recentres` and a shift of all summed inputs."""
    subject = Subject.registered(name)
    if subject.of_weights or compose.declaration("norm", name).get("needs"):  # which the probe's layer has not
        pytest.skip("it has no such facts, or no such column")
    (spec,) = plan.train_specs(["model=invariances", f"norm={name}"], False, None)
    (record,) = probes.compute(spec)
    assert (record["data_rescale"] < NOT) == bool(subject.facts.get("rescales"))
    found = contract.deviations(subject, subject.layouts()[0], "rescales")
    assert (max(found[1.0], found[1e2]) < NOT) == bool(subject.facts.get("rescales"))
