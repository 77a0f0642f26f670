"""Optimizers by name, and their state as named tensors."""

from __future__ import annotations

import inspect
import math
from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from normbench.errors import BadInput
from normbench.norms.base import own_parameters
from normbench.norms.patterns import matches

UNWRAPPED = ("add_param_group", "zero_grad", "load_state_dict", "state_dict")
OURS = {"decay_norms"}  # options that are not passed to the class


def build(config: Mapping[str, Any], model: nn.Module, outer: Collection[str] = ()) -> torch.optim.Optimizer:
    """The configured optimizer: the class that its YAML declares, ours or torch's, with all its options.

    It uses the fused kernel if there is one. With `decay_norms` false, normalizers' parameters, all biases and single
    numbers are a group without weight decay. Where the YAML declares `matrices`, those of hidden layers are groups of
    their own: all but embeddings and the parameters that `outer` has patterns of. Errors: options that do not go
    together, a class that torch lacks.
    """
    facts = config["declares"]
    fused = {"fused": True} if facts.get("fused") else {}
    norms, hidden = own_parameters(model), _hidden_matrices(model, outer) if facts.get("matrices") else set()
    parts: dict[tuple[bool, bool], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        bare = name in norms or name.rsplit(".", 1)[-1].startswith("bias") or not parameter.dim()
        parts.setdefault((name in hidden, config.get("decay_norms", True) or not bare), []).append(parameter)
    used = [
        {"params": parts[matrices, decays]}
        | ({} if decays else {"weight_decay": 0.0})
        | ({"matrices": matrices} if facts.get("matrices") else {})
        for matrices, decays in sorted(parts, reverse=True)
    ]
    optimizer: torch.optim.Optimizer = construct("optim", config, CLASSES, used, **fused)
    return optimizer


def _hidden_matrices(model: nn.Module, outer: Collection[str]) -> set[str]:
    embeddings = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    return {
        name
        for name, parameter in model.named_parameters()
        if parameter.dim() == 2 and id(parameter) not in embeddings and not any(matches(o, name) for o in outer)
    } - own_parameters(model)


def construct(group: str, config: Mapping[str, Any], classes: Mapping[str, Any], *first: Any, **further: Any) -> Any:
    """An object of the class that a choice declares, from `first`, with the choice's options as keywords."""
    facts, word = config["declares"], f"{group}={config['name']}"
    if facts["class"] not in classes:
        raise BadInput(f"{word}: torch {torch.__version__} has no {facts['class']}.")
    keys = [key for key in facts["options"] if key not in OURS]
    options = {key: tuple(value) if isinstance(value := config[key], list) else value for key in keys}
    try:
        return classes[facts["class"]](*first, **options, **further)
    except (ValueError, ZeroDivisionError) as error:
        raise BadInput(f"{word}: {str(error).rstrip('.')}.") from None


class KerasAdam(torch.optim.Adam):
    """p <- p - lr sqrt(1 - beta2^t) / (1 - beta1^t) m / (sqrt(v) + eps): eps beside the uncorrected root of v.

    Kingma and Ba 2014, end of section 2 ("epsilon hat"); tf.keras. torch's Adam, whose eps stands beside
    sqrt(v / (1 - beta2^t)), with eps / sqrt(1 - beta2^t) in its place at step t. Every parameter has a gradient at
    every step.
    """

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        for group in self.param_groups:
            group["eps_hat"] = group["eps"]
        # a hook, not an overridden `step`: torch would wrap both, which is slow at batch 1
        self.register_step_pre_hook(_place_eps)


class KirosAdam(KerasAdam):
    """p <- p - lr sqrt(1 - (1 - beta2)^t) / (1 - (1 - beta1)^t) m / (sqrt(v) + eps): 1 - beta in place of beta.

    Code of order embeddings and skip-thoughts. From step 2 on there is almost no correction, and steps are up to 6.5
    times as long as Adam's (at step 10, with the default betas).
    """

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        if 0 in self.defaults["betas"]:
            raise ValueError("bias_correction=kiros divides by zero where one of betas is 0")
        self.register_step_pre_hook(_lengthen)
        self.register_step_post_hook(_restore)


class Muon(torch.optim.Optimizer):
    """torch's Muon for the groups with `matrices`, AdamW for the others, as KellerJordan/Muon uses the two.

    W <- (1 - a weight_decay) W - a sqrt(max(1, rows / columns)) O with a = muon_lr: O is nearly the orthogonal matrix
    nearest to the Nesterov momentum of the gradient, by `ns_steps` steps of a Newton-Schulz iteration in bfloat16. With
    `adjust_lr_fn=match_rms_adamw` the factor is 0.2 sqrt(max(rows, columns)) (Moonlight).

    Not the same as: the authors' for convolutions, which theirs flattens to matrices and torch's class refuses: here
    their weights are AdamW's.
    """

    def __init__(
        self,
        groups: list[dict[str, Any]],
        lr: float,
        muon_lr: float,
        betas: tuple[float, float],
        eps: float,
        weight_decay: float,
        fused: bool,
        **options: Any,
    ) -> None:
        matrices, others = ([group for group in groups if group["matrices"] == kind] for kind in (True, False))
        if not matrices:
            raise ValueError("the model has no matrix between its first and its last layer")
        self.parts = [CLASSES["torch.Muon"](matrices, lr=muon_lr, weight_decay=weight_decay, **options)]
        if others:
            adamw = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "fused": fused}
            self.parts.append(CLASSES["AdamW"](others, **adamw))
        super().__init__([group for part in self.parts for group in part.param_groups], {})

    def step(self, closure: Any = None) -> None:  # type: ignore[override]  # of a loss, which nothing asks for
        for part, matrices in zip(self.parts, (True, False), strict=False):
            part.state = self.state
            part.param_groups = [group for group in self.param_groups if group["matrices"] == matrices]
            part.step()


def _steps(optimizer: torch.optim.Optimizer, group: Mapping[str, Any]) -> int:
    """The number of the current step, from 1."""
    state = optimizer.state.get(group["params"][0])
    return int(state["step"]) + 1 if state else 1


def _place_eps(optimizer: torch.optim.Optimizer, arguments: Any, keywords: Any) -> None:
    for group in optimizer.param_groups:
        group["eps"] = group["eps_hat"] / math.sqrt(1 - group["betas"][1] ** _steps(optimizer, group))


def _lengthen(optimizer: torch.optim.Optimizer, arguments: Any, keywords: Any) -> None:
    for group in optimizer.param_groups:
        group["lr_hat"] = group["lr"]  # restored afterwards, for schedules continue from it
        group["lr"] *= kiros_ratio(_steps(optimizer, group), *group["betas"])


def _restore(optimizer: torch.optim.Optimizer, arguments: Any, keywords: Any) -> None:
    for group in optimizer.param_groups:
        group["lr"] = group["lr_hat"]


def kiros_ratio(t: int, beta1: float, beta2: float) -> float:
    """The ratio of the lengths of `KirosAdam`'s and Adam's steps number t, from 1."""

    def correction(b1: float, b2: float) -> float:
        return math.sqrt(1 - b2**t) / (1 - b1**t)

    return correction(1 - beta1, 1 - beta2) / correction(beta1, beta2)


def _uncompiled(cls: type[torch.optim.Optimizer]) -> type[torch.optim.Optimizer]:
    """The class without the decorators that keep torch's compiler away from its methods: the same computation.

    At the first call these load the compiler, which is not used here and takes as long to import as the rest of torch.
    Such an optimizer cannot be pickled; its state can.
    """
    methods: dict[str, Any] = {name: inspect.unwrap(getattr(cls, name)) for name in UNWRAPPED}
    return type(cls.__name__, (cls,), methods | {"step": torch.no_grad()(inspect.unwrap(cls.step))})


ADAMS = {"standard": _uncompiled(torch.optim.Adam), "kiros": _uncompiled(KirosAdam)}


CLASSES: dict[str, Any] = {  # ours before torch's of the same name
    **{
        name: _uncompiled(cls)
        for name, cls in vars(torch.optim).items()
        if inspect.isclass(cls) and issubclass(cls, torch.optim.Optimizer) and cls is not torch.optim.Optimizer
    },
    "Adam": lambda parameters, bias_correction, **options: ADAMS[bias_correction](parameters, **options),
    "KerasAdam": _uncompiled(KerasAdam),
}
if "Muon" in CLASSES:  # torch 2.9
    CLASSES |= {"torch.Muon": CLASSES["Muon"], "Muon": _uncompiled(Muon)}


def state_tensors(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """Every tensor of the optimizer's state as `PARAMETER:KEY`, e.g. `logits.linear.weight:exp_avg`."""
    return {
        f"{name}:{key}": value
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state[parameter].items()
    }


def load_state(optimizer: torch.optim.Optimizer, model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """The inverse of `state_tensors`; torch moves each tensor to the device of its parameter."""
    ordered = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    index = {parameter: number for number, parameter in enumerate(ordered)}
    parameters = dict(model.named_parameters())
    state: dict[int, dict[str, Tensor]] = {}
    for full, value in tensors.items():
        name, key = full.rsplit(":", 1)
        state.setdefault(index[parameters[name]], {})[key] = value
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
