"""`normbench show`: prints one run, raw or published."""

from __future__ import annotations

from normbench.commands.options import ConfigDir, Json, Results, RunName

EPILOG = """examples:
  normbench show 05fb4d3344a7                           a run, raw or published
  normbench show 05fb --json

--json prints, shortened:
  {"id": "3a228e1c3403", "status": "done", "reason": "", "steps": 12, "experiment": "adhoc", "arm": "mnist_mlp-none",
   "seed": 1, "fidelity": "adhoc", "control": "", "axes": {},
   "source": "results/runs/adhoc/mnist_mlp-none.s1.3a228e1c3403", "config": {}, "environment": {}, "records": 5,
   "last": [{"mode": "running", "split": "train", "epoch": 2, "nll": 0.17, "step": 12}]}
a failed run has "log", the file with its traceback.
"""


def command(run: RunName, results: Results, config_dir: ConfigDir = None, as_json: Json = False) -> None:
    """Print labels, configuration, environment and last records of a run."""
    import yaml

    from normbench.commands import terminal
    from normbench.runs.table import named

    record = named(run, results)
    records = [*record.records]
    at = "step" if record.logged else "epoch"
    content = {
        "id": record.id,
        "status": record.status,
        "reason": record.reason,
        **({"log": str(record.log)} if record.log else {}),
        "steps": record.steps,
        **({"began": record.began} if record.began else {}),
        **{label: getattr(record, label) for label in ("experiment", "arm", "seed", "fidelity", "control", "axes")},
        "source": str(record.path),
        "config": record.config,
        "environment": record.environment,
        "records": len(records),
        **({"earlier_id": record.earlier_id} if record.earlier_id else {}),
        "last": [r for r in records if r.get(at) == records[-1][at]],  # [] without records
    }
    if as_json:
        terminal.say_json(content)
    else:
        terminal.say(terminal.console(), yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120))
