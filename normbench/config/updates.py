"""Updates of an epoch and training examples of a configuration, computed without reading the data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from normbench.errors import BadInput
from normbench.norms.sites import Choice, declared, single_refused


def updates_per_epoch(config: Mapping[str, Any]) -> int:
    """Updates that go once through the training examples, computed without reading them."""
    train, size = config["train"], train_size(config)
    if train["sampler"] == "lengths_in_turn":
        if train["epochs"] or config["eval"]["unit"] == "epochs":
            raise BadInput(
                "train.sampler=lengths_in_turn: how many updates an epoch has is known with the data alone. "
                "Count in updates: train.steps=N eval.unit=updates eval.every=N."
            )
        return 1
    drop = train["drop_last"] and train["sampler"] != "infinite"
    return size // train["batch_size"] if drop else -(-size // train["batch_size"])


def train_size(config: Mapping[str, Any]) -> int:
    """How many training examples the configured data set leaves, computed without reading it."""
    rule = config["data"]["declares"]["train_size"]
    size = int(rule["of"]) - sum(config["data"][key] for key in rule["less"])
    if "times" in rule:
        size = round(size * config["data"][rule["times"]])
    if size < 1:
        options = (*rule["less"], rule.get("times"))
        values = "".join(f", data.{key}={value}" for key, value in config["data"].items() if key in options)
        raise BadInput(f"data={config['data']['name']} leaves no training examples: {rule['of']} in all{values}.")
    return size


def refuse_batches_of_one(
    config: Mapping[str, Any], chosen: Mapping[str, Choice], norm_node: Callable[[str], Mapping[str, Any]]
) -> None:
    """NormbenchError for a normalizer that would have one value per feature in a batch and does not permit that."""
    base = config["norm"]
    for path, site in declared(config).items():
        if (choice := chosen.get(path)) is None:
            continue
        node = base if choice.name == base["name"] else norm_node(choice.name)
        option = single_refused(node["declares"], site.axes, choice.options)
        batch, examples = config["train"]["batch_size"], train_size(config) if option else 0
        if option and (batch == 1 or examples % batch == 1):
            which = "batches" if batch == 1 else f"the last batch ({examples} examples in batches of {batch})"
            raise BadInput(
                f"{choice.name} at site '{path}' has one value per feature in {which}. "
                f"Choose another train.batch_size, or norm.{option}=true."
            )
