"""A command on a made-up host, where flock holds for nobody else, as on some shared file systems.

drive_worker.py HOST WORD...   what `normbench WORD...` does, its training processes included
"""

import fcntl
import socket
import sys
from pathlib import Path

TRAINS = "--trains"

host, *words = sys.argv[1:]
socket.gethostname = lambda: host
fcntl.flock = lambda handle, kind: None
if words[0] == TRAINS:
    from normbench.launch import process

    sys.argv[1:] = words[1:]
    process.main()
else:
    from normbench import cli
    from normbench.launch import pool

    pool.WORKER = (str(Path(__file__)), host, TRAINS)
    cli.main(words)
