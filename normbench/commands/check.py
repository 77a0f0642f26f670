"""`normbench check`."""

from __future__ import annotations

from typing import Annotated

from normbench.commands import format, terminal
from normbench.commands.options import ConfigDir, Json, Results, flag
from normbench.errors import BadInput

EPILOG = """examples:
  normbench check                                       everything below the results folder, as git fsck
  normbench check --repair                              remove leftovers of killed commands, and nothing else
  normbench check --config-dir DIR                      and the models and data sets in DIR keep what they promise
  normbench check --json | python -m json.tool

checked: packs, imported ones too, verdicts and tables (judged again from their packs), contrasts; of raw runs status,
configuration, id, curve, weights, outcomes, checkpoints; leftovers. Not what is in figures, output.log, report/ and
pages that scripts write. Files that are being written are skipped.

With --config-dir each model of DIR is built for its home data with none, layer, batch and weight, where they can stand:
its normalizers are at the declared sites, arms begin alike, gradients arrive, metrics are one per example and agree
with the loss, an interrupted run ends with the same bytes. Each data set is read twice. Normalizers: normbench battery.

Hashes find damage, not forgery: a file that is changed together with its hash is not found.

kinds of findings:
  damage      a file is not what was written, or cannot be read
  missing     a file that belongs there is gone
  id          a run's configuration gives another id than the one it is filed under
  verdict     verdicts or tables do not follow from the packs
  contract    a model or data set of yours does not keep what this package relies on
no damage:
  leftover    a command that was killed left it; nothing reads it
  unknown     this version or this machine cannot check it
  shared      splits of a data set of yours have examples in common

exit codes: 0 whole; 4 something is damaged, or a promise is broken

--json prints, shortened:
  {"whole": false,
   "findings": [{"kind": "damage", "place": "results/runs/adhoc/mnist_mlp-none.s1.3a228e1c3403",
                 "text": "curve.jsonl is not the one that run.json has the hash of", "harmless": false}],
   "checked": {"published runs": 0, "claims": 0, "raw runs": 2, "files": 8}}
"""


def command(
    results: Results,
    config_dir: ConfigDir = None,
    repair: Annotated[bool, flag("--repair", "remove leftovers, and nothing else")] = False,
    as_json: Json = False,
) -> int:
    """Print a line for each finding; exit code 0, or 4 if something is damaged."""
    from normbench.check import Check
    from normbench.check.ids import Ids

    if not results.is_dir() and config_dir is None:
        raise BadInput(f"{results} is not there. Choose another place with --results or NORMBENCH_RESULTS.")
    console, check, findings = terminal.console(), Check(results, Ids(config_dir, results), config_dir), []
    for finding in check.findings(repair):
        findings.append(finding)
        if not as_json:
            terminal.say(console, f"{finding.kind:<10} {finding.place}: {finding.text}")
    damaged = sum(not finding.harmless for finding in findings)
    if as_json:
        entries = [{**vars(finding), "place": str(finding.place), "harmless": finding.harmless} for finding in findings]
        terminal.say_json({"whole": not damaged, "findings": entries, "checked": check.counted})
    else:
        counts = ", ".join(format.plural(count, what.removesuffix("s")) for what, count in check.counted.items())
        notes = f", {format.plural(len(findings) - damaged, 'note')}" if len(findings) > damaged else ""
        terminal.say(console, f"{f'{damaged} damaged' if damaged else 'whole'}{notes}: {counts}")
    return 4 if damaged else 0
