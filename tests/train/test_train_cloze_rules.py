"""Rules for cloze questions: by hand, on made-up questions, and as a run."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from normbench.config.plan import train_specs
from normbench.data.cloze import BLANK, ENTITY
from normbench.data.examples import Ragged, Split
from normbench.data.words import UNKNOWN
from normbench.errors import NormbenchError
from normbench.papers.ln2016.probes import cloze_rules
from normbench.train import probes

A, B, C = ENTITY, ENTITY + 1, ENTITY + 2
SAW, MET, RAN, STOP = 20, 21, 22, 23


def part(*questions: tuple[list[int], list[int], int]) -> Split:
    document, question, answer = zip(*questions, strict=True)
    texts = {name: Ragged.of(map(torch.tensor, rows)) for name, rows in (("d", document), ("q", question))}
    return Split(document=texts["d"], question=texts["q"], answer=torch.tensor(answer))


def test_counting_by_hand() -> None:
    # A twice, B twice, C once; the question has B.
    text = [A, SAW, B, STOP, C, MET, B, STOP, A, RAN]
    found = cloze_rules.rates(part((text, [BLANK, RAN, B], A), (text, [BLANK, RAN, RAN], C)), 3)
    assert found["random"] == pytest.approx(1 / 3) and found["frequent"] == pytest.approx((1 / 2 + 0) / 2)
    assert found["not_in_question"] == pytest.approx((1 + 0) / 2)
    assert (found["answerable"], found["candidates"], found["count"]) == (1, 3, 2)


def test_scores_by_hand() -> None:
    text, question = np.array([A, SAW, B, STOP, A, UNKNOWN, MET]), np.array([BLANK, UNKNOWN, SAW, MET])
    places, whose = np.array([0, 2, 4]), np.array([0, 1, 0])
    # UNKNOWN matches nothing and counts nowhere. Laid upon place 0, SAW should stand at 2 and is 1 off, MET at 3 and is
    # 3 off. Upon 2: SAW 3 off, MET 1. Upon 4: SAW 5, MET 1.
    distances = cloze_rules.RULES["distance"](text, question, places, whose, 2)
    assert distances.tolist() == [-(1 + 3), -(3 + 1)]
    # Under the question laid upon 0 lies SAW, upon 2 none but UNKNOWN, upon 4 MET; each of them is there once.
    windows = cloze_rules.RULES["window"](text, question, places, whose, 2)
    assert windows.tolist() == pytest.approx([np.log(2), 0])


def test_documents_without_the_answer_or_any_entity() -> None:
    found = cloze_rules.rates(part(([A, SAW], [BLANK, SAW], B), ([SAW], [BLANK], A)), 3)
    assert {found[name] for name in ("random", "frequent", "not_in_question", "distance", "window")} == {0.0}
    assert found["answerable"] == 0 and found["candidates"] == 0.5
    # All entities of the document are in the question: then all are scored.
    found = cloze_rules.rates(part(([A, SAW], [BLANK, A], A)), 3)
    assert found["not_in_question"] == found["distance"] == 1


def test_a_run_has_a_record_for_each_held_out_part() -> None:
    (spec,) = train_specs(["model=cloze_rules"], False)
    records = {record["split"]: record for record in probes.compute(spec)}
    assert set(records) == {"valid", "test"}
    for record in records.values():
        assert record["count"] == 200 and record["answerable"] == 1
        # A reader is needed no more than the words of one sentence: counting entities does not do.
        assert record["random"] < record["frequent"] < 0.6 < 0.9 < record["window"]
    with pytest.raises(NormbenchError, match="model=cloze_rules reads inputs of document x question, data=digits has"):
        train_specs(["model=cloze_rules", "data=digits"], False)
