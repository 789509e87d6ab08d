"""tests/unit/sessions/test_contract_notes.py, on PostgreSQL."""

from tests.unit.sessions.test_contract_notes import *  # noqa: F403 - the same tests, on other fixtures
