"""The evaluation of a run: for each variant, each split and each batch, the metrics of all examples."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from normbench.core.eval_variants import DEFAULT, Variant, text
from normbench.core.streams import stream
from normbench.data import Dataset
from normbench.data.examples import Split
from normbench.data.sampler import Sampler
from normbench.errors import BadInput, unknown
from normbench.models.base import Metric, Model, Noise, evaluating, finite
from normbench.norms.modes import gathering, inference, normalizers, seed_torch, variants, without_trace
from normbench.norms.sites import Choice, asked_variants
from normbench.runs.run import PLACE
from normbench.train.passes import Found, Passes

Record = dict[str, Any]


@dataclass(frozen=True)
class State:
    """The moment of an evaluation, which keys random draws, and the lowest monitored values before it, by variant."""

    moment: int | str = 0
    first: bool = False
    last: bool = False
    lowest: Mapping[str, float] = field(default_factory=dict)

    def at_lowest(self, values: Mapping[str, float]) -> set[str]:
        """The variants whose monitored value is the lowest so far: "" where the default evaluation is at its best."""
        if self.first:
            return set()
        return {variant for variant, value in values.items() if value < self.lowest.get(variant, math.inf)}


class Evaluation:
    """Evaluates one run: call it with a state to get the records of one evaluation.

    `config` is the run's: `eval`, `monitor`, `train.batch_size`. `outcomes`: each example's results of the last
    evaluation's test passes, by split and variant, and after training those of the downstream tasks. `broken`: why the
    last evaluation was given up, a value that is not finite. Errors: a missing split, a monitor that no pass gives, a
    variant that no normalizer supports.
    """

    def __init__(self, model: Model, data: Dataset, config: Mapping[str, Any], choices: Mapping[str, Choice]) -> None:
        splits = data.splits
        self.model, self.passes, self.seed = model, Passes(model, config), config["seed"]
        self.data, self.train, self.training = data, splits["train"], config["train"]
        self.monitor, self.settings = config["monitor"], config["eval"]
        self.metrics = config["model"]["declares"].get("metrics") or ()
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
        self.prepared: dict[tuple[str, bool], Split] = {}  # for all passes of one evaluation
        self.outcomes: dict[tuple[str, str], dict[str, Tensor]] = {}
        self.broken = ""
        self._refuse(config)

    def __call__(self, state: State) -> list[Record]:
        """The records of an evaluation: the default one, then the further variants, then tasks and what ends a run.

        It is `broken`, and has at most the default records, if their values or the weights are not finite.
        """
        self.prepared.clear()
        self.outcomes.clear()
        self.broken = ""
        tested = state.first or state.last or self.settings["test"] == "each"
        splits = [name for name in self.splits if tested or name not in self.tests]
        self.gather(state, [DEFAULT])
        records = self.evaluate_default(splits, state)
        if state.first:
            self._refuse_missing({*itertools.chain.from_iterable(records)})
        if self.broken:
            return records
        if not finite(self.model.parameters()):
            self.broken = "the weights hold NaN or Inf"
            return []
        best = text(DEFAULT) in state.at_lowest(self.values(records))
        further = [*self.variants, *(self._variants_at_best() if best else [])]
        with without_trace(self.model):  # the run keeps no statistics that only these variants are evaluated with
            self.gather(state, further)
            records += self.evaluate_further(splits, further, best)
            if not tested and state.at_lowest(self.values(records)):  # `test: lowest`: some variant is
                records += self.evaluate_default(self.tests, state)
                records += self.evaluate_further(self.tests, further, best)
        records += self._tasks(nested=False)
        if state.last:
            records += [record for name in self.settings["whole"] for record in self.evaluate(name, mode="whole")]
            records += [{"mode": "stage", **record} for record in self.model.after(self.data.splits, self.seed)]
            records += self._tasks(nested=True)
        return records

    def evaluate_default(self, splits: Collection[str], state: State) -> list[Record]:
        """The default evaluation of each split, of the training split in training mode as well; on test splits also the
        variants that normalizers declare."""
        records = [record for name in splits for record in self.evaluate(name)]
        if self.mode_dependent and "train" in splits:
            values = self.passes.evaluate_in_training_mode(self._prepared("train"), "train", state.moment)
            records.append(self._record("train", "train", DEFAULT, 0, values))
        tests = [name for name in self.tests if name in splits]
        return records + [
            r for variant in self.declared_variants for name in tests for r in self.evaluate(name, [variant])
        ]

    def evaluate_further(self, splits: Collection[str], further: Sequence[Variant], best: bool) -> list[Record]:
        """Further variants on the requested ones of these splits; at the best evaluation also test splits shuffled."""
        records: list[Record] = []
        for name in (name for name in self.settings["splits"] if name in splits):
            done = self.declared_variants if name in self.tests else []
            records += self.evaluate(name, [variant for variant in further if variant not in done])
            for order in range(1, self.settings["reshuffles"] + 1) if best and name in self.tests else ():
                records += self.evaluate(name, [DEFAULT, *self.reshuffled], order=order)
        return records

    def evaluate(
        self, name: str, variants: Sequence[Variant] = (DEFAULT,), mode: str = "eval", order: int = 0
    ) -> list[Record]:
        """A record for each variant on one split. `mode` `whole`: on all of its examples, without its stride; `order`
        K: on the examples in the K-th shuffled order."""
        of_variants = self.passes.evaluate(self._prepared(name, mode == "whole"), name, variants, order)
        return [
            self._record(name, mode, variant, order, values)
            for variant, values in zip(variants, of_variants, strict=True)
        ]

    def values(self, records: Sequence[Record]) -> dict[str, float]:
        """The monitored value of each variant, lower is better; infinite if not finite, or if it is `broken`."""
        split, metric = self.monitor["split"], self.monitor["metric"]
        monitored = {
            text(record.get("variant", DEFAULT)): self.sign * float(record[metric])
            for record in records
            if record["split"] == split
            and record["mode"] in ("eval", "both")
            and "order" not in record
            and metric in record
        }
        return {
            name: value if not self.broken and math.isfinite(value) else math.inf for name, value in monitored.items()
        }

    def gather(self, state: State, names: Sequence[Variant]) -> None:
        """A pass for the statistics of these variants, if normalizers evaluate with those of a pass."""
        sampler = Sampler.of(self.training, self.seed, self.train)
        gather_populations(self.model, self.train, state.moment, sampler, names)

    def _prepared(self, name: str, full: bool = False) -> Split:
        if (name, full) not in self.prepared:
            self.prepared[name, full] = self.passes.prepare(self.data.splits[name] if full else self.splits[name])
        return self.prepared[name, full]

    def _record(self, name: str, mode: str, variant: Variant, order: int, values: Found) -> Record:
        """The means over the examples; the values of test examples go into `outcomes`."""
        if name in self.tests and mode == "eval" and self.settings["outcomes"] and not order:
            self.outcomes[name, text(variant)] = {  # of metrics of places each example's mean
                metric: torch.cat([p if isinstance(p, Tensor) else p.sums / p.counts for p in parts])
                for metric, parts in values.items()
                if isinstance(parts, list)
            }
        numbers = {metric: _mean(parts) if isinstance(parts, list) else parts for metric, parts in values.items()}
        both = name == "train" and mode == "eval" and not self.mode_dependent
        place: Record = {"split": name, "mode": "both" if both else mode}
        place |= ({"variant": dict(variant)} if variant else {}) | ({"order": order} if order else {})
        return place | (numbers if variant else self._checked(name, numbers))

    def _checked(self, split: str, numbers: dict[str, float]) -> dict[str, float]:
        """The numbers of a default record; if one is not finite, the others become NaN and the evaluation is broken.

        For an arg-max, a threshold or a rank of NaN is a finite number, and may be a good one. Variants are unchanged:
        at m = 1 half of BLN's configurations have no finite loss, and the authors log their errors.
        """
        bad = [name for name, value in numbers.items() if not math.isfinite(value)]
        if not bad:
            return numbers
        self.broken = self.broken or f"{split} {bad[0]} is no finite number"
        return {name: value if name in bad else math.nan for name, value in numbers.items()}

    def _variants_at_best(self) -> list[Variant]:
        """The variants with the options of `also_at_best`, without those that compute the same function as another."""

        def computed(variant: Variant) -> tuple[Any, ...]:
            return tuple(norm.computes(variant) for norm in normalizers(self.model))

        names = [DEFAULT, *self.variants]
        functions = {computed(name) for name in names}
        added: list[Variant] = []
        for options in self.also:
            for variant in ({**name, **options} for name in names):
                supported = any(norm.serves(variant) for norm in normalizers(self.model))
                if supported and computed(variant) not in functions:
                    functions.add(computed(variant))
                    added.append(variant)
        return added

    def _tasks(self, nested: bool) -> list[Record]:
        """Records of the requested downstream tasks, by the model's sentence vectors; fewer if one is `broken`."""
        if not self.settings["tasks"] or self.broken:
            return []
        from normbench.sentences import evaluate
        from normbench.sentences.sets import NotFinite

        assert self.data.tasks is not None
        encode, mode = functools.partial(self.model.encode, data=self.data), "stage" if nested else "along"
        records: list[Record] = []
        try:
            with self.data.tasks() as folder, torch.no_grad(), inference(self.model):
                for task in evaluate(encode, folder, nested, self.settings["tasks"], "the model"):
                    records.append({"mode": mode, **task.record})
                    if nested and self.settings["outcomes"]:
                        examples = {metric: torch.from_numpy(values) for metric, values in task.examples.items()}
                        self.outcomes[task.record["split"], text(DEFAULT)] = examples
        except NotFinite as error:
            self.broken = str(error).removesuffix(".")
        return records

    def _drop_last_examples(self, name: str, split: Split) -> Split:
        size = self.training["batch_size"]
        if count := len(split) // size * size:
            return split.first(count)
        raise BadInput(f"eval.drop_last leaves no batch of {size} of {len(split)} {name} examples.")

    def _refuse_missing(self, names: Collection[str]) -> None:
        for metric in self.metrics:
            if metric not in names:
                given = sorted({*names} - {*PLACE})
                raise unknown(f"declares.metrics has {metric}, which evaluate does not give.", metric, given)

    def _refuse(self, config: Mapping[str, Any]) -> None:
        settings, evaluated = self.settings, ", ".join(self.splits)
        for key in ("strides", "whole"):
            for name in settings[key]:
                if name not in self.data.splits:
                    names = ", ".join(self.data.splits)
                    raise BadInput(f"eval.{key}.{name}: the data have no split {name}. ({names})")
        if settings["tasks"] and (type(self.model).encode is Model.encode or self.data.tasks is None):
            raise BadInput(
                f"eval.tasks={settings['tasks']}: model={config['model']['name']} makes no vectors of the sentences of "
                f"data={self.data.name}."
            )
        needs_best = settings["also_at_best"] or settings["reshuffles"] or settings["test"] == "lowest"
        needs_best = needs_best or ("best" in config["train"]["keep"] and "last" not in config["train"]["keep"])
        may_lack = {*self.data.splits, "valid"}  # the default split may be missing if nothing is chosen by it
        if self.monitor["split"] not in self.splits and (needs_best or self.monitor["split"] not in may_lack):
            raise BadInput(
                f"monitor.split={self.monitor['split']}: there is no evaluation of it to tell what is best. "
                f"(splits that are evaluated: {evaluated})"
            )
        further = self.variants or self.also
        for name in settings["splits"] if further else []:
            if name not in self.splits:
                raise BadInput(f"eval.splits={name}: the data have no such split that is evaluated. ({evaluated})")
        for variant in [*self.variants, *self.reshuffled]:
            if not any(norm.serves(variant) for norm in normalizers(self.model)):
                raise BadInput(f"eval: no normalizer of this run can be evaluated with {text(variant)}.")


def _mean(parts: Sequence[Metric]) -> float:
    """The mean over examples, or over their places: each batch summed in float64, the sums exactly; else the first sum
    that is not finite."""
    pairs = [(p, len(p)) if isinstance(p, Tensor) else (p.sums, _total(p.counts)) for p in parts]
    sums = [_total(values) for values, _ in pairs]
    bad = next((total for total in sums if not math.isfinite(total)), None)
    return math.fsum(sums) / math.fsum(count for _, count in pairs) if bad is None else bad


def _total(values: Tensor) -> float:
    return values.double().sum().item()


@torch.no_grad()
def gather_populations(
    model: Model, split: Split, moment: int | str, sampler: Sampler, variants: Sequence[Variant] = (DEFAULT,)
) -> None:
    """One pass in training mode, with the current weights, from which normalizers take their statistics for `variants`.

    Without a normalizer that needs it, there is no pass. The inputs are those of evaluations of the training split:
    every example has the noise of its first sample, and there is no dropout, as in Cooijmans et al.'s pass (`use_noise`
    is 0 around popstats.py); averages of the training passes, with dropout, are the running statistics.
    Batches are formed as in training, in an order drawn for the moment, an epoch or an update. Running statistics do
    not change, and draws from torch's generator are fixed by seed and moment and do not change its state.
    """
    if not any(norm.by_pass(variant) for norm in normalizers(model) for variant in variants):
        return
    draws = stream(sampler.seed, "population pass", moment)
    batches = sampler.once(draws)
    with gathering(model, variants):
        seed_torch(int(draws.integers(2**63)), next(model.parameters()).device)
        for index in batches:
            with evaluating(model, Noise(sampler.seed, "train", split.numbers(index))):
                model(**split.batch(index).tensors)
