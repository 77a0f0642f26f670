"""The contract of normalizers. Each check covers all layouts and options; a failure is one sentence.

The tests of this package run the same checks over all registered normalizers, and also compare these with naive
references in float64, which a user's normalizer lacks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from normbench.battery.cases import TIME, Axes, Options, Subject, draw, sizes, valid
from normbench.core.eval_variants import DEFAULT, Variant
from normbench.errors import NormbenchError, line_of
from normbench.norms import base, modes
from normbench.norms.context import ForwardContext
from normbench.norms.sites import INVARIANT, NOT, least_eps
from normbench.train.probes import deviation

IN_PLACE = "the input was changed in place"
NOT_FINITE = "it gives NaN or infinity for finite inputs"
Function = Callable[[Subject, Axes], None]


class Broken(Exception):
    """A broken promise, as a sentence."""


@dataclass(frozen=True)
class Check:
    """One promise; `title` states it."""

    name: str
    title: str
    function: Function
    of: str = "all"  # all, activations, weights


@dataclass(frozen=True)
class Finding:
    """The result of one check on one layout; `broken` is empty if the promise holds."""

    check: Check
    axes: Axes
    broken: str


CHECKS: list[Check] = []


def check(title: str, of: str = "all") -> Callable[[Function], Function]:
    """Registers a check under its function's name."""

    def register(function: Function) -> Function:
        CHECKS.append(Check(function.__name__, title, function, of))
        return function

    return register


def checks(subject: Subject) -> list[Check]:
    """The checks for a normalizer of this kind."""
    return [c for c in CHECKS if c.of in ("all", "weights" if subject.of_weights else "activations")]


def examine(subject: Subject) -> Iterator[Finding]:
    """Every check on every layout. An exception of the normalizer is a broken promise too, with its line."""
    for promise in checks(subject):
        for axes in subject.layouts():
            yield Finding(promise, axes, broken(promise, subject, axes))


def broken(promise: Check, subject: Subject, axes: Axes) -> str:
    """How a normalizer breaks a promise in one layout; "" if it does not."""
    try:
        promise.function(subject, axes)
    except Broken as failure:
        return str(failure)
    except Exception as error:  # raised by the user's code: report the promise and the line
        return format_error(error)
    return ""


def format_error(error: Exception) -> str:
    """An exception of a normalizer, with its line."""
    kind = "" if isinstance(error, NormbenchError) else f"{type(error).__name__}: "
    return f"{kind}{' '.join(str(error).split())[:300].removesuffix('.')}{line_of(error)}"


# --- words -----------------------------------------------------------------------------------------------------------


def rows(subject: Subject, axes: Axes) -> Iterator[Options]:
    """The rows of options that the constructor accepts; for the shipped ones that is a promise itself."""
    return (options for options in subject.option_rows() if not subject.refusal(axes, options))


def format_row(subject: Subject, options: Options) -> str:
    """The options that differ from the shipped ones, for a message."""
    changed = [f"{key}={value}" for key, value in options.items() if value != subject.defaults[key]]
    return f" with {', '.join(changed)}" if changed else ""


def demand(holds: bool, words: str) -> None:
    if not holds:
        raise Broken(words)


def refusal_of(call: Callable[..., object], *arguments: object, error: type[Exception] = NormbenchError) -> str:
    """The words with which it refuses these; "" where it takes them."""
    try:
        call(*arguments)
    except error as refusal:
        return str(refusal)
    return ""


def near(a: Tensor, b: Tensor, tolerance: float) -> bool:
    return torch.allclose(a.detach().double(), b.detach().double(), rtol=tolerance, atol=tolerance)


def finite(*tensors: Tensor | None) -> bool:
    return all(bool(torch.isfinite(t).all()) for t in tensors if t is not None)


def states(module: nn.Module) -> dict[str, Tensor]:
    return {key: value.clone() for key, value in module.state_dict().items()}


def end_epoch(module: nn.Module) -> None:
    for norm in modes.normalizers(module):
        norm.end_epoch()


def variants(module: nn.Module) -> Sequence[Variant]:
    return (DEFAULT, *modes.variants(module))


def called(module: nn.Module, x: Tensor, mask: Tensor | None = None) -> Tensor:
    y: Tensor = module(x) if mask is None else module(x, mask)
    return y


def first_to_mend(findings: Sequence[Finding]) -> str:
    """The broken promise that makes the other comparisons meaningless; "" if there is none."""
    causes = [f for f in findings if f.broken and (f.check.name == "repeatable" or f.broken == IN_PLACE)]
    return causes[0].check.name if causes else ""


def passes(module: nn.Module, subject: Subject, axes: Axes) -> list[Tensor]:
    """Two training steps and an evaluation, each on a new input, since an input may be changed in place."""
    steps = [called(module, subject.inputs(axes, seed=step)) for step in range(2)]
    return [*steps, called(module.eval(), subject.inputs(axes, seed=3))]


def fits(subject: Subject, axes: Axes) -> None:
    """Called as a model calls it, it returns one tensor like its input; else it does not serve the layout."""
    module, x = subject.settled(axes, subject.defaults).float(), subject.inputs(axes).float()
    y: object = module(x) if subject.of_weights else module(x, None)
    demand(isinstance(y, Tensor), f"forward gives a {type(y).__name__}")
    assert isinstance(y, Tensor)
    shape = tuple(y.shape if subject.of_weights else x.shape)
    demand(tuple(y.shape) == shape, f"an input of {shape} gives {tuple(y.shape)}")
    demand(y.dtype == x.dtype, f"an input of {x.dtype} gives {y.dtype}")


FITS = Check("fits", "its forward gives one tensor like its input", fits)


# --- the contract ----------------------------------------------------------------------------------------------------


@check("its options are those that it declares, with the defaults of its YAML")
def declared_options(subject: Subject, axes: Axes) -> None:
    refused = subject.refusal(axes, subject.defaults)
    demand(not refused, f"it declares to serve {' × '.join(axes)} and refuses it: {refused}")
    refused = refusal_of(subject.make, axes, {**subject.defaults, "no_such_option": 1}, error=TypeError)
    demand(bool(refused), "its constructor takes options that it does not declare: no **options, please")
    bare, declared, again = (
        passes(subject.make(axes, options, seed=None), subject, axes)
        for options in ({}, subject.defaults, subject.defaults)
    )
    if all(map(torch.equal, declared, again)):  # else `repeatable` reports it
        same = all(map(torch.equal, bare, declared))
        demand(same, "the constructor's defaults differ from those of its YAML")


@check("the output has the shape and type of its input, which stays as it was")
def shape_and_type(subject: Subject, axes: Axes) -> None:
    for options in rows(subject, axes):
        for training in (True, False):
            module = subject.settled(axes, options).train(training)
            x, before = subject.inputs(axes), states(module)
            before_pass = x.clone()
            y = module(x)
            if not subject.of_weights:
                demand(y.shape == x.shape, f"an input of {tuple(x.shape)} gives {tuple(y.shape)}")
            demand(y.dtype == x.dtype, f"an input of {x.dtype} gives {y.dtype}")
            demand(torch.equal(x, before_pass), IN_PLACE)
            same = all(torch.equal(value, before[name]) for name, value in module.named_parameters())
            demand(same, "a parameter was changed in a pass")
            single = module.float()(x.float())
            demand(single.dtype == torch.float32, f"a float32 input gives {single.dtype}")


@check("the same input gives the same output in two modules made alike")
def repeatable(subject: Subject, axes: Axes) -> None:
    for options in rows(subject, axes):
        first, second = (passes(subject.make(axes, options), subject, axes) for _ in range(2))
        demand(finite(*first, *second), NOT_FINITE)
        for when, a, b in zip((" in training", " in training", ""), first, second, strict=True):
            words = f"two modules differ{when}{format_row(subject, options)}"
            demand(torch.equal(a, b), f"{words}: is there noise of its own?" if when else words)


@check("gradients are those of finite differences, unless it declares that it detaches something (`detaches`)")
def gradients(subject: Subject, axes: Axes) -> None:
    """In float64, of inputs and parameters, in training and in evaluation, at the first step and later."""
    if subject.facts.get("detaches"):
        return
    for options in rows(subject, axes):
        for training, before in ((True, 0), (True, 2), (False, 2)):
            module = subject.settled(axes, options)
            if subject.of_weights and training:
                _estimate_to_the_end(module, subject.inputs(axes))
            for step in range(before):
                module(subject.inputs(axes, seed=20 + step))
            if before:
                end_epoch(module)
            module.train(training)
            for norm in modes.normalizers(module):
                norm.forward_context = ForwardContext(update_running_stats=False)  # finite differences call it often
            for mask in subject.masks(axes, 3, 2):
                x = subject.inputs(axes, batch=3, seed=1).requires_grad_()
                where = f"in {'training' if training else 'evaluation'} they are not{format_row(subject, options)}"
                demand(_exact(module, x, mask), f"{where}: is something detached?")


def _exact(module: nn.Module, x: Tensor, mask: Tensor | None) -> bool:
    parameters = tuple(module.parameters())

    def output(x: Tensor, *_: Tensor) -> Tensor:
        return called(module, x, mask)

    return torch.autograd.gradcheck(output, (x, *parameters), fast_mode=True, raise_exception=False)


@torch.no_grad()
def _estimate_to_the_end(module: nn.Module, x: Tensor) -> None:
    """Run estimates that training passes iterate, such as a largest singular value, to convergence."""
    for _ in range(500):
        before = states(module)
        module(x)
        if all(torch.equal(value, before[key]) for key, value in module.state_dict().items()):
            return


@check("every parameter gets a gradient")
def every_parameter(subject: Subject, axes: Axes) -> None:
    for options in rows(subject, axes):
        module = subject.settled(axes, options)
        x = subject.inputs(axes).requires_grad_()
        y = module(x)
        (y * draw(y.shape, seed=3)).sum().backward()
        for name, parameter in {"the input": x, **dict(module.named_parameters())}.items():
            has_gradient = parameter.grad is not None and bool(parameter.grad.abs().sum() > 0)
            demand(has_gradient, f"{name} gets none{format_row(subject, options)}")


@check("its state dictionary holds all that there is to it")
def whole_state(subject: Subject, axes: Axes) -> None:
    """Saved in the middle of an epoch, loaded into another: the two go on alike, and so do their evaluations."""
    for options in rows(subject, axes):
        module, other = subject.settled(axes, options), subject.make(axes, options, seed=5).train()
        for step in range(2):
            module(subject.inputs(axes, seed=step))
        late = sorted(module.state_dict().keys() - other.state_dict().keys())
        demand(not late, f"{', '.join(late)} is made by its first input: make it in the constructor")
        other.load_state_dict(states(module))
        for each in (module, other):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)  # generators are part of a checkpoint
                each(subject.inputs(axes, seed=3))
            end_epoch(each)
        x = subject.inputs(axes, seed=4)
        words = f"a copy made from it does not go on alike{format_row(subject, options)}: keep statistics in buffers"
        for variant in variants(module):
            with modes.inference(module, variant), modes.inference(other, variant):
                y = module(x.clone())
                demand(finite(y), NOT_FINITE)
                demand(torch.equal(y, module(x.clone())), "it is random in evaluation: draw in training mode alone")
                demand(torch.equal(y, other(x.clone())), words)
        after = other.state_dict()
        demand(all(torch.equal(value, after[key]) for key, value in module.state_dict().items()), words)


@check("inputs without variance give finite values and gradients", of="activations")
def zero_variance(subject: Subject, axes: Axes) -> None:
    for options in rows(subject, axes):
        for value in (0.0, 3.0, -1e4):
            module = subject.make(axes, options).train()
            x = torch.full(sizes(axes), value, dtype=torch.float64, requires_grad=True)
            y = module(x)
            y.square().sum().backward()
            demand(
                finite(y, x.grad, *(p.grad for p in module.parameters())),
                f"all values {value:g} give values or gradients that are not{format_row(subject, options)}",
            )


@check("huge and tiny inputs stay finite in float32, and near float64")
def magnitudes(subject: Subject, axes: Axes) -> None:
    for options in rows(subject, axes):
        for scale in (1e-18, 1e-6, 1e6, 1e15):
            x = subject.inputs(axes, batch=8, shift=0.0).mul_(scale).float()
            expected = subject.make(axes, options, seed=None).train()(x.double()).detach()
            module = subject.make(axes, options, seed=None).float().train()
            x.requires_grad_()
            y = module(x)
            y.sum().backward()
            words = f"at inputs of about {scale:g}{format_row(subject, options)}"
            demand(finite(y, x.grad, *(p.grad for p in module.parameters())), f"{words} they are not finite")
            off = (y.detach().double() - expected).abs().max()
            demand(
                bool(off <= 1e-3 * expected.abs().max() + 1e-30), f"{words} float32 differs from float64 by {off:.1g}"
            )


@check("bfloat16 is near float64")
def bfloat16(subject: Subject, axes: Axes) -> None:
    for options in rows(subject, axes):
        module, other = subject.settled(axes, options), subject.settled(axes, options)
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.copy_(parameter.bfloat16())
        other.load_state_dict(states(module))
        x = subject.inputs(axes, batch=6).bfloat16()
        y = other.bfloat16().train()(x)
        demand(y.dtype == torch.bfloat16, f"a bfloat16 input gives {y.dtype}")
        off = (y.double() - module.train()(x.double())).abs().max()
        demand(bool(off < 0.5), f"{off:.2g} away{format_row(subject, options)}")


@check("a batch of one is served, or refused in words where it declares so (`single_batch`)")
def single_batch(subject: Subject, axes: Axes) -> None:
    for options in rows(subject, axes):
        module = subject.settled(axes, options)
        x = subject.inputs(axes, batch=1).requires_grad_()
        if subject.refuses_single(axes, options):
            single = str(subject.facts["single_batch"])
            refusal = refusal_of(module, x)
            demand(bool(refusal), f"it declares single_batch: {single}, and takes one value per feature all the same")
            names_both = re.search(rf"one value per feature.*{single}", refusal)
            demand(bool(names_both), f"the refusal does not say `one value per feature` and `{single}`: {refusal}")
            continue
        y = module(x)
        y.sum().backward()
        demand(finite(y, x.grad), f"values or gradients are not finite{format_row(subject, options)}")


@check("one step of time, one position in space are served, or refused in words", of="activations")
def single_position(subject: Subject, axes: Axes) -> None:
    for options in rows(subject, axes):
        x = draw(sizes(axes, time=1, space=(1, 1)))
        try:
            y = subject.make(axes, options, space=(1, 1))(x)
        except NormbenchError as refusal:
            demand("position" in str(refusal), f"refused in words that do not name the position: {refusal}")
            continue
        demand(finite(y), f"they give values that are not finite{format_row(subject, options)}")


@check("a smaller last batch, and other sizes in evaluation, are served")
def batch_sizes(subject: Subject, axes: Axes) -> None:
    for options in rows(subject, axes):
        module = subject.settled(axes, options)
        smallest = 2 if subject.refuses_single(axes, options) else 1
        for batch in (4, 4, smallest):
            demand(finite(module.train()(subject.inputs(axes, batch, seed=batch))), f"not with {batch} in training")
        end_epoch(module)
        module.eval()
        x, other = subject.inputs(axes, seed=8), subject.inputs(axes, seed=9)
        other[0] = x[0]  # the first sample among other neighbours
        by_batch = not near(module(other)[0], module(x)[0], 1e-6)
        for batch in (1, 4, 9):
            if batch < smallest and by_batch:
                continue
            y = module(subject.inputs(axes, batch, seed=8))
            demand(finite(y), f"{batch} in evaluation give values that are not finite{format_row(subject, options)}")


@check("mode and neighbours count only where it declares so (`mode_dependent`)")
def mode_and_neighbours(subject: Subject, axes: Axes) -> None:
    """`mode_dependent: false` promises one function: of each sample alone, the same in training and evaluation."""
    x, other = subject.inputs(axes), subject.inputs(axes, seed=2)
    other[0] = x[0]  # the first sample among other neighbours
    differs, promised = False, False
    for options in rows(subject, axes):
        module = subject.settled(axes, options)
        with modes.training_without_tracking(module):
            trained, among = module(x), module(other)
        same, alone = near(module.eval()(x), trained, 1e-13), near(among[0], trained[0], 1e-13)
        if not subject.mode_dependent(options):
            words = format_row(subject, options)
            demand(same, f"it declares mode_dependent: false, and evaluation differs from training{words}")
            demand(alone, f"it declares mode_dependent: false, and a sample's neighbours matter{words}")
        differs, promised = differs or not (same and alone), promised or subject.mode_dependent(options)
    demand(differs or not promised, "it declares mode_dependent: true, and no option makes training differ")


@check("in training a later step counts only where it declares so (`pools_steps`)", of="activations")
def later_steps(subject: Subject, axes: Axes) -> None:
    """Without `pools_steps`, or with the options of `apart.time`, it can stand in a model of what comes next."""
    if "time" not in axes:
        return
    x, last = subject.inputs(axes), (slice(None),) * axes.index("time") + (-1,)
    other = x.clone()
    other[last] = subject.inputs(axes, seed=2)[last]
    pools, apart = subject.facts.get("pools_steps"), subject.facts.get("apart", {}).get("time", {})
    counts = False
    for options in rows(subject, axes):
        module = subject.settled(axes, options)
        with modes.training_without_tracking(module):
            change = module(other) - module(x)
        change[last] = 0
        if not pools or (apart and apart.items() <= options.items()):
            words = format_row(subject, options)
            demand(near(change, torch.zeros_like(change), 1e-12), f"a later step changes an earlier one{words}")
        counts = counts or bool(change.abs().max() > INVARIANT)
    demand(counts or not pools, "it declares pools_steps: true, and no later step changes an earlier one")


@check("evaluation as shipped looks at each sample alone")
def evaluation_alone(subject: Subject, axes: Axes) -> None:
    module = subject.settled(axes, subject.defaults)
    module(subject.inputs(axes))
    end_epoch(module)
    x, other = subject.inputs(axes, seed=1), subject.inputs(axes, seed=2)
    other[0] = x[0]
    module.eval()
    demand(near(module(other)[0], module(x)[0], 1e-12), "the first sample comes out otherwise among other neighbours")
    demand(near(module(x[:1]), module(x)[:1], 1e-12), "the first sample comes out otherwise by itself")


@check("a pass without tracking is the function of training")
def untracked(subject: Subject, axes: Axes) -> None:
    for options in rows(subject, axes):
        module = subject.settled(axes, options)
        module(subject.inputs(axes))
        module.eval()
        with modes.training_without_tracking(module):
            y = module(subject.inputs(axes, seed=4))
        trained = module.train()(subject.inputs(axes, seed=4))
        demand(torch.equal(y, trained), f"it is another function{format_row(subject, options)}")


@check("a mask counts only where it declares so (`reads_mask`)", of="activations")
def mask_counts(subject: Subject, axes: Axes) -> None:
    if "time" not in axes:
        return
    mask, reads = valid(4, 0, TIME), False
    for options in rows(subject, axes):
        unmasked, masked = subject.make(axes, options), subject.make(axes, options)
        x = subject.inputs(axes)
        reads = reads or not torch.equal(unmasked(x), masked(x, mask))
    declares = bool(subject.facts.get("reads_mask"))
    demand(reads == declares, f"it declares reads_mask: {str(declares).lower()}; it does{'' if reads else ' not'}")


@check("in a time loop, step by step is the whole sequence; what needs all of it is refused in words", of="activations")
def stepwise(subject: Subject, axes: Axes) -> None:
    """The same outputs and statistics, for one that declares to serve `state`."""
    if "state" not in subject.facts["kinds"] or axes != ("batch", "time", "feature"):
        return
    for options in rows(subject, axes):
        at_once, stepped = _normalizer(subject, axes, options), _normalizer(subject, axes, options)
        words = format_row(subject, options)
        if any(options[key] != value for key, value in (subject.facts.get("state") or {}).items()):
            refusal = refusal_of(stepped.step, subject.inputs(axes)[:, 0], 0)
            demand(bool(refusal), f"it declares that it cannot stand inside a time loop{words}, and does")
            demand("inside a time loop" in refusal, f"the refusal does not name the time loop: {refusal}")
            continue
        for training in (True, True, False):
            at_once.train(training)
            stepped.train(training)
            for mask in (None, valid(4, 1)):
                x = subject.inputs(axes, seed=int(training))
                steps = [
                    stepped.step(part, t, None if mask is None else mask[:, t]) for t, part in enumerate(x.unbind(1))
                ]
                demand(near(torch.stack(steps, 1), called(at_once, x, mask), 1e-10), f"the steps differ from it{words}")
        after = stepped.state_dict()
        same = all(near(after[key], value, 1e-10) for key, value in at_once.state_dict().items())
        demand(same, f"the statistics differ{words}")


def _normalizer(subject: Subject, axes: Axes, options: Options) -> base.Normalizer:
    module = subject.make(axes, options)
    assert isinstance(module, base.Normalizer)
    return module


SCALES = (1e-2, 1.0, 1e2)  # of the inputs: a function that is flat at one of them is not at another
CHANGES: dict[str, Callable[[Tensor, float], Tensor]] = {
    "recentres": lambda x, scale: x + 7 * scale,
    "rescales": lambda x, scale: 3 * x,
}


@check("a constant on all data, a factor on all data count as it declares (`recentres`, `rescales`)", of="activations")
def invariances(subject: Subject, axes: Axes) -> None:
    """A fact that holds up to an eps, and so not for small inputs, may be declared either way."""
    if axes != subject.layouts()[0]:
        return
    for fact in CHANGES:
        by_scale = deviations(subject, axes, fact)
        if subject.facts.get(fact):
            off = ", ".join(f"{by_scale[scale]:.0e} at inputs of about {scale:g}" for scale in SCALES[1:])
            holds = all(by_scale[scale] < NOT for scale in SCALES[1:])
            demand(holds, f"it declares {fact}: true; it does not: it changes by {off}")
        else:
            most = max(by_scale.values())
            demand(most > INVARIANT, f"it declares {fact}: false; it does: it changes by {most:.0e} at most")


def deviations(subject: Subject, axes: Axes, fact: str) -> dict[float, float]:
    """How much the change of a fact alters three training steps, for inputs of each scale, with the smallest eps.

    As in Table 1 (`normbench.papers.ln2016.probes.invariances`): max |f' - f| / max |f|.
    """
    options, by_scale = subject.defaults | least_eps(subject.specs, subject.defaults), {}
    for scale in SCALES:
        unchanged, changed = subject.make(axes, options), subject.make(axes, options)
        steps = [scale * subject.inputs(axes, seed=step) for step in range(3)]
        with torch.no_grad():
            by_scale[scale] = max(deviation(changed(CHANGES[fact](x, scale)), unchanged(x)) for x in steps)
    return by_scale


def summary(findings: Sequence[Finding]) -> list[tuple[Check, int, list[Finding]]]:
    """Per check the number of layouts and the findings that are broken."""
    by_check: dict[str, list[Finding]] = {}
    for finding in findings:
        by_check.setdefault(finding.check.name, []).append(finding)
    return [(of_check[0].check, len(of_check), [f for f in of_check if f.broken]) for of_check in by_check.values()]
