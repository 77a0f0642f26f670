"""`normbench check`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

EPILOG = """examples:
  normbench check                                       everything below the results folder, as git fsck
  normbench check --repair                              remove leftovers of killed commands, and nothing else
  normbench check --json | python -m json.tool

checked: packs, verdicts and tables (judged again from their packs), histories, contrasts, figures; of raw runs status,
configuration, id, curve, weights, outcomes, checkpoints; permissions; leftovers. Not output.log, report/ and pages that
scripts write. Files that are being written are skipped.

Hashes find damage, not forgery: a file that is changed together with its hash is not found.

kinds of findings:
  damage      a file is not what was written, or cannot be read
  missing     a file that belongs there is gone
  id          a run's configuration gives another id than the one it is filed under
  name        a run's folder was renamed: nothing reads it
  verdict     verdicts, tables or histories do not follow from the packs
  permission  a file may not be read by its owner, or a folder not listed
no damage:
  leftover    a command that was killed left it; nothing reads it
  unknown     this version or this machine cannot check it

exit codes: 0 whole; 4 something is damaged
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="the findings as JSON")
    parser.add_argument("--repair", action="store_true", help="remove leftovers, and nothing else")


def run(arguments: Namespace, console: Any) -> int:
    from normbench.commands import check

    return check.run(arguments.results, arguments.json, arguments.repair, arguments.config_dir, console)
