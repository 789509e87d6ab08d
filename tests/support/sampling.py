"""The share of a matrix that a run of the tests takes: always the same, unless one is asked for."""

import os
import zlib

from tests.support.seeds import SAMPLE as FIXED

VARIABLE = "DURABLE_ADK_TESTS_SAMPLE"
"""Another number takes another share, the same one each time; ``all`` takes everything."""

# Set, so that processes that share the tests, and pytest that a test starts, take the same.
SAMPLE = os.environ[VARIABLE] = os.environ.get(VARIABLE) or FIXED
ALL = SAMPLE == "all"


def turn(name: str, of: int) -> int:
    """A number below `of`, which differs from sample to sample; 0 with ``all``."""
    return 0 if ALL else (zlib.crc32(name.encode()) + int(SAMPLE)) % of


def is_taken(name: str, of: int) -> bool:
    """Whether this run takes what is one in `of`."""
    return turn(name, of) == 0
