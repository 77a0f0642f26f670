"""Effects example by example: from raw outcomes through `collect`, `dump`, `load` and `spread` to a verdict."""

import hashlib
import io
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from judged import judge

from normbench.core.streams import stream
from normbench.errors import NormbenchError
from normbench.papers import per_example_effects
from normbench.papers.claims import Artifact, Claim, Delta, Endpoint, Part
from normbench.papers.decide import Verdict
from normbench.papers.per_example_effects import Contrasts, collect, key, load
from normbench.runs import directory, outcomes
from normbench.runs.run import Run
from normbench.stats.examples import spread
from normbench.stats.statistics import t_interval

NLL = Endpoint("chosen", split="test", mode="eval", metric="nll", epoch="last", better="lower")
ERROR = Endpoint("final", split="test", mode="eval", metric="error", better="lower")
PAIR = ((1.0, {"arm": "ln"}), (-1.0, {"arm": "bn"}))
FIVE = range(1, 6)


def part(name: str = "p", **more: Any) -> Part:
    values: dict[str, Any] = {"endpoint": NLL, "contrast": PAIR, "scale": "linear", "unit": "nats", **more}
    return Part(name, "direction", expect="positive", delta=Delta(0.01, "w"), **values)


def artifact(*parts: Part, controls: Sequence[str] = ()) -> Artifact:
    opened = ("rate",) if controls else ()
    claim = Claim("C1", "direction", "s", parts, open=opened, controls=tuple(controls))
    return Artifact((claim,), id="x/fig", title="t", locator="l", experiment="x/fig", seeds=5)


def values(arm: str, seed: int, examples: int = 60) -> np.ndarray:
    """NLL of each example: they differ much, arms a little, with a rest."""
    hard = stream(0, "hard").exponential(size=examples)
    better = {"ln": 0.3, "bn": 0.0}.get(arm, 0.1) * stream(0, "gain").exponential(size=examples)
    rest = 0.05 * stream(seed, "rest", arm).standard_normal(examples)
    return (1 + hard + better + rest).astype(np.float16).astype(np.float64)


def trained(
    results: Path,
    arm: str,
    seed: int,
    found: np.ndarray | None = None,
    numbers: np.ndarray | None = None,
    variants: Mapping[str, np.ndarray] | None = None,
    **more: Any,
) -> Run:
    """A run with its outcomes on disk, and the record of it that the pack has."""
    found = values(arm, seed) if found is None else found
    number = hashlib.sha256(f"{arm} {seed} {more.get('control', '')}".encode()).hexdigest()[:12]
    folder = results / "runs" / "x" / "fig" / f"{arm}.s{seed}.{number}"
    (folder / "outcomes").mkdir(parents=True)
    content: dict[str, Any] = {"id": number, "seed": seed, "status": "done", "steps": 30, "epochs": 3}
    content |= dict.fromkeys(("experiment", "arm", "fidelity", "control", "curve_sha256"), "")
    directory.write_json(folder, content | {key: {} for key in ("axes", "config", "environment", "files")})
    every = {"": found, **(variants or {})}
    arrays: dict[str, Any] = {"test|count": np.array(len(found))}
    if numbers is not None:
        arrays["test|numbers"] = numbers.astype(np.int32)
    for variant, column in every.items():
        arrays[f"test|{variant}|nll"] = column.astype(np.float16)
        arrays[f"test|{variant}|error"] = np.packbits(column > 2)
    for when in ("best", "last"):
        np.savez_compressed(folder / "outcomes" / f"{when}.npz", **arrays)
    place = {"epoch": 3, "step": 30, "split": "test", "mode": "eval"}
    records: list[dict[str, Any]] = [{**place, "epoch": 0, "step": 0, "nll": 9.0, "error": 1.0}]
    for variant, column in every.items():
        named = {"variant": dict(word.split("=") for word in variant.split())} if variant else {}
        mean = {"nll": float(column.astype(np.float16).astype(np.float64).mean()), "error": float((column > 2).mean())}
        records.append({**place, **named, **mean})
    return Run(number, "x/fig", arm, seed, "done", 3, records=records, steps=30, **more)


def campaign(results: Path, seeds: Sequence[int] = FIVE, **more: Any) -> list[Run]:
    return [trained(results, arm, seed, **more) for arm in ("ln", "bn") for seed in seeds]


def published(path: Path, found: Contrasts) -> Contrasts:
    (path / per_example_effects.NAME).write_bytes(found.dump() or b"")
    return load(path / per_example_effects.NAME)


def only(claims: Artifact, runs: Sequence[Run], known: Contrasts) -> Verdict:
    (claim,) = judge(claims, runs, "paper", examples=known.spread).claims
    return claim


def test_a_fresh_clone_judges_as_whoever_has_the_raw_runs(tmp_path: Path) -> None:
    claims, runs = artifact(part(), part("e", endpoint=ERROR, scale="percent")), campaign(tmp_path)
    raw = collect(claims, runs, [tmp_path], Contrasts({}))
    known = published(tmp_path, raw)
    cloned = collect(claims, runs, [tmp_path / "elsewhere"], known)
    assert raw.sha256 == known.sha256 == cloned.sha256 != ""
    assert collect(claims, runs, [tmp_path], known).sha256 == raw.sha256
    assert only(claims, runs, raw) == only(claims, runs, cloned) != only(claims, runs, Contrasts({}))


def test_intervals_are_those_of_seeds_and_examples_together(tmp_path: Path) -> None:
    runs = campaign(tmp_path)
    table = np.array([values("ln", seed) - values("bn", seed) for seed in FIVE])
    expected = spread(table)
    found = collect(artifact(part()), runs, [tmp_path], Contrasts({})).spread(part(), "", FIVE)
    assert found and found.mean == pytest.approx(expected.mean, abs=1e-4)
    assert found.variance == pytest.approx(expected.variance, rel=1e-2) and found.examples == 60
    told = only(artifact(part()), runs, collect(artifact(part()), runs, [tmp_path], Contrasts({})))
    alone = only(artifact(part()), runs, Contrasts({}))
    assert told.interval == pytest.approx(expected.interval(), abs=1e-3)
    assert alone.interval == pytest.approx(t_interval(table.mean(axis=1)).interval, abs=1e-3)
    assert told.parts[0].examples == 60
    assert told.interval[1] - told.interval[0] > 3 * (alone.interval[1] - alone.interval[0])


def test_error_rates_are_told_in_points(tmp_path: Path) -> None:
    points = part(endpoint=ERROR, scale="percent")
    found = collect(artifact(points), campaign(tmp_path), [tmp_path], Contrasts({})).spread(points, "", FIVE)
    wrong = [np.mean(values("ln", s) > 2) - np.mean(values("bn", s) > 2) for s in FIVE]
    assert found and found.by_seed == pytest.approx([100 * e for e in wrong])


def test_the_same_example_is_compared_with_itself_wherever_it_lies(tmp_path: Path) -> None:
    """Subsets that differ from seed to seed: what counts is the example's number, not its place in the file."""
    runs, rows = [], []
    for seed in FIVE:
        numbers = np.flatnonzero(stream(seed, "subset").random(60) < 0.5 + 0.05 * seed)
        row = np.full(60, np.nan)
        row[numbers] = (values("ln", seed) - values("bn", seed))[numbers]
        rows.append(row)
        runs += [trained(tmp_path, arm, seed, values(arm, seed)[numbers], numbers) for arm in ("ln", "bn")]
    expected = spread(np.array(rows))
    raw = collect(artifact(part()), runs, [tmp_path], Contrasts({}))
    for known in (raw, published(tmp_path, raw)):
        found = known.spread(part(), "", FIVE)
        assert found and found.variance == pytest.approx(expected.variance, rel=2e-2)
        assert (found.freedom, found.examples) == (4.0, expected.examples)
    misaligned = spread(np.array([np.roll(row, 7 * seed) for seed, row in enumerate(rows)]))
    assert misaligned.variance < expected.variance / 2  # what it would be of other examples


def test_seeds_that_come_later_join_the_published_ones_example_by_example(tmp_path: Path) -> None:
    """As on another machine, which has the published file and the raw runs of its own seeds alone."""

    def train(results: Path, seeds: Sequence[int]) -> list[Run]:
        runs = []
        for seed in seeds:  # examples 100 to 159, but a few
            kept = np.flatnonzero(stream(seed, "subset").random(60) < 0.8)
            kept = kept[kept != 5]
            runs += [trained(results, arm, seed, values(arm, seed)[kept], 100 + kept) for arm in ("ln", "bn")]
        return runs

    first, later = train(tmp_path / "first", [1, 2, 3]), train(tmp_path / "later", [4, 5])
    known = published(tmp_path, collect(artifact(part()), first, [tmp_path / "first"], Contrasts({})))
    joined = collect(artifact(part()), first + later, [tmp_path / "later"], known)
    everything = train(tmp_path / "all", FIVE)
    assert joined.sha256 == collect(artifact(part()), everything, [tmp_path / "all"], Contrasts({})).sha256
    assert joined.spread(part(), "", FIVE)


def test_runs_of_one_seed_on_other_examples_are_refused(tmp_path: Path) -> None:
    runs = campaign(tmp_path, seeds=[1, 2, 3, 4])
    runs += [trained(tmp_path, arm, 5, numbers=np.arange(60) + (arm == "bn")) for arm in ("ln", "bn")]
    with pytest.raises(
        NormbenchError, match=r"^part 'p': the runs of seed 5 \(.*\) were tested on other examples"
    ) as e:
        collect(artifact(part()), runs, [tmp_path], Contrasts({}))
    assert "\n" not in str(e.value)


def rewrite(results: Path, run: Run, **arrays: Any) -> Path:
    (path,) = results.glob(f"runs/**/*.{run.id}/outcomes/last.npz")
    with np.load(path) as kept:
        np.savez_compressed(path, **{**kept, **arrays})
    return path


def test_outcomes_of_another_length_than_the_test_set_are_refused(tmp_path: Path) -> None:
    runs = campaign(tmp_path)
    rewrite(tmp_path, runs[3], **{"test||nll": values("ln", 4)[:-1].astype(np.float16)})
    with pytest.raises(NormbenchError, match="has 60 examples of test, but 59 results of them") as refused:
        collect(artifact(part()), runs, [tmp_path], Contrasts({}))
    assert "\n" not in str(refused.value)
    (tmp_path / "b").mkdir()
    runs = campaign(tmp_path / "b")
    rewrite(tmp_path / "b", runs[3], **{"test||error": np.packbits(np.ones(50, bool)), "test|count": np.array(60)})
    with pytest.raises(NormbenchError, match="has 60 examples of test, but 0 results of them"):
        collect(artifact(part(endpoint=ERROR)), runs, [tmp_path / "b"], Contrasts({}))


def test_outcomes_that_are_not_the_curves_are_refused(tmp_path: Path) -> None:
    runs = campaign(tmp_path)
    changed = (values("ln", 4) * 1.05).astype(np.float16)
    path = rewrite(tmp_path, runs[3], **{"test||nll": changed})
    with pytest.raises(NormbenchError, match=r"its 60 examples have a mean nll of .*, the curve has ") as refused:
        collect(artifact(part()), runs, [tmp_path], Contrasts({}))
    assert str(path) in str(refused.value) and "\n" not in str(refused.value)


def test_a_run_without_outcomes_leaves_all_over_seeds(tmp_path: Path) -> None:
    runs = campaign(tmp_path)
    (path,) = tmp_path.glob(f"runs/**/*.{runs[3].id}/outcomes/last.npz")
    path.unlink()
    known = collect(artifact(part()), runs, [tmp_path], Contrasts({}))
    assert known.spread(part(), "", [1, 2, 3, 5]) and known.spread(part(), "", FIVE) is None
    assert only(artifact(part()), runs, known) == only(artifact(part()), runs, Contrasts({}))


def test_a_run_that_was_cut_or_diverged_gives_no_examples(tmp_path: Path) -> None:
    runs = campaign(tmp_path)
    for other in (replace(runs[0], status="diverged"), replace(runs[0], steps=20)):
        known = collect(artifact(part()), [other, *runs[1:]], [tmp_path], Contrasts({}))
        assert known.spread(part(), "", FIVE) is None


def test_what_was_published_goes_with_the_runs_it_came_from(tmp_path: Path) -> None:
    runs = campaign(tmp_path)
    known = collect(artifact(part()), runs, [tmp_path], Contrasts({}))
    again = [{**record, "nll": record["nll"] + 0.01 * bool(record["step"])} for record in runs[0].records]
    other = [replace(runs[0], id="0" * 12, records=again), *runs[1:]]  # seed 1 trained anew, elsewhere
    found = collect(artifact(part()), other, [tmp_path / "elsewhere"], known)
    assert found.spread(part(), "", FIVE) is None and found.spread(part(), "", [2, 3, 4, 5])
    fewer = collect(artifact(part()), [run for run in runs if run.seed != 2], [tmp_path / "elsewhere"], known)
    assert fewer.spread(part(), "", [1, 3, 4, 5]) and fewer.spread(part(), "", FIVE) is None


def test_patterns_of_variants_are_averaged(tmp_path: Path) -> None:
    names = [f"configuration={letters}" for letters in ("TT", "TF", "FF")]
    runs = []
    for seed in FIVE:
        own = {name: values(name, seed) + 0.2 * place for place, name in enumerate(names)}
        runs.append(trained(tmp_path, "bln", seed, variants=own))
    cells = ((1.0, {"arm": "bln", "variant": "T*"}), (-1.0, {"arm": "bln", "variant": "FF"}))
    averaged = part(contrast=cells)
    found = collect(artifact(averaged), runs, [tmp_path], Contrasts({})).spread(averaged, "", FIVE)
    expected = []
    for seed in FIVE:
        tt, tf, ff = (
            (values(name, seed) + 0.2 * place).astype(np.float16).astype(float).mean()
            for place, name in enumerate(names)
        )
        expected.append((tt + tf) / 2 - ff)
    assert found and found.by_seed == pytest.approx(expected, abs=1e-3)
    assert only(artifact(averaged), runs, Contrasts({})).effect == pytest.approx(found.mean, abs=1e-3)


@pytest.mark.parametrize(
    "more",
    [
        {"scale": "log"},
        {"test": "sign"},
        {"endpoint": replace(NLL, epoch="own")},
        {"endpoint": replace(NLL, epoch=2)},
        {"endpoint": replace(ERROR, kind="area")},
        {"endpoint": replace(ERROR, mode="train")},
    ],
)
def test_what_is_no_mean_over_examples_has_none(tmp_path: Path, more: dict[str, Any]) -> None:
    assert collect(artifact(part(**more)), campaign(tmp_path, [1, 2]), [tmp_path], Contrasts({})).tables == {}


def test_a_downstream_task_is_judged_over_its_sentences_too(tmp_path: Path) -> None:
    """Its accuracy is a mean over ten parts of almost equal length, not quite that over sentences."""
    end = Endpoint("final", split="test", mode="stage", metric="error")
    runs = []
    for run in campaign(tmp_path):
        last = {**run.records[-1], "mode": "stage", "error": run.records[-1]["error"] + 2e-5}
        runs.append(replace(run, records=[*run.records, last]))
    claims = artifact(part(endpoint=end, scale="percent"))
    (told,) = only(claims, runs, collect(claims, runs, [tmp_path], Contrasts({}))).parts
    assert told.examples == 60


def test_controls_have_their_own(tmp_path: Path) -> None:
    claims = artifact(part(), controls=("lr-low",))
    runs = campaign(tmp_path) + campaign(tmp_path, control="lr-low")
    known = collect(claims, runs, [tmp_path], Contrasts({}))
    assert set(known.tables) == {key(part(), ""), key(part(), "lr-low")}
    assert known.spread(part(), "lr-low", FIVE) and known.spread(part(), "lr-high", FIVE) is None


def test_the_same_comparison_is_kept_once_whatever_its_name() -> None:
    assert key(part("a"), "") == key(part("b", unit="other"), "")
    others = [part(endpoint=ERROR), part(contrast=PAIR[::-1]), part(endpoint=replace(NLL, epoch="best"))]
    keys = {key(other, "") for other in [part(), *others]} | {key(part(), "lr-low")}
    assert len(keys) == 5


def test_what_goes_beyond_the_limit_is_left_out_and_smaller_ones_behind_it_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    controls = ("lr-low", "lr-high")
    claims = artifact(part(), part("e", endpoint=ERROR), controls=controls)
    runs = [run for name in ("", *controls) for run in campaign(tmp_path, control=name)]
    whole = collect(claims, runs, [tmp_path], Contrasts({}))
    order = [key(p, control) for control in ("", *controls) for p in claims.claims[0].parts]
    assert list(whole.tables) == order
    size = {
        name: sum(len(zlib.compress(a.tobytes())) for a in Contrasts({name: table})._arrays().values())
        for name, table in whole.tables.items()
    }
    for kept in range(len(order)):
        monkeypatch.setattr(per_example_effects, "MOST", most := sum(size[name] for name in order[: kept + 1]) - 1)
        found = collect(claims, runs, [tmp_path], Contrasts({}))
        fits, used = order[:kept], sum(size[name] for name in order[:kept])
        for name in order[kept:]:
            if used + size[name] <= most:
                fits, used = [*fits, name], used + size[name]
        assert list(found.tables) == fits and order[kept] not in fits
        assert collect(claims, runs[::-1], [tmp_path], whole).sha256 == found.sha256
        assert collect(claims, runs, [tmp_path / "elsewhere"], found).sha256 == found.sha256
    assert len(whole.dump() or b"") < sum(size.values()) + 300 * 2 * len(order)  # the rest is the archive's own


def test_the_hash_is_of_the_content_not_of_its_compression(tmp_path: Path) -> None:
    known = collect(artifact(part()), campaign(tmp_path), [tmp_path], Contrasts({}))
    plain = io.BytesIO()
    np.savez(plain, **known._arrays())  # type: ignore[arg-type]  # numpy's stub, as in contrasts.py
    (tmp_path / per_example_effects.NAME).write_bytes(plain.getvalue())
    assert plain.getvalue() != known.dump()
    assert load(tmp_path / per_example_effects.NAME).sha256 == known.sha256
    ((name, table),) = known.tables.items()
    numbers, effects = table[1]
    changed = Contrasts({name: {**table, 1: (numbers, effects + np.eye(60)[0])}})
    moved = Contrasts({name: {**table, 1: (numbers, np.roll(effects, 1))}})
    fewer = Contrasts({name: {seed: row for seed, row in table.items() if seed > 1}})
    assert len({known.sha256, changed.sha256, moved.sha256, fewer.sha256}) == 4


def test_without_examples_there_is_no_file(tmp_path: Path) -> None:
    none = load(tmp_path / per_example_effects.NAME)
    assert (none.tables, none.sha256, none.dump()) == ({}, "", None)
    assert none.spread(part(), "", FIVE) is None


def test_a_damaged_file_is_refused_in_one_line(tmp_path: Path) -> None:
    known = collect(artifact(part()), campaign(tmp_path), [tmp_path], Contrasts({}))
    content, path = known.dump() or b"", tmp_path / per_example_effects.NAME
    ((name, _),) = known.tables.items()
    arrays = known._arrays()

    def archive(**changed: Any) -> bytes:
        file = io.BytesIO()
        np.savez(file, **{**arrays, **changed})
        return file.getvalue()

    single = io.BytesIO()
    np.save(single, np.zeros(3))
    broken = [
        b"", b"nothing", single.getvalue(), content[:-20], content[: len(content) // 2],
        content[:200] + bytes([content[200] ^ 255]) + content[201:],
        archive(**{f"{name}|seeds": np.arange(4)}), archive(**{f"{name}|seeds": np.array(5)}),
        archive(**{f"{name}|effects": np.zeros(3)}), archive(**{f"{name}|numbers": np.arange(3)}),
        archive(**{f"{name}|effects": np.array(["a"])}), archive(**{"other|effects": np.zeros((2, 2))}),
    ]  # fmt: skip
    for damage in broken:
        path.write_bytes(damage)
        with pytest.raises(NormbenchError, match=r"is damaged \(.*Restore it \(git checkout\) or delete it") as refused:
            load(path)
        assert "\n" not in str(refused.value) and str(path) in str(refused.value)


def test_whatever_bit_is_flipped_it_is_read_or_refused_in_one_line(tmp_path: Path) -> None:
    runs = campaign(tmp_path, [1, 2])
    known = collect(artifact(part()), runs, [tmp_path], Contrasts({}))
    (raw,) = tmp_path.glob(f"runs/**/*.{runs[0].id}/outcomes/last.npz")
    path, draw, refused = tmp_path / per_example_effects.NAME, stream(0, "bits"), 0
    reads: list[tuple[bytes, Callable[[], Any]]] = [
        (known.dump() or b"", lambda: load(path)),
        (raw.read_bytes(), lambda: outcomes.read(path, "test", [""], "nll")),
    ]
    for content, read in reads:
        for place in draw.integers(0, len(content), 80):
            flipped = content[place] ^ (1 << int(draw.integers(8)))
            path.write_bytes(content[:place] + bytes([flipped]) + content[place + 1 :])
            try:
                read()
            except NormbenchError as error:
                assert "\n" not in str(error)
                refused += 1
    assert refused > 80
