"""Named tensors, ragged ones with their masks, and samplers that are pure functions of seed and update."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from normbench.core.streams import stream
from normbench.data.examples import Ragged, Shared, Split
from normbench.data.sampler import Sampler
from normbench.errors import NormbenchError

LENGTHS = torch.from_numpy(stream(1, "lengths").integers(1, 9, 50))
KINDS = ("shuffled", "lengths_in_turn", "infinite")


def sampler(kind: str, seed: int = 1, size: int = 4, **options: bool) -> Sampler:
    return Sampler(kind, 50, size, seed, lengths=LENGTHS, **options)


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_a_function_of_seed_and_update_alone(kind: str) -> None:
    """In whatever order they are asked for; others for another seed."""
    straight = sampler(kind)
    forward = [straight.batch(update).tolist() for update in range(60)]
    other = sampler(kind)
    assert [other.batch(update).tolist() for update in reversed(range(60))] == forward[::-1]
    assert [sampler(kind, seed=2).batch(update).tolist() for update in range(60)] != forward


@pytest.mark.parametrize("kind", KINDS[:2])
@pytest.mark.parametrize("reshuffle", [True, False])
def test_an_epoch_has_every_example_once(kind: str, reshuffle: bool) -> None:
    made = sampler(kind, reshuffle=reshuffle)
    epochs = [[made.batch(e * made.per_epoch + k).tolist() for k in range(made.per_epoch)] for e in range(3)]
    for batches in epochs:
        assert sorted(row for batch in batches for row in batch) == list(range(50))
    assert (epochs[0] == epochs[1]) is not reshuffle
    if kind == "lengths_in_turn":
        assert all(len(set(LENGTHS[batch].tolist())) == 1 for batch in epochs[0])


def test_the_usual_order_is_that_of_published_runs() -> None:
    order = torch.from_numpy(stream(1, "order", 2).permutation(50))
    made = sampler("shuffled")
    assert [made.batch(13 + k).tolist() for k in range(13)] == [part.tolist() for part in order.split(4)]


def test_batches_across_the_ends_of_permutations_are_of_one_size() -> None:
    made = sampler("infinite", size=8)
    rows = torch.cat([made.batch(update) for update in range(25)])
    assert made.per_epoch == 7 and all(len(made.batch(update)) == 8 for update in range(25))
    assert Counter(rows.tolist()) == dict.fromkeys(range(50), 4)


def test_lengths_take_turns_until_they_have_no_batch_left() -> None:
    made = sampler("lengths_in_turn")
    lengths = [int(LENGTHS[made.batch(k)[0]]) for k in range(made.per_epoch)]
    left = {n: -(-int((n == LENGTHS).sum()) // 4) for n in set(LENGTHS.tolist())}
    order = lengths[: len(left)]
    assert set(order) == set(left) and order != sorted(order)
    for turn in range(max(left.values())):
        here = [n for n in order if left[n] > turn]
        assert lengths[: len(here)] == here
        del lengths[: len(here)]
    assert not lengths
    again = [int(LENGTHS[made.batch(made.per_epoch + k)[0]]) for k in range(len(left))]
    assert set(again) == set(left) and again != order


def test_batches_can_be_in_the_order_of_the_data() -> None:
    made = sampler("in_order", size=8)
    wanted = [part.tolist() for part in torch.arange(50).split(8)]
    assert [made.batch(update).tolist() for update in range(14)] == wanted * 2
    assert [batch.tolist() for batch in made.once(stream(1, "a pass"))] == wanted


@pytest.mark.parametrize("kind", ["shuffled", "lengths_in_turn"])
def test_some_examples_can_be_dropped_from_batches_that_were_made_with_them(kind: str) -> None:
    """As a loop drops them from the batches of all; where nothing is left, the epoch's first batch comes again."""
    whole, made = sampler(kind), Sampler(kind, 20, 4, 1, lengths=LENGTHS[:20], dropped=LENGTHS[20:])
    assert made.per_epoch == whole.per_epoch
    for epoch in range(3):
        updates = range(epoch * whole.per_epoch, (epoch + 1) * whole.per_epoch)
        wanted = [left for u in updates if (left := [row for row in whole.batch(u).tolist() if row < 20])]
        assert sorted(row for batch in wanted for row in batch) == list(range(20))
        again = wanted[: whole.per_epoch - len(wanted)]
        assert [made.batch(update).tolist() for update in updates] == wanted + again
    left = [[row for row in batch.tolist() if row < 20] for batch in whole.once(stream(1, "a pass"))]
    assert [batch.tolist() for batch in made.once(stream(1, "a pass"))] == [batch for batch in left if batch]
    for other in ("infinite", "in_order"):
        with pytest.raises(NormbenchError, match=rf"train\.sampler={other} does not go with data\.filter=after"):
            Sampler(other, 20, 4, 1, lengths=LENGTHS[:20], dropped=LENGTHS[20:])


def test_smaller_batches_can_be_dropped() -> None:
    for kind in ("shuffled", "lengths_in_turn"):
        made = sampler(kind, drop_last=True)
        assert {len(made.batch(update)) for update in range(made.per_epoch)} == {4}
    with pytest.raises(NormbenchError, match=r"train\.drop_last leaves no batch of 64 of 50 training examples"):
        sampler("shuffled", size=64, drop_last=True)
    with pytest.raises(NormbenchError, match=r"train\.sampler=lengths_in_turn needs sequences of several lengths"):
        Sampler("lengths_in_turn", 50, 4, 1)


def test_sequences_can_be_shared() -> None:
    """Any of the same sequences in any order, some of them twice: as if each had been copied."""
    ragged = Ragged.of(torch.arange(10 * n, 10 * n + n) for n in (1, 3, 2, 4))
    chosen = [[2, 0, 2], [3, 1, 0]]
    split = Split(**{f"t{i}": Shared(ragged.values, ragged.offsets, torch.tensor(c)) for i, c in enumerate(chosen)})
    copied = Split(**{f"t{i}": ragged[torch.tensor(c)] for i, c in enumerate(chosen)})
    assert len(split) == 3 and split.lengths is not None and split.lengths.tolist() == [2, 1, 2]
    for index in (slice(None), slice(1, 3), torch.tensor([2, 2, 0])):
        ours, theirs = split.batch(index).tensors, copied.batch(index).tensors
        assert ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert torch.equal(
        split.every(2).batch(slice(None)).tensors["t1"], copied.every(2).batch(slice(None)).tensors["t1"]
    )
    moved = split.to(torch.device("cpu"))
    assert isinstance(moved["t0"], Shared) and moved["t0"].values is ragged.values, "nothing is copied"


@given(st.lists(st.integers(0, 4)), st.data())
def test_some_ragged_sequences_are_those_of_a_loop(lengths: list[int], data: st.DataObject) -> None:
    """By a slice and by numbers in any order, some of them twice; none, and empty ones, too."""
    ends = [sum(lengths[:i]) for i in range(len(lengths) + 1)]
    values = torch.arange(2 * ends[-1]).view(-1, 2)
    sequences = [values[a:b].tolist() for a, b in itertools.pairwise(ends)]
    ragged = Ragged(values, torch.tensor(ends))
    numbers = st.lists(st.integers(0, len(lengths) - 1)) if lengths else st.just([])
    rows = data.draw(numbers)
    start, stop, step = data.draw(st.integers(-9, 9)), data.draw(st.integers(-9, 9)), data.draw(st.integers(1, 4))
    for index, wanted in (
        (torch.tensor(rows, dtype=torch.int64), [sequences[row] for row in rows]),
        (slice(start, stop, step), sequences[start:stop:step]),
    ):
        chosen = ragged[index]
        assert chosen.lengths.tolist() == list(map(len, wanted))
        assert [chosen.values[a:b].tolist() for a, b in itertools.pairwise(chosen.offsets)] == wanted
        padded, mask = ragged.padded(index)
        assert [row[valid].tolist() for row, valid in zip(padded, mask, strict=True)] == wanted
        assert not padded[~mask].any()


def test_ragged_sequences_are_padded_to_the_longest_of_a_batch() -> None:
    sequences = [torch.arange(1, length + 1) for length in (3, 1, 5, 2)]
    split = Split(words=Ragged.of(sequences), label=torch.arange(4), mean_over="words_mask", index=torch.arange(4) + 7)
    batch = split.batch(torch.tensor([3, 0]))
    assert batch.tensors["words"].tolist() == [[1, 2, 0], [1, 2, 3]]
    assert batch.tensors["words_mask"].tolist() == [[True, True, False], [True] * 3]
    assert (batch.size, batch.counted, batch.tensors["label"].tolist()) == (2, 5, [3, 0])
    every = split.every(2)
    assert len(every) == 2 and every.index is not None and every.index.tolist() == [7, 9]
    assert every.batch(slice(None)).tensors["words"].tolist() == [[1, 2, 3, 0, 0], [1, 2, 3, 4, 5]]
    assert split.lengths is not None and np.array_equal(split.lengths, [3, 1, 5, 2])
    for names in (["label"], ["words"], ["words_mask", "label"]):
        some = split.only(names).every(2).batch(slice(None))
        assert set(some.tensors) == set(names) and some.counted == 8, "what the mean is over need not be asked for"
