"""An LSTM that answers after its last step: the recall task of LN 2016's statements on recurrent networks (3.1, 7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from normbench.models.base import Classifier, Sites
from normbench.rnn.layers import LSTM


class RecallLSTM(Classifier):
    """Softmax of a linear map of the last output h_T of one LSTM layer (LN 2016, eq. 20-22; bias b beside the terms).

    Sites: `lstm.input`, `lstm.hidden`, `lstm.cell`.
    Shapes: inputs (B, T, features), targets (B,) int64.
    """

    def __init__(self, features: int, hidden_size: int, forget_bias: float, classes: int, sites: Sites) -> None:
        super().__init__()
        self.lstm = LSTM(features, hidden_size, sites, "lstm", forget_bias=forget_bias)
        self.logits = nn.Linear(hidden_size, classes)

    def predict(self, inputs: Tensor) -> Tensor:
        """Logits (B, classes)."""
        outputs, _ = self.lstm(inputs)
        return self.logits(outputs[:, -1])


def build(config: Mapping[str, Any], sites: Sites) -> RecallLSTM:
    model, data = config["model"], config["data"]["declares"]
    return RecallLSTM(data["features"], model["hidden_size"], model["forget_bias"], data["classes"], sites)
