"""Initial draws of weights by name: `normal`, `orthogonal`, ...; which parameter has which, a model's YAML says."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from normbench.core.streams import stream
from normbench.errors import BadInput, unknown
from normbench.norms import sites
from normbench.norms.base import own_parameters
from normbench.norms.modes import start
from normbench.norms.patterns import match_patterns
from normbench.rnn.cells import Cell


@dataclass(frozen=True)
class Weight:
    """What a scheme may know: the shape (out, in, ...), the parameter's module; of one of its gates, or all."""

    shape: tuple[int, ...]
    module: nn.Module
    of_one_gate: bool = False

    @property
    def fan_out(self) -> int:
        """Of a convolution, times the kernel's size, as `fan_in`."""
        return self.shape[0] * int(np.prod(self.shape[2:]))

    @property
    def fan_in(self) -> int:
        return int(np.prod(self.shape[1:]))

    @property
    def gates(self) -> int:
        """Blocks of rows that are matrices of their own."""
        return self.module.gates if isinstance(self.module, Cell) and not self.of_one_gate else 1

    @property
    def gate(self) -> Weight:
        """One of these blocks."""
        return Weight((self.shape[0] // self.gates, *self.shape[1:]), self.module, of_one_gate=True)


# --- schemes: (generator, weight, numbers) -> array of the weight's shape ---------------------------------------------

Draw = np.random.Generator


def uniform(draw: Draw, weight: Weight, bound: float) -> np.ndarray:
    """U(-bound, bound)."""
    return draw.uniform(-bound, bound, weight.shape)


def normal(draw: Draw, weight: Weight, std: float) -> np.ndarray:
    """N(0, std^2)."""
    return draw.normal(0, std, weight.shape)


def residual_normal(draw: Draw, weight: Weight, std: float, layers: int) -> np.ndarray:
    """N(0, std^2 / (2 layers)), of what is added to the residual stream, twice in each layer (GPT-2)."""
    return normal(draw, weight, std / (2 * layers) ** 0.5)


def glorot_uniform(draw: Draw, weight: Weight) -> np.ndarray:
    """U(-b, b), b = sqrt(6 / (in + out)) (Glorot and Bengio 2010, eq. 16); a recurrent layer's gates as one matrix."""
    return uniform(draw, weight, (6 / (weight.fan_in + weight.fan_out)) ** 0.5)


def he_uniform(draw: Draw, weight: Weight) -> np.ndarray:
    """U(-b, b), b = sqrt(6 / in) (He et al. 2015, eq. 10)."""
    return uniform(draw, weight, (6 / weight.fan_in) ** 0.5)


def inverse_root(draw: Draw, weight: Weight) -> np.ndarray:
    """U(-b, b), b = 1 / sqrt(H) in a recurrent layer of H units, else 1 / sqrt(in), as torch draws its own."""
    units = weight.module.hidden_size if isinstance(weight.module, Cell) else weight.fan_in
    return uniform(draw, weight, units**-0.5)


def inverse_root_in(draw: Draw, weight: Weight) -> np.ndarray:
    """U(-b, b), b = 1 / sqrt(in), as `nn.Linear` draws its own, in Torch 7 too."""
    return uniform(draw, weight, weight.fan_in**-0.5)


def orthogonal(draw: Draw, weight: Weight) -> np.ndarray:
    """Orthonormal rows or columns, whichever are fewer (Saxe et al. 2014); of gates, each block by itself."""
    rows = weight.shape[0] // weight.gates
    blocks = [_orthogonal(draw, rows, weight.fan_in) for _ in range(weight.gates)]
    return np.concatenate(blocks).reshape(weight.shape)


def orthogonal_whole(draw: Draw, weight: Weight) -> np.ndarray:
    """`orthogonal` of a recurrent layer's gates as one matrix (code of Cooijmans et al. 2016)."""
    return _orthogonal(draw, weight.shape[0], weight.fan_in).reshape(weight.shape)


def identity_candidate(draw: Draw, weight: Weight) -> np.ndarray:
    """The identity in the last gate's block, the candidate's, of W_h; the others `orthogonal` as one matrix.

    Code of Cooijmans et al. 2016, `--init id`.
    """
    size, others = weight.gate.shape[0], weight.shape[0] - weight.gate.shape[0]
    return np.concatenate([_orthogonal(draw, others, weight.fan_in), np.eye(size, weight.fan_in)])


def glorot_orthogonal(draw: Draw, weight: Weight) -> np.ndarray:
    """`orthogonal` in dense layers, else `glorot_uniform`."""
    return (orthogonal if isinstance(weight.module, nn.Linear) else glorot_uniform)(draw, weight)


def attr_uniform(draw: Draw, weight: Weight) -> np.ndarray:
    """U(-b, b), b = sqrt(6 / (in + out + 1)), of each gate by itself (code of the attentive reader, `norm_weight`)."""

    def one(gate: Weight) -> np.ndarray:
        bound = (6 / (gate.fan_in + gate.fan_out + 1)) ** 0.5
        if isinstance(gate.module, nn.Embedding):
            return uniform(draw, gate, bound)
        return draw.uniform(-bound, bound, gate.shape[::-1]).T  # the code's matrices are (in, out): see `alike`

    return np.concatenate([one(weight.gate) for _ in range(weight.gates)])


def attr_orthogonal(draw: Draw, weight: Weight) -> np.ndarray:
    """U V of the decomposition U S V of a square matrix drawn by `attr_uniform`, of each gate by itself.

    Code of the attentive reader, `ortho_weight`, which takes V for its transpose; it is orthogonal either way.
    """

    def one(gate: Weight) -> np.ndarray:
        u, _, v = np.linalg.svd(attr_uniform(draw, gate).T)
        return (u @ v.T).T

    return np.concatenate([one(weight.gate) for _ in range(weight.gates)])


def _orthogonal(draw: Draw, rows: int, columns: int) -> np.ndarray:
    """Of the QR decomposition of a normal matrix, as Keras."""
    q, r = np.linalg.qr(draw.standard_normal((max(rows, columns), min(rows, columns))))
    q *= np.sign(np.diag(r))  # else not uniform over all orthogonal matrices
    return q if rows >= columns else q.T


SCHEMES: dict[str, Callable[..., np.ndarray]] = {
    scheme.__name__: scheme
    for scheme in (
        *(uniform, normal, residual_normal, glorot_uniform, he_uniform, inverse_root, inverse_root_in),
        *(orthogonal, orthogonal_whole, identity_candidate, glorot_orthogonal, attr_uniform, attr_orthogonal),
    )
}


# --- of a whole model -------------------------------------------------------------------------------------------------


@torch.no_grad()
def initialize(model: nn.Module, config: Mapping[str, Any]) -> None:
    """Every weight by the scheme of its name, biases 0; a normalizer's own parameters stay as it made them.

    `model.init` is a scheme without numbers, for all weights; or a name under which the model's YAML declares schemes
    by pattern, of which the most specific wins, with their numbers (or the options that hold them), a factor and a
    centre: `initial: {NAME: {"*": {scheme: normal, std: 0.01}, embedding: {scheme: orthogonal, times: 0.05}}}`.
    Each parameter has a stream of its own, keyed by (seed, name): arms share their draws. With `alike: true` it is
    keyed by the seed alone, and begun anew for every parameter and each of its gates: those of one scheme and shape
    begin the same. With `biases: true` a bias has the law of the matrix that it goes with, which for the one bias of a
    cell is weight_hh. Weight normalizers then begin from the weights just drawn.
    """
    if "init" not in config["model"]:
        raise BadInput(
            f"model={config['model']['name']} has no model.init, which says how weights are drawn: write init: "
            "glorot_uniform beside its name, and init: {type: str} below declares.options."
        )
    skip, modules = own_parameters(model), dict(model.named_modules())
    weights = {name: p for name, p in model.named_parameters() if name not in skip}
    chosen, declared = config["model"]["init"], config["model"]["declares"].get("initial") or {}
    rules = declared.get(chosen, {"*": {"scheme": chosen}})
    place, name_of_model = f"model.init={chosen}", config["model"]["name"]
    pattern_of = match_patterns(place, name_of_model, "parameter", rules, weights)
    for name, parameter in weights.items():
        path, _, key = name.rpartition(".")
        rule, module, matrix = rules[pattern_of[name]] if name in pattern_of else {}, modules[path], parameter
        if parameter.dim() < 2:
            if not (key.startswith("bias") and isinstance(rule, Mapping) and rule.get("biases")):
                parameter.zero_()
                continue
            matrix = getattr(module, "weight_hh" if key == "bias" and isinstance(module, Cell) else f"weight{key[4:]}")
        if name not in pattern_of:
            raise BadInput(f"{place}: {name_of_model} declares no initial draw of '{name}'.")
        draw, alike = _scheme(f"{place}: {pattern_of[name]}", rule, config)
        weight = Weight(tuple(matrix.shape), module)
        if alike:
            values = np.concatenate([draw(stream(config["seed"], "init"), weight.gate)] * weight.gates)
        else:
            values = draw(stream(config["seed"], "init", name), weight)
        parameter.copy_(torch.from_numpy(values if parameter is matrix else values.reshape(len(values), -1)[:, 0]))
    start(model)


def _scheme(place: str, rule: Any, config: Mapping[str, Any]) -> tuple[Callable[[Draw, Weight], np.ndarray], bool]:
    """`orthogonal`, or `{scheme: normal, std: 0.01, times: 2, centre: 1}`, numbers or names of options; `alike`."""
    given = {"scheme": rule} if isinstance(rule, str) else dict(rule)
    name, alike = str(given.pop("scheme", None)), bool(given.pop("alike", False))
    given.pop("biases", None)
    if name not in SCHEMES:
        raise unknown(f"{place}: {name} is not a scheme.", name, SCHEMES)
    numbers = {key: sites.lookup(config, value) if isinstance(value, str) else value for key, value in given.items()}
    times, centre = numbers.pop("times", 1.0), numbers.pop("centre", 0.0)
    wanted = [*inspect.signature(SCHEMES[name]).parameters][2:]
    if sorted(numbers) != sorted(wanted):
        raise BadInput(f"{place}: {name} takes {' and '.join(wanted) or 'no numbers'}, not {numbers}.")
    return lambda draw, weight: centre + times * SCHEMES[name](draw, weight, **numbers), alike
