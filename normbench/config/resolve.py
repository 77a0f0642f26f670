"""A run to be, resolved once and handed down: nothing below asks for its sites, its length or its id again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from normbench.config import compose, evaluation, identity
from normbench.config.updates import updates_per_epoch
from normbench.errors import Failed, NormbenchError
from normbench.norms.sites import Choice, simpler
from normbench.stored import LABELS, OWN


@dataclass(frozen=True)
class ResolvedRun:
    """One run to be: its configuration (with declarations), the labels under which it is filed, and what follows.

    `arm`: without one the names of its model and normalizers, with what these replace. `id`: 12 hex digits; a file that
    is edited later does not give a planned run another one. `sites`: the normalizer at each. `steps`: updates in the
    whole run. `evaluation`: what it says of evaluation. `own_files`: by name the SHA-256 of the author's own files.

    Errors: NormbenchError for a normalizer that its batches cannot serve.
    """

    config: compose.Config
    experiment: str
    arm: str
    fidelity: str
    control: str = ""
    axes: Mapping[str, Any] = field(default_factory=dict)
    config_dir: Path | None = None
    id: str = field(init=False)
    sites: Mapping[str, Choice] = field(init=False, compare=False)
    steps: int = field(init=False)
    evaluation: Mapping[str, Any] = field(init=False, compare=False)
    own_files: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        choices = identity.assign(self.config, self.config_dir)
        names = sorted({choice.label for choice in choices.values()}) or ["none"]
        maths = identity.maths(self.config, choices)
        epochs, steps = int(self.config["train"]["epochs"]), int(self.config["train"]["steps"])
        found = {
            "arm": self.arm or "-".join([self.config["model"]["name"], *names]),
            "id": identity.hashed(maths),
            "sites": choices,
            # a probe has as many as it counts
            "steps": epochs if self.probe else steps or updates_per_epoch(self.config) * epochs,
            "evaluation": evaluation.asked(self.config),
            "own_files": {name: part["file"] for name, part in identity.own_parts(maths)},
        }
        for name, value in found.items():
            object.__setattr__(self, name, value)

    @property
    def seed(self) -> int:
        return int(self.config["seed"])

    @property
    def epochs(self) -> int:
        """The run's length where it is given in epochs, else 0."""
        return int(self.config["train"]["epochs"])

    @property
    def probe(self) -> bool:
        """Whether it computes records instead of training."""
        return bool(self.config["model"]["declares"].get("probe"))

    @property
    def simpler(self) -> list[str]:
        """A sentence for each of its normalizers that is another one in a run of its size."""
        sizes = {"batch_size": int(self.config["train"]["batch_size"]), "updates": self.steps}
        return [*filter(None, dict.fromkeys(simpler(choice, sizes) for choice in self.sites.values()))]

    def is_of(self, stored: Mapping[str, Any]) -> bool:
        """Whether a stored configuration gives this id, in this version."""
        try:
            config = compose.restore(stored, self.config_dir)
            return identity.run_id(config, identity.assign(config, self.config_dir)) == self.id
        except NormbenchError:
            return False

    def accepts(self, stored: Mapping[str, Any]) -> bool:
        """Whether a finished run of a stored configuration, with this id, has every evaluation that is asked for."""
        return evaluation.accepts(self, stored)

    def can_continue(self, stored: Mapping[str, Any]) -> bool:
        """The same of an unfinished run: where it ends it is evaluated."""
        return evaluation.accepts(self, stored, any_length=True)

    def labels(self) -> dict[str, Any]:
        """How the run is filed; no part of its identity."""
        return {**{label: getattr(self, label) for label in LABELS}, "axes": dict(self.axes)}

    def stored_config(self) -> dict[str, Any]:
        """The configuration as the run keeps it; of its author's own files their hashes, and what a model logs."""
        own: dict[str, Any] = {OWN: dict(self.own_files)} if self.own_files else {}
        stored = compose.stored_form(self.config)
        if "file" in (facts := self.config["model"]["declares"]):  # later readers have no --config-dir
            declares = {key: facts[key] for key in ("metrics", "shares", "rising") if key in facts}
            stored["model"] = {**stored["model"], "declares": declares}
        return {**stored, **own}

    def content(self) -> dict[str, Any]:
        """What its run.json says whatever its status."""
        length = {"seed": self.seed, "epochs": self.epochs, "steps": self.steps}
        return {"id": self.id, **self.labels(), **length, "config": self.stored_config()}

    def message(self) -> dict[str, Any]:
        """The form in which the run travels to a worker process."""
        return {**self.content(), "config_dir": str(self.config_dir.resolve()) if self.config_dir else None}

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> ResolvedRun:
        """The inverse of `message`; composed and checked anew. NormbenchError if that gives another run."""
        config_dir = Path(message["config_dir"]) if message["config_dir"] else None
        labels = {key: message[key] for key in (*LABELS, "axes")}
        run = cls(compose.restore(message["config"], config_dir), config_dir=config_dir, **labels)
        if run.id != message["id"]:
            raise Failed(
                f"run {message['id']} is another one by now ({run.id}): a file of its configuration or its normalizer "
                "was changed after planning. Repeat the command."
            )
        return run
