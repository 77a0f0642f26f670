"""A results folder with published artifacts, made up in a moment; one of them with names that want to be code."""

from __future__ import annotations

import functools
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from normbench.config import plan
from normbench.files.stored import LABELS
from normbench.papers import artifact as artifacts
from normbench.papers import publish
from normbench.runs import directory, files, pack
from normbench.runs.run import Run

HOSTILE = '</script><img src=x onerror="window.pwned=1"><b>a&b\'\u202e\x07'


def runs(seeds: int = 5, epochs: int = 4, fidelity: str = "paper") -> list[Run]:
    """Fig. 6's runs with curves that fall at another rate in every arm; batch 128 only; seeds that its claims name."""
    specs = plan.artifact_specs("ln2016/fig6", fidelity, range(6, 6 + seeds), ["train.batch_size=128"], limited=False)
    made = []
    for spec in specs:
        rate = 1 + len(spec.arm) + spec.seed / 10
        records: list[dict[str, Any]] = []
        for epoch in range(epochs + 1):
            place = {"epoch": epoch, "step": 430 * epoch}
            nll = 2.3 * 10 ** (-rate * epoch / 4)
            records += [{**place, "split": "train", "mode": "running", "nll": nll}] if epoch else []
            for split, mode in (("train", "eval"), ("train", "train"), ("valid", "eval"), ("test", "eval")):
                records.append({**place, "split": split, "mode": mode, "nll": nll, "error": min(0.9, nll / 50 + 0.01)})
        made.append(
            Run(spec.id, status="done", seed=spec.seed, epochs=epochs, records=records, seconds=12.5,
                      environment={"torch": "2.13", "processor": HOSTILE}, config={}, **spec.labels())
        )  # fmt: skip
    return [replace(run, epochs=60, records=[*run.records, *_last(run)]) for run in made]


def _last(run: Run) -> list[dict[str, Any]]:
    return [{**dict(record), "epoch": 60, "step": 25800} for record in run.records if record["epoch"] == run.epochs]


def published(results: Path) -> Path:
    """Fig. 6 at paper fidelity, as `publish` writes it."""
    place = results / "ln2016" / "fig6" / "paper"
    place.mkdir(parents=True)
    for name, content in _published().items():
        (place / name).write_bytes(content)
    return place


@functools.cache
def _published() -> dict[str, bytes]:
    """Drawn and judged once: matplotlib takes a second."""
    with tempfile.TemporaryDirectory() as folder:
        publish.publish(artifacts.Plan(artifacts.load("ln2016/fig6"), "paper"), runs(), Path(folder))
        return {path.name: path.read_bytes() for path in (Path(folder) / "ln2016" / "fig6" / "paper").iterdir()}


def sealed(content: dict[str, Any], pack_sha256: str | None = None) -> str:
    """Changed verdicts as if they had been judged so, on the same pack or another."""
    hashes = {} if pack_sha256 is None else {"pack_sha256": pack_sha256}
    whole = {key: value for key, value in content.items() if key != "sha256"} | hashes
    return json.dumps(whole | {"sha256": files.seal(whole)})


def hostile(results: Path) -> Path:
    """The same, with an arm, a claim, a part and a deviation of somebody who means harm."""
    place = published(results)
    content = json.loads((place / "verdicts.json").read_text())
    claim = content["claims"][0]
    for key in ("id", "statement", "quote", "locator", "answer", "undecidable", "verdict", "unit"):
        claim[key] = HOSTILE
    for key in ("id", "endpoint", "unit", "why", "word", "quantity", "place", "clock"):
        claim["parts"][0][key] = HOSTILE
    claim["parts"][0]["sides"] = [HOSTILE] * 2
    claim["parts"][0]["cells"][0]["cell"] = {"arm": HOSTILE, HOSTILE: HOSTILE}
    content["deviations"].append(HOSTILE)
    content["command"] = HOSTILE
    content["amendments"].append({"claim": HOSTILE, "change": HOSTILE, "reason": HOSTILE})
    strangers = [replace(run, id=f"{i:012x}", arm=HOSTILE, reason=HOSTILE) for i, run in enumerate(runs(3)[:3])]
    pack.write(place / pack.NAME, [*pack.read(place / pack.NAME).runs, *strangers])
    (place / "verdicts.json").write_text(sealed(content, pack.read(place / pack.NAME).sha256))
    return place


def checked(results: Path) -> None:
    """An independent check with the words of somebody who means harm."""
    row = {"cell": HOSTILE, "epoch": 1, "what": "test nll", "ours": 0.2, "mean": 0.3, "low": 0.1, "high": 0.4, "n": 5}
    rows = [row | {"judgement": "inside"}, row | {"ours": "inf", "judgement": f"OUTSIDE{HOSTILE}"}]
    place = results / "ln2016" / "fig6" / "paper"
    words = dict.fromkeys(("title", "command", "versions", "summary", "unit"), HOSTILE)
    (results / "check").mkdir()
    content = words | {"pack_sha256": pack.read(place / pack.NAME).sha256, "rows": rows}
    (results / "check" / "one.json").write_text(json.dumps(content))


def drawn(results: Path, elsewhere: str = "http://127.0.0.1:9") -> None:
    """Samples of one published run that want to be code, and a picture from elsewhere."""
    run = next(run for run in pack.read(results / "ln2016" / "fig6" / "paper" / pack.NAME).runs if run.arm == "ln")
    samples = results / "runs" / "ln2016" / "fig6" / f"ln.s{run.seed}.{run.id}" / "samples"
    samples.mkdir(parents=True)
    content = {
        "id": run.id,
        **{key: getattr(run, key) for key in (*LABELS, "axes")},
        "seed": run.seed,
        "status": "done",
        "epochs": 1,
        "steps": 1,
    }
    content |= {"curve_sha256": "", "files": {}, "config": {}, "environment": {}}
    directory.write_json(samples.parent, content)
    harm = f"<script>parent.pwned = 1</script><img src='{elsewhere}/seen.png' onerror='parent.pwned = 1'>"
    (samples / "question.html").write_text(f"<p>drawn {HOSTILE}</p>{harm}")
    (samples / "picture.svg").write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><script>pwned = 1</script>'
        f'<image href="{elsewhere}/seen.png"/></svg>'
    )
    (samples / "link.png").symlink_to("/etc/hostname")
    (samples / "large.png").write_bytes(b"\0" * (1 << 20))
