"""tests/unit/artifacts/test_contract.py, on S3."""

import pytest

from tests.unit.artifacts.test_contract import *  # noqa: F403 - the same tests, on other fixtures

pytestmark = pytest.mark.sampled(3)
