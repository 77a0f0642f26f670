"""Normalizers with one fault each: the contract names the promise, in a sentence, without a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from normbench.battery import contract
from normbench.battery.adopt import adopt, in_words
from normbench.errors import NormbenchError

HEAD = """
import torch
from normbench.norms.base import Normalizer, normalizer

@normalizer("mine")
class Mine(Normalizer):
    def __init__(self, site, *, eps: float = 1e-5):
        super().__init__(site)
        self.eps, self.axis = eps, site.feature_axis
        self.gain = torch.nn.Parameter(torch.ones(()))
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("steps", torch.zeros(()))
        self.seen = 0
        self.unused = None

    def forward(self, x, mask=None):
"""
SOUND = "scale = (x.square().mean(self.axis, keepdim=True) + self.eps).rsqrt()\nreturn self.gain * x * scale"


def write(folder: Path, body: str, extra: str = "") -> Path:
    lines = "".join(f"        {line}\n" for line in body.split("\n"))
    path = folder / "mine.py"
    path.write_text((HEAD + lines).replace("self.unused = None", extra or "self.unused = None"))
    return path


def broken(path: Path, folder: Path) -> dict[str, str]:
    subject = adopt(str(path), None, folder).subject()
    return {finding.check.name: finding.broken for finding in contract.examine(subject) if finding.broken}


def breach(name: str, path: Path, folder: Path) -> str:
    """How it breaks that promise; the others are not tried."""
    subject = adopt(str(path), None, folder).subject()
    (check,) = (check for check in contract.checks(subject) if check.name == name)
    return " · ".join(filter(None, (contract.broken(check, subject, axes) for axes in subject.layouts())))


def test_a_sound_one_breaks_nothing(tmp_path: Path) -> None:
    assert broken(write(tmp_path, SOUND), tmp_path) == {}


RUNNING = """if self.training:
    mean = x.mean()
    if self.track:
        with torch.no_grad():
            self.mean.lerp_(mean, 0.1)
else:
    mean = self.mean
return self.gain * (x - mean)"""


@pytest.mark.parametrize("guard", ["if True:", pytest.param("if self.track:", marks=pytest.mark.slow)])
def test_running_statistics_are_no_fault(guard: str, tmp_path: Path) -> None:
    assert broken(write(tmp_path, RUNNING.replace("if self.track:", guard)), tmp_path) == {}


FAULTS = {
    "gradients": (SOUND.replace(".rsqrt()", ".rsqrt().detach()"), "is something detached"),
    "evaluation_alone": ("return self.gain * x / (x.abs().mean() + self.eps)", "other neighbours"),
    "repeatable": ("return self.gain * (x + torch.randn_like(x))", "noise of its own"),
    "untracked": (RUNNING.replace("if self.training:", "if self.training and self.track:"), "another function"),
    "whole_state": (
        "if self.training and self.track:\n    self.seen += 1\nreturn self.gain * x / (1 + self.seen)",
        "keep statistics in buffers",
    ),
    "every_parameter": ("return self.gain * x if x.shape[0] > 99 else x * 2.0", "gets none"),
    "zero_variance": ("return self.gain * x / x.square().mean(self.axis, keepdim=True).sqrt()", "are not"),
    "magnitudes": ("return self.gain * x / (x.pow(4).mean(self.axis, keepdim=True) + self.eps) ** 0.25", "inputs of"),
    "shape_and_type": ("return (self.gain * x).float()", "float32"),
    "single_batch": ("return self.gain * x / (x.shape[0] - 1)", "not finite"),
    "batch_sizes": (
        "self.seen = self.seen or x.shape[0]\nassert x.shape[0] in (1, self.seen, 6, 8, 3)\nreturn self.gain * x",
        "AssertionError",
    ),
    "bfloat16": ("return self.gain * (x + 1e8 - 1e8)", "away"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named(name: str, tmp_path: Path) -> None:
    body, words = FAULTS[name]
    found = breach(name, write(tmp_path, body), tmp_path)
    assert words in found and "\n" not in found and "Traceback" not in found


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("return x * float('nan')", "NaN or infinity"),
        ("return x / (x - x)", "NaN or infinity"),
        ("return x + torch.randn_like(x) * 0.1", "random in evaluation"),
    ],
)
def test_training_is_refused_for_the_right_reason(body: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(NormbenchError, match=reason):
        in_words([f"norm={write(tmp_path, body)}"], None, tmp_path / "conf")


def test_what_is_not_finite_is_not_called_noise(tmp_path: Path) -> None:
    findings = list(contract.examine(adopt(str(write(tmp_path, "return x / 0")), None, tmp_path).subject()))
    assert contract.first_to_mend(findings) == "repeatable"
    assert {f.broken for f in findings if f.check.name == "repeatable"} == {contract.NOT_FINITE}


def test_an_input_changed_in_place_is_named(tmp_path: Path) -> None:
    found = broken(write(tmp_path, "with torch.no_grad():\n    x.mul_(2.0)\nreturn self.gain * x"), tmp_path)
    assert "changed in place" in found["shape_and_type"]
    assert not {"declared_options", "repeatable"} & found.keys(), "they hold, input by input"


def test_noise_is_no_matter_of_the_defaults(tmp_path: Path) -> None:
    findings = list(contract.examine(adopt(str(write(tmp_path, FAULTS["repeatable"][0])), None, tmp_path).subject()))
    broken = {finding.check.name for finding in findings if finding.broken}
    assert "repeatable" in broken and "declared_options" not in broken
    assert contract.first_to_mend(findings) == "repeatable"


def test_an_exception_is_reported_with_its_line(tmp_path: Path) -> None:
    body = "return self.gain * (x @ x if len(x) == 8 else x)"
    path = write(tmp_path, body)
    line = path.read_text().split("\n").index(f"        {body}") + 1
    found = breach("magnitudes", path, tmp_path)
    assert f"(mine.py, line {line})" in found and "RuntimeError" in found


YAML = """
name: mine
sites: null
preceding_bias: site
eps: {eps}
declares:
  title: Mine
  source: here
  maths: 1
  file: mine.py
  kinds: [pre_activation]
  axes: [batch, time, feature]
  options:
    eps: {{type: float, min: 0}}
{facts}
"""


OVER_STEPS = "return self.gain * x * (x.square().mean(1, keepdim=True) + self.eps).rsqrt()"


@pytest.mark.parametrize(
    ("body", "eps", "facts", "name", "words"),
    [
        (SOUND, "1.0e-5", "  recentres: true\n  rescales: true", "invariances", "recentres: true; it does not"),
        (SOUND, "1.0e-5", "  recentres: false\n  rescales: false", "invariances", "rescales: false; it does"),
        (SOUND, "1.0e-3", "  recentres: false\n  rescales: true", "declared_options", "differ from those of its YAML"),
        (RUNNING, "1.0e-5", "  recentres: true", "mode_and_neighbours", "evaluation differs from training"),
        (SOUND, "1.0e-5", "  rescales: true\n  mode_dependent: true", "mode_and_neighbours", "no option makes"),
        (SOUND, "1.0e-5", "  rescales: true\n  pools_steps: true", "later_steps", "no later step changes"),
        (OVER_STEPS, "1.0e-5", "  rescales: true", "later_steps", "a later step changes an earlier one"),
        (
            SOUND,
            "0.0",
            "  rescales: true\n  single_batch: eps",
            "single_batch",
            "takes one value per feature all the same",
        ),
    ],
)
def test_a_declaration_is_held_to_what_it_does(
    body: str, eps: str, facts: str, name: str, words: str, tmp_path: Path
) -> None:
    write(tmp_path, body).with_suffix(".yaml").write_text(YAML.format(eps=eps, facts=facts))
    assert words in breach(name, tmp_path / "mine.yaml", tmp_path / "made")
