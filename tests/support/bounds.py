"""Bounds in seconds, which an idle machine keeps: `make bench` asks for them, the gate does not."""

import os
import time
from collections.abc import Generator
from contextlib import contextmanager

import pytest

ASKED = "DURABLE_ADK_TESTS_BOUNDS" in os.environ
_slowest = dict[str, tuple[float, float]]()

bounded = pytest.mark.bounded
"""Marks a test that has a bound: `make bench` runs these."""


@contextmanager
def within(seconds: float, what: str) -> Generator[None]:
    """Bound the seconds that something takes."""
    began = time.perf_counter()
    yield
    keeps(time.perf_counter() - began, seconds, what)


def keeps(took: float, seconds: float, what: str) -> None:
    """Bound seconds that have been measured."""
    _slowest[what] = max(_slowest.get(what, (0.0, seconds)), (took, seconds))
    assert not ASKED or took <= seconds, f"{what}: {took:.2f} s"


def report() -> list[str]:
    """A line for each bound, with the slowest of what it holds for."""
    return [f"{took:7.2f} s of {most:g} s  {what}" for what, (took, most) in _slowest.items()]
