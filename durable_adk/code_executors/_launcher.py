"""The program that runs one piece of code, within a time, and leaves nothing of it running.

It reads one line of JSON, the job, from its standard input, and prints one JSON object, the reply.
The input stays open: its end means that whoever asked has died, and then the code is ended.

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
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any


def limit(job: dict[str, Any]) -> None:
    """Set the limits of the process that will run the code."""
    for kind, value in (
        (resource.RLIMIT_AS, job["memory"]),
        (resource.RLIMIT_FSIZE, job["file_size"]),
    ):
        hard = resource.getrlimit(kind)[1]
        if value is not None and (hard == resource.RLIM_INFINITY or value < hard):
            resource.setrlimit(kind, (value, value))


def start(job: dict[str, Any], folder: Path) -> subprocess.Popen[bytes]:
    """Start the code, in a process group of its own; its output goes to files."""
    for name in ("work", "home"):
        (folder / name).mkdir()
    for name, data in job["files"]:
        (folder / "work" / name).write_bytes(base64.b64decode(data))
    (folder / "code.py").write_text(job["code"], encoding="utf-8")
    home = str(folder / "home")
    with (folder / "stdout").open("wb") as stdout, (folder / "stderr").open("wb") as stderr:
        return subprocess.Popen(  # noqa: S603 # the code is the whole point
            [sys.executable, "-I", "-X", "utf8", str(folder / "code.py")],
            cwd=folder / "work",
            env={"PATH": os.defpath, "LANG": "C.UTF-8", "HOME": home, "TMPDIR": home},
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            preexec_fn=lambda: limit(job),  # noqa: PLW1509 # no other thread runs yet
        )


def kill(child: subprocess.Popen[bytes]) -> None:
    """End the code and what it started; its id is its group's."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)


def beginning(file: Path, most: int) -> str:
    """The first bytes of an output as text."""
    with contextlib.suppress(OSError), file.open("rb") as output:
        text = output.read(most).decode("utf-8", "replace")
        lost = file.stat().st_size - most
        return f"{text}\n[{lost} more bytes were cut off]" if lost > 0 else text
    return ""


def new_files(job: dict[str, Any], work: Path) -> tuple[list[list[str]], int]:
    """The plain files that the code left, as [name, base64], and how many more things there are."""
    given = {name: base64.b64decode(data) for name, data in job["files"]}
    kept: list[list[str]] = []
    room, left_out = job["output_files_size"], 0
    for path in sorted(work.iterdir()) if work.is_dir() else ():
        if path.name.startswith("."):
            continue
        before = given.get(path.name)
        data = content(path, max(room, len(before or b"")))
        if data is not None and data == before:
            continue
        if data is None or len(data) > room or len(kept) >= job["output_files"]:
            left_out += 1
            continue
        kept.append([path.name, base64.b64encode(data).decode()])
        room -= len(data)
    return kept, left_out


def content(path: Path, most: int) -> bytes | None:
    """A plain file's bytes; None: it is none, or larger than `most`.

    A link could lead anywhere, and a pipe would be read for ever.
    """
    with contextlib.suppress(OSError):
        if path.is_file() and not path.is_symlink() and path.name.isprintable():
            return path.read_bytes() if path.stat().st_size <= most else None
    return None


def run(job: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Run the code to its end, or to the end of its time or of whoever asked."""
    child = start(job, folder)

    def end_with_the_asker() -> None:
        while os.read(0, 1024):
            pass
        kill(child)
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(1)

    threading.Thread(target=end_with_the_asker, daemon=True).start()
    overdue = False
    try:
        child.wait(job["seconds"])
    except subprocess.TimeoutExpired:
        overdue = True
    kill(child)  # what it started ends with it
    files, left_out = new_files(job, folder / "work")
    return {
        "stdout": beginning(folder / "stdout", job["output"]),
        "stderr": beginning(folder / "stderr", job["output"]),
        "exit_code": child.wait(),
        "overdue": overdue,
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
