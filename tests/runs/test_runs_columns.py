"""Records as columns are the records."""

from __future__ import annotations

import itertools
import json
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from normbench.runs.columns import Columns

values = st.one_of(st.integers(), st.floats(allow_nan=False), st.sampled_from(["NaN", "eval"]), st.booleans())
keys = st.sampled_from(["step", "epoch", "nll", "split", "mode", "order"])
variants = st.dictionaries(st.sampled_from("ab"), st.sampled_from(["x", 1, 1.0]), max_size=2)
records = st.lists(
    st.builds(lambda r, v: r | ({"variant": v} if v else {}), st.dictionaries(keys, values, min_size=1), variants),
    max_size=12,
)


@given(records, records)
@example([], [{"step": 0}, {"split": 0}, {"split": 0.0}])
@settings(max_examples=40, deadline=None)
def test_columns_are_the_records(first: list[dict[str, Any]], more: list[dict[str, Any]]) -> None:
    columns = Columns(first)
    longer = columns.followed_by(more)
    for made, wanted in ((columns, first), (longer, first + more)):
        assert [json.dumps(r) for r in made] == [json.dumps(r) for r in wanted], "values, types and order of keys"
        assert [made[i] for i in range(len(made))] == wanted == made[:] and made == wanted
        assert {*map(str, made.kinds())} <= {*map(str, wanted)}
        for variant, keys in itertools.product([{}, {"a": "x"}], [("step", "nll"), ("nll",)]):
            found = made.values("eval", ("eval", "NaN"), variant, keys, {"order"})
            told = (
                tuple(record[key] for key in keys)
                for record in wanted
                if (record.get("split"), record.get("variant", {})) == ("eval", variant)
                and record.get("mode") in ("eval", "NaN")
                and record.keys() >= set(keys)
                and "order" not in record
            )
            assert sorted(map(str, found)) == sorted(map(str, told))
    assert columns != [*first, {}]
