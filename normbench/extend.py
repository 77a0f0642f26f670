"""What normalizers, models and data sets are made of: `from normbench.extend import Normalizer, normalizer`.

These names stay where they are; the modules behind them may change. Errors are `normbench.NormbenchError`.

| for | names |
| --- | --- |
| a normalizer | `Normalizer`, `WeightNormalizer`, `normalizer`, `Site`, `Variant`, `Product` |
| its arithmetic | `affine`, `gain_and_bias`, `root`, `wide`, `to_channels`, `from_channels`, `Averaging`, `average` |
| a model | `Model`, `Classifier`, `Sites`, `PerPlace`, `NormedLinear`, `NormedConv`, `build_norm`, `Embedding` |
| a recurrent one | `LSTM`, `GRU`, `RNN`, and their cells `LSTMCell`, `GRUCell`, `RNNCell`, each a `Cell`; `clipped` |
| its passes | `inference`; `epoch` in a training loop of one's own |
| a data set | `Dataset`, `Split`, `Ragged`, `Shared`, `Scale`; of words their numbers `END` and `UNKNOWN` |
| all of them | `Scalars` (`self.log`), `stream` (random numbers by seed and purpose) |

`LSTM`, `GRU` and `RNN` take the sites of a model. Those of `normbench` take a normalizer's name and need no model.
"""

from __future__ import annotations

from normbench.core.eval_variants import Variant
from normbench.core.streams import stream
from normbench.data import Dataset, Scale
from normbench.data.examples import Ragged, Shared, Split
from normbench.data.words import END, UNKNOWN
from normbench.library.norms import epoch
from normbench.models.base import Classifier, Model, PerPlace, Sites
from normbench.norms.base import (
    Normalizer,
    Product,
    WeightNormalizer,
    affine,
    from_channels,
    gain_and_bias,
    normalizer,
    root,
    to_channels,
    wide,
)
from normbench.norms.base import build as build_norm
from normbench.norms.derivatives import clipped
from normbench.norms.layers import NormedConv, NormedLinear
from normbench.norms.modes import inference
from normbench.norms.running import Averaging, average
from normbench.norms.scalars import Scalars
from normbench.norms.sites import Site
from normbench.rnn.cells import Cell, GRUCell, LSTMCell, RNNCell
from normbench.rnn.embedding import Embedding
from normbench.rnn.layers import GRU, LSTM, RNN

__all__ = [
    "END",
    "GRU",
    "LSTM",
    "RNN",
    "UNKNOWN",
    "Averaging",
    "Cell",
    "Classifier",
    "Dataset",
    "Embedding",
    "GRUCell",
    "LSTMCell",
    "Model",
    "Normalizer",
    "NormedConv",
    "NormedLinear",
    "PerPlace",
    "Product",
    "RNNCell",
    "Ragged",
    "Scalars",
    "Scale",
    "Shared",
    "Site",
    "Sites",
    "Split",
    "Variant",
    "WeightNormalizer",
    "affine",
    "average",
    "build_norm",
    "clipped",
    "epoch",
    "from_channels",
    "gain_and_bias",
    "inference",
    "normalizer",
    "root",
    "stream",
    "to_channels",
    "wide",
]
