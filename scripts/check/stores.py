"""Stores of Trackio and MLflow, written by the packages themselves: python scripts/check/stores.py [FILE.tar.gz]

Makes an environment of its own, has both packages write the same runs into Trackio's store, MLflow's database and
MLflow's `mlruns`, and says whether what `normbench import` reads is what the packages' own API says. Two arms of five
seeds, each nested in a run of its arm (MLflow) or in its group (Trackio); one run is resumed and logs two steps again;
two runs of a third arm end in NaN and Infinity, the second failed; one has metrics of the machine; one is deleted
(MLflow). FILE: the stores and what the API says of them, which the tests read.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

PACKAGES = ("trackio", "mlflow-skinny", "sqlalchemy", "alembic", "psutil", "pandas")
STORES = {"trackio": "trackio", "mlflow": "mlflow.db", "mlruns": "mlruns"}
MAP = {"labels": {"arm": {"config": "norm"}}}
STEPS, RESUMED, AGAIN = 8, ("base", 3), 4  # the last: the step at which it goes on, of 6 that it had
ENDS = {("high", 1): float("nan"), ("high", 2): float("inf")}
CELLS = [*((arm, seed) for arm in ("base", "ln") for seed in range(1, 6)), *ENDS]


def rows(arm: str, seed: int, part: int = 0) -> Iterator[tuple[int, dict[str, float]]]:
    """What a run logs; part 1 is that before it was resumed, part 2 that after it."""
    draw = random.Random(f"{arm} {seed} {part}")
    for step in range(*{0: (0, STEPS), 1: (0, 6), 2: (AGAIN, STEPS)}[part]):
        loss = 1 / (1 + step) + 0.1 * draw.random() - 0.3 * (arm == "ln")
        evaluated = ENDS.get((arm, seed), loss) if step == STEPS - 1 else loss
        yield step, {"train/loss": loss, "val/loss": evaluated}


def parts(arm: str, seed: int) -> tuple[int, ...]:
    return (1, 2) if (arm, seed) == RESUMED else (0,)


# --- in the environment of the packages ------------------------------------------------------------------------------


def write_trackio(folder: Path) -> dict[str, Any]:
    os.environ["TRACKIO_DIR"] = str(folder / "trackio")
    import trackio
    from trackio.sqlite_storage import SQLiteStorage

    for arm, seed in CELLS:
        for part in parts(arm, seed):
            config = {"norm": arm, "seed": seed, "optimizer": {"name": "adam", "lr": 1e-3}}
            resume = "must" if part == 2 else "never"
            trackio.init(project="norms", name=f"{arm}_s{seed}", group=arm, config=config, resume=resume, embed=False)
            for step, numbers in rows(arm, seed, part):
                trackio.log(numbers, step=step)
            if (arm, seed) == ("ln", 1):
                trackio.log_system({"gpu/0/utilization": 93.0})
            trackio.finish()
    stated = {}
    for run in trackio.Api().runs("norms"):
        metrics: dict[str, list[Any]] = {}
        for log in SQLiteStorage.get_logs("norms", run.name, run_id=run.id):
            for key in ("train/loss", "val/loss"):
                metrics.setdefault(key, []).append([log["step"], log[key]])
        stated[run.name] = {"metrics": metrics, "seed": run.config["seed"], "norm": run.config["norm"]}
    return stated


def write_mlflow(uri: str) -> dict[str, Any]:
    import mlflow

    mlflow.set_tracking_uri(uri)
    mlflow.set_experiment("norms")
    mlflow.set_system_metrics_sampling_interval(0.1)
    mlflow.set_system_metrics_samples_before_logging(1)
    tags = {"mlflow.user": "user", "mlflow.source.name": "train.py", "team": "a"}
    deleted = mlflow.start_run(run_name="ln_s9", tags=tags).info.run_id
    mlflow.log_params({"norm": "ln", "seed": 9})
    mlflow.log_metric("val/loss", 0.0, step=STEPS)
    mlflow.end_run()
    mlflow.delete_run(deleted)
    for arm in ("base", "ln", "high"):
        with mlflow.start_run(run_name=f"sweep {arm}", tags=tags):
            for seed in (seed for name, seed in CELLS if name == arm):
                _write_child(arm, seed, tags)
    client = mlflow.MlflowClient()
    experiment = client.get_experiment_by_name("norms")
    stated = {}
    for run in client.search_runs([experiment.experiment_id]):
        keys = [key for key in run.data.metrics if not key.startswith("system/")]
        points = {key: client.get_metric_history(run.info.run_id, key) for key in keys}
        metrics = {key: [[point.step, point.value] for point in points[key]] for key in keys}
        if metrics:
            stated[run.info.run_name] = {"metrics": metrics, **run.data.params}
    return stated


def _write_child(arm: str, seed: int, tags: dict[str, str]) -> None:
    import mlflow

    run = None
    for part in parts(arm, seed):
        resumed = {"run_id": run} if run else {"run_name": f"{arm}_s{seed}", "tags": tags}
        measured = (arm, seed) == ("ln", 1)
        run = mlflow.start_run(nested=True, log_system_metrics=measured, **resumed).info.run_id
        mlflow.log_params({"norm": arm, "seed": seed, "optimizer.lr": 1e-3})
        for step, numbers in rows(arm, seed, part):
            mlflow.log_metrics(numbers, step=step)
            time.sleep(0.002)  # its times are of milliseconds
        time.sleep(0.5 * measured)
        mlflow.end_run("FAILED" if (arm, seed) == ("high", 2) else "FINISHED")


def write(folder: Path) -> None:
    os.environ |= {"MLFLOW_ALLOW_FILE_STORE": "true", "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
    stated = {
        "trackio": write_trackio(folder),
        "mlflow": write_mlflow(f"sqlite:///{folder}/mlflow.db"),
        "mlruns": write_mlflow(f"file://{folder}/mlruns"),
    }
    (folder / "stated.json").write_text(json.dumps(stated))
    import sqlite3

    for path in (folder / "mlflow.db", folder / "trackio" / "norms.db"):  # small: with an empty page they are 950 kB
        store = sqlite3.connect(path)
        store.execute("PRAGMA journal_mode = DELETE")
        store.execute("PRAGMA page_size = 512")
        store.execute("VACUUM")
        store.close()


# --- in the environment of normbench ---------------------------------------------------------------------------------


def curve(points: list[list[Any]]) -> dict[int, str]:
    """The points that count of those that an API lists in the order of time: the later of a step."""
    return {step: "Infinity" if value > 1e60 else "NaN" if value != value else repr(value) for step, value in points}


def differences(source: str, folder: Path) -> Iterator[str]:
    """Every number of a store that was read in another way than its package says it."""
    from normbench import imports
    from normbench.core.keys import read as read_keys
    from normbench.imports.map_keys import Map

    stated = json.loads((folder / "stated.json").read_text())[source]
    read = imports.read([folder / STORES[source]], "x", read_keys(Map, MAP))
    runs = {f"{run.arm}_s{run.seed}": run for run in read.runs}
    if {*runs} != {*stated}:
        yield f"{source}: runs are {sorted(runs)}, not {sorted(stated)}"
    count = 0
    for name, run in runs.items():
        for split, key in (("train", "train/loss"), ("valid", "val/loss")):
            numbers = {record["step"]: record["loss"] for record in run.records if record["split"] == split}
            texts = {step: value if isinstance(value, str) else repr(value) for step, value in numbers.items()}
            count += len(texts)
            if texts != curve(stated[name]["metrics"][key]):
                yield f"{source}: {name} {key} is {texts}, not {curve(stated[name]['metrics'][key])}"
        hparams = run.config["import"]["hparams"]
        if (hparams["norm"], str(hparams["seed"])) != (stated[name]["norm"], str(stated[name]["seed"])):
            yield f"{source}: {name} has {hparams}"
    print(f"{source}: {len(runs)} runs, {count} numbers", *read.notes, sep="\n  ")


def main() -> None:
    if sys.argv[1:2] == ["--write"]:
        write(Path(sys.argv[2]))
        return
    with TemporaryDirectory(prefix="stores-") as name:
        folder = Path(name, "stores")
        folder.mkdir()
        python = Path(name, "env", "bin", "python")
        subprocess.run([sys.executable, "-m", "venv", python.parents[1]], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES], check=True)
        script = shutil.copy(__file__, name)  # outside of the checkout: MLflow writes the repository into its tags
        subprocess.run([python, script, "--write", folder], check=True)
        wrong = [line for source in STORES for line in differences(source, folder)]
        for path in map(Path, sys.argv[1:2]):
            with tarfile.open(path, "w:gz") as packed:
                for stored in ("stated.json", "trackio/norms.db", "mlflow.db", "mlruns"):
                    packed.add(folder / stored, stored)
    if wrong:
        sys.exit("\n".join(wrong))
    print("all as the packages say")


if __name__ == "__main__":
    main()
