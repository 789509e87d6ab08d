"""A store that is put back to how it was, and acts that only what came after them tells of."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from durable_adk.conversation.tool_responses import ABORTED
from durable_adk.errors import StoreUnavailableError
from durable_adk.ops.doctor.findings import Kind
from durable_adk.ops.doctor.sources import Missing
from durable_adk.sessions import InvocationRecord, SqliteSessionService
from tests.chaos.test_restore import assert_same
from tests.support.clinic import Clinic
from tests.support.dumps import copy, restore
from tests.support.own_server import own_client
from tests.support.waiting import PATIENCE, until


class Mute(SqliteSessionService):
    """Stores an opening, and then does not say so, if it is to be mute."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.mute, self.stored = asyncio.Event(), asyncio.Event()

    async def open_invocation(self, *args: Any, **options: Any) -> InvocationRecord:
        """See the base class."""
        record = await super().open_invocation(*args, **options)
        if self.mute.is_set():
            self.stored.set()
            raise StoreUnavailableError("Its answer was lost.")
        return record


@pytest.fixture
async def clinic(tmp_path: Path) -> AsyncIterator[Clinic]:
    """A store that may be mute, and a server with nothing else on it."""
    async with own_client(tmp_path / "own") as client:
        opened = await _opened(tmp_path, client)
        yield opened
        await opened.store.close()


async def _opened(folder: Path, client: Client) -> Clinic:
    clinic = Clinic(folder, client, client.service_client.config.target_host)
    await clinic.store.close()
    clinic.store = Mute(clinic.file)
    clinic.traces.open_gate()
    return clinic


@pytest.mark.parametrize(("session", "is_told"), [("s", True), ("new", True), ("new", False)])
async def test_who_was_cancelled_while_it_opened_is_put_back(
    clinic: Clinic, session: str, *, is_told: bool
) -> None:
    """I21, F6: its history takes the opening for lost; the end has found it stored.

    Under whose name it was ended, another history of the app tells, or else its code.
    """
    backup, store = clinic.folder / "backup.db", clinic.store
    assert isinstance(store, Mute)
    async with clinic.working():
        await clinic.run("charge", "first")
        copy(clinic.file, backup)
        store.mute.set()
        run = asyncio.create_task(clinic.run("charge", "lost", session))
        await until(store.stored.is_set)
        await clinic.workflow("charge", "lost", session).cancel()
        (end,) = await asyncio.wait_for(run, PATIENCE)
        assert end.error_code == ABORTED
        store.mute.clear()
        if session == "s":
            await clinic.run("charge", "next", session)
            await clinic.workflow("charge", "next", session).result()
    whole, by = clinic.dump(), time.time()
    lost = [row["event_id"] for row in whole["events"] if row["invocation_id"] == "lost"]
    assert lost == ["lost.0", "lost.end"]
    restore(clinic.file, backup)
    told: dict[str, Any] = {"app": "charge", "session": session, "missing": Missing.LOST}
    if session == "new" and is_told:
        told["code"] = [clinic.apps["charge"]]
    (finding,) = await clinic.findings(**told)
    assert (finding.kind, finding.session) == (Kind.REGRESSED, session)
    assert (finding.fix is not None) is is_told
    if not is_told:
        assert "--target" in finding.problem
        return
    await clinic.mend(**told)
    assert await clinic.findings(**told) == []
    assert_same(clinic.dump(), whole, by=by)
