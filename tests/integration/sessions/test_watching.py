"""tests/unit/sessions/test_watching.py, on PostgreSQL."""

from tests.unit.sessions.test_watching import *  # noqa: F403 - the same tests, on other fixtures
