"""Reads the published verdicts and packs below a results folder; damaged ones come with their reason."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from normbench.config import FIDELITIES
from normbench.errors import BadInput, NormbenchError
from normbench.files import reading
from normbench.papers import artifact as artifacts
from normbench.papers import per_example_effects
from normbench.papers import verdicts as judging
from normbench.papers.claims import Artifact
from normbench.papers.verdicts import Verdicts
from normbench.runs import own, pack
from normbench.runs.run import Run

LARGEST = 1 << 27  # bytes of what is published beside a pack


@dataclass(frozen=True)
class Published:
    """One artifact at one fidelity, as it was published; `artifact` is None where this version does not know it."""

    name: str
    fidelity: str
    place: Path
    verdicts: Verdicts
    runs: Sequence[Run]
    artifact: Artifact | None
    own: bool = False  # a smoke run, or the user's own: no finding about a paper

    @property
    def title(self) -> str:
        return self.artifact.title if self.artifact else self.name

    @property
    def again(self) -> str:
        """The command that judges it again."""
        return artifacts.again(self.name, self.fidelity, self.artifact.config_dir if self.artifact else None)


@dataclass(frozen=True)
class Damaged:
    """A place that cannot be read, and why."""

    place: Path
    reason: str


def collect(
    results: Path, config_dir: Path | None = None, only: Collection[str] | None = None
) -> tuple[list[Published], list[Damaged]]:
    """Everything published below `results`: by artifact, then from `paper` fidelity down to `smoke`.

    `config_dir`: the `--config-dir` of the user's artifacts, which are unknown without it. `only`: the artifacts whose
    runs are read; of the others the verdicts alone.
    """
    entries: list[Published] = []
    damaged: list[Damaged] = []
    found_in = (path.parent for name in ("verdicts.json", pack.NAME) for path in pack.published(results, name))
    for place in sorted({*found_in}):
        try:
            entry = read(place, config_dir=config_dir, only=only)
            entries.append(replace(entry, own=place.parents[2] == own(results)))
        except NormbenchError as error:
            damaged.append(Damaged(place, str(error)))
    return sorted(entries, key=lambda p: (p.name, FIDELITIES.index(p.fidelity))), damaged


def read(place: Path, config_dir: Path | None = None, only: Collection[str] | None = None) -> Published:
    """Verdicts and pack at one place; NormbenchError with one line where they are missing or damaged.

    `only`: as of `collect`.
    """
    root = place.parents[2]
    name, fidelity = place.parent.relative_to(root).as_posix(), place.name
    if name in artifacts.ids() and root != own(root.parent):
        config_dir = None  # whatever experiment the user has in the place of a shipped one
    verdicts = verdicts_at(place)
    if fidelity not in FIDELITIES:
        raise BadInput(f"{place}: {fidelity} is not a fidelity ({', '.join(FIDELITIES)}).")
    partly = only is not None and name not in only
    packed = (pack.unread if partly else pack.read)(place / pack.NAME)
    judged = {pack.NAME: verdicts.pack_sha256 == packed.sha256}
    contrasts = place / per_example_effects.NAME
    if contrasts.exists():  # without it, verdicts are kept and not judged again
        judged[contrasts.name] = verdicts.contrasts_sha256 == per_example_effects.load(contrasts).sha256
    for file, is_judged in judged.items():
        if not is_judged:
            raise BadInput(
                f"{place / 'verdicts.json'} was judged on another {file} than the one beside it. Restore both (git "
                f"checkout), or judge again: {artifacts.again(name, fidelity, config_dir)}"
            )
    artifact = artifacts.load(name, config_dir) if name in artifacts.ids(config_dir) else None
    if artifact is not None and not partly and not _is_of_today(artifact, verdicts):
        raise BadInput(
            f"{place / 'verdicts.json'} was judged by other rules, claims or plans than today's. "
            f"Judge again: {artifacts.again(name, fidelity, config_dir)}"
        )
    return Published(name, fidelity, place, verdicts, packed.runs, artifact)


def _is_of_today(artifact: Artifact, verdicts: Verdicts) -> bool:
    try:
        return artifacts.Plan(artifact, verdicts.fidelity).has_decided(verdicts.claims)
    except (KeyError, NormbenchError):  # a fidelity that its experiment offers no more
        return True


def verdicts_at(place: Path) -> Verdicts:
    """As `read_verdicts`; refuses those of another artifact or fidelity, which were moved there."""
    verdicts = read_verdicts(path := place / "verdicts.json")
    if Path(verdicts.artifact, verdicts.fidelity) != place.relative_to(place.parents[2]):
        raise BadInput(
            f"{path} is of {verdicts.artifact} ({verdicts.fidelity}): it was moved. "
            "Restore it (git checkout) or delete it."
        )
    return verdicts


def read_verdicts(path: Path) -> Verdicts:
    """The content of a verdicts.json, as it was written: its hash says so. Else NormbenchError with one line."""
    try:
        return judging.restored(reading.decode(reading.read(path, LARGEST)), path)
    except (OSError, ValueError, RecursionError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise BadInput(f"{path} is damaged ({reason}). Restore it (git checkout) or delete it.") from None
