"""tests/unit/auth/credential_service/test_contract.py, on PostgreSQL."""

from tests.unit.auth.credential_service.test_contract import *  # noqa: F403 - the same tests, on other fixtures
