"""From runs to verdicts: every claim of an artifact judged by the rules that were fixed before the runs."""

from __future__ import annotations

import json
import math
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from normbench.config import FIDELITIES
from normbench.core import keys
from normbench.errors import BadInput
from normbench.papers import describe, rules
from normbench.papers.artifact import Plan, again
from normbench.papers.claims import Amendment, Artifact, Claim
from normbench.papers.decide import Evidence, Examples, Verdict
from normbench.papers.suggested_runs import suggested_runs
from normbench.runs import files
from normbench.runs.run import Run

SCHEMA = 5


@dataclass(frozen=True)
class Verdicts:
    """The content of verdicts.json."""

    schema: int
    sha256: str  # the seal: of all else
    pack_sha256: str  # of the pack that was judged
    contrasts_sha256: str  # of the effects by test example, "" without any
    artifact: str
    fidelity: str
    command: str  # that makes the runs
    deviations: tuple[str, ...]  # of the runs from the paper
    claims_sha256: str
    amendments: tuple[Amendment, ...]
    note: str  # what is irregular
    expected_wrong: float  # at most so many words at the paper's setting are wrong by chance
    claims: tuple[Verdict, ...]
    samples_sha256: str | None = None  # of the samples, if there are any

    def control_commands(self, claim: Verdict) -> dict[str, str]:
        """By control of a claim the command that makes its runs alone."""
        command = self.command.removesuffix(" --controls")
        names = [control.name for control in claim.controls]
        return {name: f"{command} {shlex.join(['--only', claim.id, '--control', name])}" for name in names}


def judge(
    plan: Plan,
    runs: Sequence[Run],
    previous: Verdicts | None,
    examples: Examples = lambda part, control, seeds: None,
) -> Verdicts:
    """The content of verdicts.json for runs at the plan's fidelity; `previous`: the last, of this artifact.

    `examples` gives the spread over test examples where the runs stored their outcomes. `expected_wrong` is the sum of
    the levels spent by looks at statistical claims, those before an amendment too: an upper bound of the number of
    verdicts wrong by chance. Numbers are rounded to 6 digits, missing ones are None, and neither the order of the runs
    nor the clock changes a byte.
    Raises NormbenchError for two runs of one seed in a cell.
    """
    artifact, fidelity = plan.artifact, plan.fidelity
    claims = tuple(_entry(claim, plan, runs, examples) for claim in artifact.claims)
    of_fidelity = artifact.deviations.get(fidelity, ()) if fidelity != "paper" else ()
    controls = " --controls" if any(run.control for run in runs) else ""
    return Verdicts(
        schema=SCHEMA,
        sha256="",
        pack_sha256="",
        contrasts_sha256="",
        artifact=artifact.id,
        fidelity=fidelity,
        command=f"{artifact.command} --fidelity {fidelity}{controls}",
        deviations=(*artifact.deviations.get("paper", ()), *of_fidelity, *_data_deviations(runs)),
        claims_sha256=artifact.claims_sha256,
        amendments=artifact.amendments,
        note=_describe_note(artifact, previous),
        expected_wrong=_json_rounded(math.fsum(claim.spent for claim in claims)),
        claims=claims,
    )


def _entry(claim: Claim, plan: Plan, runs: Sequence[Run], examples: Examples) -> Verdict:
    """From the runs of a claim to its entry: what is decided, the runs that would decide what is open, the answer."""
    decided = Evidence(claim, plan, runs, examples).verdict()
    entry: Verdict = keys.read(Verdict, _json_rounded(keys.plain(decided)))
    return replace(entry, suggestion=suggested_runs(claim, entry, runs, plan), answer=describe.answer(entry))


def once(published: Iterable[Verdicts]) -> dict[tuple[str, str], tuple[str, Verdict]]:
    """Each claim once, by artifact and id: the fidelity that counts, and the claim as judged there.

    That is the highest at which it is tested, else the highest.
    """
    counted: dict[tuple[str, str], tuple[str, Verdict]] = {}
    for verdicts in sorted(published, key=lambda verdicts: FIDELITIES.index(verdicts.fidelity)):
        for claim in verdicts.claims:
            key = verdicts.artifact, claim.id
            if key not in counted or (counted[key][1].word == rules.UNTESTED != claim.word):
                counted[key] = verdicts.fidelity, claim
    return counted


def sealed(content: Verdicts, pack_sha256: str, contrasts_sha256: str = "", samples_sha256: str = "") -> Verdicts:
    """Verdicts with the hashes of what they were judged on ("": none), where models drew some with that of the samples,
    and with `sha256`, the seal over all else.
    """
    whole = replace(
        content,
        pack_sha256=pack_sha256,
        contrasts_sha256=contrasts_sha256,
        samples_sha256=samples_sha256 or content.samples_sha256,
    )
    return replace(whole, sha256=_seal(keys.plain(whole)))


def _seal(content: Mapping[str, Any]) -> str:
    return files.seal({key: value for key, value in content.items() if key != "sha256"})


def restored(content: Any, path: Path) -> Verdicts:
    """The verdicts of a file's content. NormbenchError with the way out for another schema; else ValueError where it is
    not what was written.
    """
    if not isinstance(content, dict) or type(schema := content.get("schema")) is not int:
        raise ValueError("it has no schema")
    if schema != SCHEMA:
        place, fidelity = path.parent.parent, path.parent.name
        command = again(f"{place.parent.name}/{place.name}", fidelity)
        way_out = f". Restore it (git checkout), or delete it and judge again: {command}"
        if schema > SCHEMA:
            way_out = ": update normbench."
        raise BadInput(f"{path} has schema {schema}, this version reads {SCHEMA}{way_out}")
    if content.get("sha256") != _seal(content):
        raise ValueError("its seal, sha256, does not fit its content")
    verdicts: Verdicts = keys.read(Verdicts, content)
    return verdicts


def as_file(content: Verdicts) -> bytes:
    """The content of verdicts.json."""
    return (json.dumps(keys.plain(content), indent=1, ensure_ascii=False) + "\n").encode()


def _data_deviations(runs: Sequence[Run]) -> list[str]:
    """The deviations of the runs' copies of the data from the official set, as the runs recorded them."""
    read: Counter[str] = Counter()
    for run in runs:
        copies = [run.environment, *(resumed.get("changed", {}) for resumed in run.environment.get("resumed", []))]
        read.update({line for copy in copies for line in copy.get("data", {}).get("deviations", [])})
    return [line if n == len(runs) else f"{line}, in {n} of {len(runs)} runs" for line, n in sorted(read.items())]


def _describe_note(artifact: Artifact, previous: Verdicts | None) -> str:
    if previous is None or len(artifact.amendments) > len(previous.amendments):
        return ""
    # Once written, the note stays until the change is accounted for: the next verdicts carry the new hash.
    changed = previous.claims_sha256 != artifact.claims_sha256
    return "claims changed without an amendment" if changed else previous.note


def _json_rounded(value: Any) -> Any:
    """JSON types only; six digits, so that another scipy's last digit does not change a published file."""
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _json_rounded(entry) for key, entry in value.items()}
    return [_json_rounded(entry) for entry in value] if isinstance(value, list | tuple) else value
