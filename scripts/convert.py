"""Write published results as this version has them: whole configurations, and the ids of `normbench.config.identity`.

    python scripts/convert.py RESULTS OUT        OUT: a new folder; RESULTS stays as it is
    python scripts/convert.py --text FILE ...    ids in help texts and tests, in place, by the ids.json of RESULTS

It is run once. The functions above `main` read and write no files.
"""

from __future__ import annotations

import functools
import gzip
import json
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from normbench import reading
from normbench.config import compose, grammar, identity
from normbench.papers import sample_archive, verdicts
from normbench.runs import files, pack
from normbench.runs.curve import Curve
from normbench.runs.record import RunRecord
from normbench.stored import OWN, RUN_GROUPS

RETIRED = ("also_eval_stats", "also_populations", "keep_checkpoint", "scaler")  # all at the one value that was left
ID = re.compile(r"(?<![0-9a-f])[0-9a-f]{12}(?![0-9a-f])")


def converted(config: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """A stored configuration written out whole, as it was meant, and the id of its run.

    What a configuration lacks meant the default that its component has today: every `legacy_default` was that.
    """
    config = {"device": "cpu", **config}
    parts = {part: {**compose.root_defaults(part), **config.get(part, {})} for part in grammar.PARTS}
    if "outcomes" not in config.get("eval", {}):
        parts["eval"]["outcomes"] = False  # such a run kept none
    groups = {group: _whole(group, config.get(group, {"name": "none"})) for group in RUN_GROUPS}
    whole = {"seed": config["seed"], "device": config["device"], **_without_retired(parts), **groups}
    restored = compose.restore(whole)
    stored = compose.stored_form(restored) | {key: config[key] for key in (OWN,) if key in config}
    return stored, identity.hashed({**_maths(json.dumps({**whole, "seed": 0})), "seed": config["seed"]})


def _whole(group: str, node: Mapping[str, Any]) -> dict[str, Any]:
    name = str(node["name"])
    return {"name": name, **compose.defaults(group, name), **_without_retired(node)}


def _without_retired(node: Any) -> Any:
    if not isinstance(node, Mapping):
        return node
    return {key: _without_retired(value) for key, value in node.items() if key not in RETIRED}


@functools.cache  # of runs that differ in their seeds alone
def _maths(whole: str) -> Mapping[str, Any]:
    config = compose.restore(json.loads(whole))
    return identity.maths(config, identity.assign(config))


def convert_ids(value: Any, ids: Mapping[str, str]) -> Any:
    """The same with the new ids: verdicts.json has them in `runs` of parts, and sorted in those of claims and of parts
    with computed numbers."""
    if isinstance(value, list):
        return [convert_ids(inner, ids) for inner in value]
    if not isinstance(value, Mapping):
        return ids.get(value, value) if isinstance(value, str) else value
    found = {key: convert_ids(inner, ids) for key, inner in value.items()}
    if "runs" in found and ("parts" in found or found["kind"] == "exact"):
        found["runs"] = sorted(found["runs"])
    return found


def convert_samples(archive: sample_archive.SampleArchive, ids: Mapping[str, str]) -> sample_archive.SampleArchive:
    """samples.zip, whose folders are named by id."""
    if not archive.runs:
        return archive
    runs = {ids[old]: samples for old, samples in archive.runs.items()}
    return sample_archive.SampleArchive(runs, sample_archive._packed(runs))


def convert_text(text: str, ids: Mapping[str, str]) -> str:
    """Help texts, tests: whole ids as words."""
    return ID.sub(lambda match: ids.get(match[0], match[0]), text)


def convert_results(results: Path, out: Path) -> dict[str, str]:
    """All of a results folder; returns the new ids by the old ones. A run keeps its records, as a set."""
    shutil.copytree(results, out)
    packs = {}
    ids: dict[str, str] = {}
    for path in pack.published(out):
        head, *lines = gzip.decompress(path.read_bytes()).splitlines()
        began = json.loads(head).get("began", {})
        packs[path] = [convert_run(reading.decode(line), began) for line in lines]
        ids |= {run.earlier_id: run.id for run in packs[path]}
    if len({*ids.values()}) != len(ids):
        raise ValueError("two runs have one id")
    for path, runs in packs.items():
        pack.write(path, runs)
        archive = convert_samples(sample_archive.load(path.with_name(sample_archive.NAME)), ids)
        if archive.content:
            files.atomic_write(path.with_name(sample_archive.NAME), archive.content)
        judged_at = path.with_name("verdicts.json")
        judged = convert_ids(json.loads(judged_at.read_bytes()), ids)
        hashes = pack.read(path).sha256, judged["contrasts_sha256"], archive.sha256
        files.atomic_write(judged_at, verdicts.as_file(verdicts.sealed(judged, *hashes)))
    return ids


def convert_run(line: Mapping[str, Any], began: Mapping[str, str]) -> RunRecord:
    """A run of a line of schema 2."""
    curve = Curve(line["records"])
    if sorted(map(files.line, curve)) != sorted(map(files.line, line["records"])):
        raise ValueError(f"run {line['id']}: other records")
    fields = {key: line[key] for key in pack.KINDS.keys() & line.keys()}
    run = RunRecord(**fields, records=curve, began=began.get(line["id"], ""))
    config, new = converted(run.config)
    return replace(run, id=new, earlier_id=run.id, config=config)


def main(arguments: list[str]) -> None:
    if arguments[0] == "--text":
        ids = json.loads(Path("ids.json").read_text())
        for path in map(Path, arguments[1:]):
            path.write_text(convert_text(path.read_text(), ids))
        return
    ids = convert_results(Path(arguments[0]), Path(arguments[1]))
    Path("ids.json").write_text(json.dumps(ids, indent=0))
    print(f"{len(ids)} ids")


if __name__ == "__main__":
    main(sys.argv[1:])
