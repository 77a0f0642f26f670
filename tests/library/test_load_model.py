"""`normbench.load_model` and `normbench weights`: the weights of a run, taken home."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import tiny
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from normbench import NormbenchError, data, load_model
from normbench.cli import main
from normbench.runs import directory

WORDS = ("norm=batch", "optim.lr=0.5", "train.epochs=5")  # of which the last is not the best
Command = Callable[..., int]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a network with running averages, in a results folder."""
    results = tmp_path_factory.mktemp("results")
    path = directory.place(results / "runs", tiny.spec(*WORDS))
    assert tiny.train(path, *WORDS) == "done"
    return path


@pytest.fixture
def command(run: Path) -> Command:
    """`command("ID")`: the exit code of `normbench weights`."""

    def ends(*words: str) -> int:
        with pytest.raises(SystemExit) as ended:
            main(["weights", *words, "--results", str(run.parents[2])])
        return int(ended.value.code or 0)

    return ends


def same(network: torch.nn.Module, path: Path) -> bool:
    tensors, state = load_file(path), network.state_dict()
    return tensors.keys() == state.keys() and all(torch.equal(tensors[name], state[name]) for name in tensors)


def test_best_and_last_are_kept_and_nothing_else_changes(run: Path, tmp_path: Path) -> None:
    assert {path.name for path in (run / "weights").iterdir()} == {"best.safetensors", "last.safetensors"}
    assert tiny.spec(*WORDS).id == tiny.spec(*WORDS, "train.keep=[last]").id
    tiny.train(tmp_path / "run", *WORDS, "train.keep=[last]")
    assert {path.name for path in (tmp_path / "run" / "weights").iterdir()} == {"last.safetensors"}
    for name in ("curve.jsonl", "outcomes/best.npz", "outcomes/last.npz", "weights/last.safetensors"):
        assert (run / name).read_bytes() == (tmp_path / "run" / name).read_bytes()


def test_without_validation_the_last_are_kept_alone(tmp_path: Path) -> None:
    assert tiny.train(tmp_path / "run", "train.epochs=1", "eval.strides={valid: 0}") == "done"
    assert {path.name for path in (tmp_path / "run" / "weights").iterdir()} == {"last.safetensors"}
    with pytest.raises(NormbenchError, match=r"monitor\.split=valid"):
        tiny.train(tmp_path / "best", "train.epochs=1", "eval.strides={valid: 0}", "train.keep=[best]")


def test_a_network_computes_what_the_run_evaluated(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network, config = load_model(run.name[-12:], results=run.parents[2])
    assert not network.training and same(network, run / "weights" / "best.safetensors")
    assert config["norm"]["name"] == "batch" and config["train"]["epochs"] == 5 and "declares" not in config["norm"]
    valid = data.load(tiny.spec(*WORDS).config["data"], seed=1).splits["valid"]
    with torch.no_grad():
        nll = network.evaluate(**valid.only(["inputs", "targets"]).batch(slice(None)).tensors)["nll"].mean().item()
    curve = [record["nll"] for record in tiny.curve(run) if record["split"] == "valid" and record["step"]]
    assert nll == pytest.approx(min(curve), rel=1e-5) and min(curve) < curve[-1]
    monkeypatch.setenv("NORMBENCH_RESULTS", str(run.parents[2]))
    last, _ = load_model(run, weights="last")
    assert same(last, run / "weights" / "last.safetensors") and not same(last, run / "weights" / "best.safetensors")


def test_a_file_has_the_tensors_and_says_whose_they_are(command: Command, run: Path, tmp_path: Path) -> None:
    name, files = run.name[-12:], [tmp_path / "model.safetensors", tmp_path / "last.safetensors"]
    assert command(name, "--output", str(files[0])) == 0
    assert command(str(run), "--weights", "last", "--output", str(files[1])) == 0
    for path, which in zip(files, ("best", "last"), strict=True):
        network, config = load_model(name, weights=which, results=run.parents[2])
        assert same(network, path)
        with safe_open(path, "pt") as file:
            assert json.loads(file.metadata()["normbench"]) == {"run": name, "weights": which, "config": config}


def test_what_is_kept_is_listed(command: Command, run: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert command(run.name[-12:]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["best", "last"]
    assert all(
        str((run / "weights" / f"{line.split()[0]}.safetensors").stat().st_size) in line.replace(",", "")
        for line in lines
    )


@pytest.mark.parametrize(
    "words", [("--weights", "last"), ("--weights", "step-3", "--output", "x"), ("--output", "/"), ("--output", "new/x")]
)
def test_what_cannot_be_written_is_one_line(
    words, command: Command, run: Path, tmp_path: Path, monkeypatch, capfd
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command(run.name[-12:], *words) == 2
    assert words[1] in capfd.readouterr().err and not [*tmp_path.iterdir()]


def test_damaged_weights_and_those_of_a_diverged_run_are_refused(tmp_path: Path) -> None:
    path = directory.place(tmp_path / "runs", tiny.spec("train.epochs=1"))
    tiny.train(path, "train.epochs=1")
    file = path / "weights" / "best.safetensors"
    save_file({name: tensor * float("nan") for name, tensor in load_file(file).items()}, file)
    with pytest.raises(NormbenchError, match="does not have the hash"):
        load_model(path, results=tmp_path)
    directory.write_json(path, directory.read_json(path) | {"files": directory.hashes(path)})
    with pytest.raises(NormbenchError, match="NaN"):
        load_model(path, results=tmp_path)
    file.unlink()
    assert same(load_model(path, results=tmp_path)[0], path / "weights" / "last.safetensors")
