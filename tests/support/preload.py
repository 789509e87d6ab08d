"""What worker processes import before they are forked."""

from temporalio.worker._worker import load_default_build_id

from tests.scenarios import worker_main as scenarios_main
from tests.support import worker_main

PRELOAD = ("tests.support.preload",)
"""For `ForkedWorker`: this module."""

# Each process hashes all code that it has imported, half a second long; forked ones inherit it.
load_default_build_id()

__all__ = ["PRELOAD", "scenarios_main", "worker_main"]
