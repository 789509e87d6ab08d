"""Launcher program: runs code within a time limit and leaves none of its processes running.

It reads one line of JSON, the job, from its standard input, and prints one JSON object, the reply.
The input stays open; end of file means that the requester has died, and the code is then killed.

The launcher runs as a file on the same machine or, in a container, as ``python -c``. It therefore
imports only the standard library and restricts itself to Python 3.8 syntax.
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
    """Set the resource limits of the process that will run the code."""
    for kind, value in (
        (resource.RLIMIT_AS, job["memory"]),
        (resource.RLIMIT_FSIZE, job["file_size"]),
    ):
        hard = resource.getrlimit(kind)[1]
        if value is not None and (hard == resource.RLIM_INFINITY or value < hard):
            resource.setrlimit(kind, (value, value))


def start(job: dict[str, Any], folder: Path) -> subprocess.Popen[bytes]:
    """Start the code in its own process group, with its output redirected to files."""
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
    """Kill the code's whole process group; the group id is the child's process id."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)


def beginning(file: Path, most: int) -> str:
    """Return the first bytes of an output file as text."""
    with contextlib.suppress(OSError), file.open("rb") as output:
        text = output.read(most).decode("utf-8", "replace")
        lost = file.stat().st_size - most
        return f"{text}\n[{lost} more bytes were cut off]" if lost > 0 else text
    return ""


def new_files(job: dict[str, Any], work: Path) -> tuple[list[list[str]], int]:
    """Return new or changed regular files as [name, base64], and the number of those left out."""
    input_files = {name: base64.b64decode(data) for name, data in job["files"]}
    kept: list[list[str]] = []
    room, left_out = job["output_files_size"], 0
    for path in sorted(work.iterdir()) if work.is_dir() else ():
        if path.name.startswith("."):
            continue
        before = input_files.get(path.name)
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
    """Return a file's bytes; None if it is not a regular file, or larger than `most`.

    Links and pipes are excluded: a link could point anywhere, and reading a pipe could block
    forever.
    """
    with contextlib.suppress(OSError):
        if path.is_file() and not path.is_symlink() and path.name.isprintable():
            return path.read_bytes() if path.stat().st_size <= most else None
    return None


def run(job: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Run the code until it exits, its time is up, or the requester dies."""
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
    kill(child)  # kills remaining processes of the group too
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
    """Read the job, run it, and print the reply."""
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
    # A normal exit would wait for the thread that is blocked in a read.
    os._exit(0)
