"""Every model follows the device of its tensors: shown on the meta device, and on CUDA where there is one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from devices import needs_cuda, to_meta
from smallest import MODELS, NORMS, able, batches, built, small, usual
from torch import Tensor
from torch.overrides import TorchFunctionMode

from normbench.check.contract import numbers
from normbench.config.spec import Spec
from normbench.models import base as models
from normbench.norms.modes import normalizers
from normbench.runs.directory import RunDirectory
from normbench.train import optim
from normbench.train.train_one import ensure_run

PAIRS = [pytest.param(m, n, id=f"{m}-{n}") for m in MODELS for n in NORMS if able(m, n)]
OF_LENGTHS = ("order_embeddings", "skip_thoughts")  # cut sequences to lengths that they read from them


def passes(network: models.Model, batch: dict[str, Tensor]) -> dict[str, Tensor]:
    """Loss, gradients and metrics of an update and of an evaluation."""
    network.train()
    with models.update(network, 1, 0):
        loss = network(**batch)
    loss.backward()
    found = {"loss": loss.detach()} | {f"d {name}": p.grad for name, p in network.named_parameters()}
    found |= {f"running {name}": total for name, total in network.tally.items()}
    for norm in normalizers(network):
        norm.end_epoch()
    with torch.no_grad():
        tensors = {**batch, **network.eval().prepare(**batch)}
        return found | numbers(network.evaluate(**tensors)) | network.collect(**tensors)


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_what_a_model_makes_is_where_its_inputs_are(model: str) -> None:
    if model in OF_LENGTHS:
        pytest.skip("tensors without content have no lengths: on CUDA alone")
    spec = small(model)
    network = built(spec)
    to_meta(network)
    found = passes(network, {name: tensor.to("meta") for name, tensor in batches(spec, 1)[0].items()})
    assert all(value.is_meta for value in found.values())


class Copies(TorchFunctionMode):
    """Counts what is made on the CPU and copied from there; on CUDA each copy waits, and no CUDA graph can have one."""

    count = 0

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = function(*args, **(kwargs or {}))
        given = any(isinstance(one, Tensor) and one.is_cpu for one in args)
        self.count += given and isinstance(found, Tensor) and found.is_meta
        return found


@pytest.mark.parametrize("model", ["draw", "handwriting"])
def test_no_step_of_a_time_loop_copies_from_the_cpu(model: str) -> None:
    counts = []
    for steps in (3, 6):
        spec = small(model, *([f"model.glimpses={steps}"] if model == "draw" else []))
        network = built(spec)
        to_meta(network)
        batch = {name: tensor.to("meta") for name, tensor in batches(spec, 1)[0].items()}
        batch |= {name: batch[name][:, :steps] for name in ("strokes", "strokes_mask") if name in batch}
        with Copies() as copies, models.update(network, 1, 0):
            network(**batch).backward()
        counts.append(copies.count)
    assert counts[0] == counts[1]  # the noise of all steps is one copy


def updated(spec: Spec, device: str) -> dict[str, Tensor]:
    """In float64, for in float32 rounding decides where a gradient of nearly zero goes."""
    network = built(spec).double().to(device)
    batch = {name: tensor.to(device) for name, tensor in batches(spec, 1)[0].items()}
    optimizer = optim.build(spec.config["optim"], network)
    found = passes(network, {name: t.double() if t.is_floating_point() else t for name, t in batch.items()})
    optimizer.step()
    found |= {f"after {name}": parameter.detach() for name, parameter in network.named_parameters()}
    assert {value.device.type for value in found.values()} == {device}
    return {name: value.cpu() for name, value in found.items()}


@needs_cuda
@pytest.mark.parametrize(("model", "norm"), PAIRS)
def test_cuda_is_the_cpu(model: str, norm: str) -> None:
    spec = small(model, *usual(model, norm))
    wanted, found = updated(spec, "cpu"), updated(spec, "cuda")
    assert set(found) == set(wanted)
    for name, value in wanted.items():
        torch.testing.assert_close(found[name], value, rtol=1e-7, atol=1e-7, msg=lambda m, n=name: f"{n}: {m}")


@needs_cuda
@pytest.mark.parametrize("model", MODELS)
def test_a_run_trains_on_cuda(model: str, tmp_path: Path) -> None:
    assert ensure_run(small(model, "train.steps=2", "device=cuda"), RunDirectory(tmp_path)) == "done"
