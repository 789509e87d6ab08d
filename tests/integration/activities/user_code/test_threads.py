"""The pool of threads for sync user code."""

import subprocess
import sys

from tests.support.waiting import PATIENCE


def test_a_thread_that_hangs_keeps_no_process_from_ending() -> None:
    """F11: the interpreter does not wait for it, as it does for those of a `ThreadPoolExecutor`."""
    program = (
        "import threading\n"
        "from durable_adk.activities.user_code.threads import UserCodeThreads\n"
        "UserCodeThreads(lambda: 1).submit(threading.Event().wait)\n"
    )
    subprocess.run([sys.executable, "-c", program], timeout=PATIENCE, check=True)
