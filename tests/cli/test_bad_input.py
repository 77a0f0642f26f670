"""Bad words anywhere: one line with the way out, exit code 2, nothing made."""

from __future__ import annotations

from pathlib import Path

import fake
import pytest

from normbench.runs import pack
from normbench.runs.files import atomic_write
from normbench.web import site

MLP = ("train", "model=mnist_mlp")
EXAMPLE = Path(__file__).parents[2] / "examples" / "own_normalizer" / "norm" / "centre.py"

BAD = [
    (("reprodce", "x"), "reprodce is not a command. Did you mean 'reproduce'?"),
    (("reproduce", "ln2016/fig66"), "ln2016/fig66 is not an artifact. Did you mean 'ln2016/fig6'?"),
    (("reproduce", "ln2016/fig6", "--fidelity", "pape"), "Did you mean 'paper'?"),
    (("reproduce", "ln2016/fig6", "--seeds", "none"), "--seeds"),
    (("reproduce", "ln2016/fig6", "--seeds", "0"), "at least 1"),
    (("reproduce", "ln2016/fig6", "--only", "lm"), "Did you mean 'ln'?"),
    (("reproduce", "ln2016/fig6", "--only", "lr-high", "--controls"), "Run it alone with --control lr-high"),
    (("reproduce", "ln2016/fig6", "--only", "LN-F4", "--control", "lr-hig"), "Did you mean 'lr-high'?"),
    (("reproduce", "ln2016/fig6", "--results", ""), "--results '' names no folder"),
    (("train", "model=mnist_mlp", "--config-dir", ""), "--config-dir '' names no folder"),
    (("train", "model=mnist_mlp", "--config-dir", "a", "--config-dir", "b"), "--config-dir is given twice"),
    (("compare", "--results", "a", "--results", "b"), "--results is given twice"),
    (("reproduce", "ln2016/fig6", "--max-time", "soon"), "--max-time soon is not a duration"),
    (("reproduce", "ln2016/fig6", "--fidelity", "proxy"), "--fidelity proxy"),
    (("reproduce",), "artifact"),
    (("sample", "x", "--text", "a", "--bias=-1"), "--bias -1 is not a number of at least 0."),
    (("sample", "x", "--text", "a", "--bias", "nan"), "--bias nan is not a number of at least 0."),
    (("sample", "x", "--text", "a", "--near", "b"), "--near and --text"),
    (("sample", "x", "--bias", "1"), "--bias is for a text of yours: --text 'a line'."),
    (
        ("reproduce", "ln2016/table3"),
        "BOOK_CORPUS is not in ./data: bookcorpus has no .txt files. Place at ./data/bookcorpus what only",
    ),
    (("reproduce", "bln2022/fig1"), "bln2022/fig1 (Trend in using normalization methods): no experiment"),
    (("reproduce", "bln2022/fig3"), "it draws a network, model=lenet5"),
    ((*MLP, "seed=${train.batch_size}"), "'seed=${train.batch_size}': interpolations ${...} are not known here"),
    ((*MLP, "norm=layer,batch", "--dry-run"), "Add -m"),
    ((*MLP, "--cfg", "all"), "--cfg all is not possible. Choose from: job."),
    (("compare", "--at", "middle"), "--at middle is not possible. Choose from: end, best. (normbench compare --help)"),
    (("list", "it's"), "kind it's is not possible. Choose from: artifacts, models, norms, data."),
    (("dashboard", "--port", "abc"), "--port abc is not a whole number from 1 to 65535. (normbench dashboard --help)"),
    (("dashboard", "--port", "70000"), "--port 70000 is not a whole number from 1 to 65535."),
    (("battery", "--norm", "layr"), "--norm layr is no file and no normalizer. Did you mean 'layer'? (normbench list"),
    (("battery", "--norm", "rms", "--only", "ln2016/fig66"), "Did you mean 'ln2016/fig6'? (--dry-run lists all)"),
    (("battery", "--norm", "rms", "--seeds", "0"), "--seeds 0 is not a whole number of at least 1."),
    (("battery", "--norm", "rms", "--max-time", "1h"), "not an option of normbench battery. Did you mean '--budget'?"),
    (("reproduce", "ln2016/fig6", "--budget", "1h"), "Did you mean '--max-time'?"),
    (("battery",), "'--norm'. (normbench battery --help)"),
    (("battery", "--norm", "rms", "--budget", "2 days"), "--budget 2 days is not a duration."),
    (("battery", "--norm", "rms", "--seeds", ""), "--seeds '' is not a whole number of at least 1."),
    (("sample", "x", "--bias", "low"), "--bias low is not a number."),
    (("",), "'' is not a command."),
    (("reproduce", ""), "'' is not an artifact."),
    (("show", ""), "/results. (normbench status FILTER lists ids)"),
    ((*MLP, "launcher=bogus"), "bogus is not a launcher. Choose from: local, plan, pool, slurm."),
    ((*MLP, "optim=LBFGS"), "optim=LBFGS is not an optimizer. (adadelta, "),
    (("reproduce", "ln2016/fig6", "--jobs", "-1"), "--jobs"),
    ((*MLP, "data=digits", "train.batch_size=1201"), "is more than there are training examples: data=digits has 1200"),
    ((*MLP, "model.hidden_sizes=[]"), "model.hidden_sizes=[] must have at least one value"),
    ((*MLP, "norm=ünïcødé"), "norm=ünïcødé: a name has letters a to z, digits, _, - and / alone, 'ü'"),
    ((*MLP, f"seed={10**30}"), "is too large: it must be below 2^63"),
    ((*MLP, f"model.hidden_sizes={'[' * 2000}"), "is not an override: write key=value"),
    (("train", "=3"), "'=3' is not an override: write key=value"),
    (
        (*MLP, "norm=norm_propagation", "norm.sites=[hidden,logits]"),
        "serves block, the site is pre_activation or weight",
    ),
    ((*MLP, "norm=norm_propagation", "model.activation=sigmoid"), "knows the moments of relu and tanh, the activation"),
    ((*MLP, "norm=weight", "norm.init=preserv"), "norm.init=preserv is not possible. Did you mean 'preserve'?"),
    ((*MLP,), "MNIST is not in ./data: train-images-idx3-ubyte.gz is missing. Bring it with: normbench data get mnist"),
    (("train", "-m", "model=mnist_mlp", "data=digits", "norm=none,layr"), "Did you mean 'layer'?"),
    (("train", "-m", "model=mnist_mlp", "data=digits", "launcher=local,pool"), "one launcher serves the whole sweep"),
    ((*MLP, "data=digits", "logger=wnadb"), "logger=wnadb is not a logger. Did you mean 'wandb'?"),
    ((*MLP, "data=digits", "logger=wandb", "logger.mode=onlin"), "logger.mode=onlin is not possible. Did you mean"),
    ((*MLP, "data=digits", "logger.mode=online"), "logger.mode is not an option"),
    (("reproduce", "ln2016/fig6", "norm=layer"), "only launcher=... and logger=... can be set here"),
    (("reproduce", "ln2016/fig6", "launcher=pol"), "launcher=pol is not a launcher. Did you mean 'pool'?"),
    (("reproduce", "ln2016/fig6", "--jobs", "2", "launcher=local"), "launcher.jobs=2 is too large: at most 1"),
    (("reproduce", "ln2016/fig6", "logger=wnadb"), "Did you mean 'wandb'?"),
    (("reproduce", "logger=wandb"), "reproduce needs an artifact, a paper or all"),
    (("export", "csv", "--mode", "online"), "--mode is not an option of export csv"),
    (("export", "wandb", "--output", "x"), "--output is not an option of export wandb"),
    (("export", "xml"), "form xml "),
    (("export", "csv"), "/results. Try: normbench reproduce ln2016/fig6 --fidelity smoke"),
    (("list", "nroms"), "Did you mean 'norms'?"),
    (("data", "get"), "normbench data get mnist"),
    (("data", "get", "mnst"), "Did you mean 'mnist'?"),
    (("data", "get", "digits"), "embedded"),
    (("data", "get", "mnist", "cifar10"), "(cifar10). (normbench data --help)"),
    (("battery", "--norm", "none"), "--norm none is no normalizer: it is the baseline that a battery compares with."),
    (
        (*MLP, "data=digits", "train.steps=2", "train.keep=[3]"),
        "train.keep=3 is after the run's end: it has 2 updates.",
    ),
    ((*MLP, "data=digits", "train.steps=2", "eval.also_after=[9]"), "eval.also_after=9 is after the run's end"),
    (
        (*MLP, "data=digits", "norm=batch", "eval.variants=[nope]"),
        "Choose from: eval_stats=running, eval_stats=batch, eval_stats=pooled_pass, running, batch, pooled_pass.",
    ),
    (("train", "--config-dir", "nowhere", "model=mnist_mlp"), "--config-dir nowhere is not a directory."),
    (("show", "abc"), "/results. (normbench status FILTER lists ids)"),
    (("rerun", "abc"), "/results. (normbench status FILTER lists ids)"),
    (("status", "--jsn"), "--jsn"),
    (("list", "--config-dir", "nowhere"), "--config-dir nowhere is not a directory"),
]


@pytest.mark.parametrize(("words", "says"), BAD, ids=[" ".join(words) for words, _ in BAD])
def test_one_line_exit_2_nothing_made(words, says, normbench, capfd, tmp_path: Path):
    assert normbench(*words) == 2
    out, err = capfd.readouterr()
    last = err.strip().splitlines()
    assert len(last) == 1 and last[0].startswith("normbench: ") and says in last[0]
    assert "Traceback" not in err + out and "slurm. (local" not in err
    assert list(tmp_path.iterdir()) == []


def test_too_little_memory_is_one_line(normbench, capfd, monkeypatch: pytest.MonkeyPatch):
    from normbench import cli

    def run(words: list[str]) -> int:
        raise MemoryError("Unable to allocate 4.66 TiB")

    monkeypatch.setattr(cli, "run", run)
    assert normbench("status") == 4
    assert capfd.readouterr().err == "normbench: there is not enough memory: Unable to allocate 4.66 TiB.\n"


def test_results_that_is_a_file(normbench, capfd, tmp_path: Path):
    (tmp_path / "taken").write_text("mine")
    assert normbench("status", "--results", "taken") == 2
    assert "taken is not a folder" in capfd.readouterr().err
    assert (tmp_path / "taken").read_text() == "mine"


def test_results_that_are_the_runs_of_some(normbench, capfd, tmp_path: Path):
    run = tmp_path / "own" / "runs" / "ln2016" / "fig6" / "none.s1.0123456789ab"
    run.mkdir(parents=True)
    assert normbench("status", "--results", str(tmp_path / "own" / "runs")) == 0, "perhaps a folder that is called so"
    (run / "run.json").write_text("{}")
    assert normbench("status", "--results", str(tmp_path / "own" / "runs")) == 2
    assert f"--results {tmp_path / 'own'}\n" in capfd.readouterr().err


def test_results_below_a_file_cannot_be_made(normbench, capfd, tmp_path: Path):
    (tmp_path / "taken").write_text("mine")
    words = ("train", "model=mnist_mlp", "data=digits", "train.epochs=1", "--results", "taken/below")
    assert normbench(*words) == 2
    err = capfd.readouterr().err
    assert "cannot be made" in err and "NORMBENCH_RESULTS" in err and err.count("\n") == 1


def test_what_is_exported_is_chosen_as_what_is_compared(normbench, capfd, tmp_path: Path):
    for spec in (*fake.specs(2), *fake.specs(1, "norm=layer")):
        fake.directory(tmp_path / "results" / "runs", spec)
    for words, count in (((), 3), (("norm=none", "seed=1"), 1), (("adhoc", "norm=layer"), 1)):
        assert normbench("export", "csv", *words) == 0
        assert f"{count} run{'s' * (count > 1)}, " in capfd.readouterr().out
    for word, says in (("norm=laye", "Did you mean 'layer'?"), ("lauer", "'lauer' is no experiment, arm or id")):
        assert normbench("export", "csv", "--output", "a.csv", word) == 2
        assert says in capfd.readouterr().err
    assert normbench("export", "csv", "norm=layer", "seed=2") == 2
    assert f"no finished run below {tmp_path / 'results'} fits norm=layer seed=2." in capfd.readouterr().err
    assert normbench("export", "csv", "--output", "no/folder/y.csv") == 2
    assert "there is no folder" in capfd.readouterr().err and not (tmp_path / "no").exists()


def test_a_table_goes_to_standard_output(normbench, capfd, tmp_path: Path):
    fake.directory(tmp_path / "results" / "runs", fake.specs(1)[0])
    assert normbench("export", "csv", "--output", "a.csv") == 0
    capfd.readouterr()
    assert normbench("export", "csv", "--output", "-") == 0
    assert capfd.readouterr().out == (tmp_path / "a.csv").read_text()
    assert not (tmp_path / "-").exists()


@pytest.mark.parametrize("home", ["~/", "file://{}/"])
def test_a_path_may_begin_at_home_or_be_an_address(home, normbench, capfd, tmp_path: Path, monkeypatch):
    """Which no shell replaces in --results=~/x, an option's value, or a variable that another program set."""
    monkeypatch.setenv("HOME", str(tmp_path))
    here = home.format(tmp_path)
    fake.directory(tmp_path / "mine" / "runs", fake.specs(1)[0])
    assert normbench("export", "csv", f"--results={here}mine", f"--output={here}a.csv") == 0
    monkeypatch.setenv("NORMBENCH_RESULTS", f"{here}mine")
    monkeypatch.setenv("NORMBENCH_DATA", f"{here}data")
    assert normbench("show", fake.specs(1)[0].id) == 0
    assert normbench("list", "norms", f"--config-dir={here}mine") == 0
    assert normbench(*MLP) == 2 and f"MNIST is not in {tmp_path}/data: " in capfd.readouterr().err
    (tmp_path / "mine.py").write_text(EXAMPLE.read_text().replace('normalizer("centre")', 'normalizer("mine")'))
    for word in ("norm=~/mine.py", "norm=none,~/mine.py"):
        assert normbench(*MLP, "data=digits", "-m", word, "--dry-run") == 0
    assert {path.name for path in tmp_path.iterdir()} == {"mine", "a.csv", "mine.py"}


def test_what_is_stored_and_damaged_is_code_4(normbench, capfd, tmp_path: Path):
    (spec,) = fake.specs(1)
    run = fake.directory(tmp_path / "results" / "runs", spec)
    (run / "run.json").write_text("{")
    assert normbench("show", spec.id) == 4
    (line,) = capfd.readouterr().err.splitlines()
    assert str(run.relative_to(tmp_path)) in line


def test_a_full_disk_is_code_4(normbench, capfd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (spec,) = fake.specs(1)
    fake.directory(tmp_path / "results" / "runs", spec)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(site, "_assets", full)
    monkeypatch.setattr("os.fsync", full)
    for words, place in ((("report",), "results/report"), (("export", "csv", "--output", "a.csv"), "a.csv")):
        assert normbench(*words) == 4
        (line,) = capfd.readouterr().err.splitlines()
        assert f"{place}" in line and "No space left on device" in line
    with pytest.raises(OSError) as error:
        atomic_write(tmp_path / "b", b"")
    assert error.value.filename == str(tmp_path / "b")


def test_a_damaged_pack_hides_no_run_but_its_own(normbench, capfd, tmp_path: Path):
    inside, beside, raw = fake.specs(3)
    for artifact, spec in (("fig", inside), ("table", beside)):
        pack.write(tmp_path / "results" / "paper2020" / artifact / "paper" / pack.NAME, [fake.record(spec)])
    fake.directory(tmp_path / "results" / "runs", raw)
    (tmp_path / "results" / "paper2020" / "fig" / "paper" / pack.NAME).write_bytes(b"garbage")
    assert normbench("show", beside.id) == 0 and normbench("show", raw.id) == 0
    assert normbench("show", inside.id) == 4
    (line,) = capfd.readouterr().err.splitlines()
    assert f"fig/paper/{pack.NAME} is damaged" in line, "it may be in there"
