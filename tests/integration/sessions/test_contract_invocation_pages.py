"""tests/unit/sessions/test_contract_invocation_pages.py, on PostgreSQL."""

from tests.unit.sessions.test_contract_invocation_pages import *  # noqa: F403 - the same tests, on other fixtures
