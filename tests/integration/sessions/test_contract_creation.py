"""tests/unit/sessions/test_contract_creation.py, on PostgreSQL."""

from tests.unit.sessions.test_contract_creation import *  # noqa: F403 - the same tests, on other fixtures
