"""A worker on a made-up host, where a lock holds for nobody else, as flock on some shared file systems.

drive_worker.py PLAN HOST [seconds until a heartbeat is stale]
"""

import fcntl
import socket
import sys
from pathlib import Path

from normbench import locks
from normbench.config.identity import code
from normbench.launch import worker
from normbench.runs import leases, plans

plan, host, *stale = sys.argv[1:]
socket.gethostname = lambda: host
fcntl.flock = lambda handle, kind: None
assert locks.take(0, Path("."), 0)
if stale:
    leases.STALE, leases.BEAT = float(stale[0]), float(stale[0]) / 4
sys.exit(worker.work(plans.load(Path(plan), code()), lambda line: print(line, flush=True)))
