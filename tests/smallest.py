"""Every model's smallest form on embedded data, and short ways to build it and to feed it."""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from normbench import data as datasets
from normbench.config import compose, identity
from normbench.config.plan import train_specs
from normbench.config.spec import Spec
from normbench.errors import NormbenchError
from normbench.models import base as models
from normbench.norms import patterns, sites

# A model's smallest form on embedded data; a new model needs its line here.
SMALL = {
    "mnist_mlp": ("data=digits", "model.hidden_sizes=[8,6]", "train.batch_size=100"),
    "lenet5": ("data=coloured_digits", "train.batch_size=20"),
    "convnet": ("data=coloured_digits", "model.width=4", "train.batch_size=20"),
    "convpool_cnn": ("data=coloured_digits", "model.width=4", "train.batch_size=20"),
    "recall_lstm": ("data.length=6", "model.hidden_size=8", "train.batch_size=50"),
    "pixel_lstm": ("data=sequential_digits", "model.hidden_size=8", "model.noise=0.1", "train.batch_size=50"),
    "order_embeddings": (*("data=made_captions", "model.word_size=6", "model.hidden_size=8", "train.batch_size=20"),),
    "imdb_rnn": (
        *("data=made_reviews", "data.length=12", "model.embedding_size=8", "model.hidden_size=8"),
        *("model.last_hidden_size=6", "model.dense_size=6", "train.batch_size=50"),
    ),
    "attentive_reader": (
        *("data=made_cloze", "data.length=12", "model.hidden_size=8", "train.batch_size=50", "optim.lr=4e-3"),
        "model.init=independent",  # gates that begin alike leave some groups without a spread but rounding
    ),
    "skip_thoughts": (
        *("data=made_triples", "model.word_size=6", "model.hidden_size=8", "train.batch_size=20", "optim.lr=2e-3"),
        "eval.tasks=[]",  # whose regressions take longer than all else
    ),
    "draw": (
        *("data=binarized_digits", "model.glimpses=3", "model.hidden_size=8", "model.latent_size=4"),
        *("model.write_size=3", "model.init=glorot_uniform", "train.batch_size=50"),
    ),
    "handwriting": (
        *("data=made_strokes", "data.points=20", "model.hidden_size=8", "model.gaussians=3", "model.mixtures=2"),
        "train.batch_size=20",
    ),
    "char_lm": (
        *("data=made_text", "data.length=8", "model.layers=2", "model.width=8", "model.heads=2", "train.batch_size=20"),
        "model.placement=peri",  # which has all sites
    ),
    "vit": (
        *("data=coloured_digits", "data.fraction=0.25", "model.patch=16", "model.layers=2", "model.width=8"),
        *("model.heads=2", "model.placement=peri", "train.batch_size=20"),
    ),
}
# With which it learns a batch by heart in a moment.
LEARNING = {
    "mnist_mlp": ("model.hidden_sizes=[32]", "optim.lr=0.02"),
    "lenet5": ("optim.lr=0.005",),
    "convnet": ("model.width=4", "optim.lr=0.01"),
    "convpool_cnn": ("model.width=8", "optim.lr=0.01"),
    "recall_lstm": ("model.hidden_size=32", "optim.lr=0.05"),
    "pixel_lstm": ("model.hidden_size=32", "model.init=glorot_uniform", "optim=adam", "optim.lr=0.03"),
    "order_embeddings": ("model.word_size=16", "model.hidden_size=48", "optim.lr=0.01"),
    "imdb_rnn": ("model.hidden_size=16", "model.last_hidden_size=16", "model.dense_size=16", "optim.lr=0.02"),
    "attentive_reader": ("model.hidden_size=16", "model.dropout=0", "optim.lr=0.05"),
    "skip_thoughts": (  # long first steps, as the code has them, are for clipped gradients
        *("model.word_size=32", "model.hidden_size=96", "optim.lr=0.04", "optim.bias_correction=standard"),
    ),
    "draw": (
        *("model.glimpses=8", "model.hidden_size=32", "model.latent_size=8", "model.write_size=4", "optim.lr=0.006"),
    ),
    "handwriting": ("model.hidden_size=24", "optim.lr=0.01"),
    "char_lm": ("model.width=32", "optim.lr=0.01"),
    "vit": ("model.width=32", "optim.lr=0.01"),
}
LEARNT = {  # less than this, where the least loss is not 0, or the loss is a sum
    "char_lm": 0.155,  # 0.135 is the entropy of these characters, given those before: several windows begin alike
    "convpool_cnn": 0.7,  # chance has 2.3; its logits are normalized, and their gains of 1 take long to grow
    "draw": 24.5,  # nats; the mean picture has 25.6
    "handwriting": 20,  # a density that stays the same has 57.8
    "pixel_lstm": 1.0,  # 150 updates through 64 steps; chance has 2.3
    ("pixel_lstm", "ada"): 1.5,  # 0.5 with AVX2, 1.01 with SSE
    ("pixel_lstm", "weight_standardization"): 2.0,
    "skip_thoughts": 10,  # nats of 20 triples, which have 315 words
}
BESIDE = {"weight_standardization": "layer"}  # it has no gain: its authors have another normalizer behind it
HEAVY = (
    *("recall_lstm", "imdb_rnn", "order_embeddings", "attentive_reader", "lenet5", "convnet", "convpool_cnn", "draw"),
    *("handwriting", "skip_thoughts", "pixel_lstm"),
)
NORMS = compose.choices("norm")
MODELS = [name for name in compose.choices("model") if not compose.is_probe(name)]


def small(model: str, *words: str) -> Spec:
    (spec,) = train_specs([f"model={model}", *SMALL[model], *words], False)
    return spec


def built(spec: Spec) -> models.Model:
    return models.build(spec.config, spec.sites)


def moved(network: models.Model) -> models.Model:
    """The same network in float64, every parameter away from where it began."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in network.double().parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, dtype=torch.float64))
    return network


def batches(spec: Spec, count: int) -> list[dict[str, Tensor]]:
    """What the model takes of rows in the set's own order, which does not depend on any generator."""
    split = training_part(spec.config["model"]["name"]).only(models.takes(built(spec)))
    size = spec.config["train"]["batch_size"]
    return [split.batch(slice(i, i + size)).tensors for i in range(0, min(count * size, len(split)), size)]


@functools.cache
def training_part(model: str) -> datasets.Split:
    return datasets.load(small(model).config["data"]).splits["train"]


@functools.cache
def usual(model: str, norm: str) -> tuple[str, ...]:
    """The words for a normalizer at the default sites; at all that it can serve, where those include others.

    Where it can serve none: those for no normalizer. One with another `BESIDE` it: at the layers where both can stand.
    """
    if other := BESIDE.get(norm):
        shared = [path for path in able(model, norm) if path in able(model, other)]
        places = patterns.prefixes(shared, sites.declared(_plain(model)))
        return (f"norm={norm}", f"norm.sites={{{','.join(f'{p}:{other},{p}.weight:{norm}' for p in places)}}}")
    try:
        small(model, f"norm={norm}")
    except NormbenchError:
        served = able(model, norm)
        return (f"norm={norm}", f"norm.sites=[{','.join(served)}]") if served else ("norm=none",)
    return (f"norm={norm}",)


@functools.cache
def able(model: str, norm: str) -> list[str]:
    """Sites of the model that the normalizer can serve."""
    config, node = _plain(model), compose.choice("norm", norm)
    found = []
    for path in sites.declared(config):
        try:
            identity.assign({**config, "norm": {**node, "sites": [path]}})
        except NormbenchError:
            continue
        found.append(path)
    return found


@functools.cache
def _plain(model: str) -> compose.Config:
    return small(model).config
