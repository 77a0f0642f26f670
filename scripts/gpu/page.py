"""What `scripts/gpu/check.sh OUT` found, as OUT/gpu.md: python scripts/gpu/page.py OUT RESULTS"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench"))
import harness

TITLES = {
    "models": "Models on the device against the CPU: relative differences",
    "layers": "A training step of layers with LN / cuDNN's plain ones; what it needs in MiB, what a graph holds",
    "generative": "Updates; hours of a run without its evaluations; how many runs are planned",
    "blocks": "A Transformer block in bfloat16, 4096 tokens: with DyT / with RMSNorm",
    "runs": "Runs of ln2016/fig4",
}


def table(records: Sequence[dict[str, Any]]) -> list[str]:
    """A column for each key that any record has."""
    keys = list(dict.fromkeys(key for record in records for key in record if key not in ("step", "device")))
    rows = [
        [f"{v:.3g}" if isinstance(v := record.get(key, ""), float) else str(v) for key in keys] for record in records
    ]
    return [f"| {' | '.join(row)} |" for row in [keys, ["---"] * len(keys), *rows]] if rows else ["Nothing."]


def main(out: Path, results: Path) -> None:
    records = [json.loads(line) for line in (out / "steps.jsonl").read_text().splitlines()]
    cuda = {record["device"] for record in records} == {"cuda"}
    device = (
        f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}" if cuda else "the CPU at tiny sizes: no result"
    )
    for path in sorted(results.glob("runs/*/*/*/run.json")):
        run = json.loads(path.read_text())
        shown = {key: run[key] for key in ("arm", "seed", "status")} | {"updates": f"{run['step']} of {run['steps']}"}
        records.append({"step": "runs", **shown, "resumed": len(run["environment"]["resumed"])})
    lines = [f"# On {device}", "", f"`scripts/gpu/check.sh` on {harness.machine()}"]
    for step, title in TITLES.items():
        lines += ["", f"## {title}", "", *table([record for record in records if record["step"] == step])]
    (out / "gpu.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
