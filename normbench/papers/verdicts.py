"""From runs to verdicts: every claim of an artifact judged by the rules that were fixed before the runs.

A claim holds when all its parts hold with their whole interval (intersection–union test, Berger 1982) and is
contradicted when one part's whole interval lies on the other side. As any one of k parts may be that one, its interval
has the level 1 − 0.05/k there (Bonferroni), so that a true claim is contradicted by chance in 5 % of cases at most.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from normbench.curves.statistics import level_after_looks
from normbench.errors import NormbenchError, unknown
from normbench.papers.claims import FIDELITIES, Artifact, Claim, Part
from normbench.papers.parts import MIN_SEEDS, PartResult, evaluate, paired_runs
from normbench.runs import files
from normbench.runs.record import RunRecord

SCHEMA = 2  # 1 had no seal
Planned = Callable[[Part, str, Sequence[int] | None], int]
DECIDED = ("reproduced", "weaker than claimed", "contradicted", "consistent", "inconsistent")


def judge(
    artifact: Artifact,
    runs: Sequence[RunRecord],
    fidelity: str,
    previous: Mapping[str, Any] | None = None,
    planned: Planned = lambda part, control, seeds: MIN_SEEDS,
) -> dict[str, Any]:
    """The content of verdicts.json for runs of one fidelity; `previous`, the last such content, counts the looks.

    `planned` is the n of a part under a control setting, among the claim's own seeds where it has such, fixed in
    advance, below which nothing is decided.

    `expected_wrong` = 0.05 × the number of statistical (not exact) claims with the verdict reproduced, weaker than
    claimed, contradicted, consistent or inconsistent: so many are expected to be wrong by chance. Numbers are rounded
    to 6 digits, what does not exist is None, and neither the order of the runs nor the clock changes a byte.
    Raises NormbenchError for runs of another fidelity, two runs of one seed in a cell, or a malformed `previous`.
    """
    if fidelity not in FIDELITIES:
        raise unknown(f"fidelity {fidelity} does not exist.", fidelity, FIDELITIES)
    for run in runs:
        if run.fidelity != fidelity:
            raise NormbenchError(f"run {run.id} has fidelity {run.fidelity} and cannot be judged with {fidelity} runs.")
    looked = read_previous(previous, artifact.id, fidelity) if previous is not None else {}
    claims = [_judge_claim(claim, artifact, runs, fidelity, looked.get(claim.id), planned) for claim in artifact.claims]
    decided = [claim for claim in claims if claim["kind"] != "exact" and claim["verdict"].split(" (")[0] in DECIDED]
    own = artifact.deviations.get(fidelity, ()) if fidelity != "paper" else ()
    content = {
        "schema": SCHEMA,
        "artifact": artifact.id,
        "fidelity": fidelity,
        "command": f"normbench reproduce {artifact.id} --fidelity {fidelity}",
        "deviations": [*artifact.deviations.get("paper", ()), *own, *_of_copies(runs)],
        "claims_sha256": artifact.claims_sha256,
        "amendments": list(artifact.amendments),
        "note": _note(artifact, previous),
        "expected_wrong": 0.05 * len(decided),
        "claims": claims,
    }
    plain: dict[str, Any] = _plain(content)
    return plain


def sealed(content: Mapping[str, Any], pack_sha256: str) -> dict[str, Any]:
    """Verdicts with the hash of the pack they were judged on ("": none) and with `sha256`, the seal over all else."""
    whole = {**content, "schema": SCHEMA, "pack_sha256": pack_sha256}
    whole.pop("sha256", None)
    first = {"schema": SCHEMA, "sha256": files.seal(whole), "pack_sha256": pack_sha256}
    return first | {key: value for key, value in whole.items() if key not in first}


def check_seal(content: Mapping[str, Any], path: Path) -> None:
    """Refuse verdicts whose seal does not fit (ValueError); those of another form: NormbenchError with the way out."""
    schema = content.get("schema")
    if schema == 1 and "sha256" not in content:
        raise NormbenchError(f"{path} has no seal, it is of an older form. Seal it: python scripts/migrate_packs.py")
    if type(schema) is int and schema > SCHEMA:
        raise NormbenchError(f"{path} has schema {schema}, this version reads {SCHEMA}: update normbench.")
    if schema != SCHEMA:
        raise ValueError(f"it has schema {schema}")
    if content.get("sha256") != files.seal({key: value for key, value in content.items() if key != "sha256"}):
        raise ValueError("its seal, sha256, does not fit its content")


def as_file(content: Mapping[str, Any]) -> bytes:
    """The content of verdicts.json."""
    return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()


def _of_copies(runs: Sequence[RunRecord]) -> list[str]:
    """In what the copies of the data that runs read differ from the official set, as the runs recorded it."""
    read: Counter[str] = Counter()
    for run in runs:
        copies = [run.environment, *(resumed.get("changed", {}) for resumed in run.environment.get("resumed", []))]
        read.update({line for copy in copies for line in copy.get("data", {}).get("deviations", [])})
    return [line if n == len(runs) else f"{line}, in {n} of {len(runs)} runs" for line, n in sorted(read.items())]


def _judge_claim(
    claim: Claim,
    artifact: Artifact,
    runs: Sequence[RunRecord],
    fidelity: str,
    looked: tuple[int, int] | None,
    planned: Planned,
) -> dict[str, Any]:
    seeds = claim.seeds if fidelity == "paper" else None
    counted = [run for run in runs if seeds is None or run.seed in seeds]
    groups = {name: [run for run in counted if run.control == name] for name in ("", *claim.controls)}
    pairs = [len(paired_runs(part, groups[""])[1]) for part in claim.parts if part.kind != "exact"]
    looks = _looks(max(pairs, default=0), artifact.seeds, looked)
    level = level_after_looks(looks)
    refuting = 1 - (1 - level) / max(1, len(claim.parts))

    def judged(control: str) -> list[PartResult]:
        return [evaluate(part, groups[control], level, refuting, planned(part, control, seeds)) for part in claim.parts]

    parts = judged("")
    controls = {name: judged(name) if groups[name] else [] for name in claim.controls}
    verdict, deciding, evidence = _verdict(claim, parts, controls, fidelity)
    if seeds is not None:
        evidence += f"; judged on seeds {seeds[0]} to {seeds[-1]} alone"
    return {
        "id": claim.id,
        "kind": claim.kind,
        "statement": claim.statement,
        "quote": claim.quote,
        "locator": claim.locator,
        "endpoint": deciding.endpoint if deciding else "",
        "verdict": verdict,
        "evidence": evidence,
        "n": deciding.n if deciding else 0,
        "effect": deciding.effect if deciding else None,
        "unit": deciding.unit if deciding else "",
        "interval": deciding.interval if deciding else None,
        "level": deciding.level if deciding else None,
        "detectable": deciding.detectable if deciding else None,
        "looks": looks,
        "runs": sorted({run for part in parts for run in part.runs}),
        "parts": [asdict(part) for part in parts],
        "reported": [
            asdict(evaluate(part, groups[""], level, None, planned(part, "", seeds))) for part in claim.reported
        ],
        "controls": [{"name": name, "parts": [asdict(part) for part in found]} for name, found in controls.items()],
        "amendments": [entry for entry in artifact.amendments if entry["claim"] == claim.id],
    }


def _verdict(
    claim: Claim, parts: Sequence[PartResult], controls: Mapping[str, Sequence[PartResult]], fidelity: str
) -> tuple[str, PartResult | None, str]:
    """The word, the part that decided it, and the evidence in one line."""
    if claim.not_decidable:
        return "not decidable here", parts[0] if parts else None, claim.not_decidable
    by_outcome = {part.outcome: part for part in reversed(parts)}  # the first part of each outcome
    for gap in ("not run", "not decidable here"):
        if gap in by_outcome:
            return gap, by_outcome[gap], by_outcome[gap].reason
    held = sum(part.outcome in ("holds", "weaker") for part in parts)

    def line(part: PartResult, end: str = "") -> str:
        if len(parts) == 1:
            return f"{part.reason}{end}"
        reason = part.reason.removeprefix(part.endpoint).lstrip(",: ")  # the part's name says it already
        return f"{held} of {len(parts)} parts hold; {part.id}: {reason}{end}"

    below = fidelity != "paper"
    if "fails" in by_outcome:
        if below:
            end = f"; at one setting, without the controls {', '.join(claim.controls)}" if claim.open else ""
            return f"inconsistent ({fidelity})", by_outcome["fails"], line(by_outcome["fails"], end)
        refuted, end = _refuted(claim, parts, controls)
        if refuted:
            return "contradicted", refuted, line(refuted, end)
        return "inconclusive", by_outcome["fails"], line(by_outcome["fails"], end)
    if "open" in by_outcome:
        return "inconclusive", by_outcome["open"], line(by_outcome["open"])
    if "weaker" in by_outcome:
        # A smaller run is expected to show another size, so its size decides nothing about the paper's number.
        return "inconclusive" if below else "weaker than claimed", by_outcome["weaker"], line(by_outcome["weaker"])
    return f"consistent ({fidelity})" if below else "reproduced", parts[0], line(parts[0])


def _refuted(
    claim: Claim, parts: Sequence[PartResult], controls: Mapping[str, Sequence[PartResult]]
) -> tuple[PartResult | None, str]:
    """The first part that fails at every setting that has to be tried, if there is one, and the end of the evidence."""
    ends = []
    for index, part in enumerate(parts):
        if part.outcome != "fails":
            continue
        tried = {name: found[index] if found else None for name, found in controls.items()} if claim.open else {}
        missing = [name for name, result in tried.items() if result is None or result.n < MIN_SEEDS]
        spared = [name for name, result in tried.items() if result and result.outcome != "fails"]
        if missing:
            needed = ", ".join(missing)
            power = f"; n = {part.n} shows {part.detectable:.2g} with 80 % power" if part.detectable is not None else ""
            ends.append(
                f"{power}; on the other side at the one setting tried; contradicted needs the controls {needed}"
            )
        elif spared:
            ends.append(f"; on the other side at the paper's setting, but not under {', '.join(spared)}")
        else:
            return part, f"; the same under {', '.join(tried)}" if tried else ""
    return None, ends[0]


def _looks(n: int, planned: int, looked: tuple[int, int] | None) -> int:
    """One look at the planned n; each growth beyond it after a look at the planned n or more is another."""
    if looked is None or n <= planned:
        return 1
    n_before, looks = looked
    return looks + (n_before >= planned and n > n_before)


def read_previous(previous: Mapping[str, Any], artifact: str, fidelity: str) -> dict[str, tuple[int, int]]:
    """Per claim the n and the looks of the last verdicts."""
    try:
        if (previous["schema"], previous["artifact"], previous["fidelity"]) != (SCHEMA, artifact, fidelity):
            raise ValueError("they belong elsewhere")
        for key, kind in (("claims_sha256", str), ("note", str), ("amendments", list)):
            if not isinstance(previous[key], kind):
                raise TypeError(f"{key} is not a {kind.__name__}")
        looked = {
            claim["id"]: (max((part["n"] for part in claim["parts"]), default=0), claim["looks"])
            for claim in previous["claims"]
        }
        for name, numbers in looked.items():
            if not isinstance(name, str) or not all(type(number) is int and number >= 0 for number in numbers):
                raise TypeError(f"claim {name} has no n and looks")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise NormbenchError(
            f"the previous verdicts of {artifact} ({fidelity}) are damaged ({error!r}): restore verdicts.json from git."
        ) from None
    return looked


def _note(artifact: Artifact, previous: Mapping[str, Any] | None) -> str:
    if previous is None or len(artifact.amendments) > len(previous["amendments"]):
        return ""
    # Once written, the note stays until the change is accounted for: the next verdicts carry the new hash.
    changed = previous["claims_sha256"] != artifact.claims_sha256
    return "claims changed without an amendment" if changed else str(previous["note"])


def _plain(value: Any) -> Any:
    """JSON types only; six digits, so that another scipy's last digit does not change a published file."""
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    return [_plain(entry) for entry in value] if isinstance(value, list | tuple) else value
