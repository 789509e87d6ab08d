"""tests/unit/sessions/test_contract_pausing.py, on PostgreSQL."""

from tests.unit.sessions.test_contract_pausing import *  # noqa: F403 - the same tests, on other fixtures
