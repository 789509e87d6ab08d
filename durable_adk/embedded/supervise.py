"""The program that stands between us and a child process, so that the child never outlives us.

It runs as ``python supervise.py GRACE COMMAND...`` with our end of a pipe as its standard input:

- a byte on the pipe is the number of a signal for the child;
- the end of the pipe (we stopped the child, or we are gone, by SIGKILL too) means SIGTERM for the
  child, and SIGKILL for its whole process group after GRACE seconds.

It prints the child's process id, and exits with the child's exit code (128 + n for signal n).
A pipe tells of a death on every Unix and from every thread, which ``PR_SET_PDEATHSIG`` does not.
The program imports the standard library alone, and little of it, to be up in milliseconds.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from threading import Thread


def _signal(child: subprocess.Popen[bytes], number: int) -> None:
    if number == signal.SIGKILL and child.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # it was faster
            os.killpg(child.pid, number)  # what the child started ends with it
    else:
        child.send_signal(number)


def _end(child: subprocess.Popen[bytes], grace: float) -> None:
    child.terminate()
    try:
        child.wait(grace)
    except subprocess.TimeoutExpired:
        _signal(child, signal.SIGKILL)


def _obey(child: subprocess.Popen[bytes], grace: float) -> None:
    while order := os.read(0, 1):
        _signal(child, order[0])
    _end(child, grace)


def main(arguments: Sequence[str]) -> int:
    """Run the command to its end, obeying the pipe meanwhile."""
    grace, *command = arguments
    # Its own session: Ctrl-C in the terminal must not stop the server before the worker is done.
    # Descriptors we were given on purpose (a lock) are the child's for as long as it lives.
    child = subprocess.Popen(  # noqa: S603 # the command is the whole point
        command, stdin=subprocess.DEVNULL, stdout=2, close_fds=False, start_new_session=True
    )
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # only the pipe gives orders; after the child, who
    print(child.pid, flush=True)  # noqa: T201 # our answer; else inherits what is ignored
    Thread(target=_obey, args=(child, float(grace)), daemon=True).start()
    code = child.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    # Not sys.exit: the other thread may sit in a read that the interpreter's end would wait for.
    os._exit(main(sys.argv[1:]))
