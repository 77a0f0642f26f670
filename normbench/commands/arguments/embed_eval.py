"""`normbench embed-eval`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from normbench.commands.arguments import from_options
from normbench.commands.format import at_least
from normbench.errors import NormbenchError
from normbench.reading import place

EPILOG = """examples:
  normbench embed-eval --write-sentences sentences      mr.txt, sick_train_a.txt and so on, a sentence a line
  normbench embed-eval vectors/ bag-of-words            mr.npy, sick_train_a.npy and so on: a row for each line
  normbench embed-eval my_module:encode                 encode(list of str) -> array; my_module:model.encode is fine
  normbench embed-eval 9573469b42be --sets mr,cr        the model of a run, with its stored weights
  normbench embed-eval bag-of-words tf-idf --size 2400  scores of untrained vectors

SICK: Pearson's r, Spearman's rho and the mean squared error of relatedness. MR, CR, SUBJ, MPQA: accuracy of logistic
regression in nested tenfold cross-validation. The sets: normbench data get sentence_eval; normbench data get sick.
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "words", nargs="*", metavar="VECTORS", help="a folder, module:name, a run, bag-of-words or tf-idf; several too"
    )
    parser.add_argument("--write-sentences", metavar="DIR", type=place, help="write the sentences to be encoded")
    parser.add_argument("--sets", metavar="NAMES", help="only these, with commas (default: all)")
    parser.add_argument("--fixed", action="store_true", help="use one C for all instead of choosing it: much faster")
    parser.add_argument("--json", metavar="FILE", type=place, help="also write the numbers to FILE")
    parser.add_argument("--weights", metavar="NAME", help="a run's: last, best or step-N (default: last, if stored)")
    parser.add_argument(
        "--expand",
        metavar="FILE",
        type=place,
        help="word vectors (word2vec, GloVe) for words that the run's vocabulary lacks",
    )
    parser.add_argument("--size", type=at_least(1), metavar="N", help="of bag-of-words (default: 2400)")
    parser.add_argument("--seed", type=at_least(0), metavar="S", help="of bag-of-words (default: 1)")
    parser.add_argument("--threads", type=at_least(1), default=2, metavar="N", help="(default: 2)")


def run(arguments: Namespace, console: Any) -> int:
    from normbench.commands import embed_eval

    if arguments.write_sentences is not None:
        if arguments.words:
            raise NormbenchError(f"--write-sentences takes no vectors, such as {arguments.words[0]}.")
        return embed_eval.write_sentences(arguments.write_sentences, arguments.sets, console)
    request = from_options(embed_eval.Request, arguments, nested=not arguments.fixed)
    return embed_eval.run(request, arguments.results, arguments.config_dir, console)
