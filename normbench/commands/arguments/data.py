"""`normbench data`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from normbench.errors import NormbenchError
from normbench.reading import place

EPILOG = """examples:
  normbench data                                        what is there
  normbench data get mnist                              bring it (checked, resumable)
  normbench data prepare coco --images ~/coco --weights vgg19.pth
                                                        features of your own copy of the images (resumable)

a set of your own in MNIST's format (Fashion-MNIST, KMNIST, EMNIST, ...): DIR/data/fashion.yaml with

  name: fashion
  valid: 5000                              # of the training images, the first ones
  declares:
    title: Fashion-MNIST
    source: Xiao et al. 2017
    like: mnist
    files:                                 # below NORMBENCH_DATA; behind each its md5 or sha256, if it is known
      fashion/train-images-idx3-ubyte.gz:
      fashion/train-labels-idx1-ubyte.gz:
      fashion/t10k-images-idx3-ubyte.gz:
      fashion/t10k-labels-idx1-ubyte.gz:
    # where they are not MNIST's: classes: 47, features: 784, sizes: {train: 112800, test: 18800}

  normbench data --config-dir DIR                                         is it there?
  normbench train --config-dir DIR model=mnist_mlp data=fashion norm=layer
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", choices=["get", "prepare"])
    parser.add_argument("set", nargs="?", metavar="set")
    parser.add_argument("--images", type=place, metavar="DIR", help="prepare: where the images lie")
    parser.add_argument("--weights", type=place, metavar="FILE", help="prepare: torchvision's weights of VGG-19")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"], help="prepare: cpu (the default) or cuda")


def run(given: Namespace, console: Any) -> int:
    from normbench.commands import list as list_command

    if given.action != "prepare":
        for option in ("images", "weights"):
            if getattr(given, option) is not None:
                raise NormbenchError(f"--{option} {getattr(given, option)} is an option of data prepare.")
    if given.action is None:
        return list_command.data_sets(console, given.config_dir)
    if given.set is None:
        example = {"get": "get mnist", "prepare": "prepare coco --images DIR --weights FILE"}[given.action]
        raise NormbenchError(f"data {given.action} needs a set, such as: normbench data {example}")
    if given.action == "prepare":
        return list_command.data_prepare(given.set, given.images, given.weights, given.device, console)
    return list_command.data_get(given.set, console, given.config_dir)
