"""What other tools log is read whole: no last row, late point, text or series is lost without a word."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from binary_logs import event_file

from normbench import imports
from normbench.core.keys import read as read_keys
from normbench.errors import NormbenchError
from normbench.imports import tensorboard
from normbench.imports.guess import OpenMap
from normbench.imports.map_keys import Map
from normbench.imports.words import split_of
from normbench.runs.run import Run

SEED = {"seed": "none"}


def read(path: Path, **keys: Any) -> imports.Read:
    return imports.read([path], "x", read_keys(Map, keys))


def curve(run: Run, split: str, metric: str = "loss") -> dict[int, Any]:
    records = [record for record in run.records if record["split"] == split and metric in record]
    return {record["step"]: record[metric] for record in records}


def table(folder: Path, text: str, name: str = "ln_s1.csv") -> Path:
    (path := folder / name).parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return folder


def events(path: Path, *found: tuple[int, dict[str, float]], restart: int | None = None, wall: float = 1.0) -> None:
    """An event file; with `restart`, SessionLog START at this step is its first event."""
    make = tensorboard._event()
    messages = [] if restart is None else [make(wall_time=wall, step=restart, session={"status": tensorboard.START})]
    for step, scalars in found:
        message = make(wall_time=wall, step=step)
        for tag, value in scalars.items():
            message.summary.value.add(tag=tag, simple_value=value)
        messages.append(message)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(event_file(messages))


# --- first and last lines --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("last", "value", "word"),
    [
        ("2,0.25", 0.25, "step 2"),
        ('"2","0.25"', 0.25, ""),  # a quote behind it: it is whole
        ('"2","0.2', None, "cut"),
        ("2", None, "'2'"),
    ],
)
def test_a_last_row_without_an_end_counts_where_it_has_all_fields(
    last: str, value: float | None, word: str, tmp_path: Path
) -> None:
    found = read(table(tmp_path, f"step,val_loss\n1,0.5\n{last}"))
    assert curve(found.runs[0], "valid").get(2) == value
    assert any(word in note for note in found.notes) if word else not found.notes


def test_the_last_row_of_a_cut_gzip_file_is_none(tmp_path: Path) -> None:
    content = gzip.compress(b"step,val_loss\n1,0.5\n2,0.123456", compresslevel=0)
    (tmp_path / "ln_s1.csv.gz").write_bytes(content[:-10])
    found = read(tmp_path)
    assert [*curve(found.runs[0], "valid")] == [1] and any("cut" in note for note in found.notes)


def test_a_cut_line_of_json_is_named(tmp_path: Path) -> None:
    found = read(table(tmp_path, '{"step": 1, "val_loss": 2}\n{"step": 2, "val', "ln_s1.jsonl"))
    assert [*curve(found.runs[0], "valid")] == [1] and any('{"step": 2' in note for note in found.notes)


@pytest.mark.parametrize(
    ("before", "word"),
    [("", ""), ('#{"env": "CartPole"}\n# more\n', "2 lines"), ("\n", ""), ("sep=,\n", "1 line")],
)
def test_a_header_may_be_padded_and_stand_behind_comments(before: str, word: str, tmp_path: Path) -> None:
    found = read(table(tmp_path, f"{before}  epoch,   train/loss,     val/loss\n      0,   1.0,   1.1\n"))
    assert curve(found.runs[0], "valid") == {0: 1.1} and curve(found.runs[0], "train") == {0: 1.0}
    assert any(word in note for note in found.notes) if word else not found.notes


def test_a_header_that_is_a_comment_is_that_of_numpy(tmp_path: Path) -> None:
    found = read(table(tmp_path, "# made by savetxt\n# step,val_loss\n1.0,0.5\n2.0,0.4\n"))
    assert curve(found.runs[0], "valid") == {1: 0.5, 2: 0.4}
    assert not any("again" in note for note in found.notes), "numbers are no second header"


def test_lists_in_lines_of_json_are_left_out_by_name(tmp_path: Path) -> None:
    found = read(table(tmp_path, '{"step": 1, "val_loss": 2, "z": [1]}\n{"step": 2, "val_loss": 1}\n', "ln_s1.jsonl"))
    assert curve(found.runs[0], "valid") == {1: 2, 2: 1} and any(" z" in note for note in found.notes)


@pytest.mark.parametrize("columns", ["step,val_loss", "step,ln_s1,bn_s1", "step,seed,val_loss"])
def test_a_column_of_the_long_form_that_is_missing_is_named(columns: str, tmp_path: Path) -> None:
    row = ",".join("1" for _ in columns.split(","))
    with pytest.raises(NormbenchError, match="'metric'"):
        read(table(tmp_path, f"{columns}\n{row}\n"), long={"name": "metric", "value": "value"})


def test_labels_of_a_padded_table_are_not_padded(tmp_path: Path) -> None:
    text = "norm,  seed,  step,  val_loss\nln  ,     1,     1,       0.5\n"
    found = read(table(tmp_path, text, "a.csv"), run=["norm", "seed"], labels={"arm": {"column": "norm"}})
    assert found.runs[0].arm == "ln"


def test_a_header_that_comes_again_is_no_row(tmp_path: Path) -> None:
    text = "epoch,loss,val_loss\n0,1,2\nepoch,loss,val_loss\nepoch,loss,val_loss\n1,0.5,1\nepoch,loss,val_loss"
    found = read(table(tmp_path, text))
    assert curve(found.runs[0], "valid") == {0: 2.0, 1: 1.0}
    assert any("line 3 " in note for note in found.notes)


def test_a_row_of_another_header_is_named(tmp_path: Path) -> None:
    with pytest.raises(NormbenchError, match=r"line 3 has 3 columns, the first 2 \(names"):
        read(table(tmp_path, "step,val_loss\n1,2\nstep,acc,val_loss\n1,2,3\n"))


# --- order -----------------------------------------------------------------------------------------------------------


def test_points_that_were_written_late_are_sorted(tmp_path: Path) -> None:
    events(
        tmp_path / "ln_s1" / "events.out.tfevents.1", *((step, {"val/loss": float(step)}) for step in (0, 2, 1, 4, 3))
    )
    (run,) = read(tmp_path).runs
    assert [*curve(run, "valid")] == [0, 1, 2, 3, 4] and run.config["import"]["counted"] == {"unordered": 2}


def test_a_late_point_is_kept_beside_an_evaluation_that_is_repeated(tmp_path: Path) -> None:
    (run,) = read(table(tmp_path, "step,val_loss\n1,1\n2,2\n4,4\n3,3\n3,5\n5,6\n")).runs
    assert curve(run, "valid") == {1: 1.0, 2: 2.0, 3: 5.0, 5: 6.0}
    (run,) = read(table(tmp_path, "step,val_loss\n1,1\n2,2\n2,3\n4,4\n3,5\n")).runs
    assert curve(run, "valid") == {1: 1.0, 2: 3.0, 3: 5.0, 4: 4.0}


def test_event_files_follow_their_events_and_not_their_names(tmp_path: Path) -> None:
    for name, wall, found in (("9", 1.0, [(1, 5.0), (2, 5.0), (3, 5.0)]), ("10", 2.0, [(2, 6.0), (3, 6.0)])):
        path = tmp_path / "ln_s1" / f"events.out.tfevents.1.{name}"
        events(path, *((step, {"val/loss": value}) for step, value in found), wall=wall)
    assert curve(read(tmp_path).runs[0], "valid") == {1: 5.0, 2: 6.0, 3: 6.0}


@pytest.mark.parametrize("files", [1, 2])
def test_purge_step_takes_back_points_of_all_tags_of_the_folder(files: int, tmp_path: Path) -> None:
    first, second = tmp_path / "ln_s1" / "events.out.tfevents.1", tmp_path / "ln_s1" / "events.out.tfevents.2"
    events(first, *((step, {"train/loss": 1.0, "val/loss": 2.0}) for step in range(6)))
    events(second, (3, {"train/loss": 0.5}), (4, {"train/loss": 0.5}), restart=3, wall=2.0)
    events(tmp_path / "ln_s2" / "events.out.tfevents.1", *((step, {"val/loss": 2.0}) for step in range(6)))
    if files == 1:
        first.write_bytes(first.read_bytes() + second.read_bytes())
        second.unlink()
    found = read(tmp_path)
    one, two = found.runs if found.runs[0].seed == 1 else found.runs[::-1]
    assert [*curve(one, "valid")] == [0, 1, 2] and [*curve(two, "valid")] == [*range(6)]
    assert curve(one, "train") == {0: 1.0, 1: 1.0, 2: 1.0, 3: 0.5, 4: 0.5}
    assert any("6 points" in note and "purge_step" in note for note in found.notes)


def test_a_cut_event_file_is_said_with_its_last_step(tmp_path: Path) -> None:
    events(path := tmp_path / "ln_s1" / "events.out.tfevents.1", *((step, {"val/loss": 1.0}) for step in (5, 6, 7)))
    path.write_bytes(path.read_bytes()[:-5])
    assert any("after step 6" in note for note in read(tmp_path).notes)


# --- texts and names -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-inf"])
def test_texts_of_numbers_are_numbers(word: str, tmp_path: Path) -> None:
    rows = [{"step": 1, "val_loss": 1.0}, {"step": 2, "val_loss": word}]
    (run,) = read(table(tmp_path, "".join(f"{json.dumps(row)}\n" for row in rows), "ln_s1.jsonl")).runs
    assert run.status == "diverged"


@pytest.mark.parametrize("word", ["None", "N/A", "-", "null"])
def test_words_for_no_measurement_are_blanks_that_a_map_explains(word: str, tmp_path: Path) -> None:
    table(tmp_path, f"step,train_loss,val_loss\n1,1,{word}\n2,1,0.5\n")
    with pytest.raises(NormbenchError, match="1 values of 'val_loss' are blank"):
        read(tmp_path)
    assert curve(read(tmp_path, blank="missing").runs[0], "valid") == {2: 0.5}


@pytest.mark.parametrize(
    ("word", "guess"), [("tensor(1.1)", "item"), ('"1,5"', "decimal comma"), ("50 %", "percentage"), ("abc", "'abc'")]
)
def test_a_series_with_a_text_is_named_with_its_row_whatever_the_other_run_has(
    word: str, guess: str, tmp_path: Path
) -> None:
    table(tmp_path, f"step,train_loss,val_loss\n1,1,2\n2,1,{word}\n")
    alone = read(tmp_path)
    table(tmp_path, "step,train_loss,val_loss\n1,1,2\n", "ln_s2.csv")
    for found in (alone, read(tmp_path)):
        (note,) = found.notes
        assert "not taken: val_loss" in note and "in row 2" in note and guess in note and "ln_s1.csv" in note
        assert not any(curve(run, "valid") for run in found.runs)
    table(tmp_path, f"step,val_loss\n1,1\n2,{word}\n", "ln_s1.csv")
    (tmp_path / "ln_s2.csv").unlink()
    with pytest.raises(NormbenchError, match=r"no series can be taken: not taken: val_loss .* in row 2"):
        read(tmp_path)
    with pytest.raises(NormbenchError, match=r"'val_loss' has text .* in row 2.*, which is no number"):
        read(tmp_path, series=[{"column": "val_loss", "split": "valid"}])


def test_a_series_without_a_split_and_a_setting_of_training_are_named(tmp_path: Path) -> None:
    found = read(table(tmp_path, "step,valid_loss,loss,lr,val_best,norm\n1,2,3,4,true,ln\n"))
    notes = " | ".join(found.notes)
    assert "val_best (true or false)" in notes and "no split is in the name: loss" in notes and "goes: lr" in notes
    assert "norm" not in notes  # a label


def test_words_of_splits() -> None:
    names = ("dev_loss", "loss/dev", "std_dev", "val_std_dev", "metrics/mAP50(B)", "metrics/speed")
    assert [split_of(name) for name in names] == ["valid", "valid", "", "valid", "valid", ""]


def test_objects_in_objects_are_columns(tmp_path: Path) -> None:
    for loss in (1.0, "NaN"):  # the second is not read by Arrow
        rows = [{"step": 1, "train": {"loss": 2.0}, "val": {"loss": 1.5}}, {"step": 2, "val": {"loss": loss}}]
        found = read(table(tmp_path, "".join(f"{json.dumps(row)}\n" for row in rows), "ln_s1.jsonl"), blank="missing")
        assert curve(found.runs[0], "train") == {1: 2.0} and len(curve(found.runs[0], "valid")) == 2


# --- labels ----------------------------------------------------------------------------------------------------------


def test_a_folder_is_no_split_where_its_tags_name_another(tmp_path: Path) -> None:
    scalars = {"train/box_loss": 1.0, "val/box_loss": 1.0, "metrics/mAP50(B)": 0.5, "lr/pg0": 0.1}
    events(tmp_path / "detect" / "train" / "events.out.tfevents.1", (1, scalars))
    events(tmp_path / "detect" / "train2" / "events.out.tfevents.1", (1, scalars))
    runs = read(tmp_path, labels={**SEED, "arm": {"value": "yolo"}}).runs
    assert sorted(run.config["import"]["run"] for run in runs) == ["detect/train", "detect/train2"]
    assert curve(runs[0], "valid", "metrics/mAP50(B)") == {1: 0.5} and not curve(runs[0], "train", "metrics/mAP50(B)")


@pytest.mark.parametrize("curves", [("train", "validation"), ("loss_train", "loss_val")])
def test_folders_of_splits_are_one_run_whose_name_is_the_arm(curves: tuple[str, str], tmp_path: Path) -> None:
    """Those of Keras, and of add_scalars, whose own folder has an empty file."""
    for seed in (1, 2):
        events(tmp_path / f"ln_seed{seed}" / "events.out.tfevents.0")
        for number, name in enumerate(curves):
            events(tmp_path / f"ln_seed{seed}" / name / "events.out.tfevents.1", (1, {"loss": float(number)}))
    runs = read(tmp_path).runs
    assert sorted((run.arm, run.seed) for run in runs) == [("ln", 1), ("ln", 2)]
    assert all(curve(run, "train") == {1: 0.0} and curve(run, "valid") == {1: 1.0} for run in runs)


def test_the_folder_of_one_split_is_no_run(tmp_path: Path) -> None:
    for name in ("train", "validation"):
        events(tmp_path / name / "events.out.tfevents.1", (1, {"loss": 1.0}))
    with pytest.raises(NormbenchError, match="folder of a split"):
        read(tmp_path, labels=SEED)


@pytest.mark.parametrize("path", ["ln_seed{}/version_0/metrics.csv", "ln/seed{}/log.csv", "seed{}/ln/logs.csv"])
def test_the_arm_of_several_seeds_is_what_the_seed_is_of(path: str, tmp_path: Path) -> None:
    for seed in (1, 2):
        table(tmp_path, "step,val_loss\n1,2\n", path.format(seed))
    assert {run.arm for run in read(tmp_path).runs} == {"ln"}


def test_a_run_alone_needs_no_seed(tmp_path: Path) -> None:
    (run,) = read(table(tmp_path, "step,val_loss\n1,2\n", "a.csv")).runs
    assert run.config["import"]["counted_seeds"]


# --- clocks and questions --------------------------------------------------------------------------------------------


def test_epochs_of_hugging_face_stand_beside_its_steps_and_settings_are_no_metrics(tmp_path: Path) -> None:
    history = [
        {"epoch": 0.5, "loss": 1.0, "learning_rate": 0.1, "step": 2},
        {"epoch": 0.5, "eval_loss": 1.1, "eval_runtime": 3.0, "eval_samples_per_second": 9.0, "step": 2},
    ]
    found = read(table(tmp_path, json.dumps({"log_history": history}), "ln_s1/trainer_state.json"))
    assert found.map.x.step.key == "step" and found.map.x.epoch.key == "epoch"
    assert {series.metric for series in found.map.series} == {"loss"}
    assert any("learning_rate, eval_runtime, eval_samples_per_second" in note for note in found.notes)
    del history[1]["epoch"]
    found = read(table(tmp_path, json.dumps({"log_history": history}), "ln_s1/trainer_state.json"))
    assert found.map.x.epoch is None


def test_a_table_with_a_row_a_run_needs_no_clock(tmp_path: Path) -> None:
    table(tmp_path, "name,seed,test_acc\nln,1,0.9\nln,2,0.8\nrms,1,0.7\n", "a.csv")
    keys: dict[str, Any] = {"run": ["name", "seed"], "labels": {"arm": {"column": "name"}}}
    found = read(tmp_path, **keys)
    assert [curve(run, "test", "acc") for run in found.runs] == [{1: 0.9}, {1: 0.8}, {1: 0.7}]
    assert any("final" in note for note in found.notes)
    with pytest.raises(NormbenchError, match="clock"):
        read(tmp_path, run=["name"], labels={"arm": {"column": "name"}})


def test_an_open_question_comes_with_the_rest_of_the_map(tmp_path: Path) -> None:
    """Without the # of the answers, the draft is a map that works."""
    for name in ("ln", "rms"):
        table(tmp_path, "step,epoch,val_loss\n10,1,2\n", f"{name}.csv")
    with pytest.raises(OpenMap, match="epoch or step") as caught:
        read(tmp_path)
    draft = caught.value.draft
    assert draft.count("# open: ") == 2 and "column: val_loss" in draft  # the clock and the seed
    chosen = [line.removeprefix("#") for line in draft.splitlines() if line != "#x: {epoch: {column: epoch}}"]
    (path := tmp_path / "map.yaml").write_text("\n".join(chosen))
    found = imports.read([tmp_path], "x", imports.read_map(path))
    assert sorted(run.arm for run in found.runs) == ["ln", "rms"] and not found.guessed


def test_a_question_for_splits_comes_with_all_series(tmp_path: Path) -> None:
    with pytest.raises(OpenMap, match="names its split: loss, acc") as caught:
        read(table(tmp_path, "step,loss,acc\n1,2,3\n"))
    assert caught.value.draft.count("#  split: train") == 2 and "column: step" in caught.value.draft
