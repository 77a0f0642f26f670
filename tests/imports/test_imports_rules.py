"""What a map may leave out, what is refused in one line, and what is counted."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from normbench import imports
from normbench.core.keys import read as read_keys
from normbench.errors import NormbenchError
from normbench.imports.guess import OpenMap
from normbench.imports.map_keys import Map
from normbench.runs.run import Run

HEAD = "step,valid/loss"


def write(folder: Path, name: str, *lines: str, head: str = HEAD) -> Path:
    (path := folder / name).parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in (head, *lines)))
    return path


def read(path: Path, **keys: Any) -> list[Run]:
    return [*imports.read([path], "x", read_keys(Map, keys)).runs]


def notes(path: Path, **keys: Any) -> list[str]:
    return [*imports.read([path], "x", read_keys(Map, keys)).notes]


def steps(run: Run) -> list[int]:
    return [record["step"] for record in run.records]


@pytest.mark.parametrize("place", [{"column": "run"}, {"config": "name"}, {"value": "x"}])
def test_a_run_is_named_by_a_path_or_columns_alone(place: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="a list of columns"):
        read_keys(Map, {"run": place})


def counted(run: Run) -> dict[str, int]:
    return run.config["import"]["counted"]


def losses(run: Run) -> list[Any]:
    return [record["loss"] for record in run.records]


# --- numbers and steps -----------------------------------------------------------------------------------------------


def test_nan_at_the_end_is_divergence_and_in_the_middle_a_count(tmp_path: Path) -> None:
    write(tmp_path, "ln_s1.csv", "1,0.5", "2,nan", "3,0.4")
    write(tmp_path, "ln_s2.csv", "1,0.5", "2,-inf", "3,1e300")
    one, two = read(tmp_path)
    assert (one.status, losses(one), counted(one)) == ("done", [0.5, "NaN", 0.4], {"nonfinite": 1})
    assert (two.status, losses(two), counted(two)) == ("diverged", [0.5, "-Infinity", "Infinity"], {"nonfinite": 2})
    assert "valid loss" in two.reason


def test_a_blank_is_neither_and_must_be_declared(tmp_path: Path) -> None:
    write(tmp_path, "ln_s1.csv", "1,0.5", "2,", "3,0.4", "4,")
    with pytest.raises(NormbenchError, match="2 values of 'valid/loss' are blank"):
        read(tmp_path)
    assert steps(read(tmp_path, blank="missing")[0]) == [1, 3]
    (run,) = read(tmp_path, blank="diverged")
    assert losses(run) == [0.5, "NaN", 0.4, "NaN"] and run.status == "diverged"


def test_a_resumed_run_drops_what_it_logged_again(tmp_path: Path) -> None:
    write(tmp_path, "ln_s1.csv", "1,1", "2,2", "3,3", "4,4", "3,5", "4,6", "5,7")
    (run,) = read(tmp_path)
    assert [*zip(steps(run), losses(run), strict=True)] == [(1, 1.0), (2, 2.0), (3, 5.0), (4, 6.0), (5, 7.0)]
    assert counted(run) == {"rewound": 2}


def test_a_run_that_goes_back_to_its_first_step_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "ln_s1.csv", "1,1", "2,2", "1,3", "2,4")
    with pytest.raises(NormbenchError, match="step 1 comes after 2"):
        read(tmp_path)
    assert losses(read(tmp_path, repeats="last")[0]) == [3.0, 4.0]


def test_a_repeated_step_counts_once_and_gaps_are_counted(tmp_path: Path) -> None:
    write(tmp_path, "ln_s1.csv", "1,1", "1,2", "2,3", "3,4", "4,5", "9,6")
    (run,) = read(tmp_path)
    assert steps(run) == [1, 2, 3, 4, 9] and losses(run)[0] == 2.0
    assert counted(run) == {"repeated": 1, "gaps": 1}
    with pytest.raises(NormbenchError, match="step 1 comes after 1"):
        read(tmp_path, repeats="refuse")


@pytest.mark.parametrize("step", ["1.5", "-1", "inf", "nan", "1e300"])
def test_a_step_that_is_no_whole_number_is_named(step: str, tmp_path: Path) -> None:
    write(tmp_path, "ln_s1.csv", "1,1", f"{step},2")
    with pytest.raises(NormbenchError, match="'step' is"):
        read(tmp_path)


def test_a_file_cut_in_its_last_line_gives_the_others(tmp_path: Path) -> None:
    path = write(tmp_path, "ln_s1.csv", "1,0.5", "2,0.123456")
    path.write_text(path.read_text()[:-10])
    (run,) = read(tmp_path)
    assert steps(run) == [1] and counted(run)["lost_bytes"] == 1
    assert any("'2'" in note for note in notes(tmp_path))


def test_a_series_without_a_value_is_none(tmp_path: Path) -> None:
    write(tmp_path, "ln_s1.csv", "1,0.5,", "2,0.4,", head="step,valid/loss,train/loss")
    (run,) = read(tmp_path, blank="missing")
    assert {record["split"] for record in run.records} == {"valid"}
    write(tmp_path, "ln_s1.csv", "1,", "2,")
    with pytest.raises(NormbenchError, match="no value"):
        read(tmp_path, blank="missing")


# --- guesses ---------------------------------------------------------------------------------------------------------


def test_of_two_clocks_none_is_guessed(tmp_path: Path) -> None:
    for clock, form in (("global_step", "epoch"), ("_step", "iter"), ("epoch", "step")):
        write(tmp_path, "ln_s1.csv", "1,2,3", head=f"{clock},{form},valid/loss")
        if clock == "_step":
            assert steps(read(tmp_path)[0]) == [2]  # not the count of log calls
        else:
            with pytest.raises(NormbenchError, match=f"could be {min(clock, form)} or"):
                read(tmp_path)


def test_a_count_of_log_calls_is_the_clock_where_nothing_else_is_and_is_said(tmp_path: Path) -> None:
    write(tmp_path, "ln_s1.csv", "7,2", head="_step,valid/loss")
    assert steps(read(tmp_path)[0]) == [7] and any("_step" in note for note in notes(tmp_path))


def test_a_seed_that_a_run_lacks_is_never_guessed(tmp_path: Path) -> None:
    write(tmp_path, "ln_s1.csv", "1,2")
    write(tmp_path, "ln_x.csv", "1,2")
    with pytest.raises(NormbenchError, match="1 of 2 runs name no seed, such as ln_x"):
        read(tmp_path)
    found = read(tmp_path, labels={"seed": "count", "arm": {"value": "a"}})
    assert [run.seed for run in found] == [1, 2]
    for word, seeds in (("count", [1, 1]), ("none", [1, 2])):
        found = read(tmp_path, labels={"seed": word, "arm": {"path": "ln_(.+)"}})
        assert [(run.arm, run.seed) for run in found] == [*zip(("s1", "x"), seeds, strict=True)]


def test_arms_that_differ_in_two_things_are_never_guessed(tmp_path: Path) -> None:
    for norm, lr in (("ln", 1), ("ln", 2), ("bn", 1)):
        write(tmp_path, f"{norm}/lr{lr}_s1.csv", "1,2")
    runs = read(tmp_path, labels={"arm": {"path": "^([a-z]+)/"}, "axes": {"optim.lr": {"path": r"lr(\d+)"}}})
    assert {(run.arm, run.axes["optim.lr"]) for run in runs} == {("ln", 1), ("ln", 2), ("bn", 1)}
    with pytest.raises(NormbenchError, match="both"):
        read(tmp_path, labels={"arm": {"path": "^([a-z]+)/"}})


def table(folder: Path, *columns: str, lr: str = "0.1", ends: int = 3, name: str = "all.csv") -> Path:
    """Two arms, three seeds, `ends` steps, in one file; the columns of which a row has the values."""
    lines = []
    for norm in ("ln", "dyt"):
        for seed in (1, 2, 3):
            for step in range(1, ends + 1):
                loss = step + 10 * seed
                status = "warn" if step == 2 else "ok"
                row = {"norm": norm, "seed": seed, "run": f"{norm}-{seed}", "lr": lr, "status": status}
                row |= {"when": f"day {len(lines)}", "split": "val", "metric": "loss"}
                lines.append(",".join(str(row[column]) for column in columns) + f",{step},{loss}")
    return write(folder, name, *lines, head=",".join([*columns, "step", "val_loss"]))


@pytest.mark.parametrize(
    "columns",
    [("norm", "seed"), ("run", "norm", "seed"), ("norm", "seed", "lr"), ("status", "norm", "seed"),
     ("norm", "status", "seed"), ("when", "norm", "seed")],
)  # fmt: skip
def test_a_table_with_the_runs_below_each_other_needs_no_map(columns: tuple[str, ...], tmp_path: Path) -> None:
    runs = read(table(tmp_path, *columns))
    assert sorted((run.arm, run.seed) for run in runs) == [(a, s) for a in ("dyt", "ln") for s in (1, 2, 3)]
    assert [steps(run) for run in runs] == [[1, 2, 3]] * 6
    assert {record["loss"] for run in runs if run.seed == 2 for record in run.records} == {21, 22, 23}


def test_a_table_of_final_numbers_needs_none_either(tmp_path: Path) -> None:
    rows = [f"{norm},{seed},0.{seed}" for norm in ("ln", "dyt") for seed in (1, 2, 3)]
    runs = read(write(tmp_path, "final.csv", *rows, head="norm,seed,test_loss"))
    assert sorted((run.arm, run.seed) for run in runs) == [(a, s) for a in ("dyt", "ln") for s in (1, 2, 3)]


@pytest.mark.parametrize("form", ["split", "metric"])
def test_a_row_for_each_split_or_metric_is_the_long_form(form: str, tmp_path: Path) -> None:
    names = {"split": ("train", "val"), "metric": ("train_loss", "val_loss")}[form]
    value = {"split": "loss", "metric": "value"}[form]
    rows = [f"{arm},{s},{n},{name},{n + s}" for arm in ("a", "b") for s in (1, 2) for n in (1, 2) for name in names]
    runs = read(write(tmp_path, "all.csv", *rows, head=f"norm,seed,step,{form},{value}"))
    assert [(run.arm, run.seed) for run in runs] == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]
    assert sorted((r["split"], r["step"], r["loss"]) for r in runs[1].records) == [
        ("train", 1, 3), ("train", 2, 4), ("valid", 1, 3), ("valid", 2, 4)
    ]  # fmt: skip
    two = [row + ",1" for row in rows]  # of which metric is a row of a split?
    with pytest.raises(OpenMap):
        read(write(tmp_path / "two", "all.csv", *two, head=f"norm,seed,step,{form},loss,acc"))


def test_rows_with_the_train_loss_and_others_with_the_validation_loss_are_one_run(tmp_path: Path) -> None:
    rows = [f"{arm},{s},{n},{v}" for arm in ("a", "b") for s in (1, 2) for n in (1, 2) for v in ("5,", ",6")]
    path = write(tmp_path, "all.csv", *rows, head="norm,seed,step,train_loss,val_loss")
    with pytest.raises(OpenMap, match="blank: missing") as caught:
        read(path)
    runs = read(path, **yaml.safe_load(re.sub(r"(?m)^#(?!#)", "", caught.value.draft)))
    assert [(run.arm, run.seed, len([*run.records])) for run in runs] == [
        ("a", 1, 4), ("a", 2, 4), ("b", 1, 4), ("b", 2, 4)
    ]  # fmt: skip


def test_a_configuration_in_each_line_of_json_names_the_runs(tmp_path: Path) -> None:
    (path := tmp_path / "log.jsonl").write_text(
        "".join(
            f'{{"config": {{"norm": "{arm}", "seed": {s}}}, "step": {n}, "val_loss": {n}}}\n'
            for arm in ("a", "b") for s in (1, 2) for n in (1, 2)
        )
    )  # fmt: skip
    assert [(run.arm, run.seed) for run in read(path)] == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]


@pytest.mark.parametrize("columns", [("norm", "seed", "split"), ("norm", "seed", "metric"), ("seed",), ("lr", "seed")])
def test_rows_of_splits_of_metrics_or_of_one_step_are_no_runs(columns: tuple[str, ...], tmp_path: Path) -> None:
    with pytest.raises(OpenMap, match=r"seed has 1 and 2 and 3 by column: seed.*run: \[COLUMNS\]"):
        read(table(tmp_path, *columns))


def test_a_run_that_was_resumed_under_another_id_is_not_two(tmp_path: Path) -> None:
    rows = [f"{norm}{seed}{step > 2},{norm},{seed},{step},1" for norm in "ab" for seed in (1, 2) for step in (1, 2, 3)]
    with pytest.raises(OpenMap):
        read(write(tmp_path, "all.csv", *rows, head="run,norm,seed,step,val_loss"))


def test_one_run_with_a_text_in_each_row_is_one(tmp_path: Path) -> None:
    (run,) = read(write(tmp_path, "ln_s1.csv", "ok,1,3", "warn,2,2", "ok,3,1", head="status,step,val_loss"))
    assert (run.seed, steps(run)) == (1, [1, 2, 3])


def test_of_two_columns_that_differ_neither_is_guessed_as_the_arm(tmp_path: Path) -> None:
    table(tmp_path, "norm", "seed", "lr", name="low.csv")
    rows = (tmp_path / "low.csv").read_text().splitlines()
    high = [row.replace(",0.1,", ",0.2,") for row in rows[1:]]
    with pytest.raises(OpenMap, match="column lr or column norm") as caught:
        read(write(tmp_path / "both", "all.csv", *rows[1:], *high, head=rows[0]))
    assert "column: norm" in caught.value.draft and "axes: {NAME: {column: KEY}}" in str(caught.value)
    labels = {"arm": {"column": "norm"}, "axes": {"lr": {"column": "lr"}}}
    assert len({(run.arm, run.seed, run.axes["lr"]) for run in read(tmp_path / "both", labels=labels)}) == 12


@pytest.mark.parametrize("form", ["{arm}_{seed}", "{arm}-seed{seed}", "{arm} s{seed}"])
def test_a_table_with_a_column_a_run_asks_for_its_split_and_metric_alone(form: str, tmp_path: Path) -> None:
    names = [form.format(arm=arm, seed=seed) for arm in ("ln", "dyt") for seed in (1, 2)]
    path = write(tmp_path, "wide.csv", "1,5,6,7,8", "2,1,2,3,4", head=",".join(["step", *names]))
    with pytest.raises(OpenMap, match="are runs: of which split and metric") as caught:
        read(path)
    uncommented = re.sub(r"(?m)^#(?!#)", "", caught.value.draft)
    runs = read(path, **yaml.safe_load(uncommented))
    assert [(run.arm, run.seed, losses(run)) for run in runs] == [
        ("dyt", 1, [7, 3]), ("dyt", 2, [8, 4]), ("ln", 1, [5, 1]), ("ln", 2, [6, 2])
    ]  # fmt: skip


@pytest.mark.parametrize("head", ["step,loss_1,loss_2", "step,ln_1,dyt_2", "step,ln_1,ln_2,dyt_1,dyt_2,note"])
def test_columns_that_are_no_rectangle_of_arms_and_seeds_are_no_runs(head: str, tmp_path: Path) -> None:
    with pytest.raises(OpenMap, match="no series names its split"):
        read(write(tmp_path, "a.csv", "1" + ",1" * head.count(","), head=head))


def test_a_number_at_the_end_of_a_name_is_asked_for(tmp_path: Path) -> None:
    for name in ("ln-0", "ln-1", "dyt-0", "dyt-1"):
        write(tmp_path, f"{name}.csv", "1,0.5", "2,0.4")
    with pytest.raises(OpenMap, match="number at their ends") as caught:
        read(tmp_path)
    answered = yaml.safe_load(re.sub(r"(?m)^#(?!#)", "", caught.value.draft))
    runs = read(tmp_path, **answered)
    assert [(run.arm, run.seed) for run in runs] == [("dyt", 0), ("dyt", 1), ("ln", 0), ("ln", 1)]


def test_an_epoch_with_several_values_is_not_the_clock_beside_a_step(tmp_path: Path) -> None:
    rows = ["0,0,9,", "1,0,8,", "2,0,,7", "3,1,6,", "4,1,5,", "5,1,,4"]
    path = write(tmp_path, "ln_s1.csv", *rows, head="_step,epoch,train/loss,val/loss")
    (run,) = read(path, blank="missing")
    assert sorted((r["split"], r["step"], r["epoch"]) for r in run.records) == [
        ("train", 0, 0), ("train", 1, 0), ("train", 3, 1), ("train", 4, 1), ("valid", 2, 0), ("valid", 5, 1)
    ]  # fmt: skip
    once = ["0,0,9,7", "5,1,8,6"]
    (run,) = read(write(tmp_path / "once", "ln_s1.csv", *once, head="_step,epoch,train/loss,val/loss"))
    assert {r["step"] for r in run.records} == {0, 1}


def test_a_seed_behind_a_dash_is_one(tmp_path: Path) -> None:
    for name in ("ln-s0", "ln-s1", "dyt-s0", "dyt-s1"):
        write(tmp_path, f"{name}.csv", "1,0.5", "2,0.4")
    assert [(run.arm, run.seed) for run in read(tmp_path)] == [("dyt", 0), ("dyt", 1), ("ln", 0), ("ln", 1)]


def test_a_glob_finds_no_clock(tmp_path: Path) -> None:
    write(tmp_path, "ln_s1.csv", "1,2")
    (run,) = read(tmp_path, series=[{"column": "*", "split": "valid"}])
    assert {key for record in run.records for key in record} == {"step", "split", "mode", "loss"}


# --- one line --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_many_series_are_named_by_their_commonest_prefixes(tmp_path: Path) -> None:
    names = [f"grad/{number}" for number in range(9_000)]
    write(tmp_path, "ln_s1.csv", ",".join(["1"] * 9_002), head=",".join(["step", "valid/loss", *names]))
    with pytest.raises(NormbenchError, match=r"9001 series, of grad\* \(9000\)"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("head", "keys", "line"),
    [
        (HEAD, {"series": [{"column": "valid/los", "split": "valid"}]}, "Did you mean 'valid/loss'"),
        (
            "step,valid/loss,valid/acc",
            {"series": [{"column": "valid/loss", "split": "valid"}, {"column": "valid/ac", "split": "valid"}]},
            "Did you mean 'valid/acc'",
        ),
        (HEAD, {"x": {"step": {"column": "stepp"}}}, "Did you mean 'step'"),
        (HEAD, {"labels": {"arm": {"column": "norm"}}}, "'norm' is not a column"),
        (HEAD, {"run": {"path": "^(x)$"}}, "run: path"),
        ("step,step", {}, "two columns 'step'"),
        (",step", {}, "no series can be taken: it has step alone"),
        ("step,valid/loss,valid_loss", {}, "both loss of valid"),
        (HEAD, {"monitor": {"split": "valid", "metric": "loss"}}, "needs a goal"),
        (HEAD, {"labels": {"arm": {"value": "a\x1b[1m"}}}, "invisible"),
        (HEAD, {"columns": "(?P<arm>z)"}, "no column fits"),
        (HEAD, {"source": "wandb"}, "no log of source wandb"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line(head: str, keys: dict[str, Any], line: str, tmp_path: Path) -> None:
    write(tmp_path, "ln_s1.csv", ",".join("1" * len(head.split(","))), head=head)
    with pytest.raises(NormbenchError) as caught:
        read(tmp_path, **keys)
    assert line in str(caught.value) and "\n" not in str(caught.value) and "\x1b" not in str(caught.value)


NAMES = ("a.csv", "a.csv.gz", "a.parquet", "a.jsonl", "a.wandb", "events.out.tfevents.1", "trainer_state.json")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("content", [b"", b"\x1f\x8b\x00", b"PAR1abc", b"\xff" * 99, b'{"a": 1}\n[]\n', b"a,b\n1\n"])
def test_a_file_that_is_none_is_one_line(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(NormbenchError) as caught:
        read(tmp_path / name, labels={"seed": "none"})
    assert caught.value.code == 2


LOGS = Path(__file__).parents[2] / "examples" / "imports"
WORDS = (b"NaN", b",", b'"', b"\n", b"1e400", b"\x00", b"{", b"[[", b"null", b"\xff", b"-1", b"9" * 20)


@pytest.mark.parametrize("source", ["tensorboard", "tensorflow2", "wandb", "keras", "lightning", "huggingface"])
def test_a_damaged_log_is_read_in_part_or_refused_in_one_line(source: str, tmp_path: Path) -> None:
    dice = random.Random(source)
    paths = sorted(path for path in (LOGS / source).rglob("*") if path.is_file())
    clock = {"lightning": {"column": "step"}, "huggingface": {"key": "step"}}.get(source)
    keys = {"labels": {"seed": "none"}, **({"x": {"step": clock}} if clock else {})}
    for _ in range(40):
        path = dice.choice(paths)
        content = bytearray(path.read_bytes())
        for _ in range(dice.choice((1, 3))):
            place = dice.randrange(len(content))
            content[place : place + dice.choice((0, 1, 4))] = dice.choice((*WORDS, b"", dice.randbytes(1)))
        (tmp_path / path.name).write_bytes(content[: dice.choice((len(content), len(content) - 9))])
        try:
            imports.read([tmp_path / path.name], "x", read_keys(Map, keys))
        except NormbenchError as error:
            assert "\n" not in str(error) and error.code == 2
