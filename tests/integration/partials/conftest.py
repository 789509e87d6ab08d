"""Channels over servers, for the contract in tests/unit/partials."""

from collections.abc import AsyncIterator

import pytest
from sqlalchemy import make_url

from durable_adk.partials import PartialChannel, PostgresPartials, RedisPartials
from durable_adk.sql.database import PostgresDatabase
from tests.support.postgres import HAS_POSTGRES


@pytest.fixture(params=["redis"] + ["postgres"] * HAS_POSTGRES)
async def channel(request: pytest.FixtureRequest) -> AsyncIterator[PartialChannel]:
    """A channel without viewers, of each kind in turn."""
    if request.param == "redis":
        made = RedisPartials(request.getfixturevalue("redis_server").url())
        yield made
        await made.close()
    else:
        database = PostgresDatabase(make_url(request.getfixturevalue("postgres_url")))
        yield PostgresPartials(database)
        await database.close()
