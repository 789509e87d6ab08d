"""The tables, as docs/use/temporal-clients.md shows them to readers without this package."""

import json

from durable_adk.sessions import DatabaseSessionService
from tests.support.postgres import Databases
from tests.unit.sql.test_schema import named, statement, told


async def test_the_document_reads_a_database(postgres: Databases) -> None:
    """D18: the same statement; PostgreSQL has two tables more."""
    url = await postgres.make()
    service = DatabaseSessionService(url)
    expected = await told(service)
    await service.close()
    rows = await postgres.query(url, statement())
    assert [row["seq"] for row in rows] == expected
    assert "invocationId" in json.loads(rows[0]["body"])
    found = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
    assert {row["tablename"] for row in await postgres.query(url, found)} == named()
