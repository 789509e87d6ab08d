"""tests/unit/sessions/test_contract_steering.py, on PostgreSQL."""

from tests.unit.sessions.test_contract_steering import *  # noqa: F403 - the same tests, on other fixtures
