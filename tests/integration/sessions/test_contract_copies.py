"""tests/unit/sessions/test_contract_copies.py, on PostgreSQL."""

from tests.unit.sessions.test_contract_copies import *  # noqa: F403 - the same tests, on other fixtures
