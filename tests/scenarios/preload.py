"""What every worker process works out once, done before they are forked."""

from temporalio.worker._worker import load_default_build_id

from tests.scenarios import worker_main

# Each process hashes all code that it has imported, half a second long; forked ones inherit it.
load_default_build_id()

__all__ = ["worker_main"]
