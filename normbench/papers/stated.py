"""The numbers that amendments state: their text, and whether the published runs give them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from normbench.papers import describe
from normbench.papers.claims import Artifact
from normbench.papers.parts import gather, result
from normbench.papers.per_example_effects import Contrasts
from normbench.runs.record import RunRecord


def reason(amendment: Mapping[str, Any]) -> str:
    """Why a claim was amended, and the numbers behind it in a sentence."""
    numbers = "; ".join(_format_number(number) for number in amendment.get("stated", ()))
    return (
        f"{amendment['reason'].rstrip('.')}. From published runs: {numbers}." if numbers else str(amendment["reason"])
    )


def _format_number(number: Mapping[str, Any]) -> str:
    """`LN against BN, seeds 1 to 5, lr-low: 0.02 points better (0.05 better to 0.01 worse)`."""
    return f"{_about(number)}: {describe.effect(number)}"


def _about(number: Mapping[str, Any]) -> str:
    where = [number["control"], number["fidelity"] if number["fidelity"] != "paper" else ""]
    return ", ".join([number["part"], "seeds {from} to {to}".format(**number["seeds"]), *filter(None, where)])


def differing(artifact: Artifact, fidelity: str, runs: Sequence[RunRecord], contrasts: Contrasts) -> Iterator[str]:
    """A line for each number of this fidelity that the runs do not give, to the digits that are written."""
    claims = {claim.id: claim for claim in artifact.claims}
    for amendment in artifact.amendments:
        for number in amendment.get("stated", ()):
            if number["fidelity"] != fidelity:
                continue
            claim = claims[amendment["claim"]]
            part = next(part for part in (*claim.parts, *claim.reported) if part.id == number["part"])
            part, control = replace(part, test=number["test"]), number["control"]
            seeds = range(number["seeds"]["from"], number["seeds"]["to"] + 1)
            group = [run for run in runs if run.control == control]
            seen = gather(part, group, seeds, spread=contrasts.spread(part, control, seeds))
            found = result(seen, "", 1 - number["level"])
            median = "median " if number["test"] == "sign" else ""
            numbers = f"{median}{_digits(number)} {number['unit']}"
            statement = f"the amendment of {claim.id} states {_about(number)}: {numbers}"
            if lacking := [str(seed) for seed in seeds if seed not in seen.seeds]:
                yield f"{statement}, but no pack has its runs of seed {', '.join(lacking)}"
            elif _differ(number, found):
                yield f"{statement}, but the pack gives {_digits(found) or describe.sentence(found)}"


def _digits(of: Mapping[str, Any]) -> str:
    """As the amendment writes them: logarithms stay such."""
    return ", ".join(f"{end:.6g}" for end in _numbers(of) if end is not None)


def _numbers(of: Mapping[str, Any]) -> tuple[float | None, ...]:
    """Effect and both ends of the interval."""
    return of["effect"], *(of["interval"] or (None, None))


def _differ(number: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    """By more than half of the last decimal: that of the number that is written with most, as YAML drops a last 0."""
    written = _numbers(number)
    last = min(int(Decimal(str(end)).as_tuple().exponent) for end in written if end is not None)
    pairs = zip(written, _numbers(found), strict=True)
    return any(
        (one is None) != (other is None)
        or (one is not None and other is not None and abs(one - other) > 0.5 * 10.0**last * (1 + 1e-9))
        for one, other in pairs
    )
