"""Copies the store's rows and Temporal's histories into a run's folder, while both still run.

The store is read row by row, past the code that wrote it.
"""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from google.protobuf.message import Message
from sqlalchemy import make_url, text
from sqlalchemy.ext.asyncio import create_async_engine
from temporalio.client import Client

from campaign.artifact_files import export_files
from campaign.cluster import Cluster
from campaign.evidence import Rows
from harness.journal import note

TABLES = ("sessions", "events", "invocations", "state")
MEMORIES = "memories"
"""The table of what is remembered; with SQLite it is in a file of its own."""


async def export(cluster: Cluster, client: Client) -> None:
    """Copy the contents of store and Temporal into the run's folder."""
    cluster.folder.store.write_text(json.dumps(await rows_of(cluster)))
    await export_files(cluster.folder)
    cluster.folder.histories.mkdir(exist_ok=True)
    async for execution in client.list_workflows():
        history = await client.get_workflow_handle(
            execution.id, run_id=execution.run_id
        ).fetch_history()
        path = cluster.folder.histories / f"{execution.id}.{execution.run_id}.json"
        path.write_text(history.to_json())
        note(
            cluster.folder.workflows,
            workflow=execution.id,
            run=execution.run_id,
            status=execution.status.name if execution.status else "",
            history=path.name,
            events=len(history.events),
            bytes=sum(_size(event) for event in history.events),
            largest=max(_size(event) for event in history.events),
        )


async def rows_of(cluster: Cluster) -> Rows:
    """What the store has."""
    return await _postgres_rows(cluster) if cluster.postgres else _sqlite_rows(cluster)


def _size(event: Message) -> int:
    return event.ByteSize()


def _sqlite_rows(cluster: Cluster) -> Rows:
    memory = cluster.folder.stores / "memory.db"
    nothing: Rows = {MEMORIES: []}
    remembered = _tables(memory, (MEMORIES,)) if memory.exists() else nothing
    return _tables(cluster.sqlite, TABLES) | remembered


def _tables(path: Path, names: tuple[str, ...]) -> Rows:
    with closing(sqlite3.connect(path)) as store:
        store.row_factory = sqlite3.Row
        return {
            table: [dict(row) for row in store.execute(f"SELECT * FROM {table}")]  # noqa: S608 - our own names
            for table in names
        }


async def _postgres_rows(cluster: Cluster) -> Rows:
    url = make_url(cluster.url()).set(drivername="postgresql+asyncpg")
    engine = create_async_engine(url)
    try:
        async with engine.connect() as store:
            found = {
                table: await store.execute(text(f"SELECT * FROM {table}"))  # noqa: S608 - our own names
                for table in (*TABLES, MEMORIES)
            }
            return {table: [dict(row) for row in rows.mappings()] for table, rows in found.items()}
    finally:
        await engine.dispose()
