"""Commands set up the logs of their process; the other tests' must stay as they were."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _logs() -> Iterator[None]:
    """Put the process's logging back."""
    root, ours = logging.getLogger(), logging.getLogger("durable_adk")
    handlers, levels = root.handlers[:], (root.level, ours.level)
    yield
    logging.captureWarnings(capture=False)
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    ours.setLevel(levels[1])
