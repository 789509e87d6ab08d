"""Channels over servers, for the contract in tests/unit/partials."""

from collections.abc import AsyncIterator

import pytest
from sqlalchemy import make_url

from durable_adk.partials import PartialChannel, PostgresPartials, RedisPartials
from durable_adk.sql.database import PostgresDatabase
from tests.support.postgres import HAS_POSTGRES


@pytest.fixture(params=["redis"] + ["postgres"] * HAS_POSTGRES)
def server(request: pytest.FixtureRequest) -> str:
    """The URL of the server that a channel needs."""
    if request.param == "redis":
        return request.getfixturevalue("redis_server").url()
    return request.getfixturevalue("postgres_url")


@pytest.fixture
async def channel(server: str) -> AsyncIterator[PartialChannel]:
    """A channel without viewers, of each kind in turn."""
    if server.startswith("redis"):
        made = RedisPartials(server)
        yield made
        await made.close()
    else:
        database = PostgresDatabase(make_url(server))
        yield PostgresPartials(database)
        await database.close()
