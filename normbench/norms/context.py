"""What a pass through normalizers is for."""

from __future__ import annotations

from dataclasses import dataclass

from normbench.core.eval_variants import DEFAULT, Variant


@dataclass
class ForwardContext:
    """By default an update, or an evaluation in the default variant.

    update_running_stats: false in every pass that is not an update.
    gathering: the pass over the training batches, whose statistics the normalizer needs for its evaluation.
    starting: the pass in which a normalizer of weights takes its initial values from the first minibatch.
    variants: of an evaluation, as far as the normalizer has them. With `examples` all of them are in the batch at hand,
        one after another: sample i of variant k is row k * examples + i.
    """

    update_running_stats: bool = True
    gathering: bool = False
    starting: bool = False
    variants: tuple[Variant, ...] = (DEFAULT,)
    examples: int = 0
