"""tests/unit/sessions/test_contract_security.py, on PostgreSQL."""

from tests.unit.sessions.test_contract_security import *  # noqa: F403 - the same tests, on other fixtures
