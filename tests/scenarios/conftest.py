"""The checks of an outcome explain themselves as a test's own asserts do."""

import pytest

pytest.register_assert_rewrite("tests.scenarios.outcome")
