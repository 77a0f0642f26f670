"""The published results that come with the program: in a checkout its folder `results`, in an installed package a copy
without the effects by test example.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from normbench.config import compose
from normbench.runs import files

FOLDER = compose.conf_dir().parent / "results"


def bring(results: Path) -> list[str]:
    """Copy the results of each paper of which `results` has none, and what stands beside them; those papers.

    Killed at any moment, it leaves a paper's folder whole or absent.
    """
    papers = sorted({place.parents[2] for place in FOLDER.glob("*/*/*/verdicts.json")})
    lacking = [paper for paper in papers if not (results / paper.name).exists()]
    if not lacking or results.resolve() == FOLDER:
        return []
    files.make_folder(results)
    with files.alone(results):
        for source in (FOLDER / "check", *lacking):
            target, aside = results / source.name, results / f".{source.name}.normbench-aside"
            if source.is_dir() and not target.exists():
                shutil.rmtree(aside, ignore_errors=True)
                shutil.copytree(source, aside, ignore=shutil.ignore_patterns("smoke"))
                aside.rename(target)
    return [paper.name for paper in lacking]


def is_copy(place: Path, lacking: str) -> bool:
    """Whether these are the verdicts as the program brings them, and it does not bring this file with them."""
    shipped = FOLDER / place.relative_to(place.parents[2])
    if place.resolve() == shipped.resolve() or (shipped / lacking).exists():
        return False
    verdicts = shipped / "verdicts.json"
    return verdicts.exists() and verdicts.read_bytes() == (place / "verdicts.json").read_bytes()
