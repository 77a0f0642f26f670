"""`normbench data`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from normbench.errors import NormbenchError
from normbench.reading import place

EPILOG = """examples:
  normbench data                                        list the data sets and their state
  normbench data get mnist                              download it (checked, resumable)
  normbench data prepare coco --images ~/coco --weights vgg19.pth
                                                        compute features of your own images (resumable)

a set of your own in MNIST's format (Fashion-MNIST, KMNIST, EMNIST, ...): DIR/data/fashion.yaml with

  name: fashion
  valid: 5000                              # of the training images, the first ones
  declares:
    title: Fashion-MNIST
    source: Xiao et al. 2017
    like: mnist
    files:                                 # below NORMBENCH_DATA, each with its md5 or sha256, if you have it
      fashion/train-images-idx3-ubyte.gz:
      fashion/train-labels-idx1-ubyte.gz:
      fashion/t10k-images-idx3-ubyte.gz:
      fashion/t10k-labels-idx1-ubyte.gz:
    # where they are not MNIST's: classes: 47, features: 784, sizes: {train: 112800, test: 18800}

  normbench data --config-dir DIR                                         check that it is found
  normbench train --config-dir DIR model=mnist_mlp data=fashion norm=layer
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", choices=["get", "prepare"])
    parser.add_argument("set", nargs="?", metavar="set")
    parser.add_argument("--images", type=place, metavar="DIR", help="prepare: the folder of the images")
    parser.add_argument("--weights", type=place, metavar="FILE", help="prepare: torchvision's weights of VGG-19")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"], help="prepare: cpu (the default) or cuda")


def run(arguments: Namespace, console: Any) -> int:
    from normbench.commands import list as list_command

    if arguments.action != "prepare":
        for option in ("images", "weights"):
            if getattr(arguments, option) is not None:
                raise NormbenchError(f"--{option} {getattr(arguments, option)} is an option of data prepare.")
    if arguments.action is None:
        return list_command.data_sets(console, arguments.config_dir)
    if arguments.set is None:
        example = {"get": "get mnist", "prepare": "prepare coco --images DIR --weights FILE"}[arguments.action]
        raise NormbenchError(f"data {arguments.action} needs a set, such as: normbench data {example}")
    if arguments.action == "prepare":
        return list_command.data_prepare(arguments.set, arguments.images, arguments.weights, arguments.device, console)
    return list_command.data_get(arguments.set, console, arguments.config_dir)
