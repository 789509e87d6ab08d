"""The tables, as docs/use/temporal-clients.md shows them to readers without this package."""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

from durable_adk.sessions import SessionKey, SqliteSessionService
from durable_adk.sessions.session_log import SessionLog
from durable_adk.sql import schema
from tests.unit.sessions.contract import opened

TEXT = (Path(__file__).parents[3] / "docs" / "use" / "temporal-clients.md").read_text()
PART = TEXT.partition("\n### By SQL\n")[2].partition("\n#")[0]
KEY = SessionKey("capital_agent", "alice", "trip")


def statement() -> str:
    """What the document selects with."""
    (sql,) = re.findall(r"```sql\n(.*?)```", PART, re.DOTALL)
    return sql


async def told(service: SessionLog) -> list[int]:
    """What a session has that was just opened."""
    await opened(service, KEY)
    session = await service.get_session(app_name=KEY[0], user_id=KEY[1], session_id=KEY[2])
    assert session is not None
    return list(range(1, len(session.events) + 1))


async def test_the_document_reads_a_file(tmp_path: Path) -> None:
    """D18: with no code of ours, and the events have ADK's keys."""
    service = SqliteSessionService(tmp_path / "sessions.db")
    expected = await told(service)
    await service.close()
    with closing(sqlite3.connect(tmp_path / "sessions.db")) as connection:
        rows = connection.execute(statement()).fetchall()
        found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    assert [seq for seq, _ in rows] == expected
    assert "invocationId" in json.loads(rows[0][1])
    assert {name for (name,) in found} == named() - schema.POSTGRES_METADATA.tables.keys()


def named() -> set[str]:
    """The tables of which the document knows."""
    return set(re.findall(r"`(\w+)`", PART.partition("```sql")[0]))
