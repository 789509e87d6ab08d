"""Everything that a SQLite session store holds, to be compared."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

TABLES = ("sessions", "events", "invocations", "state")

Dump = dict[str, list[dict[str, Any]]]


def dump(file: Path, user: str | None = None) -> Dump:
    """By table, all rows in the order of their keys.

    Args:
        file: The store.
        user: Whose rows; None: all of them.
    """
    with closing(sqlite3.connect(file)) as connection:
        connection.row_factory = sqlite3.Row
        tables = {
            table: [dict(row) for row in connection.execute(f"SELECT * FROM {table}")]  # noqa: S608  # of names above
            for table in TABLES
        }
    return {
        # What is of no app is how far the store was compared with Temporal.
        table: sorted(
            (row for row in rows if row["app_name"] and user in (None, row["user_id"])), key=str
        )
        for table, rows in tables.items()
    }


def copy(file: Path, backup: Path) -> None:
    """Copy a store while it is in use, as a backup is made."""
    with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(backup)) as target:
        source.backup(target)


def restore(file: Path, backup: Path) -> None:
    """Put a backup in the place of a store, as someone does after a disk was lost.

    Its connections see the older content with their next transaction.
    """
    copy(backup, file)
