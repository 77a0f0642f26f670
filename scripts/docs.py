"""API pages made of the docstrings: python scripts/docs.py [--output docs/api]

What `from normbench import ...` gives comes first; then what normalizers, models and data sets are made of.
"""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

import pdoc

MODULES = (
    *("normbench.library.recurrent", "normbench.library.norms", "normbench.library.runs"),
    *("normbench.library.torch_weights", "normbench.extend", "normbench.errors"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).parent.parent / "docs" / "api")
    given = parser.parse_args()
    for name in MODULES:  # first, as users import them: pdoc imports what is for type checkers alone
        importlib.import_module(name)
    pdoc.render.configure(docformat="google", show_source=False, footer_text="normbench")
    pdoc.pdoc(*MODULES, output_directory=given.output)
    print(given.output / "index.html")


if __name__ == "__main__":
    main()
