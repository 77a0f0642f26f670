"""`normbench show`: prints one run, raw or published."""

from __future__ import annotations

from normbench.commands.options import ConfigDir, Json, Results, Run

EPILOG = """examples:
  normbench show 00955a672333                           a run, raw or published
  normbench show 0095 --json

--json prints, shortened:
  {"id": "3a228e1c3403", "status": "done", "reason": "", "steps": 12, "experiment": "adhoc", "arm": "mnist_mlp-none",
   "seed": 1, "fidelity": "adhoc", "control": "", "axes": {},
   "source": "results/runs/adhoc/mnist_mlp-none.s1.3a228e1c3403", "config": {}, "environment": {}, "records": 5,
   "curve_sha256": "9be69229c868b25a360cb3a24ff17968440ac9390b310227d9",
   "last": [{"mode": "running", "split": "train", "epoch": 2, "nll": 0.17, "step": 12}]}
a failed run has "log", the file with its traceback.
"""


def command(run: Run, results: Results, config_dir: ConfigDir = None, as_json: Json = False) -> None:
    """Print labels, configuration, environment and last records of a run."""
    import yaml

    from normbench.commands import terminal
    from normbench.runs.record import curve_sha256
    from normbench.runs.resolve import LABELS, resolve

    record = resolve(run, results)
    records = [*record.records]
    at = "step" if record.logged else "epoch"
    content = {
        "id": record.id,
        "status": record.status,
        "reason": record.reason,
        **({"log": str(record.log)} if record.log else {}),
        "steps": record.steps,
        **({"began": record.began} if record.began else {}),
        **{label: getattr(record, label) for label in LABELS},
        "source": str(record.path),
        "config": record.config,
        "environment": record.environment,
        "records": len(records),
        "curve_sha256": curve_sha256(records),
        **({"was": record.was} if record.was else {}),
        "last": [r for r in records if r.get(at) == records[-1][at]],  # [] without records
    }
    if as_json:
        terminal.say_json(content)
    else:
        terminal.say(terminal.console(), yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120))
