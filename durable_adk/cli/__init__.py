"""The command line: ``durable-adk``."""

from durable_adk.cli.program import main

__all__ = ["main"]
