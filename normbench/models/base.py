"""The base class of all models, and how one is built from a configuration."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from normbench.core import user_code
from normbench.core.streams import stream
from normbench.data import Dataset
from normbench.data.examples import Batch, Split
from normbench.data.words import UNKNOWN
from normbench.errors import BadInput, kind, unknown
from normbench.models.init import initialize
from normbench.norms.base import Normalizer, WeightNormalizer
from normbench.norms.modes import normalizers, pending, starting
from normbench.norms.scalars import Scalars
from normbench.norms.sites import Choice, Site, declared

MODULES = dict.fromkeys(("char_lm", "vit"), "transformer")  # of a model that has no module of its own name


class PerPlace(NamedTuple):
    """A metric whose mean is over places (words, steps) and not over examples: sums and counts, (B,) each."""

    sums: Tensor
    counts: Tensor


Metric = Tensor | PerPlace  # of each example


class Model(Scalars, nn.Module):
    """A paper's model. The parameters of its `forward` name the tensors of a batch that it takes; masks: `NAME_mask`.

    `forward(inputs, targets)` gives the mean loss of a batch, `evaluate(inputs, targets)` metrics per example, each
    (B,) or `PerPlace`, e.g. `{"nll": ..., "error": ...}`; `loss` is the name of the one that `forward` is the mean of.
    A training pass may leave further sums over its batch in `tally`; the running record has their means. It may `log`
    numbers of other kinds.

    For metrics of a whole split (ranks, correlations) `collect` gives tensors per example, and `whole` makes numbers of
    all of them. `after` is a stage of its own once training is done, `sample` draws files.
    """

    loss: str = "nll"
    observed: bool = False  # whether its runs record how each of its sites is normalized
    evaluated_at_once: int = 1000  # examples; part of the maths, for it decides the rounding
    beside_outputs: tuple[str, ...] = ("targets",)  # tensors that are repeated where variants are computed at once
    tally: Mapping[str, Tensor] = MappingProxyType({})
    at: tuple[int, int] | None = None  # the seed, and the number of the update that is being computed
    noise: Noise | None = None  # of the evaluation that is being computed, or that statistics are gathered for

    def draws(self, purpose: str) -> np.random.Generator | None:
        """The generator of an update's dropout or noise, keyed by (seed, purpose, update): the same for all arms.

        None outside of an update: evaluations, and passes that gather statistics for them, drop nothing.
        """
        return None if self.at is None else stream(self.at[0], purpose, self.at[1])

    def normal(self, purpose: str, like: Tensor) -> Tensor:
        """Standard normal noise of the shape, type and device of `like`, its first axis the examples.

        In an update keyed by (seed, purpose, update); in an evaluation by (seed, split, example, sample, purpose), so
        that an example meets the same noise at every evaluation, in whatever batch, and where statistics are gathered
        for it. Zeros in any other pass.
        """
        if self.noise is not None:
            rows = np.stack([draw.standard_normal(like.shape[1:]) for draw in self.noise.streams(purpose)])
        elif (draw := self.draws(purpose)) is not None:
            rows = draw.standard_normal(like.shape)
        else:
            return torch.zeros_like(like)
        return torch.from_numpy(rows).to(like)

    def evaluate(self, *_: Any, **tensors: Any) -> Mapping[str, Metric]:
        """Metrics per example: here none, of a model that has those of a whole split alone."""
        return {}

    def over_samples(self, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Metrics (B,) of each example from those (samples, B) of passes with noise of their own: here the means."""
        return {name: value.mean(0) for name, value in values.items()}

    def collect(self, *_: Any, **tensors: Any) -> dict[str, Tensor]:
        """Tensors per example that `whole` needs: here none."""
        return {}

    def whole(self, split: str, collected: Mapping[str, Tensor]) -> Mapping[str, float | Tensor]:
        """Metrics of a whole split, of what `collect` gave of all its examples: numbers, or (N,) where the metric is
        the mean over the examples.
        """
        return {}

    def prepare(self, *_: Any, **tensors: Any) -> dict[str, Tensor]:
        """Outputs of the layers before the first normalizer, by the name of the tensor that each replaces.

        Here none. An evaluation of many passes computes it once, for all examples of a split.
        """
        return {}

    def begin(self, train: Split) -> None:
        """Change the initial weights by the training split: here not at all."""

    def rescale(self, *_: Any, **tensors: Any) -> None:
        """Change the initial weights by the run's first minibatch: here not at all."""

    def after(self, splits: Mapping[str, Split], seed: int) -> Iterator[dict[str, Any]]:
        """Records of a stage after training, such as downstream tasks; each names its `split`. Here none."""
        yield from ()

    def sample(self, seed: int, count: int, data: Dataset) -> dict[str, bytes]:
        """Files that show what the trained model draws, or what it makes of some examples of its data, by name."""
        return {}

    def write(self, text: str, bias: float, seed: int, count: int, data: Dataset) -> dict[str, bytes]:
        """Files with `count` drawings of a user's text; `bias` 0 draws from the model, a larger one likelier samples.
        None if the model writes no texts. Errors: a text that it cannot write.
        """
        return {}

    def encode(self, sentences: list[str], eos: bool, data: Dataset) -> np.ndarray | None:
        """A vector for each sentence, (N, D) float32, of the words that its data know; `eos`: whether each ends in an
        end of sentence. Here none.
        """
        return None

    def nearest(self, text: str, count: int, data: Dataset) -> list[str]:
        """Which test examples of its data the model takes for nearest to a text, a line each; none where it reads no
        texts of a user's.
        """
        return []


class Classifier(Model):
    """A softmax classifier: `predict(inputs)` gives logits (B, classes); targets (B,) int64."""

    def predict(self, inputs: Tensor) -> Tensor:
        raise NotImplementedError

    def forward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(self.predict(inputs), targets)

    def evaluate(self, inputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        logits = self.predict(inputs)
        nll = F.cross_entropy(logits, targets, reduction="none")
        return {"nll": nll, "error": (logits.argmax(-1) != targets).float()}


@dataclass(frozen=True)
class Noise:
    """Which examples of which split an evaluation has at hand, and the number of the sample."""

    seed: int
    split: str
    examples: Tensor | range
    sample: int = 0

    def streams(self, purpose: str) -> Iterator[np.random.Generator]:
        examples = self.examples.tolist() if isinstance(self.examples, Tensor) else self.examples
        return (stream(self.seed, "evaluation", self.split, i, self.sample, purpose) for i in examples)


def takes(model: Model) -> list[str]:
    """The tensors that the model asks a batch for: the parameters of its `forward` that have no default."""
    parameters = inspect.signature(model.forward).parameters.values()
    return [parameter.name for parameter in parameters if parameter.default is parameter.empty]


def finite(tensors: Iterable[Tensor]) -> bool:
    """Whether all their numbers are finite; by the extremes, a twentieth of the time of looking at each."""
    return all(bool(end.isfinite()) for tensor in tensors for end in torch.aminmax(tensor))


@contextmanager
def update(model: Model, seed: int, number: int, observing: bool = False) -> Iterator[None]:
    """The pass inside computes the update of this number, counted from 0 over the whole run.

    `observing`: it logs how each site is normalized, of a model that is `observed`.
    """
    model.at = (seed, number)
    with ExitStack() as hooks:
        for norm in normalizers(model) if observing and model.observed else ():
            hooks.callback(norm.register_forward_hook(_observe).remove)
        try:
            yield
        finally:
            model.at = None


@torch.no_grad()
def _observe(norm: Normalizer, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    x = inputs[0]
    for name, value in {"input_std": x.std(), **norm.observe(x)}.items():
        norm.log(f"{norm.site.path}.{name}", float(f"{value.item():.4g}"))


@contextmanager
def evaluating(model: Model, noise: Noise) -> Iterator[None]:
    """The pass inside is of an evaluation, with noise of these examples."""
    model.noise = noise
    try:
        yield
    finally:
        model.noise = None


def check_known(text: str, numbers: Sequence[int], data: Dataset) -> None:
    """NormbenchError for a text of `--near` if its words' numbers say that the data know none of them."""
    if all(number == UNKNOWN for number in numbers):
        raise BadInput(f"--near '{text}': data={data.name} knows none of these words.")


class Sites:
    """The sites of a model with the normalizers chosen for them, as a model's constructor reads them."""

    def __init__(self, config: Mapping[str, Any], choices: Mapping[str, Choice]) -> None:
        self.sites: dict[str, Site] = declared(config)
        self.choices = choices

    def __call__(self, path: str) -> tuple[Site, Choice | None]:
        """The site at `path` and its normalizer, if it has one; NormbenchError for a site that is not declared."""
        if path not in self.sites:
            raise unknown(f"The model asks for site {path}, which its file does not declare.", path, self.sites)
        return self.sites[path], self.choices.get(path)


def unlearned(config: Mapping[str, Any], choices: Mapping[str, Choice]) -> Model:
    """The configured model as it is constructed: `build(config, sites)` of `normbench.models.NAME`, or of
    `declares.file`. NormbenchError where there is none.
    """
    name, file = config["model"]["name"], config["model"]["declares"].get("file")
    path = f"normbench.models.{MODULES.get(name, name)}"
    is_shipped = path != __name__ and name.isidentifier() and importlib.util.find_spec(path)
    if file is None and not is_shipped:
        raise BadInput(f"model={name} has no code: name its Python file in declares.file of its YAML file.")
    build = user_code.function(Path(file), "build") if file else importlib.import_module(path).build
    model: Model = build(config, Sites(config, choices))
    if file:
        _refuse_other(model, config, choices)
    return model


def _refuse_other(model: Any, config: Mapping[str, Any], choices: Mapping[str, Choice]) -> None:
    """NormbenchError where a user's `build` gives no model, one whose loss has the default's name by oversight, or one
    that leaves out the normalizer of a weight that stands beside another.
    """
    declares = config["model"]["declares"]
    if not isinstance(model, Model):
        raise BadInput(f"{declares['file']}: build gives {kind(model)}, not a normbench.extend.Model.")
    built = {norm.site.path for norm in model.modules() if isinstance(norm, WeightNormalizer)}
    for path, choice in choices.items():
        if choice.weight and path not in built:
            raise BadInput(
                f"{declares['file']}: the layer at '{path}' leaves {choice.weight.name} of its weight out. Make it a "
                "NormedLinear or NormedConv of normbench.extend."
            )
    metrics = declares.get("metrics") or [model.loss]
    if model.loss == Model.loss and model.loss not in metrics:
        raise BadInput(
            f"{declares['file']}: {type(model).__name__}.loss is '{model.loss}', which is not in declares.metrics "
            f"({', '.join(metrics)}). Write the metric that forward is the mean of into the class, such as "
            f'loss = "{metrics[0]}", or loss = "loss" if it is none of them.'
        )


def build(config: Mapping[str, Any], choices: Mapping[str, Choice]) -> Model:
    """The configured model with its initial weights. Errors as of `unlearned`."""
    model = unlearned(config, choices)
    initialize(model, config)
    return model


@torch.no_grad()
def start_from_data(model: Model, batch: Batch, seed: int) -> None:
    """Data-dependent initialization, where a normalizer or the model has one, from the run's first minibatch.

    With the noise and dropout of its first update, as Salimans and Kingma's train.py has them.
    """
    with starting(model), update(model, seed, 0):
        if pending(model):
            model(**batch.tensors)
        model.rescale(**batch.tensors)
