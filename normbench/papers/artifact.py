"""The registry of artifacts: `papers/<paper>/<name>.yaml` has the claims, and what figure and table show; a module
`<name>.py` in the same folder computes what is more than that. A user's artifacts are in the folder `papers` of
`--config-dir`, laid out alike.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import chain, product
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from normbench.config import FIDELITIES, compose, experiment_file, plan
from normbench.config.spec import Spec
from normbench.core import user_code
from normbench.draw.panels import Panel
from normbench.draw.tables import Entry
from normbench.errors import BadInput, unknown
from normbench.files import reading
from normbench.files.reading import Stamp, stamp
from normbench.papers import claims, default_artifact, rules
from normbench.papers.rules_file import ALPHA, FEWEST
from normbench.runs.run import Run
from normbench.stats.looks import level_at

if TYPE_CHECKING:  # it judges, and `list` judges nothing
    from normbench.papers.decide import Verdict
    from normbench.papers.parts import PartResult

HERE = SHIPPED = Path(__file__).parent


@dataclass(frozen=True)
class Paper:
    """Its title, and every figure and table it has: the artifact, the model that it draws, or why there is neither."""

    title: str
    contents: Sequence[Mapping[str, str]]


def ids(config_dir: Path | None = None) -> list[str]:
    """All artifacts, such as `ln2016/fig6`; `config_dir`: with those of a `--config-dir`, as everywhere here."""
    return sorted({*_ids_in(config_dir / "papers"), *_shipped_ids()} if config_dir else _shipped_ids())


def _ids_in(folder: Path) -> list[str]:
    return [path.relative_to(folder).with_suffix("").as_posix() for path in folder.glob("*/*.yaml")]


@cache
def _shipped_ids() -> list[str]:
    return _ids_in(HERE)


def select(names: Sequence[str], config_dir: Path | None = None) -> list[str]:
    """Artifact ids from ids, a paper's name or `all`."""
    all_ids, papers = ids(config_dir), {name.split("/")[0] for name in ids(config_dir)}
    chosen: list[str] = []
    for name in names:
        if name == "all":
            chosen += all_ids
        elif name in papers:
            chosen += [i for i in all_ids if i.startswith(f"{name}/")]
        elif name in all_ids:
            chosen.append(name)
        else:
            _refuse_unbuilt(name, config_dir)
            if name in compose.choices("experiment", config_dir):
                raise BadInput(
                    f"{name} is an experiment without claims: normbench train -m experiment={name} arm=... and then "
                    f"normbench compare experiment={name}. An artifact has a file of claims: "
                    f"{config_dir}/papers/{name}.yaml"
                )
            listing = "normbench list artifacts; one's own: --config-dir DIR, with DIR/papers/PAPER/NAME.yaml"
            raise unknown(f"{name} is not an artifact.", name, [*all_ids, *sorted(papers), "all"], listing)
    return list(dict.fromkeys(chosen))


def again(name: str, fidelity: str, config_dir: Path | None = None) -> str:
    """The command that judges what is published again, and trains nothing."""
    return f"{claims.command(name, None if name in ids() else config_dir)} --fidelity {fidelity} --max-time 0"


def papers(config_dir: Path | None = None) -> dict[str, Paper]:
    """As `contents.yaml` lists them, by folder or source; then what it does not list, under the names of folder and
    artifact.
    """
    papers_by_name = dict(_listed(HERE / "contents.yaml"))
    listed = {entry.get("artifact") for paper in papers_by_name.values() for entry in paper.contents}
    for name in ids(config_dir):
        if name not in listed:
            folder, artifact = name.split("/")[0], read(name, config_dir)
            paper = papers_by_name.get(folder, Paper(folder, []))
            entry = {"what": artifact.locator, "title": artifact.title, "artifact": name}
            papers_by_name[folder] = replace(paper, contents=[*paper.contents, entry])
    return papers_by_name


def paper_of(name: str, among: Mapping[str, Paper]) -> Paper:
    """The paper that lists the artifact in its contents, else one whose title is the artifact's folder."""
    listing = (paper for paper in among.values() if name in [entry.get("artifact") for entry in paper.contents])
    return next(listing, Paper(name.split("/")[0], []))


@cache
def _listed(path: Path) -> dict[str, Paper]:
    return {name: Paper(**paper) for name, paper in reading.load_yaml(path.read_text(encoding="utf-8")).items()}


def _refuse_unbuilt(name: str, config_dir: Path | None) -> None:
    """Say of a figure or table of a paper that has no artifact why there is nothing to run."""
    paper, _, figure = name.partition("/")
    listed = papers(config_dir).get(paper)
    for entry in listed.contents if listed else ():
        if "artifact" in entry or entry["what"].lower().replace(". ", "").replace(" ", "") != figure:
            continue
        if "model" in entry:
            reason = f"it draws a network, model={entry['model']} (normbench list models)"
        else:
            reason = entry["reason"]
        raise BadInput(f"{name} ({entry['title']}): {reason}.")


def load(name: str, config_dir: Path | None = None) -> claims.Artifact:
    """The artifact; the user's own is checked against its experiment: every verdict must be within reach of its runs.

    So is its module, which is needed when all runs are trained. A test checks those that are shipped.
    """
    artifact = read(name, config_dir)
    if artifact.config_dir or not artifact.path.is_relative_to(SHIPPED):
        check_runs(artifact)
        module(artifact)
    return artifact


def title(name: str, config_dir: Path | None = None) -> str:
    """What an artifact is called; a shipped one is not validated for it."""
    if (shipped := HERE / f"{name}.yaml").is_file():
        # one line of it is read: `list` would else spend a third of its time on claims that it does not show
        with open(shipped, encoding="utf-8") as lines:
            return str(reading.load_yaml(next(line for line in lines if line.startswith("title:")))["title"])
    return read(name, config_dir).title


def read(name: str, config_dir: Path | None = None) -> claims.Artifact:
    """The artifact, checked key by key alone."""
    user_file, shipped = (config_dir and config_dir / "papers" / f"{name}.yaml"), HERE / f"{name}.yaml"
    if user_file is None or not user_file.is_file():
        user_file = None
    elif shipped.is_file():
        raise BadInput(f"{user_file}: there is a shipped artifact {name}. Give it another name.")
    artifact = _loaded(path := user_file or shipped, stamp(path))
    if not artifact.experiment:
        raise BadInput(f"{path}: there is no experiment to run. normbench judge {path} judges logged curves.")
    if artifact.id != name:  # results lie where the id says
        raise BadInput(f"{path}: id: {artifact.id} must be {name}, as the file lies.")
    of_experiment = config_dir and config_dir / "experiment" / f"{artifact.experiment}.yaml"
    is_own = user_file or (of_experiment and of_experiment.is_file())
    return replace(artifact, config_dir=config_dir if is_own else None)


@cache
def _loaded(path: Path, of: Stamp | None) -> claims.Artifact:
    return claims.load(path)


@dataclass(frozen=True)
class Plan:
    """What was fixed before the runs of an artifact at one fidelity."""

    artifact: claims.Artifact
    fidelity: str

    @cached_property
    def cells(self) -> list[tuple[Mapping[str, Any], Sequence[int]]]:
        """As of `planned_seeds`."""
        artifact = self.artifact
        return plan.planned_seeds(artifact.experiment, self.fidelity, artifact.seeds, artifact.config_dir)

    @cached_property
    def _specs(self) -> Mapping[int | None, Sequence[tuple[Mapping[str, Any], Spec]]]:
        """As of `cell_specs`."""
        artifact, cells = self.artifact, [cell for cell, _ in self.cells]
        return plan.cell_specs(artifact.experiment, self.fidelity, cells, artifact.config_dir)

    def has(self, run: Run) -> bool:
        """Whether the run's configuration is still that of the experiment."""
        place = {"arm": run.arm, "control": run.control, **run.axes}
        cells = self._specs.get(run.seed, self._specs.get(None, []))
        specs = [spec for cell, spec in cells if place.items() <= cell.items()]
        return any(spec.with_seed(run.seed).id == run.id for spec in specs)

    def seeds(self, part: claims.Part, control: str, alone: Sequence[int] | None) -> list[int]:
        """Those that all cells of the part share; of a claim with seeds of its own those alone."""
        shared = set.intersection(*(self._seeds(cell, control) for _, cell in part.contrast))
        return sorted(shared if alone is None else shared & set(alone))

    def specs(
        self, seeds: int | Sequence[int] | None, only: Sequence[str], controls: bool | Sequence[str]
    ) -> list[Spec]:
        """The runs to make, as `artifact_specs` has them; without `seeds` those of the planned ones.

        `only` takes claims, too: the runs that they compare, of the seeds that decide them.
        """
        artifact, limited = self.artifact, seeds is None
        return plan.artifact_specs(
            artifact.experiment,
            self.fidelity,
            artifact.seeds if seeds is None else seeds,
            only,
            controls,
            artifact.config_dir,
            limited=limited,
            groups={claim.id: self._places(claim, limited) for claim in artifact.claims},
        )

    def _places(self, claim: claims.Claim, limited: bool) -> list[dict[str, Any]]:
        """The cells of the runs that a claim compares; if none can decide it, of those that it reports."""
        places = []
        for control, part in product(("", *claim.controls), claim.parts or claim.reported):
            seeds = {"seed": self.seeds(part, control, claim.alone(self.fidelity, control))} if limited else {}
            places += [{**claims.place_of(cell), **seeds, "control": control} for _, cell in part.contrast]
        return places

    def smallest_effect(self, part: claims.Part) -> float | None:
        """In the part's unit, by the data set of the arms that it compares.

        NormbenchError where these have several data sets with different smallest effects.
        """
        effects = {rules.smallest_effect(part, data) for data in self.data(part)}
        if len(effects) > 1:
            raise BadInput(
                f"{self.artifact.path}: part '{part.id}' compares {' and '.join(self.data(part))}, whose smallest "
                "effects differ. Declare one in the part: delta: {is: 0.1, why: ...}."
            )
        return effects.pop()

    def data(self, part: claims.Part) -> list[str]:
        """The data sets of the arms that a part compares."""
        arms = dict.fromkeys(cell.get("arm", "") for _, cell in part.contrast)
        return list(dict.fromkeys(self._data_name(arm) for arm in arms))

    def _data_name(self, arm: str = "") -> str:
        return plan.data_name(self.artifact.experiment, self.fidelity, self.artifact.config_dir, arm)

    def sha256(self, claim: claims.Claim) -> str:
        """Of all that was fixed before the claim was judged."""
        effects = [self.smallest_effect(part) for part in (*claim.parts, *claim.reported)]
        return rules.sha256(*self._fixed, effects)

    def has_decided(self, judged: Sequence[Verdict]) -> bool:
        """Whether these verdicts are of today's rules, claims and plan; a smoke run has none."""
        return not judged or [v.rules_sha256 for v in judged] == [self.sha256(claim) for claim in self.artifact.claims]

    @property
    def _fixed(self) -> list[Any]:
        cells = [[dict(place), list(seeds)] for place, seeds in self.cells]
        return [self.artifact.claims_sha256, self.artifact.seen, self._data_name(), cells]

    def _seeds(self, cell: claims.Cell, control: str) -> set[int]:
        """Seeds that are planned wherever `cell` lies."""
        place = {**claims.place_of(cell), "control": control}
        seeds_of_cells = [set(seeds) for at, seeds in self.cells if place.items() <= at.items()]
        return set.intersection(*seeds_of_cells) if seeds_of_cells else set()


def check_runs(artifact: claims.Artifact) -> None:
    """Refuse what no run could decide: too few seeds at the paper's setting or at a control, no smallest effect."""
    with experiment_file.naming(artifact.path, "experiment"):
        compose.choice_path("experiment", artifact.experiment, artifact.config_dir)
    node = plan.experiment(artifact.experiment, artifact.config_dir)
    for claim in artifact.claims:
        where = f"{artifact.path}: claim {claim.id}"
        for control in claim.controls:
            if control not in node.controls:
                names = list(node.controls)
                raise unknown(f"{where}: control '{control}' is none of {artifact.experiment}.", control, names)
        fidelities = chain(claim.seeds, *claim.control_seeds.values())  # where it has seeds of its own it decides
        for fidelity in dict.fromkeys([highest_fidelity(artifact), *fidelities]):
            if fidelity not in node.fidelities:
                names = list(node.fidelities)
                raise unknown(f"{where}: seeds: {artifact.experiment} has no {fidelity}.", fidelity, names)
            if fidelity not in claim.not_decidable:
                _check_seeds(claim, Plan(artifact, fidelity), where)
    _check_drawn(artifact, list(node.arms))
    for name in artifact.see:
        if name not in (known := ids(artifact.config_dir)):
            raise unknown(f"{artifact.path}: see: '{name}' is no artifact.", name, known)


def _check_drawn(artifact: claims.Artifact, arms: Sequence[str]) -> None:
    """Refuse a figure or table of an arm, a row or a level that is none."""
    for cell in artifact.cells:
        if "arm" in cell and cell["arm"] not in arms:
            raise unknown(f"{artifact.path}: '{cell['arm']}' is no arm of {artifact.experiment}.", cell["arm"], arms)
    for part in artifact.table:
        rows = default_artifact.rows_of(artifact, part)
        for column in part.columns:
            where = f"{artifact.path}: table: column '{column.name}'"
            for row in (*column.rows, *column.paper):
                if row not in rows:
                    raise unknown(f"{where}: '{row}' is none of its rows.", row, list(rows))
            level = column.endpoint.relative
            if level and not isinstance(level.of, str) and level.of not in rows.values():
                raise BadInput(f"{where}: endpoint.level.of: {claims.format_cell(level.of)} is none of its rows.")


def _check_seeds(claim: claims.Claim, planned: Plan, where: str) -> None:
    """Refuse a claim of which a part has too few seeds for its test at the plan's fidelity, or no smallest effect."""
    experiment = planned.artifact.experiment
    alpha = ALPHA / max(1, len(claim.parts))
    most = max((len(planned.seeds(part, "", claim.alone(planned.fidelity))) for part in claim.parts), default=0)
    if claim.looks:
        if claim.looks.at[-1] > most:
            raise BadInput(f"{where}: looks: the last is at {claim.looks.at[-1]} seeds, {experiment} plans {most}.")
        alpha = level_at(claim.looks.at[-1], claim.looks.at, alpha, claim.looks.spending)
    for part in (*claim.parts, *claim.reported):
        decides = part in claim.parts
        if decides:
            rules.check_smallest_effect(part, planned.smallest_effect(part), where)
        least = 1 if part.kind == "exact" else claim.looks.at[0] if claim.looks else FEWEST
        signed = decides and part.test == "sign"  # fewer pairs could never reject, nor show that a control differs
        at_setting, at_controls = (
            max(least, rules.fewest_pairs(alpha / share)) if signed else least
            for share in (1, max(1, len(claim.controls)))
        )
        comparisons = [(replace(part, contrast=(term,)), claims.format_cell(term[1])) for term in part.contrast]
        comparisons.append((part, "the comparison of all its cells"))  # a seed counts where every cell has it
        for (compared, what), control in product(comparisons, ["", *(claim.controls if decides else ())]):
            alone, least = claim.alone(planned.fidelity, control), at_controls if control else at_setting
            seeds = len(planned.seeds(compared, control, alone)[: claim.looks.at[-1] if claim.looks else None])
            if seeds < least:
                raise BadInput(
                    f"{where}: part '{part.id}': {experiment} plans {seeds} of the {least} seeds that {what} needs"
                    f"{f' under the control {control}' if control else ''} at {planned.fidelity}. "
                    "See the arms, axes, seeds and limits of the experiment."
                )


def highest_fidelity(artifact: claims.Artifact) -> str:
    """`paper`, unless its experiment offers no more than a lower one."""
    offered = plan.experiment(artifact.experiment, artifact.config_dir).fidelities
    return next(fidelity for fidelity in FIDELITIES if fidelity in offered)


DRAWN = ("table", "panels", "caution")  # what a module may compute: DRAWN(artifact, runs)


def module(artifact: claims.Artifact) -> ModuleType | None:
    """The artifact's own module, which computes what its file cannot list. NormbenchError where that is broken."""
    path = artifact.path.parent / f"{artifact.path.stem}.py"
    if not path.exists():
        return None
    if path.is_relative_to(HERE):
        return importlib.import_module(f"normbench.papers.{artifact.id.replace('/', '.')}")
    loaded = user_code.load_module(path, user_code.digest(path))
    if not any(callable(getattr(loaded, name, None)) for name in DRAWN):
        raise BadInput(f"{path}: there is none of {', '.join(f'{name}(artifact, runs)' for name in DRAWN)}.")
    return loaded


def table(artifact: claims.Artifact, runs: Sequence[Run]) -> list[Entry]:
    """Our numbers, and the paper's where it has them: of the module, else as the file lists them."""
    draw = getattr(module(artifact), "table", default_artifact.table)
    return list(draw(artifact, runs))


def panels(artifact: claims.Artifact, runs: Sequence[Run]) -> list[Panel]:
    """The figure in the paper's layout, as data; empty for a table alone."""
    code = module(artifact)
    if not hasattr(code, "panels") and hasattr(code, "table") and not artifact.figure:
        return []
    draw = getattr(code, "panels", default_artifact.panels)
    return list(draw(artifact, _of_claims(artifact, runs)))


def _of_claims(artifact: claims.Artifact, runs: Sequence[Run]) -> list[Run]:
    """Of each arm the runs with the seeds by which claims decide at its place; all where it does not have all these."""
    places_of_claims = [
        ({key: value for key, value in claims.place_of(cell).items() if key != "arm"}, claim)
        for claim in artifact.claims
        if claim.seeds
        for part in claim.parts
        for _, cell in part.contrast
    ]
    places: dict[tuple[str, str], dict[str, list[Run]]] = {}
    for run in runs:
        places.setdefault((run.control, plan.place_text(run.axes)), {}).setdefault(run.arm, []).append(run)
    counted = []
    for arms in places.values():
        first = next(iter(arms.values()))[0]
        seeds = {
            seed
            for place, claim in places_of_claims
            if first.matches(place)
            for seed in claim.alone(first.fidelity) or ()
        }
        seeds &= {run.seed for cell in arms.values() for run in cell}
        for cell in arms.values():
            whole = seeds <= {run.seed for run in cell}
            counted += [run for run in cell if not seeds or not whole or run.seed in seeds]
    return counted


def meanings(artifact: claims.Artifact, runs: Sequence[Run]) -> list[tuple[str, str]]:
    """The arms that have runs and all controls, each with its words in the experiment: `("ln", "norm=layer")`."""
    node = plan.experiment(artifact.experiment, artifact.config_dir)
    had = {run.arm for run in runs} | {control for claim in artifact.claims for control in claim.controls}
    had |= {run.control for run in runs}
    named = ((name, words) for group in (node.arms, node.controls) for name, words in group.items() if name in had)
    return [(name, " ".join(words) or "see the conditions of the experiment") for name, words in named]


def caution(artifact: claims.Artifact, runs: Sequence[Run]) -> str:
    """One sentence that comes first, on the page and in README, where the module has a `caution(artifact, runs)`."""
    warn = getattr(module(artifact), "caution", None)
    return str(warn(artifact, runs)) if warn else ""


def reported(artifact: claims.Artifact, runs: Sequence[Run]) -> dict[str, list[PartResult]]:
    """The comparisons beside the claims over all these seeds, by control; "" is the paper's setting."""
    from normbench.papers.parts import gather, result  # late: with scipy, which whoever lists artifacts does not need

    results = {}
    for control in artifact.settings:
        group = [run for run in runs if run.control == control]
        results[control] = [result(gather(part, group), "", names=artifact.names) for part in artifact.reported]
    return results


@dataclass(frozen=True)
class Drawing:
    """What the figure, the table and the page of an artifact show of its runs."""

    entries: Sequence[Entry] = ()
    panels: Sequence[Panel] = ()
    caution: str = ""
    reported: Mapping[str, Sequence[PartResult]] = field(default_factory=dict)  # by control
    meanings: Sequence[tuple[str, str]] = ()


def draw(artifact: claims.Artifact, runs: Sequence[Run]) -> Drawing:
    """As of `table`, `panels`, `caution`, `reported` and `meanings`."""
    return Drawing(
        entries=table(artifact, runs),
        panels=panels(artifact, runs),
        caution=caution(artifact, runs),
        reported=reported(artifact, runs),
        meanings=meanings(artifact, runs),
    )
