"""Evaluations: lists of passes over splits, and the executor that makes records of them."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from normbench.data import Dataset
from normbench.data.examples import Split
from normbench.data.sampler import Sampler
from normbench.errors import NormbenchError
from normbench.eval_variants import DEFAULT, Variant, text
from normbench.models.base import Metric, Model, Noise, PerPlace, evaluating, finite
from normbench.norms.modes import inference, normalizers, stacked, training_without_tracking, variants, without_trace
from normbench.norms.sites import Choice, asked_variants
from normbench.stored import MONITOR
from normbench.streams import stream
from normbench.train import populations

PREPARED = 250  # examples at once when a model prepares its inputs
STACK_ROWS = 1200  # rows at once when several variants are stacked: their activations stay in the cache
Record = dict[str, Any]
Chunks = dict[str, list[Metric]]  # per-example values of a metric, a tensor per chunk of the examples


@dataclass(frozen=True)
class Pass:
    """One pass over a split, in evaluation mode unless `mode` is `train`; several variants at once if possible.

    `mode` `whole`: in evaluation mode, without the split's stride; `order` K: the examples in the K-th shuffled order.
    """

    split: str
    mode: str = "eval"
    variants: Sequence[Variant] = (DEFAULT,)
    order: int = 0


@dataclass(frozen=True)
class State:
    """The moment of an evaluation, and the lowest monitored values before it, by variant.

    `moment` keys random draws. `best`: the default evaluation is at its lowest; `better`: that of any variant is.
    """

    moment: int | str = 0
    first: bool = False
    last: bool = False
    lowest: Mapping[str, float] = field(default_factory=dict)
    values: Mapping[str, float] = field(default_factory=dict)

    @property
    def best(self) -> bool:
        return not self.first and self.values.get("", math.inf) < self.lowest.get("", math.inf)

    @property
    def better(self) -> bool:
        return any(value < self.lowest.get(variant, math.inf) for variant, value in self.values.items())


class Evaluation:
    """Evaluates one run: call it with a state to get the records of one evaluation.

    `config` is the run's: `eval`, `monitor`, `train.batch_size`. `outcomes`: each example's results of the last
    evaluation's test passes, by split and variant, and after training those of the downstream tasks. `broken`: why the
    last evaluation was given up, a value that is not finite. Errors: a missing split, a monitor that no pass gives, a
    variant that no normalizer supports.
    """

    def __init__(self, model: Model, data: Dataset, config: Mapping[str, Any], choices: Mapping[str, Choice]) -> None:
        splits = data.splits
        self.model, self.seed, self.training = model, config["seed"], config["train"]
        self.batch_size = self.training["batch_size"]
        self.data, self.train, self.monitor, self.settings = data, splits["train"], config["monitor"], config["eval"]
        self.sign = 1 if self.monitor["goal"] == "min" else -1
        self.mode_dependent = any(choice.mode_dependent for choice in choices.values())
        self.declared_variants = variants(model)
        self.variants, self.reshuffled, self.also = (
            asked_variants(self.settings, choices, key) for key in ("variants", "reshuffled", "also_at_best")
        )
        strides = {name: self.settings["strides"].get(name, 1) for name in splits}
        self.splits = {name: splits[name] if n == 1 else splits[name].every(n) for name, n in strides.items() if n}
        if self.settings["drop_last"]:
            self.splits = {name: self._drop_last_examples(name, split) for name, split in self.splits.items()}
        self.tests = [name for name in self.splits if name.startswith("test")]
        self.outcomes: dict[tuple[str, str], dict[str, Tensor]] = {}
        self.broken = ""
        self._refuse(config)

    def __call__(self, state: State) -> list[Record]:
        """The records of all passes due at this state; normalizers with statistics of a pass get that pass first.

        It is `broken`, and has at most the default passes, if their outputs or the weights are not finite.
        """
        self.outcomes.clear()
        self.broken = ""
        self._prepared.cache_clear()
        self.gather(state, [DEFAULT])
        records = self.run(self.default(state), state)
        if self.broken:
            return records
        if not finite(self.model.parameters()):
            self.broken = "the weights hold NaN or Inf"
            return []
        state = self.with_values(records, state)
        others = self._variants_at_best() if state.best else []
        with without_trace(self.model):  # the run keeps no statistics that only these variants are evaluated with
            self.gather(state, [*self.variants, *others])
            records += self.run(self.further(state, others), state)
            state = self.with_values(records, state)  # further variants may be at their lowest
            records += self.run(self.delayed(state, others), state)
        records += self._tasks(nested=False)
        if state.last:
            records += self.run([Pass(name, mode="whole") for name in self.settings["whole"]], state)
            records += [{"mode": "stage", **record} for record in self.model.after(self.data.splits, self.seed)]
            records += self._tasks(nested=True)
        return records

    def with_values(self, records: Sequence[Record], state: State) -> State:
        """The state with these records' monitored values, lower is better; infinite if not finite, or if the evaluation
        is broken.
        """
        monitored = {
            text(record.get("variant", DEFAULT)): self.sign * float(record[self.monitor["metric"]])
            for record in records
            if record["split"] == self.monitor["split"]
            and record["mode"] in ("eval", "both")
            and "order" not in record
            and self.monitor["metric"] in record
        }
        values = {
            name: value if not self.broken and math.isfinite(value) else math.inf for name, value in monitored.items()
        }
        return replace(state, values=values)

    def _tasks(self, nested: bool) -> list[Record]:
        """Records of the requested downstream tasks, by the model's sentence vectors; fewer if one is `broken`."""
        if not self.settings["tasks"] or self.broken:
            return []
        from normbench.sentences import evaluate, sets
        from normbench.sentences.rows import NotFinite

        assert self.data.tasks is not None
        encode, mode = functools.partial(self.model.encode, data=self.data), "stage" if nested else "along"
        records: list[Record] = []
        try:
            with self.data.tasks() as folder, torch.no_grad(), inference(self.model):
                for one in evaluate(encode, folder, nested, self.settings["tasks"], "the model", sets.unchecked):
                    records.append({"mode": mode, **one.record})
                    if nested and self.settings["outcomes"]:
                        examples = {metric: torch.from_numpy(values) for metric, values in one.examples.items()}
                        self.outcomes[one.record["split"], text(DEFAULT)] = examples
        except NotFinite as error:
            self.broken = str(error).removesuffix(".")
        return records

    def _drop_last_examples(self, name: str, split: Split) -> Split:
        if count := len(split) // self.batch_size * self.batch_size:
            return split.first(count)
        raise NormbenchError(f"eval.drop_last leaves no batch of {self.batch_size} of {len(split)} {name} examples.")

    # --- the lists ---------------------------------------------------------------------------------------------------

    def default(self, state: State) -> list[Pass]:
        """Default passes over every split, test splits when due; over the training split in training mode as well."""
        each = self._tested(state)
        passes = [Pass(name) for name in self.splits if each or name not in self.tests]
        if self.mode_dependent and "train" in self.splits:
            passes.append(Pass("train", mode="train"))
        return passes + (self._declared_passes() if each else [])

    def further(self, state: State, others: Sequence[Variant]) -> list[Pass]:
        """The requested variants on the requested splits, and those that are added at the best evaluation."""
        names = [name for name in self.settings["splits"] if name not in self.tests or self._tested(state)]
        return [one for name in names for one in self._variant_passes(name, others, state)]

    def delayed(self, state: State, others: Sequence[Variant]) -> list[Pass]:
        """With `test: lowest` the test splits, if some variant is at its lowest."""
        if self._tested(state) or not state.better:
            return []
        names = [name for name in self.settings["splits"] if name in self.tests]
        passes = [*(Pass(name) for name in self.tests), *self._declared_passes()]
        return passes + [one for name in names for one in self._variant_passes(name, others, state)]

    def _tested(self, state: State) -> bool:
        return bool(self.settings["test"] == "each" or state.first or state.last)

    def _declared_passes(self) -> list[Pass]:
        return [Pass(name, variants=(variant,)) for variant in self.declared_variants for name in self.tests]

    def _variant_passes(self, name: str, others: Sequence[Variant], state: State) -> list[Pass]:
        done = self.declared_variants if name in self.tests else []
        passes = [Pass(name, variants=[v for v in [*self.variants, *others] if v not in done])]
        if state.best and name in self.tests:
            orders = range(1, self.settings["reshuffles"] + 1)
            passes += [Pass(name, variants=(DEFAULT, *self.reshuffled), order=order) for order in orders]
        return passes

    def _variants_at_best(self) -> list[Variant]:
        """The variants with the options of `also_at_best`, without those that compute the same function as another."""

        def computed(variant: Variant) -> tuple[Any, ...]:
            return tuple(norm.computes(variant) for norm in normalizers(self.model))

        names = [DEFAULT, *self.variants]
        functions = {computed(name) for name in names}
        found: list[Variant] = []
        for options in self.also:
            for variant in ({**name, **options} for name in names):
                supported = any(norm.serves(variant) for norm in normalizers(self.model))
                if supported and computed(variant) not in functions:
                    functions.add(computed(variant))
                    found.append(variant)
        return found

    # --- the executor ------------------------------------------------------------------------------------------------

    def run(self, passes: Sequence[Pass], state: State) -> list[Record]:
        """Records of these passes, in their order."""
        return [record for one in passes for record in self._records(one, state)]

    def _records(self, one: Pass, state: State) -> Iterator[Record]:
        mode = "both" if one.mode == "eval" and one.split == "train" and not self.mode_dependent else one.mode
        for variant, chunks in zip(one.variants, self._values(one, state), strict=True):
            whole = self._whole(one, variant)
            chunks |= {name: [metric] for name, metric in whole.items() if isinstance(metric, Tensor)}
            if one.split in self.tests and self.settings["outcomes"] and not one.order and one.mode != "whole":
                self.outcomes[one.split, text(variant)] = {  # of metrics of places each example's mean
                    name: torch.cat([p if isinstance(p, Tensor) else p.sums / p.counts for p in parts])
                    for name, parts in chunks.items()
                }
            place: Record = {"split": one.split, "mode": mode} | ({"variant": dict(variant)} if variant else {})
            place |= {"order": one.order} if one.order else {}
            numbers: Record = {**whole, **{name: _mean(parts) for name, parts in chunks.items()}}
            yield place | (numbers if variant else self._checked(one.split, numbers))

    def _checked(self, split: str, numbers: Record) -> Record:
        """The numbers of a default pass; if one is not finite, the others become NaN and the evaluation is broken.

        For an arg-max, a threshold or a rank of NaN is a finite number, and may be a good one. Variants are unchanged:
        at m = 1 half of BLN's configurations have no finite loss, and the authors log their errors.
        """
        bad = [name for name, value in numbers.items() if not math.isfinite(value)]
        if not bad:
            return numbers
        self.broken = self.broken or f"{split} {bad[0]} is no finite number"
        return {name: value if name in bad else math.nan for name, value in numbers.items()}

    def _values(self, one: Pass, state: State) -> list[Chunks]:
        """Per-example values, by variant."""
        if not one.variants:
            return []
        if one.mode == "train":
            split = self._prepared(one.split)
            sampler = Sampler.of({**self.training, "drop_last": False}, self.seed, split)
            batches = sampler.once(stream(self.seed, "training-mode pass", state.moment))
            with torch.no_grad(), training_without_tracking(self.model):
                return [self._collect(split, one.split, batches)]
        split, order = self._prepared(one.split, one.mode == "whole"), None
        if one.order:
            draw = stream(self.seed, f"evaluation order {one.split}", one.order)
            order = torch.from_numpy(draw.permutation(len(split)))
        rows = range(len(split))
        if len(one.variants) == 1 or self.settings["samples"] > 1 or not all(n.stacks for n in normalizers(self.model)):
            found = []
            for variant in one.variants:
                with torch.no_grad(), inference(self.model, variant):
                    chunks = _chunks(rows, self._chunk(variant), order)
                    found.append(self._collect(split, one.split, chunks))
            return found
        return self._collect_stacked(
            split, one, _chunks(rows, self._round_to_batches(STACK_ROWS // len(one.variants)), order)
        )

    def _collect(self, split: Split, name: str, chunks: Iterator[slice | Tensor] | Sequence[Tensor]) -> Chunks:
        collected: Chunks = {}
        for index in chunks:
            batch = split.batch(index)
            for metric, values in self._evaluate(split, name, index, batch.tensors).items():
                collected.setdefault(metric, []).append(values)
        return collected

    def _evaluate(
        self, split: Split, name: str, index: slice | Tensor, tensors: Mapping[str, Tensor]
    ) -> Mapping[str, Metric]:
        """Metrics of some examples, averaged over `eval.samples` passes with independent noise."""
        examples, found = split.numbers(index), []
        for sample in range(self.settings["samples"]):
            with evaluating(self.model, Noise(self.seed, name, examples, sample)):
                found.append(self.model.evaluate(**tensors))
        if len(found) == 1:
            return found[0]
        rows = {name: [m if isinstance(m := values[name], Tensor) else m.sums for values in found] for name in found[0]}
        averaged = self.model.over_samples({name: torch.stack(parts) for name, parts in rows.items()})
        counts = {name: metric.counts for name, metric in found[0].items() if isinstance(metric, PerPlace)}
        return {name: PerPlace(v, counts[name]) if name in counts else v for name, v in averaged.items()}

    def _collect_stacked(self, split: Split, one: Pass, chunks: Iterator[slice | Tensor]) -> list[Chunks]:
        """All variants in one pass: the same numbers up to rounding; layers before the first normalizer run once."""
        many = len(one.variants)
        collected: list[Chunks] = [{} for _ in one.variants]
        with torch.no_grad(), stacked(self.model, one.variants) as stack:
            for index in chunks:
                batch = split.batch(index)
                stack.examples = batch.size
                repeated = {
                    name: tensor.repeat(many, *[1] * (tensor.dim() - 1))
                    if name in self.model.beside_outputs
                    else tensor
                    for name, tensor in batch.tensors.items()
                }
                with evaluating(self.model, Noise(self.seed, one.split, split.numbers(index))):
                    values = self.model.evaluate(**repeated)
                for metric, of_all in values.items():
                    parts = [of_all] if isinstance(of_all, Tensor) else list(of_all)
                    rows = zip(*(part.view(many, -1) for part in parts), strict=True)
                    for of_variant, row in zip(collected, rows, strict=True):
                        of_variant.setdefault(metric, []).append(row[0] if len(row) == 1 else PerPlace(*row))
        return collected

    def _whole(self, one: Pass, variant: Variant) -> Mapping[str, float | Tensor]:
        """Metrics of the whole split, for models that have such; NaN if the collected values are not finite."""
        if type(self.model).whole is Model.whole or one.mode == "train" or one.order:
            return {}
        split = self._prepared(one.split, one.mode == "whole")
        collected: dict[str, list[Tensor]] = {}
        with torch.no_grad(), inference(self.model, variant):
            for index in _chunks(range(len(split)), self._chunk(variant)):
                with evaluating(self.model, Noise(self.seed, one.split, split.numbers(index))):
                    for name, tensor in self.model.collect(**split.batch(index).tensors).items():
                        collected.setdefault(name, []).append(tensor)
        joined = {name: torch.cat(parts) for name, parts in collected.items()}
        whole = self.model.whole(one.split, joined)
        return whole if finite(joined.values()) else {name: math.nan * value for name, value in whole.items()}

    @functools.cache  # noqa: B019  cleared at the start of each evaluation
    def _prepared(self, name: str, whole: bool = False) -> Split:
        """The split with the model's computations before its first normalizer: once for all passes of an evaluation."""
        split = self.data.splits[name] if whole else self.splits[name]
        tensors: dict[str, Tensor] = {}
        if type(self.model).prepare is Model.prepare:
            return split
        with torch.no_grad(), inference(self.model):
            for index in _chunks(range(len(split)), PREPARED):
                for key, part in self.model.prepare(**split.batch(index).tensors).items():
                    if key not in tensors:
                        tensors[key] = part.new_empty(len(split), *part.shape[1:])
                    tensors[key][index] = part
        return split.with_tensors(tensors)

    def gather(self, state: State, names: Sequence[Variant]) -> None:
        """A pass for the statistics of these variants, if normalizers evaluate with those of a pass."""
        sampler = Sampler.of(self.training, self.seed, self.train)
        populations.gather(self.model, self.train, state.moment, sampler, names)

    def _chunk(self, variant: Variant) -> int:
        """Examples at once: a training batch if its examples are normalized together, else a multiple of it."""
        if any(norm.by_batch(variant) for norm in normalizers(self.model)):
            return int(self.batch_size)
        at_once = self.model.evaluated_at_once
        return self._round_to_batches(at_once) if any(norm.stacks for norm in normalizers(self.model)) else at_once

    def _round_to_batches(self, size: int) -> int:
        return int(max(1, size // self.batch_size) * self.batch_size)

    # --- bad input ---------------------------------------------------------------------------------------------------

    def _refuse(self, config: Mapping[str, Any]) -> None:
        settings, evaluated = self.settings, ", ".join(self.splits)
        for key in ("strides", "whole"):
            for name in settings[key]:
                if name not in self.data.splits:
                    names = ", ".join(self.data.splits)
                    raise NormbenchError(f"eval.{key}.{name}: the data have no split {name}. ({names})")
        if settings["tasks"] and (type(self.model).encode is Model.encode or self.data.tasks is None):
            raise NormbenchError(
                f"eval.tasks={settings['tasks']}: model={config['model']['name']} makes no vectors of the sentences of "
                f"data={self.data.name}."
            )
        needs_best = settings["also_at_best"] or settings["reshuffles"] or settings["test"] == "lowest"
        needs_best = needs_best or "best" in config["train"]["keep"]
        may_lack = {*self.data.splits, MONITOR["split"]}  # the default split may be missing if nothing is chosen by it
        if self.monitor["split"] not in self.splits and (needs_best or self.monitor["split"] not in may_lack):
            raise NormbenchError(
                f"monitor.split={self.monitor['split']}: there is no evaluation of it to tell what is best. "
                f"(splits that are evaluated: {evaluated})"
            )
        further = self.variants or self.also
        for name in settings["splits"] if further else []:
            if name not in self.splits:
                raise NormbenchError(
                    f"eval.splits={name}: the data have no such split that is evaluated. ({evaluated})"
                )
        for variant in [*self.variants, *self.reshuffled]:
            if not any(norm.serves(variant) for norm in normalizers(self.model)):
                raise NormbenchError(f"eval: no normalizer of this run can be evaluated with {text(variant)}.")


def _chunks(rows: range, size: int, order: Tensor | None = None) -> Iterator[slice | Tensor]:
    for start in range(rows.start, rows.stop, size):
        part = slice(start, min(start + size, rows.stop))
        yield part if order is None else order[part]


def _mean(parts: Sequence[Metric]) -> float:
    """The mean over examples, or over their places: each chunk summed in float64, the sums exactly; else the first sum
    that is not finite."""
    pairs = [(p, len(p)) if isinstance(p, Tensor) else (p.sums, _total(p.counts)) for p in parts]
    sums = [_total(values) for values, _ in pairs]
    bad = next((total for total in sums if not math.isfinite(total)), None)
    return math.fsum(sums) / math.fsum(count for _, count in pairs) if bad is None else bad


def _total(values: Tensor) -> float:
    return values.double().sum().item()
