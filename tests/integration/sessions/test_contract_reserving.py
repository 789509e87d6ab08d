"""tests/unit/sessions/test_contract_reserving.py, on PostgreSQL."""

from tests.unit.sessions.test_contract_reserving import *  # noqa: F403 - the same tests, on other fixtures
