"""Each part's effect by seed and test example: `contrasts.npz`, what intervals over test examples are computed from.

Runs store the outcome of each test example; published are the effects of the deciding parts alone, because the pack
has the curves. Arrays, by a hash of the comparison and its control setting: `KEY|seeds`, `KEY|numbers` (the
examples' own, where they are not 0 to N - 1) and `KEY|effects` (seeds × examples, half precision, NaN where a seed was
not tested on an example), in the endpoint's unit, not in per cent.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from normbench.core.eval_variants import text
from normbench.errors import BadInput
from normbench.files import reading
from normbench.papers.claims import Artifact, Part
from normbench.papers.endpoints import outcome_of, paired_runs
from normbench.papers.parts import gather
from normbench.runs import outcomes
from normbench.runs.run import Run
from normbench.runs.table import raw
from normbench.stats.examples import Spread, spread
from normbench.stats.series import named

NAME = "contrasts.npz"
MOST = 5_000_000  # bytes of an artifact
UNPACKED = 1 << 30  # bytes that are read
GONE = (
    "it is not there: the verdicts stay as published while runs and rules are the same; else intervals are over the "
    "seeds alone. The source repository has it"
)
Row = tuple[np.ndarray, np.ndarray]  # examples' numbers, and one seed's effects on them, as they are published
Table = dict[int, Row]  # by seed


class Contrasts:
    """The effects of an artifact's parts by seed and example."""

    def __init__(self, tables: Mapping[str, Table]) -> None:
        self.tables = dict(tables)

    def spread(self, part: Part, control: str, seeds: Sequence[int]) -> Spread | None:
        """Over these seeds and their examples; None unless all of them are here."""
        table = self.tables.get(key(part, control), {})
        if len(seeds) < 2 or not set(seeds) <= table.keys():
            return None
        _, effects = _aligned({seed: table[seed] for seed in seeds})
        return spread(effects.astype(np.float64) * _units(part))

    @property
    def sha256(self) -> str:
        """Of the content, not of the file, whose bytes depend on who compressed it; "" of none."""
        if not self.tables:
            return ""
        digest = hashlib.sha256()
        for name, array in sorted(self._arrays().items()):
            digest.update(f"{name} {array.dtype} {array.shape} ".encode() + array.tobytes())
        return digest.hexdigest()

    def dump(self) -> bytes | None:
        """The content of contrasts.npz; None without tables."""
        if not self.tables:
            return None
        content = io.BytesIO()
        np.savez_compressed(content, **self._arrays())  # type: ignore[arg-type]  # its stub takes the names for allow_pickle's
        return content.getvalue()

    def _arrays(self) -> dict[str, np.ndarray]:
        arrays = {}
        for name, table in self.tables.items():
            numbers, effects = _aligned(table)
            arrays[f"{name}|seeds"] = np.array(sorted(table), dtype=np.int32)
            if not np.array_equal(numbers, np.arange(len(numbers))):
                arrays[f"{name}|numbers"] = numbers.astype(np.int32)
            arrays[f"{name}|effects"] = effects
        return arrays


def key(part: Part, control: str) -> str:
    """The same for the same comparison in every claim."""
    end = part.endpoint
    epoch = "" if end.epoch is None else end.epoch  # as in published files
    compared = [end.kind, end.split, end.metric, epoch, end.variant, [[w, dict(c)] for w, c in part.contrast]]
    return hashlib.sha256(json.dumps([compared, control], sort_keys=True).encode()).hexdigest()[:16]


def load(path: Path) -> Contrasts:
    """The contrasts published at `path`, none without a file. NormbenchError if it is damaged."""
    tables: dict[str, Table] = {}
    try:
        with reading.opened(path, UNPACKED) as file, np.load(file, allow_pickle=False) as arrays:
            reading.check_archive(arrays.zip, UNPACKED)
            for name in (name for name in arrays if name.endswith("|effects")):
                effects, stem = arrays[name].astype(np.float16), name.removesuffix("|effects")
                seeds = arrays[f"{stem}|seeds"]
                numbers = arrays.get(f"{stem}|numbers", np.arange(effects.shape[1]))
                if effects.shape != (len(seeds), len(numbers)):
                    raise ValueError(f"{effects.shape} effects of {len(seeds)} seeds and {len(numbers)} examples")
                rows = zip(seeds, effects, ~np.isnan(effects), strict=True)
                tables[stem] = {int(seed): (numbers[tested], row[tested]) for seed, row, tested in rows}
    except FileNotFoundError:
        pass
    except reading.NO_ARCHIVE as error:
        raise BadInput(f"{path} is damaged ({error}). Restore it (git checkout) or delete it.") from None
    return Contrasts(tables)


def collect(artifact: Artifact, runs: Sequence[Run], places: Sequence[Path], published: Contrasts) -> Contrasts:
    """The `published` effects, updated with those of raw runs in these folders that stored outcomes of examples.

    The paper's setting first, then its controls; parts beyond 5 MB are left out, and judged over seeds.
    """
    ids = {run.id for run in runs}
    directories = raw(places, ids.__contains__)
    tables: dict[str, Table] = {}
    size = 0
    for control in artifact.settings:
        group = [run for run in runs if run.control == control]
        for part in (part for claim in artifact.claims for part in claim.parts if control in ("", *claim.controls)):
            name = key(part, control)
            if name in tables or not _is_mean_of_examples(part):
                continue
            table = _of_these_runs(part, group, {**published.tables.get(name, {}), **_table(part, group, directories)})
            if not table:
                continue
            arrays = Contrasts({name: table})._arrays().values()
            needed = sum(len(zlib.compress(array.tobytes())) for array in arrays)
            if size + needed <= MOST:
                tables[name], size = table, size + needed
    return Contrasts(tables)


def _units(part: Part) -> int:
    """Of the part's effect in one of the endpoint."""
    return 100 if part.scale == "percent" else 1


def _is_mean_of_examples(part: Part) -> bool:
    """A logarithm of means is not; runs store outcomes at the best and the last evaluation alone."""
    end = part.endpoint
    when = end.epoch in ("best", "last") if end.kind == "chosen" else end.kind == "final"
    of_tests = end.mode == "eval" or (end.mode == "stage" and end.kind == "final")
    return when and part.scale != "log" and of_tests and part.test == "t" and part.kind != "size" and part.than is None


def _of_these_runs(part: Part, runs: Sequence[Run], of_seeds: Table) -> Table:
    """Without the seeds whose runs were trained anew since: the mean of their effects is not that of the curves."""
    table: Table = {}
    for seed, (numbers, effects) in of_seeds.items():
        observed = gather(part, runs, [seed])
        if not observed.sides:
            continue
        plus, minus = (side / _units(part) for side in observed.sides[0])
        if math.isclose(plus - minus, effects.mean(dtype=np.float64), abs_tol=1e-3 * max(abs(plus), abs(minus))):
            table[seed] = numbers, effects
    return table


def _table(part: Part, runs: Sequence[Run], directories: Mapping[str, Run]) -> Table:
    """The effects of the seeds whose runs all stored outcomes of examples."""
    cells, seeds = paired_runs(part, runs)
    table: Table = {}
    for seed in seeds:
        if not all(cell[seed].id in directories for cell in cells):
            continue
        rows = [
            _examples(part, cell[seed], place.get("variant", part.endpoint.variant), directories[cell[seed].id])
            for (_, place), cell in zip(part.contrast, cells, strict=True)
        ]
        complete = [row for row in rows if row is not None]
        if len(complete) < len(rows):
            continue
        numbers = complete[0][0]
        if any(not np.array_equal(numbers, other) for other, _ in complete):
            raise BadInput(
                f"part '{part.id}': the runs of seed {seed} ({', '.join(cell[seed].id for cell in cells)}) were tested "
                "on other examples: they cannot be compared one by one. Train them on one test set."
            )
        weights = [weight for weight, _ in part.contrast]
        effects = sum(weight * values for weight, (_, values) in zip(weights, complete, strict=True))
        table[seed] = numbers, np.asarray(effects, dtype=np.float16)
    return table


def _examples(part: Part, run: Run, variant: str | None, stored: Run) -> Row | None:
    """One run's values; None if it stored none, or was cut from a longer run, whose last evaluation is another."""
    end = part.endpoint
    if stored.steps != run.steps or run.status != "done":
        return None
    when = end.epoch if end.kind == "chosen" else "last"
    path = stored.path / "outcomes" / f"{when}.npz"
    row = outcomes.read(path, end.split, [text(v) for v in named(run, variant, when)], end.metric)
    if row is None or not np.isfinite(row[1]).all():
        return None
    outcome = outcome_of(end, run, variant)
    logged = outcome.value if outcome else None
    mean = float(row[1].mean())
    if logged is None or not math.isclose(mean, logged, rel_tol=1e-2, abs_tol=1e-3):
        raise BadInput(
            f"{path}: its {len(row[1])} examples have a mean {end.metric} of {mean:.4g}, the curve has {logged}: they "
            "are not those of the test set. Delete the run to train it again."
        )
    return row


def _aligned(table: Table) -> tuple[np.ndarray, np.ndarray]:
    """All examples' numbers, and seeds × examples, NaN where a seed was not tested on one."""
    rows = [row for _, row in sorted(table.items())]
    numbers = rows[0][0]
    if all(np.array_equal(tested, numbers) for tested, _ in rows) and (np.diff(numbers) > 0).all():  # as nearly always
        return numbers, np.stack([values for _, values in rows])
    numbers = np.unique(np.concatenate([tested for tested, _ in rows]))
    effects = np.full((len(rows), len(numbers)), np.nan, np.float16)
    for row, (tested, values) in zip(effects, rows, strict=True):
        row[np.searchsorted(numbers, tested)] = values
    return numbers, effects
