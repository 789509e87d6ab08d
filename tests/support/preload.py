"""What worker processes import before they are forked."""

from durable_adk.sql import migrate
from tests.scenarios import worker_main as scenarios_main
from tests.support import worker_main

PRELOAD = ("tests.support.preload",)
"""For `ForkedWorker`: this module."""

# The first process that opens a store makes its tables: a quarter of a second of CPU time.
migrate.load()

__all__ = ["PRELOAD", "scenarios_main", "worker_main"]
