"""tests/unit/sessions/test_contract.py, on PostgreSQL."""

from tests.unit.sessions.test_contract import *  # noqa: F403 - the same tests, on other fixtures
