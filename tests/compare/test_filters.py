"""The words that select runs: of compare, export, judge, load_runs and the page of runs."""

import dataclasses

import pytest
from swept import run

from normbench.compare import configuration
from normbench.errors import NormbenchError


def test_filters() -> None:
    runs = [run(0.1, norm, seed, lr) for norm in ("none", "layer") for seed in (1, 2, 3) for lr in (1e-3, 3e-3)]
    assert len(configuration.select(["norm=layer"], runs)) == 6
    assert len(configuration.select(["norm=layer,none", "seed=2-3", "optim.lr=1e-3"], runs)) == 4
    assert len(configuration.select(["norm=l*"], runs)) == 6
    assert len(configuration.select(["model.hidden_sizes=[8]"], runs)) == 12
    assert len(configuration.select(["mnist_mlp-layer", "seed=1"], runs)) == 2
    assert configuration.select(["norm=layer"], []) == []
    runs = [run(0.1, epochs=8), run(0.1, epochs=1, seed=2), run(0.1, epochs=0, steps=80, seed=3)]
    assert [len(configuration.select([f"train.epochs={words}"], runs)) for words in ("8", "1,8", "0")] == [1, 2, 1]
    assert len(configuration.select(["train.epochs=0", "train.steps=80"], runs)) == 1


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ("lr>1e-3", 6), ("optim.lr>=1e-3", 12), ("lr<0.003", 6), ("lr<=1e-3 seed>1", 4), ("norm!=none", 6),
        ("-norm=none -seed=3", 4), ("-seed!=3", 4), ("norm!=none,layer", 0), ("norm!=gone", 12), ("-seed>2", 8),
        ("-mnist_mlp-layer", 6), ("-lr>1", 12), ("error<0.15", 1), ("began>=2026-11-02", 1), ("tag=b", 1),
        ("tag!=b", 11), ("norm>m", 6),
    ],
)  # fmt: skip
def test_filters_that_bound_or_leave_out(words: str, count: int) -> None:
    runs = [run(0.1, norm, seed, lr) for norm in ("none", "layer") for seed in (1, 2, 3) for lr in (1e-3, 3e-3)]
    runs = [dataclasses.replace(one, id=f"{number:012x}") for number, one in enumerate(runs)]
    more = {runs[0].id: {"test.error": 0.1, "began": "2026-11-02 10:00", "tag": ("a", "b")},
            runs[1].id: {"test.error": 0.2, "began": "2026-11-01 10:00", "tag": ("a",)}}  # fmt: skip
    assert len(configuration.select(words.split(), runs, more)) == count


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("norm", "'norm' is no experiment, arm or id"),
        ("=layer", "no run here has a key ''"),
        ("nrm=layer", "no run here has a key 'nrm'. Did you mean 'norm'?"),
        ("nrm!=layer", "no run here has a key 'nrm'. Did you mean 'norm'?"),
        ("lr>1", "no run here has optim.lr>1."),
        ("-nothing", "'nothing' is no experiment"),
        ("norm=laier", "no run here has norm=laier. Did you mean 'layer'?"),
        ("seed=7-9", "no run here has seed=7-9"),
        ("seed=5-1", "seed=5-1: 5-1 is an empty range. Did you mean '1-5'?"),
    ],
)
def test_a_filter_that_fits_nothing_says_what_would(word: str, says: str) -> None:
    with pytest.raises(NormbenchError) as error:
        configuration.select([word], [run(0.1, "layer"), run(0.1)])
    assert says in str(error.value) and "\n" not in str(error.value)


def test_a_run_is_filtered_by_the_beginning_of_its_id() -> None:
    runs = [dataclasses.replace(run(0.1), id=id) for id in ("abcd00000000", "abce00000000", "f00000000000")]
    for word in ("run=abcd", "run=abcd00000000", "abcd", "run=*d0*"):
        assert configuration.select([word], runs) == runs[:1]
    assert configuration.select(["run=abcd,f"], runs) == [runs[0], runs[2]]
    cut = dataclasses.replace(runs[0], steps=1)
    assert configuration.select(["run=abcd"], [runs[0], cut]) == [runs[0], cut], "one run at two lengths"
    for word in ("run=ab", "abcd"):
        with pytest.raises(NormbenchError) as error:
            configuration.select([word], [*runs, dataclasses.replace(runs[0], id="abcdf0000000")])
        assert "abcd00000000" in str(error.value) and "abcdf0000000" in str(error.value)
    with pytest.raises(NormbenchError) as error:
        configuration.select(["run=abcd11"], runs)
    assert "Did you mean" not in str(error.value)


def test_runs_of_an_experiment_with_changes_are_found_by_their_arm() -> None:
    changed = [dataclasses.replace(run(0.1, seed=seed), experiment="adhoc", arm="x-fig-layer") for seed in (1, 2)]
    with pytest.raises(NormbenchError) as error:
        configuration.select(["experiment=x/fig"], [*changed, run(0.1)])
    assert "no run here has experiment=x/fig; those with changes are arm=x-fig-layer." in str(error.value)
    assert len(configuration.select(["arm=x-fig-layer"], [*changed, run(0.1)])) == 2
