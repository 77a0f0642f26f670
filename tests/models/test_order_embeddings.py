"""Order embeddings: loss, gradients and ranks against their definitions, written down in float64."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from smallest import batches, built, small
from torch import Tensor

from normbench.core.streams import stream
from normbench.data.words import END
from normbench.models import base as models
from normbench.models import retrieval
from normbench.runs import directory
from normbench.runs.table import Runs
from normbench.train.train_one import ensure_run


def violation(s: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.array([[sum(max(0.0, a - b) ** 2 for a, b in zip(x, y, strict=True)) for y in v] for x in s])


def points(*shape: int, seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).random(shape))


@pytest.mark.parametrize("pairs", [1, 8, retrieval.PAIRS])
@pytest.mark.parametrize("captions", [1, 6, 7])
def test_the_order_violation_is_its_definition(captions: int, pairs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrieval, "PAIRS", pairs)
    s, v = points(captions, 6).requires_grad_(), points(4, 6, seed=1).requires_grad_()
    errors = retrieval.order_violation(s, v)
    np.testing.assert_allclose(errors.detach(), violation(s.detach().numpy(), v.detach().numpy()), rtol=1e-12)
    assert torch.autograd.gradcheck(retrieval.order_violation, (s, v))
    assert torch.autograd.gradgradcheck(retrieval.order_violation, (s, v))


def test_the_loss_sums_over_wrong_pairs_both_ways() -> None:
    errors = points(5, 5).requires_grad_()
    e = errors.detach().numpy()
    wanted = sum(
        max(0, 0.05 - e[i, j] + e[i, i]) + max(0, 0.05 - e[j, i] + e[i, i])
        for i in range(5) for j in range(5) if i != j
    )  # fmt: skip
    assert retrieval.contrastive(errors, 0.05).item() == pytest.approx(wanted, rel=1e-12)
    assert retrieval.contrastive(torch.eye(3) * -1, 0.05) == 0, "true pairs are nearer than all others by the margin"


def test_ranks_are_those_of_a_stable_sort() -> None:
    """Equal errors in the order of the set; an image's rank is that of the best of its captions."""
    errors = torch.from_numpy(np.random.default_rng(0).integers(0, 4, (12, 6)).astype(float))
    by_caption, by_image = retrieval.ranks(errors, 2)
    for caption, row in enumerate(errors.numpy()):
        assert by_caption[caption // 2, caption % 2] == list(np.argsort(row, kind="stable")).index(caption // 2)
    for image, column in enumerate(errors.numpy().T):
        order = list(np.argsort(column, kind="stable"))
        assert by_image[image] == min(order.index(2 * image), order.index(2 * image + 1))
    found = retrieval.measures(by_caption, by_image)
    assert found["image_rank"].mean() == pytest.approx(by_caption.double().mean().item() + 1)
    assert found["caption_r5"].tolist() == (by_image < 5).double().tolist()
    assert retrieval.medians(torch.tensor([[0, 1]]), torch.tensor([2])) == {"image_median": 1.0, "caption_median": 3.0}


def test_folds_are_ranked_among_themselves() -> None:
    image, texts = points(5, 4), points(5, 2, 4, seed=1)
    each, medians = retrieval.in_folds(image, texts, 3, retrieval.order_violation)
    parts = [retrieval.in_folds(image[a:b], texts[a:b], 9, retrieval.order_violation) for a, b in ((0, 3), (3, 5))]
    for name, values in each.items():
        assert torch.equal(values, torch.cat([part[0][name] for part in parts]))
    assert all(medians[name] == sum(part[1][name] for part in parts) / 2 for name in medians)


def test_the_network_is_the_one_of_section_6_1() -> None:
    """Step by step with the authors' names, by copied weights: LN(x W + b), r after the product, u keeps the old."""
    spec = small("order_embeddings", "norm=layer")
    network = built(spec).double()
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.linspace(-0.2, 0.3, parameter.numel(), dtype=torch.float64))
    p = {name.removeprefix("gru.cells.0."): value.detach() for name, value in network.named_parameters()}
    batch = {name: t[:6] for name, t in batches(spec, 1)[0].items()}
    batch["image"] = batch["image"].double()
    size = p["weight_hh"].shape[1]

    def ln(x: Tensor, name: str) -> Tensor:
        gain, bias = p[f"norms.{name}.gain"], p[f"norms.{name}.bias"]
        return gain * (x - x.mean()) / (x.var(correction=0) + 1e-5).sqrt() + bias

    def sentence(words: list[int]) -> Tensor:
        h = torch.zeros(size, dtype=torch.float64)
        for word in words:
            x = p["weight_ih"] @ p["embedding.weight"][word] + p["bias"]
            z = p["weight_hh"] @ h
            gates = ln(z[: 2 * size], "hidden_gates") + ln(x[: 2 * size], "input_gates")
            u, r = gates.sigmoid().chunk(2)
            n = (ln(z[2 * size :], "hidden_candidate") * r + ln(x[2 * size :], "input_candidate")).tanh()
            h = u * h + (1 - u) * n
        return (h / h.norm()).abs()

    texts = []
    for row, mask in zip(batch["captions"], batch["captions_mask"], strict=True):
        words = row[mask].tolist()
        ends = [i for i, word in enumerate(words) if word == END]
        texts.append([words[a:b] for a, b in zip([0, *(e + 1 for e in ends)], [e + 1 for e in ends], strict=False)])
    v = batch["image"] @ p["image.weight"].T + p["image.bias"]
    v = (v / v.norm(dim=1, keepdim=True)).abs()
    collected = network.collect(**batch)
    torch.testing.assert_close(collected["image"], v, rtol=1e-10, atol=1e-12)
    s = torch.stack([torch.stack([sentence(words) for words in image]) for image in texts])
    torch.testing.assert_close(collected["captions"], s, rtol=1e-10, atol=1e-12)
    with models.update(network, 1, 4):
        draw = network.draws("caption")
        assert draw is not None
        chosen = draw.integers(0, 5, 6)
        loss = network(**batch)
    examples = range(20, 26)
    with models.evaluating(network, models.Noise(1, "train", examples)):
        gathered = network(**batch)  # a pass for statistics: of any of an image's captions
    own = [stream(1, "evaluation", "train", i, 0, "caption").integers(5) for i in examples]
    assert len(set(own)) > 1
    for found, of_image in ((loss, chosen), (gathered, own)):
        errors = torch.from_numpy(violation(s[range(6), of_image].numpy(), v.numpy()))
        torch.testing.assert_close(found.detach(), retrieval.contrastive(errors, 0.05), rtol=1e-10, atol=0)
    shares = network.whole("valid", collected)
    assert shares["image_rsum"] == pytest.approx(sum(float(shares[f"image_r{k}"].mean()) for k in (1, 5, 10)))


def test_vectors_that_are_no_numbers_have_no_ranks_and_the_run_has_diverged(tmp_path: Path) -> None:
    """No distance is smaller than NaN: each image would be found first."""
    spec = small("order_embeddings", "optim.lr=1e38", "train.steps=1", "train.keep=[best,last]")
    run = directory.RunDirectory(directory.place(tmp_path / "runs", spec))
    assert ensure_run(spec, run) == "diverged"
    records = [json.loads(line) for line in run.curve.read_text().splitlines()]
    assert {record["image_rsum"] for record in records if record["step"] and record["mode"] == "eval"} == {"NaN"}
    assert {path.stem for path in (run.path / "weights").iterdir()} == {"last"}, "it was the best of nothing"
    found = Runs(tmp_path)
    assert found.state(spec) == "diverged"
    assert [one.reason for one in found.find([spec])] == ["after step 1: valid image_r1 is no finite number"]
