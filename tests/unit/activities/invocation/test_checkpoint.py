"""What a run reads that continues where another one stopped."""

from typing import Any

import pytest

from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.invocation.checkpoint import (
    read_checkpoint,
    read_journals,
    save_checkpoint,
    save_journal,
    state_as_of,
)
from durable_adk.apps import AppRegistry
from durable_adk.errors import LeaseLostError, SessionRegressedError
from durable_adk.events import Event, EventActions
from durable_adk.sessions import InMemorySessionService, SessionKey, Status
from durable_adk.sessions.records import Note
from durable_adk.wire.checkpoint import (
    Checkpoint,
    Cursor,
    JournalPage,
    ReadCheckpointStep,
    ReadJournalStep,
    SaveCheckpointStep,
    SaveJournalStep,
    digest,
    packed,
)

KEY = SessionKey("app", "u", "s")
KEPT = packed('["b", []]')


async def test_the_notes_of_what_has_ended_are_not_taken_for_none() -> None:
    """D10, I2: they are removed with the end, and a body that has received nothing begins anew."""
    deps = Dependencies(registry=AppRegistry([]), sessions=InMemorySessionService())
    message = Event(id="i.0", invocation_id="i", author="user", timestamp=1.0)
    record = await deps.sessions.open_invocation(
        KEY, invocation_id="i", lease_owner="h", user_event=message, create_session=True
    )
    kept = SaveJournalStep(key=KEY, invocation_id="i", body="b", part=KEPT)
    step = ReadJournalStep(key=KEY, invocation_id="i", parts=[await save_journal(deps, kept)])
    assert await read_journals(deps, step) == JournalPage(parts=[KEPT])
    await deps.sessions.close_invocation(
        KEY, invocation_id="i", epoch=record.epoch, status=Status.COMPLETED
    )
    page = await read_journals(deps, step)
    assert page.parts == []
    assert page.ending is not None
    assert page.ending.record.status is Status.COMPLETED


async def test_a_run_continues_from_its_own_parts_of_a_journal() -> None:
    """D10: one that was reset has left others, which may be longer; a missing part is an error."""
    deps = Dependencies(registry=AppRegistry([]), sessions=InMemorySessionService())
    message = Event(id="i.0", invocation_id="i", author="user", timestamp=1.0)
    await deps.sessions.open_invocation(
        KEY, invocation_id="i", lease_owner="h", user_event=message, create_session=True
    )

    async def kept(text: str, before: str | None = None) -> str:
        part = SaveJournalStep(key=KEY, invocation_id="i", body="b", part=text, before=before)
        return await save_journal(deps, part)

    async def read(name: str) -> list[str]:
        step = ReadJournalStep(key=KEY, invocation_id="i", parts=[name])
        return (await read_journals(deps, step)).parts

    reset = await kept("1 2 3")
    await kept("4 5 6", reset)
    first = await kept("1 2")
    second = await kept("3", first)
    assert await read(second) == ["3", "1 2"]
    assert await kept("3", first) == second
    with pytest.raises(SessionRegressedError, match="lacks part"):
        await read("b.none")


@pytest.mark.parametrize(
    ("deleted", "created", "error"),
    [
        (False, True, SessionRegressedError),
        (True, True, LeaseLostError),
        (True, False, LeaseLostError),
    ],
)
async def test_a_run_goes_on_in_no_other_session_and_waits_for_one_that_was_lost(
    deleted: bool, created: bool, error: type[Exception]
) -> None:
    """I15, I21: a session of its name that was created since is another; an older store waits."""
    sessions = InMemorySessionService()
    names = {"app_name": KEY.app_name, "user_id": KEY.user_id, "session_id": KEY.session_id}
    if deleted:
        await sessions.create_session(**names)
        await sessions.delete_session(**names)
    if created:
        await sessions.create_session(**names)
    cursor = Cursor(app="app", user="u", session="s", invocation_id="i", checkpoint=1, digest="d")
    deps = Dependencies(registry=AppRegistry([]), sessions=sessions)
    with pytest.raises(error):
        await read_checkpoint(deps, ReadCheckpointStep(cursor=cursor, lease_owner="h"))


class _Deleting(InMemorySessionService):
    """Loses the session as soon as notes of it were read."""

    async def read_notes(self, key: SessionKey, **options: Any) -> list[Note]:
        notes = await super().read_notes(key, **options)
        await self.delete_session(app_name="app", user_id="u", session_id="s")
        return notes


async def test_a_run_whose_session_is_deleted_while_it_is_read_has_lost_it() -> None:
    """I15: it ends as one does whose session was deleted before."""
    sessions = _Deleting()
    message = Event(id="i.0", invocation_id="i", author="user", timestamp=1.0)
    await sessions.open_invocation(
        KEY, invocation_id="i", lease_owner="h", user_event=message, create_session=True
    )
    checkpoint = Checkpoint.model_validate(
        {
            "request": {"app": "app", "user": "u", "session": "s", "message": "x"},
            "opened": {
                "manifest": {"name": "a", "kind": "llm"},
                "agent": "a",
                "limits": {},
                "registry": "r",
                "rules": 1,
            },
            "record": await sessions.get_invocation(KEY, "i"),
            "epoch": 1,
            "revision": 1,
        }
    )
    text = checkpoint.to_json()
    deps = Dependencies(registry=AppRegistry([]), sessions=sessions)
    step = SaveCheckpointStep(
        key=KEY, invocation_id="i", number=1, digest=digest(text), checkpoint=packed(text)
    )
    cursor = Cursor(
        app="app",
        user="u",
        session="s",
        invocation_id="i",
        checkpoint=1,
        digest=await save_checkpoint(deps, step),
    )
    with pytest.raises(LeaseLostError):
        await read_checkpoint(deps, ReadCheckpointStep(cursor=cursor, lease_owner="h"))


async def test_an_invocation_begun_again_is_not_shown_its_own_changes() -> None:
    """I2: keys it has added are gone, others are as they were; what others changed stays."""
    sessions = InMemorySessionService()
    given = {"given": 0, "touched": 0, "user:touched": 0}
    session = await sessions.create_session(
        app_name="app", user_id="u", session_id="s", state=given
    )
    message = Event(id="i.0", invocation_id="i", author="user", timestamp=1.0)
    message.actions = EventActions(state_delta={"sent": "i", "user:told": 1})
    record = await sessions.open_invocation(
        KEY, invocation_id="i", lease_owner="h", user_event=message
    )
    changes = {"touched": 1, "added": 1, "user:touched": 1, "user:told": 2, "app:added": 1}
    own = Event(id="i.1", invocation_id="i", author="a", timestamp=1.0)
    own.actions = EventActions(state_delta=changes)
    await sessions.commit_event(KEY, own, invocation_id="i", epoch=record.epoch)
    session = await sessions.get_session(app_name="app", user_id="u", session_id="s")
    assert session is not None
    other = Event(id="o", invocation_id="o", author="user")
    other.actions = EventActions(state_delta={"other": 1, "given": 1})
    await sessions.append_event(session, other)

    deps = Dependencies(registry=AppRegistry([]), sessions=sessions)
    state = await state_as_of(deps, KEY, invocation_id="i", revision=record.start_seq)
    assert state == {"given": 1, "touched": 0, "sent": "i", "other": 1, "user:told": 1}
    _, now = await sessions.read_state(KEY)
    assert await state_as_of(deps, KEY, invocation_id="i", revision=2) == now
