"""tests/unit/sessions/test_contract_people.py, on PostgreSQL."""

from tests.unit.sessions.test_contract_people import *  # noqa: F403 - the same tests, on other fixtures
