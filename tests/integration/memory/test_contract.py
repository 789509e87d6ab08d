"""tests/unit/memory/test_contract.py, on PostgreSQL."""

from tests.unit.memory.test_contract import *  # noqa: F403 - the same tests, on other fixtures
