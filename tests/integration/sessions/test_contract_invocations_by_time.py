"""tests/unit/sessions/test_contract_invocations_by_time.py, on PostgreSQL."""

from tests.unit.sessions.test_contract_invocations_by_time import *  # noqa: F403 - the same tests, on other fixtures
