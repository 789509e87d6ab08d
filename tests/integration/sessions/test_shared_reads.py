"""tests/unit/sessions/test_shared_reads.py, on PostgreSQL."""

from tests.unit.sessions.test_shared_reads import *  # noqa: F403 - the same tests, on other fixtures
from tests.unit.sessions.test_shared_reads import stores  # noqa: F401  # a fixture
