"""A supervisor between a process and its child, so that the child never outlives the process.

It runs as ``python supervise.py GRACE COMMAND...``, with a pipe from the parent as standard input:

- a byte on the pipe is the number of a signal for the child;
- the end of the pipe (the parent stops the child, or has died, even by SIGKILL) means SIGTERM for
  the child, and SIGKILL for its process group after GRACE seconds.

It prints the child's process id, and exits with the child's exit code (128 + n for signal n). A
pipe reports the death of a process on every Unix and from every thread, unlike
``PR_SET_PDEATHSIG``. The program imports only a few modules of the standard library, to start in
milliseconds.
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
        with contextlib.suppress(ProcessLookupError, PermissionError):  # it has just ended
            os.killpg(child.pid, number)  # its own children end with it
    else:
        child.send_signal(number)


def _end(child: subprocess.Popen[bytes], grace: float) -> None:
    child.terminate()
    try:
        child.wait(grace)
    except subprocess.TimeoutExpired:
        _signal(child, signal.SIGKILL)


def _handle_commands(child: subprocess.Popen[bytes], grace: float) -> None:
    while order := os.read(0, 1):
        _signal(child, order[0])
    _end(child, grace)


def main(arguments: Sequence[str]) -> int:
    """Run the command to its end, and act on the pipe."""
    grace, *command = arguments
    # Its own session: Ctrl-C in the terminal must not stop the server before the worker.
    # The child inherits descriptors that were passed on purpose (a lock).
    child = subprocess.Popen(  # noqa: S603 # running the command is its purpose
        command, stdin=subprocess.DEVNULL, stdout=2, close_fds=False, start_new_session=True
    )
    # Only the pipe stops this process. Set after Popen, because the child would inherit it.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    print(child.pid, flush=True)  # noqa: T201 # for the parent
    Thread(target=_handle_commands, args=(child, float(grace)), daemon=True).start()
    code = child.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    # Not sys.exit: it would wait for the other thread, which may block in a read.
    os._exit(main(sys.argv[1:]))
