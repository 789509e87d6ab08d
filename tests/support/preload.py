"""What worker processes import before they are forked."""

from durable_adk.sql import migrate
from tests.scenarios import worker_main as scenarios_main
from tests.support import worker_main

PRELOAD = ("tests.support.preload",)
"""For `ForkedWorker`: this module."""

# Whoever opens a store first makes its tables: a quarter of a second of each process's CPU time.
migrate.load()

__all__ = ["PRELOAD", "scenarios_main", "worker_main"]
