"""The table of all runs, and what a reader says of them: beside the runs, and by the dashboard's own pages alone."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import compared
import fake
import pytest
from starlette.testclient import TestClient

from normbench.errors import NormbenchError
from normbench.runs import pack
from normbench.runs.run import Run
from normbench.web import runs_table, server
from normbench.web.index import Index
from normbench.web.marks import Marks
from normbench.web.server import LARGEST

TOKEN = "the-token"
ORIGIN = {"Origin": "http://localhost:8642"}


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return [replace(run, id=f"{0xABC000 + i:012x}") for i, run in enumerate(compared.runs(seeds=3))]


@pytest.fixture
def index(runs: list[Run], tmp_path: Path) -> Index:
    """Published runs and two directories of other ones."""
    place = tmp_path / "made" / "up" / "paper"
    place.mkdir(parents=True)
    pack.write(place / pack.NAME, runs)
    for spec in fake.specs(2):
        fake.directory(tmp_path / "runs", spec)
    index = Index(tmp_path)
    index.refresh()
    return index


@pytest.fixture
def client(index: Index) -> TestClient:
    client = TestClient(server.app(index, TOKEN), "http://localhost:8642", raise_server_exceptions=False)
    client.get(f"/?token={TOKEN}")
    return client


def asked(client: TestClient, filter: str = "") -> dict[str, Any]:
    found = client.get("/api/runs", params={"filter": filter}).json()
    return {**found, "by": {column["key"]: column["values"] for column in found["columns"]}}


def hide(client: TestClient, ids: list[str], hidden: object = True) -> int:
    return client.post("/api/mark", json={"ids": ids, "hidden": hidden}, headers=ORIGIN).status_code


# --- the table -------------------------------------------------------------------------------------------------------


def test_a_row_has_what_differs_and_the_last_evaluation(client: TestClient, runs: list[Run], index: Index):
    found = asked(client)
    assert len(found["ids"]) == len(runs) + 2 == found["of"] and not found["trouble"]
    assert all(len(values) == len(found["ids"]) for values in found["by"].values())
    for run in runs:
        place = found["ids"].index(run.id)
        assert found["by"]["norm"][place] == run.config["norm"]["name"] and found["by"]["seed"][place] == run.seed
        last = next(record for record in reversed([*run.records]) if record["split"] == "valid")
        assert found["by"]["valid.nll"][place] == last["nll"]
    assert found["main"] == "valid.nll" and found["shown"][:2] == ["status", "valid.nll"]
    assert {"norm", "seed"} <= {*found["shown"]} and "valid.nll" not in found["rising"]
    outline = client.get("/api/runs", params={"outline": 1}).json()
    assert outline["ids"] == found["ids"]


def test_the_end_of_a_raw_curve_is_that_of_the_whole_one(index: Index):
    """Also where its last lines have no evaluation, and as it grows."""
    (head, other) = [run for run in index.heads if run.path.is_dir()]
    before = index.ends()[head.id]
    whole = index.load([head.id])[head.id].records
    splits = {f"{record['split']}.nll": record["nll"] for record in whole if record["mode"] in ("eval", "both")}
    assert splits and all(before[key] == value for key, value in splits.items())
    curve = other.path / "curve.jsonl"
    running = {"epoch": 9, "step": 9000, "split": "train", "mode": "train", "nll": 7.0}
    curve.write_bytes(curve.read_bytes() + (json.dumps(running) + "\n").encode() * 200 + b"{torn")
    index.refresh()
    assert index.ends()[other.id] == before
    curve.write_bytes(b"{}\n")
    index.refresh()
    assert index.ends()[other.id] == {}


@pytest.mark.parametrize(
    ("filter", "count"),
    [("norm!=none", 6), ("-seed=3 norm=layer", 2), ("valid.nll<1e9 -seed>1", 3), ("lr<1", 11), ("hidden=false", 11)],
)
def test_one_rule_of_filters_with_metrics_and_marks_as_keys(filter: str, count: int, client: TestClient):
    found = asked(client, filter)
    assert (len(found["ids"]), found["trouble"]) == (count, "")


def test_a_filter_that_fits_nothing_says_why_and_lists_all(client: TestClient):
    found = asked(client, "nrm=layer")
    assert "nrm=layer" in found["trouble"] and len(found["ids"]) == 11


def test_runs_of_several_data_sets_are_grouped_by_them(runs: list[Run]):
    others = [replace(run, id=f"x{run.id[1:]}", config={**run.config, "data": {"name": "mnist"}}) for run in runs]
    assert runs_table.table([*runs, *others], {}, set(), "")["group"] == "data"
    assert runs_table.table(runs, {}, set(), "")["group"] == ""


# --- marks -----------------------------------------------------------------------------------------------------------


def _hashes(results: Path) -> dict[str, str]:
    files = [path for path in sorted(results.rglob("*")) if path.is_file() and path.name != "marks.json"]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_hidden_runs_are_kept_beside_the_runs_and_found_by_filters(client: TestClient, runs: list[Run], index: Index):
    first, second = runs[0].id, runs[1].id
    before = _hashes(index.results)
    assert hide(client, [first, second, "no-such-run"]) == 200
    assert {*asked(client, "hidden=true")["ids"]} == {first, second} and "hidden" in asked(client)["shown"]
    assert len(asked(client, "-hidden=true")["ids"]) == 9
    assert hide(client, [second], False) == 200 and Marks(index.results).hidden() == {first}
    assert _hashes(index.results) == before


def test_hidden_runs_are_in_no_comparison_which_says_so(client: TestClient, runs: list[Run]):
    def seen() -> set[str]:
        return {seed["id"] for cell in client.get("/api/view").json()["cells"] for seed in cell["seeds"]}

    task = seen()
    first, second, *_ = sorted(task & {run.id for run in runs})
    assert hide(client, [first, second]) == 200
    assert seen() == task - {first, second}
    content = client.get("/api/view").json()
    assert content["runs"]["hidden"] == 2 and any("2 hidden runs" in note for note in content["notes"])
    assert "2 hidden runs" in client.get("/api/share").text
    counts = [int(row["n"]) for row in csv.DictReader(io.StringIO(client.get("/api/table?form=csv").text))]
    assert sum(counts) == len(task) - 2


def test_an_event_tells_other_pages_of_a_mark(client: TestClient, runs: list[Run], index: Index):
    token = index.token
    hide(client, [runs[0].id])
    assert index.changed_since(token)[1] == [runs[0].id]


@pytest.mark.parametrize("hidden", [1, "true", None, [True]])
def test_what_is_no_mark_is_refused(hidden: object, client: TestClient, runs: list[Run], index: Index):
    assert hide(client, [runs[0].id], hidden) == 400
    assert Marks(index.results).hidden() == set()


def test_a_mark_makes_no_results_folder(tmp_path: Path):
    with pytest.raises(NormbenchError, match="gone"):
        Marks(tmp_path / "gone").hide(["0123456789ab"], True)
    assert not (tmp_path / "gone").exists()


def test_marks_of_older_versions_are_read_and_stay(client: TestClient, runs: list[Run], index: Index):
    first, second = runs[0].id, runs[1].id
    path = index.results / "marks.json"
    old = {first: {"hidden": True, "tags": ["good"], "note": "look"}, second: {"archived": True}}
    path.write_text(json.dumps(old))
    assert asked(client, "hidden=true")["ids"] == [first] and second in asked(client)["ids"]
    assert hide(client, [first], False) == hide(client, [second]) == 200
    assert json.loads(path.read_text()) == {
        first: {"tags": ["good"], "note": "look"}, second: {"archived": True, "hidden": True},
    }  # fmt: skip


@pytest.mark.parametrize("says_its_length", [True, False])
def test_a_change_of_megabytes_is_refused(says_its_length: bool, client: TestClient, index: Index):
    body = b'{"ids": [' + b"1," * LARGEST + b'1], "hidden": true}'
    content = body if says_its_length else iter([body[: LARGEST // 2], body[LARGEST // 2 :]])
    assert client.post("/api/mark", content=content, headers=ORIGIN).status_code == 413
    assert Marks(index.results).hidden() == set()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"ids": 1, "hidden": true}',
        b'{"ids": [[]], "hidden": true}',
        b"\xff",
        b"[" * 10**5,
        b'{"ids": NaN}',
    ],
)
def test_what_is_no_change_is_refused(body: bytes, client: TestClient):
    assert client.post("/api/mark", content=body, headers=ORIGIN).status_code == 400


def test_only_the_dashboards_own_pages_write(client: TestClient, index: Index, runs: list[Run]):
    body = {"ids": [runs[0].id], "hidden": True}
    for origin in (None, "null", "http://evil.example", "http://localhost:1", "https://localhost:8642"):
        headers = {"Origin": origin} if origin else {}
        assert client.post("/api/mark", json=body, headers=headers).status_code == 403
    same_site = {**ORIGIN, "Sec-Fetch-Site": "same-site"}
    assert client.post("/api/mark", json=body, headers=same_site).status_code == 403
    stranger = TestClient(client.app, "http://localhost:8642")
    assert stranger.post("/api/mark", json=body, headers=ORIGIN).status_code == 403
    assert stranger.get("/runs").status_code == stranger.get("/api/runs").status_code == 403
    assert client.get("/api/mark").status_code == 405
    assert Marks(index.results).hidden() == set()


@pytest.mark.parametrize("content", ["{", "[]", '{"a": 1}'])
def test_a_damaged_file_of_marks_is_one_line_and_stays(content: str, client: TestClient, index: Index):
    path = index.results / "marks.json"
    path.write_text(content)
    with pytest.raises(NormbenchError) as error:
        Marks(index.results).hide(["abc"], True)
    assert "marks.json is damaged" in str(error.value)
    answer = client.get("/api/runs")
    assert answer.status_code == 400 and "marks.json is damaged" in answer.text
    assert path.read_text() == content
