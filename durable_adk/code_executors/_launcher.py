"""The program that runs one piece of code for us, within limits, and never leaves it behind.

It reads one line of JSON, the job, from its standard input, and prints one JSON object, the reply.
The input stays open as a lifeline. Its end means that whoever asked has gone, by SIGKILL too, and
then the code is ended at once; so code does not outlive the worker that ran it.

It is run as a file beside us or, in a container, as ``python -c``. So it imports the standard
library only, and keeps to the syntax of Python 3.8.
"""

from __future__ import annotations  # Python 3.8

import base64
import contextlib
import json
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any


class Capture(threading.Thread):
    """Reads a pipe to its end and keeps the beginning; a writer is never blocked."""

    def __init__(self, pipe: Any, limit: int) -> None:
        super().__init__(daemon=True)
        self._pipe = pipe
        self._limit = limit
        self._kept = bytearray()
        self._size = 0
        self.start()

    def run(self) -> None:
        """Read on."""
        while True:
            chunk = os.read(self._pipe.fileno(), 65536)
            if not chunk:
                return
            self._kept += chunk[: max(self._limit - self._size, 0)]
            self._size += len(chunk)

    def text(self) -> str:
        """What came; does not wait for processes that left the group and hold the pipe."""
        self.join(1.0)
        text = bytes(self._kept).decode("utf-8", "replace")
        lost = self._size - len(self._kept)
        return f"{text}\n[{lost} more bytes were cut off]" if lost > 0 else text


def limit(job: dict[str, Any]) -> None:
    """Set the limits of the process that will run the code."""
    wanted = {
        resource.RLIMIT_CPU: job["cpu"],
        resource.RLIMIT_AS: job["memory"],
        resource.RLIMIT_FSIZE: job["file_size"],
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: 256,
    }
    for kind, value in wanted.items():
        if value is not None:
            hard = resource.getrlimit(kind)[1]
            bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(kind, (bound, bound))


def kill(child: subprocess.Popen[bytes]) -> None:
    """End the code and what it started; its id is its group's."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)


def prepare(job: dict[str, Any], folder: Path) -> int:
    """Write the code and its input files; the folder it will work in, opened.

    Opened before the code runs, which may put another folder in its place.
    """
    work = folder / "work"
    work.mkdir()
    (folder / "home").mkdir()
    (folder / "code.py").write_text(job["code"], encoding="utf-8")
    for name, data in job["files"]:
        (work / name).write_bytes(base64.b64decode(data))
    return os.open(work, os.O_RDONLY | os.O_DIRECTORY)


def start(job: dict[str, Any], folder: Path) -> subprocess.Popen[bytes]:
    """Start the code, in a session of its own."""
    home = str(folder / "home")
    environment = {"PATH": os.defpath, "LANG": "C.UTF-8", "HOME": home, "TMPDIR": home}
    return subprocess.Popen(  # noqa: S603 # the code is the whole point
        [sys.executable, "-I", "-X", "utf8", str(folder / "code.py")],
        cwd=folder / "work",
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: limit(job),  # noqa: PLW1509 # no other thread runs yet
    )


def new_files(job: dict[str, Any], work: int) -> tuple[list[list[str]], int]:
    """The files that the code left, as [name, base64], and how many more there were.

    Plain files only: a link could lead anywhere, and a pipe would be read for ever.
    """
    given = {name: base64.b64decode(data) for name, data in job["files"]}
    kept: list[list[str]] = []
    room, left_out = job["output_files_size"], 0
    for name in sorted(os.listdir(work)):
        if name.startswith("."):
            continue
        before = given.get(name, b"")
        most = max(room, len(before))
        data = read_file(name, work, most) if name.isprintable() else None
        if data == before and name in given:
            continue
        if data is None or len(data) > room or len(kept) >= job["output_files"]:
            left_out += 1
            continue
        kept.append([name, base64.b64encode(data).decode()])
        room -= len(data)
    return kept, left_out


def read_file(name: str, work: int, most: int) -> bytes | None:
    """A plain file's bytes; None: it is none, or larger than `most`."""
    try:
        number = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=work)
    except OSError:
        return None
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        return None
    with os.fdopen(number, "rb") as file:
        data = file.read(most + 1)
    return data if len(data) <= most else None


def run(job: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Run the code to its end, or to the end of its time or of the lifeline."""
    work = prepare(job, folder)
    child = start(job, folder)
    outputs = [Capture(pipe, job["output"]) for pipe in (child.stdout, child.stderr)]
    overdue = threading.Event()

    def end_of_time() -> None:
        overdue.set()
        kill(child)

    def end_of_lifeline() -> None:
        while os.read(0, 1024):
            pass
        kill(child)
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(1)

    timer = threading.Timer(job["seconds"], end_of_time)
    timer.daemon = True
    timer.start()
    threading.Thread(target=end_of_lifeline, daemon=True).start()
    code = child.wait()
    timer.cancel()
    kill(child)  # what it started ends with it
    texts = [output.text() for output in outputs]
    files, left_out = new_files(job, work)
    return {
        "stdout": texts[0],
        "stderr": texts[1],
        "exit_code": code,
        "overdue": overdue.is_set(),
        "files": files,
        "left_out": left_out,
    }


def main() -> None:
    """Do the job."""
    job = json.loads(sys.stdin.buffer.readline())
    folder = Path(tempfile.mkdtemp(prefix="code-"))
    try:
        reply = run(job, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    sys.stdout.write(json.dumps(reply))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
    # Not a plain end: the interpreter would wait for the thread that sits in a read.
    os._exit(0)
