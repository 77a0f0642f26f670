"""BLN's 16 configurations of statistics on LeNet-5: all in one stacked pass, against one configuration alone.

Both are full passes over the same made-up images, as an evaluation makes them; that the stacked pass gives what 16
passes give is checked in the tests.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import torch
from harness import Row, main, row

from normbench.config.plan import train_specs
from normbench.data import Dataset
from normbench.data.examples import Split
from normbench.models import base as models
from normbench.norms.batch_layer import CONFIGURATIONS
from normbench.norms.modes import normalizers
from normbench.train.evaluate import Evaluation

BATCH, IMAGES = 25, 2000
GOAL = 4.5


def trained() -> Evaluation:
    """The network after a few batches, so that it has populations, and images to evaluate."""
    (spec,) = train_specs(["model=lenet5", "norm=batch_layer", f"train.batch_size={BATCH}"], False)
    model = models.build(spec.config, spec.sites).train()
    draws = torch.Generator().manual_seed(0)
    inputs = torch.randn(IMAGES, 32, 32, 3, generator=draws)
    split = Split(inputs=inputs, targets=torch.randint(0, 10, (IMAGES,), generator=draws))
    for norm in normalizers(model):
        norm.begin_epoch()
    for index in torch.arange(8 * BATCH).split(BATCH):
        model(**split.batch(index).tensors)
    for norm in normalizers(model):
        norm.end_epoch()
    return Evaluation(model, Dataset("d", dict.fromkeys(("train", "valid", "test"), split)), spec.config, spec.sites)


def rows(rounds: int) -> Iterator[Row]:
    evaluation = trained()

    def seconds(configurations: Sequence[str]) -> float:
        variants = [{"configuration": letters} for letters in configurations]
        start = time.perf_counter()
        evaluation.evaluate("test", variants)
        return time.perf_counter() - start

    for case, letters in (("16 stacked / FFFF", "FFFF"), ("16 stacked / TTFF", "TTFF")):
        seconds(CONFIGURATIONS), seconds([letters])  # warm
        pairs = [(seconds(CONFIGURATIONS), seconds([letters])) for _ in range(rounds)]
        ours, reference = zip(*pairs, strict=True)
        yield row(case, ours, reference, IMAGES // BATCH, GOAL)


if __name__ == "__main__":
    title = "Evaluation of BLN's 16 configurations in one pass / of one configuration (LeNet-5, batches of 25)"
    main(__doc__, "configurations", title, 15, rows)
