"""Runs mirrored to Weights & Biases while they train, by a separate process that reads their curves.

Training does not depend on it: the mirror can hang, fail or be killed, and costs the command at most GRACE_SECONDS at
its end. Lines of JSON on the mirror's standard input announce the start and the end of each run.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from normbench.config.compose import Config
from normbench.config.resolve import ResolvedRun
from normbench.errors import NormbenchError
from normbench.runs import curve_file, run_file, store, writing
from normbench.runs.damaged import Damaged
from normbench.runs.record import RunRecord, evaluation_complete

GRACE_SECONDS = 10.0
POLL_SECONDS = 1.0
Listener = Callable[[ResolvedRun, dict[str, Any]], None]


# --- the command's side ----------------------------------------------------------------------------------------------


@dataclass
class Follower:
    """`listen` passes events on to `then` and to the mirror; `notes` are lines for the user once it has ended."""

    then: Listener
    root: Path
    process: subprocess.Popen[bytes] | None = None
    notes: list[str] = field(default_factory=list)
    messages: queue.Queue[dict[str, Any] | None] = field(default_factory=queue.Queue)

    def listen(self, spec: ResolvedRun, event: dict[str, Any]) -> None:
        if self.process is not None and event["event"] in ("start", "end"):
            self.messages.put(_message(spec, event, self.root))
        self.then(spec, event)


@contextmanager
def following(logger: Config, results: Path, then: Listener) -> Iterator[Follower]:
    """Mirror the events inside this context to `logger`; with `name: none` only pass them on."""
    follower = Follower(then, results / "runs")
    if logger["name"] == "none":
        yield follower
        return
    arguments = [logger["mode"], logger["project"], logger["entity"], str(results / "wandb"), str(GRACE_SECONDS)]
    with tempfile.TemporaryFile() as errors:
        follower.process = subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-m",
                "normbench.export.mirror",
                *arguments,
            ],  # -P: no module of the working directory
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,  # Ctrl-C goes to the runs; the mirror ends after them
        )
        # in a thread: a hanging mirror does not empty its pipe, and training must not wait for it
        threading.Thread(target=_write, args=(follower.messages, follower.process.stdin), daemon=True).start()
        try:
            yield follower
        finally:
            follower.messages.put(None)
            follower.notes = _close(follower.process, errors, logger["mode"])


def _message(spec: ResolvedRun, event: dict[str, Any], root: Path) -> dict[str, Any]:
    if event["event"] == "end":
        return {"end": spec.id, "status": event["status"]}
    run = RunRecord(
        spec.id,
        seed=spec.seed,
        status="running",
        epochs=spec.epochs,
        steps=spec.steps,
        config=spec.stored_config(),
        **spec.labels(),
    )
    return {"start": {**asdict(run), "records": (), "path": str(writing.directory(root, spec).path)}}


def _write(messages: queue.Queue[dict[str, Any] | None], pipe: IO[bytes]) -> None:
    try:
        while (message := messages.get()) is not None:
            pipe.write((json.dumps(message) + "\n").encode())
            pipe.flush()
        pipe.close()
    except OSError:  # the mirror has ended: _close reports it
        pass


def _close(process: subprocess.Popen[bytes], errors: IO[bytes], mode: str) -> list[str]:
    again = f"The runs are whole; send them with: normbench export wandb --mode {mode}"
    try:
        code = process.wait(GRACE_SECONDS)
    except BaseException as error:  # timeout, or a second Ctrl-C: end the mirror
        os.killpg(process.pid, signal.SIGKILL)  # with W&B's helper process
        process.wait()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        return [f"W&B mirror: it had not ended after {GRACE_SECONDS:.0f} s and was stopped. {again}"]
    if code == 0:
        return []
    errors.seek(0)
    lines = [line.decode(errors="replace").strip() for line in errors] or [f"it ended with code {code}"]
    reason = next((line for line in lines if line.startswith("mirror: ")), lines[-1])
    return [f"W&B mirror: {reason.removeprefix('mirror: ')}. {again}"]


# --- the mirror's process --------------------------------------------------------------------------------------------


class MirroredRun:
    """One mirrored run: opened at W&B at its first epoch, or offline when it is finished.

    An offline file cannot be continued, as a server's run can, so it is written whole.
    """

    def __init__(self, run: RunRecord, target: Any) -> None:
        self.record, self.target = run, target
        self.opened: Any = None

    def look(self, ended: bool = False) -> None:
        """Send the complete epochs. The curve of a run that resumes from a checkpoint may shrink meanwhile."""
        if self.target.mode == "offline" and not ended:
            return
        try:
            records = curve_file.read(self.record.path / "curve.jsonl")
        except Damaged:
            return
        newest = max((r["step"] for r in records), default=0)  # all before it are whole
        whole = ended or evaluation_complete(records, newest)
        ready = records if whole else [r for r in records if r["step"] < newest]
        if not ready:
            return
        if self.opened is None:
            from normbench.export.wandb_run import WandbRun

            self.opened = WandbRun(self.record, self.target)
        self.opened.log(ready)

    def end(self, status: str) -> None:
        self.look(ended=self.target.mode == "online" or status in store.FINISHED)
        if self.opened is None:
            return
        found: Mapping[str, Any] = {}
        with suppress(Damaged):
            found = run_file.read(self.record.path)
        self.opened.finish(status, str(found.get("reason", "")), found.get("seconds"))


def main() -> None:
    from normbench.export.wandb_run import Target

    mode, project, entity, folder, grace = sys.argv[1:6]
    target = Target(mode, project, entity, Path(folder))
    messages: queue.Queue[dict[str, Any] | None] = queue.Queue()
    source = os.fdopen(os.dup(0), "r")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # W&B must not read our messages as answers to its prompts
    threading.Thread(target=_read, args=(source, messages, float(grace)), daemon=True).start()
    try:
        _follow(messages, target)
    finally:
        target.settle()


def _follow(messages: queue.Queue[dict[str, Any] | None], target: Any) -> None:
    followed: dict[str, MirroredRun] = {}
    while True:
        try:
            message = messages.get(timeout=POLL_SECONDS)
        except queue.Empty:
            for run in followed.values():
                run.look()
            continue
        if message is None:
            break
        if "start" in message:
            start = message["start"]
            followed[start["id"]] = MirroredRun(RunRecord(**{**start, "path": Path(start["path"])}), target)
        elif message["end"] in followed:
            followed.pop(message["end"]).end(message["status"])
    for run in followed.values():
        run.end("interrupted")


def _read(source: IO[str], messages: queue.Queue[dict[str, Any] | None], grace: float) -> None:
    for line in source:
        messages.put(json.loads(line))
    messages.put(None)
    # the command has ended or was killed: a hanging mirror and W&B's helper in the same session end with it
    timer = threading.Timer(2 * grace, os.killpg, (os.getpgid(0), signal.SIGKILL))
    timer.daemon = True
    timer.start()


if __name__ == "__main__":
    try:
        main()
    except NormbenchError as error:
        print(f"mirror: {error}".rstrip("."), file=sys.stderr)
        sys.exit(1)
