"""tests/unit/sessions/test_contract_queue.py, on PostgreSQL."""

from tests.unit.sessions.test_contract_queue import *  # noqa: F403 - the same tests, on other fixtures
