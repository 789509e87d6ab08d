"""What worker processes import before they are forked."""

from temporalio.worker._worker import load_default_build_id

from tests.scenarios import worker_main
from tests.support import matrix_worker

PRELOAD = ("tests.support.preload",)
"""For `ForkedWorker`: this module."""

# Each process hashes all code that it has imported, half a second long; forked ones inherit it.
load_default_build_id()

__all__ = ["PRELOAD", "matrix_worker", "worker_main"]
