"""One pass over a split with frozen weights: for each batch, the metrics of its examples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from normbench.core.eval_variants import Variant
from normbench.core.streams import stream
from normbench.data.examples import Batch, Split
from normbench.data.sampler import Sampler
from normbench.errors import BadInput, kind
from normbench.models.base import Metric, Model, Noise, PerPlace, evaluating, finite
from normbench.norms.modes import inference, normalizers, stacked, training_without_tracking

PREPARED = 250  # examples at once when a model prepares its inputs
STACK_ROWS = 1200  # rows at once when several variants are stacked: their activations stay in the cache
Index = slice | Tensor  # the examples of a batch
Found = dict[str, list[Metric] | float]  # each example's values of a metric, by batch; or a number of the whole split


class Passes:
    """Passes of a run's model; `config`: `seed`, `train`, `eval.samples`."""

    def __init__(self, model: Model, config: Mapping[str, Any]) -> None:
        self.model, self.seed, self.training = model, config["seed"], config["train"]
        self.batch_size, self.samples = self.training["batch_size"], config["eval"]["samples"]

    def evaluate(self, split: Split, name: str, variants: Sequence[Variant], order: int = 0) -> list[Found]:
        """The metrics in each variant; `order` K: of the examples in the K-th shuffled order.

        All variants are computed at once where all normalizers can: the same numbers up to rounding, and layers before
        the first normalizer run once.
        """
        shuffled = None
        if order:
            draw = stream(self.seed, f"evaluation order {name}", order)
            shuffled = torch.from_numpy(draw.permutation(len(split)))
        whole = type(self.model).whole is not Model.whole and not order
        stacks = all(norm.stacks for norm in normalizers(self.model))
        with torch.no_grad():
            if len(variants) > 1 and stacks and self.samples == 1 and not whole:
                size = self._whole_batches(STACK_ROWS // len(variants))
                return self._evaluate_stacked(split, name, variants, _batches(len(split), size, shuffled))
            of_variants = []
            for variant in variants:
                with inference(self.model, variant):
                    batches = _batches(len(split), self._at_once(variant), shuffled)
                    of_variants.append(self._evaluate(split, name, batches, whole))
            return of_variants

    def evaluate_in_training_mode(self, split: Split, name: str, moment: int | str) -> Found:
        """The metrics in training mode, in batches as in training, in an order drawn for the moment."""
        sampler = Sampler.of({**self.training, "drop_last": False}, self.seed, split)
        batches = sampler.once(stream(self.seed, "training-mode pass", moment))
        with torch.no_grad(), training_without_tracking(self.model):
            return self._evaluate(split, name, batches, whole=False)

    def prepare(self, split: Split) -> Split:
        """The split with the model's computations before its first normalizer, for several passes."""
        if type(self.model).prepare is Model.prepare:
            return split
        tensors: dict[str, Tensor] = {}
        with torch.no_grad(), inference(self.model):
            for index in _batches(len(split), PREPARED):
                for key, part in self.model.prepare(**split.batch(index).tensors).items():
                    if key not in tensors:
                        tensors[key] = part.new_empty(len(split), *part.shape[1:])
                    tensors[key][index] = part
        return split.with_tensors(tensors)

    def _evaluate(self, split: Split, name: str, batches: Iterable[Index], whole: bool) -> Found:
        values: dict[str, list[Metric]] = {}
        collected: dict[str, list[Tensor]] = {}
        for index in batches:
            batch, examples = split.batch(index), split.numbers(index)
            for metric, of_batch in self._evaluate_batch(batch, name, examples).items():
                values.setdefault(metric, []).append(of_batch)
            if whole:
                with evaluating(self.model, Noise(self.seed, name, examples)):
                    for key, tensor in self.model.collect(**batch.tensors).items():
                        collected.setdefault(key, []).append(tensor)
        return {**values, **(self._whole(name, collected) if whole else {})}

    def _evaluate_batch(self, batch: Batch, name: str, examples: Tensor | range) -> dict[str, Metric]:
        """Averaged over `eval.samples` passes with independent noise."""
        drawn = []
        for sample in range(self.samples):
            with evaluating(self.model, Noise(self.seed, name, examples, sample)):
                drawn.append(_of_each_example(self.model.evaluate(**batch.tensors), batch.size))
        if len(drawn) == 1:
            return drawn[0]
        rows = {name: [m if isinstance(m := values[name], Tensor) else m.sums for values in drawn] for name in drawn[0]}
        averaged = self.model.over_samples({name: torch.stack(parts) for name, parts in rows.items()})
        counts = {name: metric.counts for name, metric in drawn[0].items() if isinstance(metric, PerPlace)}
        return {name: PerPlace(v, counts[name]) if name in counts else v for name, v in averaged.items()}

    def _whole(self, name: str, collected: dict[str, list[Tensor]]) -> Found:
        """Metrics of the whole split; NaN if the collected values are not finite."""
        joined = {key: torch.cat(parts) for key, parts in collected.items()}
        factor = 1.0 if finite(joined.values()) else torch.nan
        numbers = {metric: factor * value for metric, value in self.model.whole(name, joined).items()}
        return {metric: [value] if isinstance(value, Tensor) else value for metric, value in numbers.items()}

    def _evaluate_stacked(
        self, split: Split, name: str, variants: Sequence[Variant], batches: Iterable[Index]
    ) -> list[Found]:
        count = len(variants)
        of_variants: list[dict[str, list[Metric]]] = [{} for _ in variants]
        with stacked(self.model, variants) as stack:
            for index in batches:
                batch = split.batch(index)
                stack.examples = batch.size
                repeated = {
                    key: tensor.repeat(count, *[1] * (tensor.dim() - 1)) if key in self.model.beside_outputs else tensor
                    for key, tensor in batch.tensors.items()
                }
                with evaluating(self.model, Noise(self.seed, name, split.numbers(index))):
                    values = self.model.evaluate(**repeated)
                for metric, of_all in values.items():
                    parts = [of_all] if isinstance(of_all, Tensor) else list(of_all)
                    rows = zip(*(part.view(count, -1) for part in parts), strict=True)
                    for of_variant, row in zip(of_variants, rows, strict=True):
                        of_variant.setdefault(metric, []).append(row[0] if len(row) == 1 else PerPlace(*row))
        return [dict(of_variant) for of_variant in of_variants]

    def _at_once(self, variant: Variant) -> int:
        """Examples at once: a training batch if its examples are normalized together, else a multiple of it."""
        if any(norm.by_batch(variant) for norm in normalizers(self.model)):
            return int(self.batch_size)
        size = self.model.evaluated_at_once
        return self._whole_batches(size) if any(norm.stacks for norm in normalizers(self.model)) else size

    def _whole_batches(self, size: int) -> int:
        return int(max(1, size // self.batch_size) * self.batch_size)


def _of_each_example(metrics: Mapping[str, Metric], size: int) -> dict[str, Metric]:
    """What `evaluate` gives; NormbenchError for a metric that has not one number for each example."""
    for name, metric in metrics.items():
        for part in metric if isinstance(metric, PerPlace) else [metric]:
            if getattr(part, "shape", None) != (size,):
                raise BadInput(
                    f"evaluate gives {name} as {kind(part)} for {size} examples: it must be a Tensor of shape "
                    f"({size},), or PerPlace of two."
                )
    return dict(metrics)


def _batches(count: int, size: int, order: Tensor | None = None) -> Iterator[Index]:
    for start in range(0, count, size):
        part = slice(start, min(start + size, count))
        yield part if order is None else order[part]
