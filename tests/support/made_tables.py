"""SQLite stores that begin as a copy of one with tables: making these takes three times as long."""

import os
import shutil
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from durable_adk.sessions import SqliteSessionService
from durable_adk.sessions.sql import sqlite

CREATE = sqlite._create
"""Creates an empty file, whose tables the migrations have to make."""


@asynccontextmanager
async def tables_copied(folder: Path) -> AsyncGenerator[None]:
    """Have stores of this process begin as a copy of one that is made in `folder`."""
    made = SqliteSessionService(folder / "made.db")
    await made.prepare()
    await made.close()

    def create(path: Path) -> None:
        with suppress(OSError):  # if it cannot be written, `CREATE` has to say so
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                copied = Path(shutil.copyfile(folder / "made.db", f"{path}.{uuid.uuid4().hex}"))
                try:
                    os.link(copied, path)  # as a whole, and unless another has been first
                finally:
                    copied.unlink()
        CREATE(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite, "_create", create)
        yield
