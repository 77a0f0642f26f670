"""`normbench dashboard`: serves the comparison of runs to the user's browser."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import os
import secrets
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

from normbench.commands import format
from normbench.commands.options import ConfigDir, Filters, Results, option
from normbench.compare import configuration, suggested_seeds
from normbench.compare.answer import Comparison
from normbench.errors import Busy
from normbench.runs import choices
from normbench.web.index import Index

EPILOG = """examples:
  normbench dashboard                                   print a link for the browser; Ctrl-C ends it
  normbench dashboard model=mnist_mlp norm=layer,batch  begin with these runs
  ssh -L 8642:localhost:8642 HOST                       then `normbench dashboard --port 8642` there; open the link here
"""
HOST, PORT, TRIED = "127.0.0.1", 8642, 50


def command(
    filters: Filters,
    results: Results,
    config_dir: ConfigDir = None,
    port: Annotated[
        int | None, option("use this port", min=1, max=65535, show_default="8642, or the next free one")
    ] = None,
) -> None:
    """Print the link and serve until Ctrl-C. NormbenchError: a filter fits no run, a port is taken."""
    gc.disable()  # to look for cycles among what is read takes a quarter of the time, also later: all of it stays
    try:
        index = Index(results)
    finally:
        gc.enable()
    gc.freeze()
    heads = index.heads
    configuration.select(filters, heads)
    token = kept_token(results)
    config_dir = choices(results, config_dir)
    given = format.repeated(results, config_dir)
    serve = server_of(index, token, lambda c: suggested_seeds.suggested_commands(c, config_dir, given))
    with listen(port) as listener:
        print(f"{link(listener, token, filters)}  ({describe_runs(len(heads), results)})", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            serve([listener])


def kept_token(results: Path) -> str:
    """The token of this results folder: the same at the next start, so that a link and a bookmark stay good.

    Its owner alone can read it; where it cannot be kept it is a new one.
    """
    state = Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser() / "normbench" / "dashboard"
    path = state / hashlib.sha256(str(results.resolve()).encode()).hexdigest()[:16]
    token = secrets.token_urlsafe(24)
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(path, "x", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(token)
    except FileExistsError:
        status = path.stat()
        others_may_read = status.st_uid != os.getuid() or status.st_mode & 0o077
        kept = "" if others_may_read else path.read_text(encoding="ascii")
        return kept if len(kept) == len(token) else token
    except OSError:
        pass
    return token


def describe_runs(runs: int, results: Path) -> str:
    """The number of runs; where there are none, a command that trains some."""
    if not runs:
        return f"no runs below {results} yet: {format.first_command(results)}; Ctrl-C ends this"
    return f"{format.plural(runs, 'run')}; Ctrl-C ends this"


def link(listener: socket.socket, token: str, filters: Sequence[str]) -> str:
    """The address with the token that gives access."""
    query = {**({"filter": " ".join(filters)} if filters else {}), "token": token}
    return f"http://{HOST}:{listener.getsockname()[1]}/?{urlencode(query)}"


def listen(port: int | None) -> socket.socket:
    """A socket on the loopback interface; without a given port, on the first free one."""
    for number in range(PORT, PORT + TRIED) if port is None else (port,):
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, number))
            listener.listen()
            return listener
        except OSError as error:
            listener.close()
            reason = error.strerror
    ports = f"--port {port}" if port else f"ports {PORT} to {PORT + TRIED - 1}"
    raise Busy(f"{ports} cannot be opened: {reason}. Choose another one with --port.")


def server_of(
    index: Index, token: str, commands: Callable[[Comparison], Sequence[str]] = suggested_seeds.suggested_commands
) -> Callable[[list[socket.socket]], None]:
    """A function that serves sockets until Ctrl-C, then closes waiting pages at once. commands: see `app`."""
    import uvicorn

    from normbench.web import server

    def ending() -> bool:
        return running.should_exit

    app = server.app(index, token, ending, commands)
    quiet: dict[str, Any] = {"log_level": "error", "access_log": False, "server_header": False}
    running = uvicorn.Server(uvicorn.Config(app, lifespan="off", timeout_graceful_shutdown=5, **quiet))
    return running.run
