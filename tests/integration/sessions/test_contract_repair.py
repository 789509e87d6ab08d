"""tests/unit/sessions/test_contract_repair.py, on PostgreSQL."""

from tests.unit.sessions.test_contract_repair import *  # noqa: F403 - the same tests, on other fixtures
