"""What the authors' code does, number by number (protocols 9.1, 9.5): m = 1, the 16 configurations, the slots."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from contract import defaults, make, pair
from devices import has_kernel

from normbench.battery.cases import FEATURES, draw, sizes
from normbench.errors import NormbenchError
from normbench.norms import base, batch_layer, modes, populations
from normbench.norms.batch_layer import CONFIGURATIONS, KINDS, BatchLayerNorm
from normbench.norms.sites import Site

FLAT, LAST, TIME = ("batch", "feature"), ("batch", "space", "space", "feature"), ("batch", "time", "feature")
AXES = {len(axes): axes for axes in (FLAT, LAST, TIME)}


def trained(batch: int, axes: tuple[str, ...] = FLAT, **options: object) -> base.Normalizer:
    """After one epoch of five batches."""
    module = make("batch_layer", axes, defaults("batch_layer") | options, seed=None).train()
    module.begin_epoch()
    for step in range(5):
        module(draw(sizes(axes, batch), seed=step))
    module.end_epoch()
    return module


def outputs(module: base.Normalizer, x: torch.Tensor) -> dict[str, torch.Tensor]:
    found = {}
    for letters in CONFIGURATIONS:
        with modes.inference(module, {"configuration": letters}):
            found[letters] = module(x)
    return found


def test_the_configurations_are_in_the_order_of_the_code() -> None:
    assert len(CONFIGURATIONS) == 16 == len(set(CONFIGURATIONS))
    assert CONFIGURATIONS[:5] == ("TTTT", "TTTF", "TTFT", "TTFF", "TFTT") and CONFIGURATIONS[-1] == "FFFF"


def test_each_letter_counts() -> None:
    found = outputs(trained(4), draw((4, FEATURES), seed=9))
    assert not any(torch.allclose(a, b) for a, b in itertools.combinations(found.values(), 2))


@pytest.mark.parametrize("axes", [FLAT, LAST])
def test_training_on_one_sample_is_layer_norm_over_root_d(axes: tuple[str, ...]) -> None:
    """`BLN(x) = 0.9999 LN(x)/sqrt(d)`, LN with eps 1e-3 (9.1)."""
    module = make("batch_layer", axes, defaults("batch_layer"), seed=None)
    x = draw(sizes(axes, batch=1))
    torch.testing.assert_close(module(x), 0.9999 * F.layer_norm(x, [FEATURES], eps=1e-3) / math.sqrt(FEATURES))


def test_one_sample_gives_the_nans_and_constants_of_the_logs() -> None:
    """9.5, m = 1: NaN wherever Std_B is T, chance level for F F ? T, and four configurations that work."""
    module = trained(1)
    x, other = draw((1, FEATURES), seed=8), draw((1, FEATURES), seed=9)
    for letters, y in outputs(module, x).items():
        again = outputs(module, other)[letters]
        if letters[1] == "T":
            assert y.isnan().all(), letters
        elif letters[3] == "T":  # x_F is 0; x_B has the weight -0.0001
            assert y.abs().max() < 0.01 and again.abs().max() < 0.01, letters
            assert letters[0] == "T" or torch.equal(y, again)
        else:
            assert y.isfinite().all() and not torch.allclose(y, again, atol=0.1), letters
    assert all(y.isfinite().all() for y in outputs(trained(1, safe_m1=True), x).values())


@pytest.mark.parametrize("batches", [(1, 1, 1), (3, 3, 1)])
@pytest.mark.parametrize("options", [{}, {"safe_m1": True}, {"mode": "paper"}, {"mode": "paper", "safe_m1": True}])
def test_populations_with_batches_of_one_are_those_of_the_reference(batches: tuple[int, ...], options: dict) -> None:
    module, reference = pair("batch_layer", FLAT, defaults("batch_layer") | options)
    for step, batch in enumerate(batches):
        x = draw((batch, FEATURES), seed=step)
        module(x)
        reference(x.numpy(), training=True)
    module.end_epoch()
    reference.end_epoch()
    x = draw((4, FEATURES), seed=9)
    for letters, y in outputs(module, x).items():
        wanted = torch.from_numpy(reference(x.numpy(), training=False, variant={"configuration": letters}))
        torch.testing.assert_close(y.detach(), wanted, equal_nan=True, msg=lambda text, c=letters: f"{text}\n{c}")


def test_the_populations_of_the_first_site_have_the_printed_sizes() -> None:
    """9.1: 2 (16 16 6) of the batch and 2 (25 16 16) of the features, besides gain, shift and two scalars."""
    site = Site("conv.0", ("post_activation",), LAST, 6, (16, 16))
    module = BatchLayerNorm(site)
    module(torch.randn(25, 16, 16, 6))
    module.end_epoch()
    batch, feature = (
        (module.trained.batch_mean, module.trained.batch_std),
        (module.trained.feature_mean, module.trained.feature_std),
    )
    assert sum(t.numel() for t in batch) == 2 * 16 * 16 * 6
    assert sum(t.numel() for t in feature) == 2 * 25 * 16 * 16


@pytest.mark.parametrize("by", ["slot", "pooled"])
def test_evaluation_goes_in_batches_of_the_training_size(by: str) -> None:
    """However many samples come at once: m = 4 here, twelve of them are three batches, and two are left."""
    module = trained(4, LAST, populations=by)
    x = draw(sizes(LAST, 14), seed=9)
    for letters, y in outputs(module, x).items():
        with modes.inference(module, {"configuration": letters}):
            torch.testing.assert_close(y, torch.cat([module(part) for part in x.split(4)]))
    by_slot = outputs(module, torch.cat([x[:4].roll(1, 0), x[4:]]))["TTTT"][:4]
    moved = outputs(module, x)["TTTT"][:4].roll(1, 0)
    assert torch.allclose(by_slot, moved) == (by == "pooled"), "slots are places in the batch"


def test_finished_populations_hold_until_the_next_epoch_ends() -> None:
    module = trained(4)
    x = draw((4, FEATURES), seed=9)
    before = outputs(module, x)["TTTT"]
    module.train()
    module.begin_epoch()
    module(draw((4, FEATURES), seed=20))
    assert torch.equal(outputs(module, x)["TTTT"], before)
    module.train()
    module.end_epoch()
    fresh = make("batch_layer", FLAT, defaults("batch_layer"), seed=None).train()
    fresh(draw((4, FEATURES), seed=20))
    fresh.end_epoch()
    assert torch.equal(outputs(module, x)["TTTT"], outputs(fresh, x)["TTTT"]), "nothing is left of the epoch before"


@pytest.mark.parametrize("held", [1, 2, 3, 16])
@pytest.mark.parametrize("saved_after", [1, 2, 5])
def test_moments_that_wait_to_be_added_up_are_part_of_the_state(
    held: int, saved_after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Saved after any batch, the two go on to the same populations to the last bit, however many wait."""
    wanted = make("batch_layer", LAST, defaults("batch_layer"), seed=None)
    for step, batch in enumerate((4, 4, 3, 4, 4, 2)):
        wanted(draw(sizes(LAST, batch), seed=step))
    wanted.end_epoch()
    monkeypatch.setattr(populations, "HELD", held)
    module = make("batch_layer", LAST, defaults("batch_layer"), seed=None)
    for step, batch in enumerate((4, 4, 3, 4, 4, 2)):
        if step == saved_after:
            other = make("batch_layer", LAST, defaults("batch_layer"), seed=None)
            other.load_state_dict({key: value.clone() for key, value in module.state_dict().items()})
        for one in (module, other) if step >= saved_after else (module,):
            one(draw(sizes(LAST, batch), seed=step))
    module.end_epoch()
    other.end_epoch()
    x = draw(sizes(LAST), seed=9)
    found, others = outputs(module, x), outputs(other, x)
    assert all(torch.equal(others[letters], y) for letters, y in found.items())
    torch.testing.assert_close(outputs(wanted, x), found, rtol=1e-12, atol=1e-12)


def test_all_configurations_are_variants() -> None:
    module = make("batch_layer", FLAT, defaults("batch_layer"))
    assert all(module.serves({"configuration": letters}) for letters in CONFIGURATIONS)
    assert all(module.serves({"configuration": "TTTT", "populations": kind}) for kind in KINDS)
    assert not any(map(module.serves, ({}, {"configuration": "TTT"}, {"populations": "none"}, {"momentum": 0.1})))
    assert modes.variants(module) == []


def gather(module: base.Normalizer, steps: range, axes: tuple[str, ...] = FLAT) -> None:
    with modes.gathering(module, [{"populations": "recalibrated"}]):
        for step in steps:
            module(draw(sizes(axes, 4), seed=step))


def test_recalibrated_populations_are_those_of_an_epoch_with_frozen_weights() -> None:
    """With weights that do not move the epoch and the pass over its batches agree; with others only the pass is new."""
    module = make("batch_layer", LAST, defaults("batch_layer") | {"populations": "pooled"}, seed=None).train()
    recalibrated = {"populations": "recalibrated"}
    for step in range(5):
        module(draw(sizes(LAST, 4), seed=step))
    module.end_epoch()
    gather(module, range(5), LAST)
    x = draw(sizes(LAST, 6), seed=9)
    epoch, same = outputs(module, x), {}
    for letters in CONFIGURATIONS:
        with modes.inference(module, {"configuration": letters} | recalibrated):
            same[letters] = module(x)
        assert torch.equal(same[letters], epoch[letters])
    gather(module, range(5, 7), LAST)
    after = outputs(module, x)
    assert all(torch.equal(after[letters], y) for letters, y in epoch.items())
    for letters in CONFIGURATIONS:
        with modes.inference(module, {"configuration": letters} | recalibrated):
            assert torch.equal(module(x), epoch[letters]) == (letters == "FFFF"), letters


def test_recalibrated_alone_keeps_nothing_of_training() -> None:
    alone = make("batch_layer", FLAT, defaults("batch_layer") | {"populations": "recalibrated"}, seed=None).train()
    both = make("batch_layer", FLAT, defaults("batch_layer"), seed=None)
    for module in (alone, both):
        before = {key: value.clone() for key, value in module.state_dict().items()}
        module(draw((4, FEATURES), seed=50))
        module.end_epoch()
        changed = {key for key, value in module.state_dict().items() if not torch.equal(value, before[key])}
        assert bool(changed) == (module is both)
        gather(module, range(3))
    x = draw((4, FEATURES), seed=9)
    with modes.inference(alone), modes.inference(both, {"populations": "recalibrated"}):
        assert torch.equal(alone(x), both(x))


def test_another_length_is_refused_in_words() -> None:
    module = trained(4, TIME)
    for mode in (True, False):
        with pytest.raises(NormbenchError, match=r"positions of shape .* Pad or cut to one length"):
            module.train(mode)(draw(sizes(TIME, time=2)))


@pytest.mark.parametrize("axes", [FLAT, LAST])
def test_training_goes_on_with_the_statistics_that_were_adopted(axes: tuple[str, ...]) -> None:
    """Algorithm 2, step 13: from the second epoch on as evaluation has it, populations as constants, still updated."""
    module, reference = trained(4, axes, adopt="TTFF"), trained(4, axes)
    x = draw(sizes(axes, 4), seed=9)
    for tensor, other in zip(module.trained.buffers(), reference.trained.buffers(), strict=True):
        torch.testing.assert_close(tensor, other)
    with modes.inference(reference, {"configuration": "TTFF"}):
        expected = reference(x)
    mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    for each in (module, reference):
        each.train().begin_epoch()
    y = module(mine)
    torch.testing.assert_close(y, expected)
    reference(x)
    with modes.inference(reference, {"configuration": "TTFF"}):
        reference(theirs).square().sum().backward()
    y.square().sum().backward()
    torch.testing.assert_close(mine.grad, theirs.grad)
    for each in (module, reference):
        each.end_epoch()
    torch.testing.assert_close(module.trained.batch_mean, reference.trained.batch_mean)
    assert not torch.allclose(trained(4, axes, adopt="TTFF", adopt_after=2).train()(x), expected), "not yet"


def test_how_many_epochs_there_were_is_state() -> None:
    module = trained(4, adopt="TTFF", adopt_after=2)
    copy = make("batch_layer", FLAT, defaults("batch_layer") | {"adopt": "TTFF", "adopt_after": 2}, seed=None)
    copy.load_state_dict(module.state_dict())
    assert int(copy.epochs) == 1


def test_before_the_first_epoch_has_ended_variants_at_once_are_those_one_by_one() -> None:
    """Populations of a pass have the size of its batches then, those of an epoch are those of no batch yet."""
    norm = BatchLayerNorm(Site("s", ("pre_activation",), ("batch", "feature"), 6)).double().train()
    own, passed = {"configuration": "TTTT"}, {"populations": "recalibrated"}
    variants: list[dict[str, str]] = [{}, passed, {**own, **passed}, own]
    with modes.gathering(norm, variants):
        for step in range(3):
            norm(draw((4, 6), seed=step))
    x, found = draw((10, 6), seed=9), []
    for variant in variants:
        with modes.inference(norm, variant):
            found.append(norm(x))
    with modes.stacked(norm, variants) as context:
        context.examples = len(x)
        torch.testing.assert_close(norm(torch.cat([x] * 4)), torch.cat(found))


@pytest.mark.skipif(not has_kernel(), reason="there is no C compiler here")
@pytest.mark.parametrize("shape", [(2, 5), (3, 1030), (4, 3, 6), (5, 2, 3, 33)])
@pytest.mark.parametrize("options", [{}, {"affine": False}, {"bias": False, "scale": "one"}])
def test_the_kernel_computes_what_torchs_operations_do(
    shape: tuple[int, ...], options: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outputs, populations, gradients, and derivatives of gradients, which are torch's in any case."""
    site, found = Site("here", ("pre_activation",), AXES[len(shape)], shape[-1], shape[1:-1]), []
    for large in (0, math.inf):
        monkeypatch.setattr(batch_layer, "LARGE", large)
        monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
        module = BatchLayerNorm(site, **options).double().train()
        with torch.no_grad():
            for parameter in module.parameters():
                parameter += 0.3 * draw(parameter.shape, seed=1)
        module.begin_epoch()
        x = draw(shape).requires_grad_()
        given = (x, *module.parameters())
        y = module(x)
        kernels = y.grad_fn is not None and "Blend" in y.grad_fn.name()
        assert kernels == (large == 0)
        first = torch.autograd.grad(y.square().sum(), given, retain_graph=True)
        slopes = torch.autograd.grad(module(x).square().sum(), given, create_graph=True)
        second = torch.autograd.grad(sum(slope.square().sum() for slope in slopes), given)
        module.end_epoch()
        found.append([y, *first, *slopes, *second, *(b for b in module.buffers() if b.is_floating_point())])
    for one, two in zip(*found, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-11, atol=1e-11)
