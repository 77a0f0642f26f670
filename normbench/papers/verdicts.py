"""From runs to verdicts: every claim of an artifact judged by the rules that were fixed before the runs."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from normbench.draw.text import show
from normbench.errors import NormbenchError
from normbench.papers import rules
from normbench.papers.artifact import Plan, again
from normbench.papers.claims import Artifact, Claim, Part
from normbench.papers.endpoints import paired_runs
from normbench.papers.parts import Observed, describe_effect, gather, result
from normbench.runs import files
from normbench.runs.record import RunRecord
from normbench.stats.examples import Spread

SCHEMA = 3
Examples = Callable[[Part, str, Sequence[int]], Spread | None]


def judge(
    artifact: Artifact,
    runs: Sequence[RunRecord],
    fidelity: str,
    previous: Mapping[str, Any] | None,
    planned: Plan,
    examples: Examples = lambda part, control, seeds: None,
) -> dict[str, Any]:
    """The content of verdicts.json for runs of one fidelity; `previous` is the last such content, of this artifact.

    `examples` gives the spread over test examples where the runs stored their outcomes. `expected_wrong` is the sum of
    the levels spent by looks at statistical claims: an upper bound of the number of verdicts wrong by chance. Numbers
    are rounded to 6 digits, missing ones are None, and neither the order of the runs nor the clock changes a byte.
    Raises NormbenchError for two runs of one seed in a cell.
    """
    claims = [_Judge(claim, artifact, runs, fidelity, planned, examples).verdict() for claim in artifact.claims]
    own = artifact.deviations.get(fidelity, ()) if fidelity != "paper" else ()
    controls = " --controls" if any(run.control for run in runs) else ""
    content = {
        "schema": SCHEMA,
        "artifact": artifact.id,
        "fidelity": fidelity,
        "command": f"{artifact.command} --fidelity {fidelity}{controls}",
        "deviations": [*artifact.deviations.get("paper", ()), *own, *_data_deviations(runs)],
        "claims_sha256": artifact.claims_sha256,
        "rules_sha256": planned.sha256,
        "amendments": list(artifact.amendments),
        "note": _describe_note(artifact, previous),
        "expected_wrong": math.fsum(claim["spent"] for claim in claims),
        "claims": claims,
    }
    return dict(_json_rounded(content))


class _Judge:
    """One claim against the runs, at the paper's setting and under its controls."""

    def __init__(
        self,
        claim: Claim,
        artifact: Artifact,
        runs: Sequence[RunRecord],
        fidelity: str,
        plan: Plan,
        examples: Examples,
    ) -> None:
        self.claim, self.artifact, self.fidelity, self.plan, self.examples = claim, artifact, fidelity, plan, examples
        self.groups = {name: [run for run in runs if run.control == name] for name in ("", *claim.controls)}
        self.look = self._look("")
        self.alpha = rules.ALPHA / 2 if self.look == 2 else rules.ALPHA

    def verdict(self) -> dict[str, Any]:
        claim, setting = self.claim, [(part, self.observe(part, "")) for part in self.claim.parts]
        controls = {name: [(part, self.observe(part, name)) for part in claim.parts] for name in claim.controls}
        why = claim.not_decidable.get(self.fidelity, "")
        word = rules.NOT_DECIDABLE if why else rules.claim_word(setting, self.alpha)
        tried = {
            name: rules.control_words(parts, len(controls), self.alpha, setting) for name, parts in controls.items()
        }
        robust = rules.robustness(word, list(tried.values()), bool(claim.unvaried))
        everywhere = [setting, *(controls.values() if robust == rules.ROBUST else ())]
        scattered = word == rules.NEGLIGIBLE and not rules.vanishing(*everywhere, alpha=self.alpha)
        if scattered:  # here by one part, there by another
            robust, everywhere = rules.UNDECIDED, [setting]
        parts = [self.result(part, seen) for part, seen in setting]
        deciding = self._deciding(word, setting)
        evidence = why or self._describe_evidence(word, parts, deciding)
        if robust:
            effects = {
                name: self._format_control_effect(word, tried[name][0], found, deciding)
                for name, found in controls.items()
            }
            evidence += _describe_controls(word, tried, effects)
            evidence += ", but no part is so under all of them" if scattered else ""
            evidence += f"; no control varies the {' and the '.join(claim.unvaried)}" if claim.unvaried else ""
        reported = [self.result(part, self.observe(part, "")) for part in claim.reported]
        evidence += "".join(f"; beside it, {part['id']}: {describe_effect(part)} ({part['word']})" for part in reported
                            if part["id"] in claim.beside and part["n"])  # fmt: skip
        evidence += _describe_seeds(claim, self.fidelity)
        headline = parts[deciding] if parts else None
        verdict = rules.verdict(word, robust, claim.ours, self.fidelity, self._share(word, *everywhere))
        return {
            "id": claim.id,
            "kind": claim.kind,
            "ours": claim.ours,
            "statement": claim.statement,
            "quote": claim.quote,
            "locator": claim.locator,
            "endpoint": headline["endpoint"] if headline else "",
            "setting": word,
            "robustness": robust,
            "verdict": verdict,
            "evidence": evidence,
            "way_on": "",
            **{key: headline[key] if headline else empty for key, empty in _HEADLINE.items()},
            "alpha": self.alpha,
            "spent": self._spent(setting),
            "looks": (claim.added or [headline["planned"]]) if headline and headline["planned"] else [],
            "look": self.look,
            "runs": sorted({run for part in parts for run in part["runs"]}),
            "parts": parts,
            "reported": reported,
            "controls": [
                {"name": name, "word": tried[name][0], "strict": tried[name][1],
                 "parts": [self.result(part, seen) for part, seen in found] if self.groups[name] else []}
                for name, found in controls.items()
            ],
            "amendments": [entry for entry in self.artifact.amendments if entry["claim"] == claim.id],
        }  # fmt: skip

    def _spent(self, parts: Sequence[tuple[Part, Observed]]) -> float:
        """The levels of the looks so far; computed numbers spend none."""
        if self.claim.kind == "exact" or self.fidelity in self.claim.not_decidable:
            return 0.0
        if not parts or not all(seen.complete and not seen.gap for _, seen in parts):
            return 0.0
        return rules.ALPHA + self.alpha if self.look == 2 else rules.ALPHA

    def observe(self, part: Part, control: str) -> Observed:
        """A part with the seeds of the claim's look, or all that are there before the first."""
        planned = self._planned(part, control, self._look(control))
        shared = paired_runs(part, self.groups[control])[1] if part.kind != "exact" else []
        used = [seed for seed in shared if seed in planned]
        post_hoc = self.fidelity == "paper" and any(seed <= self.artifact.seen for seed in used if self.artifact.seen)
        seen = gather(
            part,
            self.groups[control],
            planned,
            len(planned),
            self.plan.smallest_effect(part),
            planned=self._look(control) < 2,
            fresh=not post_hoc,
            spread=self.examples(part, control, used),
        )
        if part.kind == "size" and self.fidelity != "paper" and not seen.gap:
            what = {
                **dict.fromkeys(rules.OTHER_DATA, "of its own data, which others stand in for"),
                **dict.fromkeys(rules.LESS, "of its own sizes and length of training, which are less"),
            }
            reason = f"the paper's number is {what[self.fidelity]} at {self.fidelity} fidelity"
            return replace(seen, gap=rules.NOT_DECIDABLE, reason=reason)
        return seen

    def result(self, part: Part, seen: Observed) -> dict[str, Any]:
        return result(seen, rules.part_word(part, seen, self.alpha), self.alpha)

    def _planned(self, part: Part, control: str, look: int) -> Sequence[int]:
        seeds = self.plan.seeds(part, control, self.claim.alone(self.fidelity, control))
        return seeds[: self.claim.added[max(look, 1) - 1]] if self.claim.added else seeds

    def _look(self, control: str) -> int:
        """The last look that all parts have their runs for: 0 none, 1 the first, 2 the one with `added` seeds."""
        looks = (2, 1) if self.claim.added else (1,)
        return next((look for look in looks if all(self._reached(p, control, look) for p in self.claim.parts)), 0)

    def _reached(self, part: Part, control: str, look: int) -> bool:
        if part.kind == "exact":
            return True
        found = set(paired_runs(part, self.groups[control])[1])
        planned = self._planned(part, control, look)
        further = look == 1 or planned != self._planned(part, control, 1)  # a control may have no more seeds
        return further and found >= set(planned)

    def _deciding(self, word: str, parts: Sequence[tuple[Part, Observed]]) -> int:
        """The first part that makes the claim's word; where none does, one that speaks against it, if there is one."""

        def makes(part: Part, seen: Observed) -> bool:
            if word == rules.OPPOSITE:
                return rules.opposes(part, seen, len(parts), self.alpha)
            if word == rules.NEGLIGIBLE:
                return rules.vanishes(part, seen, len(parts), self.alpha)
            return rules.part_word(part, seen, self.alpha) == word

        wanted = [index for index, pair in enumerate(parts) if makes(*pair)]
        if word == rules.UNDECIDED:
            own = [rules.part_word(part, seen, self.alpha) for part, seen in parts]
            wanted = [own.index(against) for against in (rules.OPPOSITE, rules.NEGLIGIBLE) if against in own] + wanted
        return wanted[0] if wanted else 0

    def _describe_evidence(self, word: str, parts: Sequence[Mapping[str, Any]], deciding: int) -> str:
        part = parts[deciding]
        if word in (rules.NOT_RUN, rules.NOT_DECIDABLE):
            return str(part["reason"])
        own = str(part["reason"]).removeprefix(part["endpoint"]).lstrip(",: ")
        if len(parts) == 1:
            metric = re.search(r"(train|valid|test) \S+", part["endpoint"])
            return f"{part['id']}: {own if metric and metric[0] in part['id'] else part['reason']}"
        counts = Counter(part["word"] for part in parts)
        against = "".join(f", {counts[other]} {other}" for other in (rules.OPPOSITE, rules.NEGLIGIBLE) if counts[other])
        stricter = ""
        if word == rules.UNDECIDED and part["word"] in (rules.OPPOSITE, rules.NEGLIGIBLE):
            stricter = f"; {part['word']}, but not at the level that one of {len(parts)} parts is asked for"
        share = f"{counts[rules.HOLDS]} of {len(parts)} parts hold{against if word == rules.UNDECIDED else ''}"
        return f"{share}; {part['id']}: {own}{stricter}"  # the part's name already names the endpoint

    def _format_control_effect(
        self, setting: str, word: str, parts: Sequence[tuple[Part, Observed]], deciding: int
    ) -> str:
        """` (−2.2)` under a control, of the part that decides at the paper's setting; where it has another word, of the
        part that makes it; of how many parts it is, where negligible.
        """
        if share := self._share(word, parts):
            return share
        other = word in rules.DECIDED and word != setting
        part, seen = parts[self._deciding(word, parts) if other else deciding]
        which = f"{part.id}: " if other and len(parts) > 1 else ""
        return "" if seen.effect is None else f" ({which}{show(seen.effect)})"

    def _share(self, word: str, *settings: Sequence[tuple[Part, Observed]]) -> str:
        """How many of its parts a negligible claim rests on at all of these; "" for other words and a single part."""
        if word != rules.NEGLIGIBLE or len(settings[0]) == 1:
            return ""
        return f" ({rules.vanishing(*settings, alpha=self.alpha)} of {len(settings[0])} parts)"


_HEADLINE = {"n": 0, "effect": None, "unit": "", "interval": None, "level": None, "detectable": None}


def _describe_seeds(claim: Claim, fidelity: str) -> str:
    """Which seeds alone decide, at the paper's setting and where a control has its own."""
    own = {"judged": claim.alone(fidelity)} | {f"under {c}": claim.alone(fidelity, c) for c in claim.control_seeds}
    texts = [f"{what} on seeds {seeds[0]} to {seeds[-1]}" for what, seeds in own.items() if seeds is not None]
    return f"; {', '.join(texts)} alone" if texts else ""


def _describe_controls(word: str, tried: Mapping[str, tuple[str, str]], effects: Mapping[str, str]) -> str:
    """The word under each control, with its number."""
    gaps = (rules.NOT_RUN, rules.NOT_DECIDABLE)
    names: dict[str, list[str]] = {}
    for name, (own, strict) in tried.items():
        found = own if own in (word, *gaps) else strict
        if found not in (*rules.DECIDED, *gaps):
            found = rules.UNDECIDED
        text = name if found == rules.NOT_RUN else name + effects[name]
        names.setdefault("the same" if found == word else found, []).append(text)
    return "".join(f"; {found} under {', '.join(texts)}" for found, texts in names.items())


def sealed(
    content: Mapping[str, Any], pack_sha256: str, contrasts_sha256: str = "", samples_sha256: str = ""
) -> dict[str, Any]:
    """Verdicts with the hashes of what they were judged on ("": none), where models drew some with that of the samples,
    and with `sha256`, the seal over all else.
    """
    hashes = {"pack_sha256": pack_sha256, "contrasts_sha256": contrasts_sha256}
    samples = {"samples_sha256": samples_sha256} if samples_sha256 else {}
    whole = {key: value for key, value in content.items() if key != "sha256"} | {"schema": SCHEMA} | hashes | samples
    return {"schema": SCHEMA, "sha256": files.seal(whole)} | hashes | whole


def check_seal(content: Mapping[str, Any], path: Path) -> None:
    """Refuse verdicts of another schema (NormbenchError with the way out), or whose seal does not fit (ValueError)."""
    schema = content["schema"]
    if schema > SCHEMA:
        raise NormbenchError(f"{path} has schema {schema}, this version reads {SCHEMA}: update normbench.")
    if schema < SCHEMA:
        place, fidelity = path.parent.parent, path.parent.name
        command = again(f"{place.parent.name}/{place.name}", fidelity)
        raise NormbenchError(f"{path} has schema {schema}, this version reads {SCHEMA}. Restore it (git checkout), or "
                             f"delete it and judge again: {command}")  # fmt: skip
    if content.get("sha256") != files.seal({k: v for k, v in content.items() if k != "sha256"}):
        raise ValueError("its seal, sha256, does not fit its content")


def as_file(content: Mapping[str, Any]) -> bytes:
    """The content of verdicts.json."""
    return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()


def _data_deviations(runs: Sequence[RunRecord]) -> list[str]:
    """The deviations of the runs' copies of the data from the official set, as the runs recorded them."""
    read: Counter[str] = Counter()
    for run in runs:
        copies = [run.environment, *(resumed.get("changed", {}) for resumed in run.environment.get("resumed", []))]
        read.update({line for copy in copies for line in copy.get("data", {}).get("deviations", [])})
    return [line if n == len(runs) else f"{line}, in {n} of {len(runs)} runs" for line, n in sorted(read.items())]


def _describe_note(artifact: Artifact, previous: Mapping[str, Any] | None) -> str:
    if previous is None or len(artifact.amendments) > len(previous["amendments"]):
        return ""
    # Once written, the note stays until the change is accounted for: the next verdicts carry the new hash.
    changed = previous["claims_sha256"] != artifact.claims_sha256
    return "claims changed without an amendment" if changed else str(previous["note"])


def _json_rounded(value: Any) -> Any:
    """JSON types only; six digits, so that another scipy's last digit does not change a published file."""
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _json_rounded(entry) for key, entry in value.items()}
    return [_json_rounded(entry) for entry in value] if isinstance(value, list | tuple) else value
