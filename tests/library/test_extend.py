"""`normbench.extend`: the names that normalizers, models and data sets of one's own are made of."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import child
import pytest

from normbench import extend

ROOT = Path(__file__).parents[2]
# A name leaves this list only with a line in CHANGELOG.md: users' files import it.
NAMES = """
    Averaging Cell Classifier Dataset END Embedding GRU GRUCell LSTM LSTMCell Model NormedConv NormedLinear Normalizer
    PerPlace Product RNN RNNCell Ragged Scalars Scale Shared Site Sites Split UNKNOWN Variant WeightNormalizer affine
    average build_norm clipped epoch from_channels gain_and_bias inference normalizer root stream to_channels wide
"""
PUBLIC = {"normbench", "normbench.extend"}
ALLOWED = {*sys.stdlib_module_names, "torch", "numpy"}
DATA = {"wine.py": {"sklearn"}}  # where an example has its data from
EXAMPLES = [*sorted((ROOT / "examples").glob("*.py")), *sorted((ROOT / "examples").glob("own_*/**/*.py"))]
PAGES = [ROOT / "CONTRIBUTING.md", ROOT / "README.md"]
# a class, by a path that may change
INTERNAL = re.compile(r"normbench\.(norms|models|data|rnn)(\.\w+)*\.[A-Z]\w*[a-z]\w*")


def test_the_names_are_these() -> None:
    assert set(extend.__all__) == set(NAMES.split())
    assert len(extend.__all__) == len(NAMES.split())
    for name in extend.__all__:
        assert f"`{name}`" in (extend.__doc__ or ""), f"the table leaves {name} out"


def imported(tree: ast.Module) -> Iterator[tuple[str, list[str]]]:
    """Each module that is imported, with the names that are taken from it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "", [alias.name for alias in node.names]


def code_blocks(page: Path) -> Iterator[str]:
    """The blocks of Python on a page: those with an import."""
    text = page.read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    blocks += re.findall(r"(?:^(?: {4}.*)?\n)+", text, re.MULTILINE)
    for block in blocks:
        lines = [line.strip() for line in block.splitlines()]
        if imports := [line for line in lines if re.match(r"(from [\w.]+ )?import ", line)]:
            yield "\n".join(imports)


def test_examples_and_pages_import_public_names_alone() -> None:
    sources = [(path.name, path.read_text()) for path in EXAMPLES]
    sources += [(page.name, block) for page in PAGES for block in code_blocks(page)]
    users = set()
    for name, source in sources:
        for module, names in imported(ast.parse(source)):
            if module in PUBLIC:
                users |= {name} if module == "normbench.extend" else set()
                public = extend.__all__ if module == "normbench.extend" else names
                assert set(names) <= set(public), name
            else:
                assert module.partition(".")[0] in ALLOWED | DATA.get(name, set()), f"{name} imports {module}"
    assert users == {"centre.py", "autoencoder.py", "residual.py", "wine.py", "CONTRIBUTING.md"}


@pytest.mark.parametrize("path", [*PAGES, ROOT / "docs" / "ci.md"], ids=lambda p: p.name)
def test_pages_name_no_class_by_another_path(path: Path) -> None:
    assert not INTERNAL.search(path.read_text())


def test_messages_and_docstrings_name_no_class_by_another_path() -> None:
    texts = 0
    for path in (ROOT / "normbench").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts += 1
                assert not INTERNAL.search(node.value), f"{path.name}, line {node.lineno}: {node.value}"
    assert texts > 1_000
    assert INTERNAL.search("not a normbench.models.base.Model")


def test_it_imports_nothing_that_planning_or_drawing_needs() -> None:
    code = "import sys, normbench.extend\nprint({'torch', 'pandas', 'matplotlib', 'dash', 'scipy'} & set(sys.modules))"
    assert child.run("-c", code) == "{'torch'}\n"
