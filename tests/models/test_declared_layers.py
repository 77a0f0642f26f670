"""The layers that a model's choice declares, shown on its page, are those of the built model."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from smallest import MODELS

from normbench.config import plan
from normbench.models import base
from normbench.rnn.layers import Recurrent


def passes(model: Any, config: Any) -> None:
    """Two examples of the declared lengths through every layer."""
    data = config["data"]["declares"]
    if data.get("shape") == ["image", "captions"]:
        captions = torch.ones(2, 20, dtype=torch.int64)
        captions[:, -1] = 0  # the end
        model.collect(torch.zeros(2, data["features"]), captions, captions >= 0)
    elif data.get("shape") == ["document", "question"]:
        document, question = torch.ones(2, 120, dtype=torch.int64), torch.ones(2, 20, dtype=torch.int64)
        model.evaluate(document, document > 0, question, question > 0, torch.full((2,), 3))
    elif data.get("shape") == ["sentence", "next", "previous"]:
        words = torch.ones(2, 30, dtype=torch.int64)
        model.evaluate(**{f"{name}{end}": given for name in ("sentence", "next", "previous")
                          for end, given in (("", words), ("_mask", words > 0))})  # fmt: skip
    elif data.get("shape") == ["strokes", "characters"]:
        strokes, characters = torch.zeros(2, config["data"]["points"], 3), torch.ones(2, 28, dtype=torch.int64)
        model.evaluate(strokes, strokes[..., 0] == 0, characters, characters > 0)
    elif data.get("shape") == ["text"]:
        model.evaluate(torch.zeros(2, config["data"]["length"] + 1, dtype=torch.int64))
    else:
        shape = data.get("shape", [data["features"]])
        words = "word" in shape
        length = config["data"].get("length", 784)  # of pixels
        sizes = [length if size == "time" else size for size in shape if size != "word"]
        inputs = torch.zeros(2, *sizes, dtype=torch.int64 if words else None)
        model.evaluate(*[inputs, torch.zeros(2, dtype=torch.int64)][: len(base.takes(model))])


# of millions of weights, whose first draws alone take long
LARGE = dict.fromkeys(("skip_thoughts", "attentive_reader", "order_embeddings"), pytest.mark.slow)


@pytest.mark.parametrize("name", [pytest.param(name, marks=LARGE.get(name, ())) for name in MODELS])
def test_declared_layers_are_the_built_models(name: str) -> None:
    (spec,) = plan.train_specs([f"model={name}", "norm=none"], multirun=False)
    model = base.build(spec.config, spec.sites)
    declared = {layer["layer"]: layer for layer in spec.config["model"]["declares"]["layers"]}
    seen: dict[str, tuple[list[int], list[int]]] = {}
    modules = dict(model.named_modules())
    for layer in declared:
        modules[layer].register_forward_hook(
            lambda _, inputs, output, layer=layer: (
                seen.setdefault(
                    layer,
                    (
                        list(inputs[0].shape[1:]),
                        list((output[0] if isinstance(output, tuple) else output).shape[1:]),
                    ),
                )
                and None
            )  # a hook's value would take the output's place
        )
    with torch.no_grad():
        passes(model, spec.config)
        for layer, facts in declared.items():
            if isinstance(modules[layer], Recurrent) and layer not in seen:  # its model takes it step by step
                modules[layer](torch.zeros(2, 1, *facts["input"]))
                seen[layer] = tuple(sizes[1:] for sizes in seen[layer])
            elif layer not in seen:  # its weights go into the loss
                modules[layer](torch.zeros(2, *facts["input"]))
    assert seen == {layer: (facts["input"], facts["output"]) for layer, facts in declared.items()}
    for layer, facts in declared.items():
        assert sum(p.numel() for p in modules[layer].parameters()) == facts["parameters"]
        sites = ["", *spec.config["model"]["declares"]["sites"]]
        assert any(site == facts["site"] or site.startswith(f"{facts['site']}.") for site in sites)
    own = sum(p.numel() for p in model.parameters(recurse=False))  # of no layer
    assert sum(p.numel() for p in model.parameters()) - own == sum(f["parameters"] for f in declared.values())
