"""Sentence vectors of finished runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from normbench import data
from normbench.config import compose
from normbench.data.triples import numbered
from normbench.data.words import split
from normbench.errors import NormbenchError
from normbench.runs import root
from normbench.sentences import word_vectors
from normbench.train.weights import locate_run, refuse_edited, trained

if TYPE_CHECKING:
    from normbench.models.base import Model


def encode(
    run: str,
    sentences: Sequence[str],
    eos: bool = False,
    weights: str | None = None,
    results: str | Path | None = None,
    expand: str | Path | None = None,
    config_dir: str | Path | None = None,
) -> np.ndarray:
    """The vectors of sentences by the model of a finished run: (N, D) float32, a row for each sentence in order.

    >>> from normbench import encode
    >>> vectors = encode("9573469b42be", ["a sentence .", "another one ."])         # doctest: +SKIP

    Args:
        run: its id, the start of one, or its directory, as in `normbench sample`; it must have saved weights.
        sentences: with blanks between words, as the model was trained on.
        eos: whether each ends in an end of sentence, as SICK's do in skip-thoughts' code.
        weights: `last`, `best` or `step-N` of those that the run saved; without it the last.
        results: the folder; without it NORMBENCH_RESULTS, else ./results.
        expand: a file of word vectors of another tool (word2vec's text or binary, GloVe's), by which words that the
            model does not know get vectors (Kiros et al. 2015, section 2.2); without it they are all one unknown word.
        config_dir: a folder of your own choices that the run was trained with, such as its normalizer.

    Errors: NormbenchError for sentences that are no texts, for a run that is not there or is published without weights,
    for one whose own normalizer was changed since, for a model that encodes none, for a file that holds no word
    vectors, or too few of the model's words.
    """
    texts = _texts(sentences)
    further = None if expand is None else (Path(expand), texts)
    return encoder(run, root(results), weights, Path(config_dir) if config_dir is not None else None, further)(
        texts, eos
    )


def encoder(
    run: str,
    results: Path,
    weights: str | None = None,
    config_dir: Path | None = None,
    expand: tuple[Path, Iterable[str]] | None = None,
) -> Any:
    """`encode(sentences, eos)` of a run's model, whose weights are loaded once.

    expand: a file of word vectors, and the sentences whose unknown words get vectors from it.
    """
    found, folder = locate_run(run, results)
    refuse_edited(found, config_dir)
    config = compose.restore(found.config, config_dir)
    model, _ = trained(folder, config, weights, config_dir)
    examples = data.load(config["data"], seed=int(config["seed"]))

    def encode(texts: list[str], eos: bool) -> np.ndarray:
        rows: np.ndarray | None = model.encode(texts, eos, examples)
        if rows is None:
            raise NormbenchError(f"run {found.id}: model={found.config['model']['name']} does not encode sentences.")
        return rows

    encode(["a"], False)  # a model without vectors is refused at once
    if expand is not None:
        examples = replace(examples, words=_expanded(model, examples.words, *expand))
    return encode


def _texts(sentences: Any) -> list[str]:
    """The sentences as a list; NormbenchError where they are anything but texts, such as a single one."""
    if isinstance(sentences, str | bytes) or not isinstance(sentences, Iterable):
        raise NormbenchError(f"sentences must be a list of texts, not {sentences!r:.40}. Of one: encode(run, [text]).")
    texts = list(sentences)
    for one in texts:
        if not isinstance(one, str):
            raise NormbenchError(f"sentences must be a list of texts, not of {one!r:.40}.")
    return texts


def _expanded(model: Model, words: Sequence[str], path: Path, sentences: Iterable[str]) -> list[str]:
    """The model's words, and those of the sentences for which the file has vectors, which are added to the model."""
    import torch

    table = model.word_table()
    if table is None:
        raise NormbenchError("--expand: this model has no word vectors that could be added to.")
    numbers, rows = numbered(words), table.weight.detach()
    further = sorted({word for sentence in sentences for word in split(sentence)} - numbers.keys())
    found = word_vectors.read(path, numbers.keys() | set(further))
    by = word_vectors.fit(found, {word: rows[number].numpy() for word, number in numbers.items()})
    added = [word for word in further if word in found]
    if added:
        new = torch.from_numpy(word_vectors.mapped(np.stack([found[word] for word in added]), by))
        table.weight = torch.nn.Parameter(torch.cat([rows, new]))
    return [*words, *added]
