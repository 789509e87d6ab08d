"""tests/unit/sessions/test_contract_listing.py, on PostgreSQL."""

from tests.unit.sessions.test_contract_listing import *  # noqa: F403 - the same tests, on other fixtures
