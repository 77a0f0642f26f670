"""The same numbers as torch.nn where torch.nn has the same normalizer, over several training steps."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from contract import defaults, make
from torch import nn

from normbench.battery.cases import FEATURES, SPACE, draw, sizes, valid
from normbench.errors import NormbenchError
from normbench.norms import modes
from normbench.norms.batch import BatchNorm
from normbench.norms.rms import RMSNorm
from normbench.norms.sites import Site

TIME = ("batch", "time", "feature")
FLAT, IMAGE, LAST = ("batch", "feature"), ("batch", "feature", "space", "space"), ("batch", "space", "space", "feature")


def train_both(ours: nn.Module, theirs: nn.Module, shape: tuple[int, ...]) -> None:
    """Five steps of both on the same batches: outputs, gradients and updates stay equal."""
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) if list(m.parameters()) else None for m in (ours, theirs)]
    for step in range(5):
        x, weight = draw(shape, seed=step, shift=step), draw(shape, seed=100 + step)
        results = []
        for module, optimizer in zip((ours, theirs), optimizers, strict=True):
            inputs = x.clone().requires_grad_()
            y = module(inputs)
            (y * weight).sum().backward()
            if optimizer is not None:
                optimizer.step()
                optimizer.zero_grad()
            results.append((y.detach(), inputs.grad))
        torch.testing.assert_close(results[0], results[1])
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other)


def test_per_step_is_a_torch_batch_norm_for_each_step() -> None:
    """The last one of `t_max` serves the later steps in evaluation, and learns nothing from them."""
    ours = make("batch", TIME, defaults("batch") | {"stats": "per_step", "t_max": 2}, seed=None)
    theirs = [nn.BatchNorm1d(FEATURES).double() for _ in range(3)]
    for step in range(4):
        x = draw(sizes(TIME), seed=step)
        steps = torch.stack([norm(part) for norm, part in zip(theirs, x.unbind(1), strict=True)], 1)
        torch.testing.assert_close(ours(x), steps)
    x = draw(sizes(TIME), seed=9)
    used = [theirs[0].eval(), theirs[1].eval(), theirs[1].eval()]
    steps = torch.stack([norm(part) for norm, part in zip(used, x.unbind(1), strict=True)], 1)
    torch.testing.assert_close(ours.eval()(x), steps)


def test_sequence_is_a_torch_batch_norm_of_the_valid_positions() -> None:
    ours = make("batch", TIME, defaults("batch") | {"stats": "sequence"}, seed=None)
    theirs = nn.BatchNorm1d(FEATURES).double()
    for step in range(4):
        x, mask = draw(sizes(TIME), seed=step), valid(4, step)
        torch.testing.assert_close(ours(x, mask)[mask], theirs(x[mask]))
    torch.testing.assert_close(ours.running_var[0], theirs.running_var)


def test_both_ways_of_evaluation_in_one_run() -> None:
    ours = make("batch", FLAT, defaults("batch") | {"eval_stats": "batch"}, seed=None)
    theirs = nn.BatchNorm1d(FEATURES).double()
    x = draw((4, FEATURES))
    torch.testing.assert_close(ours(x), theirs(x))
    with modes.inference(ours):
        torch.testing.assert_close(ours(x), theirs(x))
    theirs = nn.BatchNorm1d(FEATURES).double()
    theirs(x)
    with modes.inference(ours, {"eval_stats": "running"}):
        torch.testing.assert_close(ours(x), theirs.eval()(x))


def test_a_momentum_is_evaluated_with_its_running_average_whatever_the_usual_way() -> None:
    options = defaults("batch") | {"eval_stats": "batch", "also_momenta": [0.5]}
    ours, theirs = make("batch", FLAT, options, seed=None), nn.BatchNorm1d(FEATURES, momentum=0.5).double()
    x = draw((4, FEATURES))
    ours(x)
    theirs(x)
    with modes.inference(ours, {"momentum": 0.5}):
        torch.testing.assert_close(ours(x), theirs.eval()(x))


@pytest.mark.parametrize("unbiased", [True, False])
def test_a_pass_per_step_is_the_cumulative_average_of_torch(unbiased: bool) -> None:
    """`momentum=None` is torch's cumulative average; the last step serves later ones, those beyond `t_max` are not."""
    options = {"stats": "per_step", "t_max": 2, "eval_stats": "per_step_pass", "unbiased_running": unbiased}
    ours = make("batch", TIME, defaults("batch") | options, seed=None)
    ours(draw(sizes(TIME), seed=50))
    running = {key: value.clone() for key, value in ours.state_dict().items() if "pass" not in key}
    for length in (3, 1):
        theirs: list[nn.BatchNorm1d] = [nn.BatchNorm1d(FEATURES, momentum=None).double() for _ in range(2)]
        biased: dict[nn.BatchNorm1d, list[torch.Tensor]] = {}
        with modes.gathering(ours):
            for step, batch in enumerate((4, 6, 4)):
                x = draw(sizes(TIME, batch, length), seed=step)
                ours(x)
                for norm, part in zip(theirs, x.unbind(1), strict=False):
                    norm(part)
                    biased.setdefault(norm, []).append(part.var(0, correction=0))
        for norm, found in biased.items():
            norm.running_var = norm.running_var if unbiased else torch.stack(found).mean(0)
        used = [theirs[min(t, length - 1, 1)].eval() for t in range(3)]
        x = draw(sizes(TIME), seed=9)
        wanted = torch.stack([norm(part) for norm, part in zip(used, x.unbind(1), strict=True)], 1)
        with modes.inference(ours):
            torch.testing.assert_close(ours(x), wanted)
        assert all(torch.equal(value, ours.state_dict()[key]) for key, value in running.items())


def test_a_pooled_pass_is_the_average_over_steps_of_the_means_and_variances() -> None:
    """Of the steps that the pass had, for those beyond them as well; only where there is a pass."""
    options = {"stats": "per_step", "t_max": 3, "eval_stats": "per_step_pass", "unbiased_running": False}
    ours, pooled = make("batch", TIME, defaults("batch") | options, seed=None), {"eval_stats": "pooled_pass"}
    batches = [draw(sizes(TIME, 4, 2), seed=step) for step in range(3)]
    with modes.gathering(ours):
        for x in batches:
            ours(x)
    mean = torch.stack([x.mean(0) for x in batches]).mean((0, 1))
    variance = torch.stack([x.var(0, correction=0) for x in batches]).mean((0, 1))
    x = draw(sizes(TIME), seed=9)
    with modes.inference(ours, pooled):
        torch.testing.assert_close(ours(x), (x - mean) / (variance + ours.eps).sqrt())
    assert ours.serves(pooled) and not ours.by_pass(pooled)
    assert not make("batch", TIME, defaults("batch") | {"stats": "per_step"}, seed=None).serves(pooled)


def test_a_pass_without_time_is_one_average() -> None:
    ours = make("batch", IMAGE, defaults("batch") | {"eval_stats": "per_step_pass"}, seed=None)
    theirs = nn.BatchNorm2d(FEATURES, momentum=None).double()
    with modes.gathering(ours):
        for step in range(3):
            x = draw(sizes(IMAGE), seed=step)
            torch.testing.assert_close(ours(x), theirs(x))
    x = draw(sizes(IMAGE), seed=9)
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x))


def test_layer_over_all_axes_has_the_statistics_of_one_group() -> None:
    ours = make("layer", IMAGE, defaults("layer") | {"normalized_axes": "all", "affine": False}, seed=None)
    theirs = nn.GroupNorm(1, FEATURES, affine=False).double()
    train_both(ours, theirs, (4, FEATURES, *SPACE))


@pytest.mark.parametrize("affine", [True, False])
def test_instance_is_torch_instance_norm(affine: bool) -> None:
    ours = make("instance", IMAGE, defaults("instance") | {"affine": affine}, seed=None)
    as_groups = make("group", IMAGE, defaults("group") | {"num_groups": FEATURES, "affine": affine}, seed=None)
    torch.testing.assert_close(ours(draw(sizes(IMAGE))), as_groups(draw(sizes(IMAGE))))
    train_both(ours, nn.InstanceNorm2d(FEATURES, affine=affine).double(), sizes(IMAGE))


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("momentum", [0.1, 1.0])
def test_instance_with_running_statistics_is_that_of_torch(affine: bool, momentum: float) -> None:
    options = defaults("instance") | {"affine": affine, "track_running_stats": True, "momentum": momentum}
    ours = make("instance", IMAGE, options)
    theirs = nn.InstanceNorm2d(FEATURES, affine=affine, momentum=momentum, track_running_stats=True).double()
    if affine:  # weights away from their start
        theirs.load_state_dict({"weight": ours.gain.detach(), "bias": ours.bias.detach()}, strict=False)
    train_both(ours, theirs, sizes(IMAGE))
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)
    torch.testing.assert_close(ours.running_var, theirs.running_var)
    x = draw(sizes(IMAGE), seed=50)
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x))
    torch.testing.assert_close(ours.eval()(x[:, :, :1, :1]), theirs.eval()(x)[:, :, :1, :1])
    assert not torch.allclose(ours.eval()(x), ours.train()(x))
    with modes.training_without_tracking(ours), pytest.raises(NormbenchError, match="one position in space"):
        ours(x[:, :, :1, :1])


@pytest.mark.parametrize("axes", [FLAT, IMAGE])
def test_one_ghost_is_torch_batch_norm_and_several_are_their_sequence(axes: tuple[str, ...]) -> None:
    torch_class = nn.BatchNorm1d if axes == FLAT else nn.BatchNorm2d
    one = make("ghost_batch", axes, defaults("ghost_batch"), seed=None)
    theirs = torch_class(FEATURES).double()
    train_both(one, theirs, sizes(axes))
    torch.testing.assert_close(one.eval()(draw(sizes(axes))), theirs.eval()(draw(sizes(axes))))
    ours = make("ghost_batch", axes, defaults("ghost_batch") | {"ghost_size": 4}, seed=None)
    theirs = torch_class(FEATURES).double()
    for step, batch in enumerate((8, 9, 10)):  # chunks of 4 4, 4 5, 4 4 2
        x = draw(sizes(axes, batch), seed=step)
        parts = {8: [4, 4], 9: [4, 5], 10: [4, 4, 2]}[batch]
        torch.testing.assert_close(ours(x), torch.cat([theirs(part) for part in x.split(parts)]))
    torch.testing.assert_close(ours.running_spread, theirs.running_var)


@pytest.mark.parametrize("axes", [FLAT, IMAGE])
def test_batch_renorm_begins_as_torch_batch_norm_and_ends_as_its_running_values(axes: tuple[str, ...]) -> None:
    options = defaults("batch_renorm")
    theirs = (nn.BatchNorm1d if axes == FLAT else nn.BatchNorm2d)(FEATURES, eps=1e-3).double()
    train_both(make("batch_renorm", axes, options, seed=None), theirs, sizes(axes))
    at_once = make("batch_renorm", axes, options | {"warmup_frac": 0.0, "r_max": 1e6, "d_max": 1e6}, seed=None)
    for step in range(3):
        x = draw(sizes(axes), seed=step)
        evaluated = at_once.eval()(x)  # before the update, and without limits: the function of evaluation
        torch.testing.assert_close(at_once.train()(x), evaluated)


def test_the_limits_of_batch_renorm_are_those_of_the_paper() -> None:
    module = make("batch_renorm", FLAT, defaults("batch_renorm"))
    scaled = make("batch_renorm", FLAT, defaults("batch_renorm") | {"warmup_frac": 0.01})
    for updates, wanted in (
        (0, (1, 0)),
        (5000, (1, 0)),
        (15000, (1 + 2 * 10 / 35, 2.5)),
        (25000, (1 + 2 * 20 / 35, 5)),
        (40000, (3, 5)),
        (90000, (3, 5)),
    ):
        module.updates.fill_(updates)
        scaled.updates.fill_(updates // 100)
        assert module.limits() == pytest.approx(wanted) and scaled.limits() == pytest.approx(wanted)


def test_a_partial_rms_that_leaves_nothing_is_refused() -> None:
    with pytest.raises(NormbenchError, match=r"p=0\.1 leaves none of its 6 values"):
        make("rms", FLAT, defaults("rms") | {"p": 0.1})
    site = Site("s", ("pre_activation",), FLAT, 100)
    assert RMSNorm(site, p=0.29).used == 29, "0.29 * 100 is a little less than 29 in floating point"
    assert RMSNorm(site, p=0.07, partial="ceil").used == 7, "0.07 * 100 is a little more than 7 in floating point"
    assert [RMSNorm(site, p=0.125, partial=way).used for way in ("floor", "ceil")] == [12, 13]


def test_rms_over_the_space_of_a_channel_keeps_its_mean_where_instance_normalization_takes_it() -> None:
    """The axes of RMSNorm's convolutional network (A.4): each channel of each image by itself."""
    options = {"normalized_axes": "space", "eps": 0.0, "affine": False}
    x = torch.randn(4, 3, 2, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 1
    ours = make("rms", LAST, defaults("rms") | options, seed=None, space=(3, 2)).double()
    expected = x / x.square().mean((1, 2), keepdim=True).sqrt()
    torch.testing.assert_close(ours(x), expected)
    centred = x - x.mean((1, 2), keepdim=True)
    instance = F.instance_norm(centred.permute(0, 3, 1, 2), eps=1e-30).permute(0, 2, 3, 1)
    torch.testing.assert_close(ours(centred), instance)
    whole = make("rms", LAST, defaults("rms") | options | {"normalized_axes": "all"}, seed=None, space=(3, 2)).double()
    torch.testing.assert_close(whole(x), x / x.square().mean((1, 2, 3), keepdim=True).sqrt())


def test_each_momentum_keeps_averages_of_its_own() -> None:
    """`also_momenta` is what several networks that differ in momentum alone would have."""
    also = [0.01, 0.5]
    ours = make("batch", FLAT, defaults("batch") | {"momentum": 0.1, "also_momenta": also}, seed=None).train()
    others = {m: make("batch", FLAT, defaults("batch") | {"momentum": m}, seed=None).train() for m in (0.1, *also)}
    for step in range(5):
        x = draw((6, FEATURES), seed=step)
        for module in (ours, *others.values()):
            module(x)
    x = draw((6, FEATURES), seed=9)
    assert ours.variants == ({"momentum": 0.01}, {"momentum": 0.5})
    of_another_norm = {"configuration": "TTFF"}
    for variant, momentum in (({}, 0.1), ({"momentum": 0.01}, 0.01), ({"momentum": 0.5}, 0.5), (of_another_norm, 0.1)):
        with modes.inference(ours, variant), modes.inference(others[momentum]):
            assert torch.equal(ours(x), others[momentum](x)), variant
    assert ours.training and ours.variant == {}


def test_an_error_inside_leaves_neither_mode_nor_variant_behind() -> None:
    ours = make("batch", FLAT, defaults("batch") | {"also_momenta": [0.01]}).train()
    with pytest.raises(ZeroDivisionError), modes.inference(ours, {"momentum": 0.01}):
        raise ZeroDivisionError
    assert ours.training and ours.variant == {}
    with pytest.raises(ZeroDivisionError), modes.training_without_tracking(ours.eval()):
        raise ZeroDivisionError
    assert not ours.training and ours.track


@pytest.mark.parametrize("tracked", [True, False])
def test_single_values_in_the_running_averages(tracked: bool) -> None:
    """tf.keras' BatchNormalization at batch 1: it trains on its shift alone and evaluates with a vanishing variance."""
    site = Site("s", ("post_activation",), ("batch", "feature"), 3)
    norm = BatchNorm(site, momentum=0.01, eps=1e-3, allow_single=True, single_running=tracked).double()
    rows = draw((400, 1, 3))
    mean, variance = torch.zeros(3).double(), torch.ones(3).double()
    for x in rows:
        assert not norm(x).any()
        if tracked:
            mean, variance = 0.99 * mean + 0.01 * x[0], 0.99 * variance
    y = norm.eval()(rows[0])
    torch.testing.assert_close(y[0], (rows[0, 0] - mean) / (variance + 1e-3).sqrt())
    assert (y.abs().max() > 2 * rows[0].abs().max()) == tracked
