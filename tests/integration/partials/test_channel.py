"""tests/unit/partials/test_channel.py, on Redis and PostgreSQL."""

from tests.unit.partials.test_channel import *  # noqa: F403 - the same tests, on other fixtures
