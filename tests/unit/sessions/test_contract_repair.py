"""The contract of the session store: what tells and mends a store that is older than it was."""

import time
from dataclasses import replace
from uuid import uuid4

import pytest

from durable_adk.errors import EventConflictError, SessionRegressedError, StaleSessionError
from durable_adk.sessions import InMemorySessionService, Status
from durable_adk.sessions.log.rebuild import Rebuilt, RebuiltNote
from durable_adk.sessions.records import ServedApp
from durable_adk.sessions.session_log import SERVED_FOR
from tests.unit.sessions.contract import event, log, names, opened, paused


async def _everything(service, key):
    return (
        await service.read_events(key),
        await service.read_state(key),
        await service.invocations_by_time(app_name=key.app_name),
        await service.active_invocation(key),
    )


async def _as_rebuilt(service, key, *, after=0):
    records = await service.invocations_by_time(app_name=key.app_name)
    return Rebuilt(
        key=key,
        after=after,
        events=await service.read_events(key, after=after),
        records=[record for _, record in records],
        create_time=1.0,
    )


async def test_apps_are_those_with_sessions(service, key):
    """In the order of their names, each once; whatever has no session is none."""
    one, two = f"{key.app_name}-1", f"{key.app_name}-2"
    for app, session in ((two, "s"), (one, "s"), (two, "t")):
        await service.create_session(app_name=app, user_id="u", session_id=session)
    known = await service.list_apps()
    assert [name for name in known if name.startswith(key.app_name)] == [one, two]
    user = str(uuid4())  # other tests have sessions in the same database
    await service.create_session(app_name=two, user_id=user, session_id="s")
    assert await service.list_apps(user) == [two]


async def test_apps_are_served_for_a_day_after_each_announcement(service, key):
    """Of one place once, with what was announced last; such an app has no session by that."""

    def served(number: int, *, ago: float = 0.0, queue: str = "q", text: str = "") -> ServedApp:
        return ServedApp(
            name=f"{key.app_name}-{number}",
            root_agent_name="root",
            description=text,
            namespace="default",
            task_queue=queue,
            update_time=time.time() - ago,
        )

    async def found() -> list[ServedApp]:
        return [one for one in await service.served_apps() if one.name.startswith(key.app_name)]

    late, early = served(1, ago=SERVED_FOR - 600), served(2, ago=SERVED_FOR + 1)
    await service.announce_apps([early, late])
    assert await found() == [late]
    again, elsewhere = served(1, text="New."), served(2, queue="other")
    await service.announce_apps([again])
    await service.announce_apps([elsewhere])
    assert await found() == [again, elsewhere]
    assert not [name for name in await service.list_apps() if name.startswith(key.app_name)]
    await service.raise_horizon(key.app_name, seen=0.0, to=2.0)
    assert await service.read_horizon(key.app_name) == 2.0


async def test_a_commit_beyond_the_end_of_the_log_is_refused(service, key):
    """I21: a writer that has seen an event that is not there must not write in its place."""
    await opened(service, key)
    commit = {"invocation_id": "i1", "epoch": 1}
    before = await _everything(service, key)
    with pytest.raises(SessionRegressedError):
        await service.commit_event(key, event("c"), **commit, revision=2)
    assert await _everything(service, key) == before
    assert await service.commit_event(key, event("c"), **commit, revision=1) == 2
    assert await service.commit_event(key, event("c"), **commit, revision=1) == 2


async def test_a_rebuilt_session_is_what_it_was(service, key):
    """I21, F37: events, state, records and lease, whole or from the middle on."""
    original = InMemorySessionService()
    shared = {"n": 1, "user:u": 2, "app:a": 3}
    await opened(original, key, lease_owner="h", user_event=event("i1/user", delta=shared))
    await original.commit_event(key, event("c", delta={"n": 2}), invocation_id="i1", epoch=1)
    await original.pause_invocation(key, invocation_id="i1", epoch=1)
    await opened(original, key, "i2", lease_owner="h")
    await service.rebuild([await _as_rebuilt(original, key)])
    assert await _everything(service, key) == await _everything(original, key)
    commit = {"invocation_id": "i2", "epoch": 2}
    await original.commit_event(key, event("d", "i2", delta={"n": 3}), **commit)
    await original.close_invocation(key, **commit, status=Status.COMPLETED)
    await service.rebuild([await _as_rebuilt(original, key, after=3)])
    assert await _everything(service, key) == await _everything(original, key)
    assert (await opened(service, key, "i3")).epoch == 3


async def test_a_note_is_put_back_unless_it_is_there(service, key):
    """I8: the worker that began a run stays recorded, also if it is put back again."""
    original = InMemorySessionService()
    await opened(original, key)
    whole = await _as_rebuilt(original, key)
    note = RebuiltNote("i1", "begun", "call", '"first"')
    await service.rebuild([replace(whole, notes=[note])])
    later = replace(whole, after=1, events=[], notes=[note._replace(body='"second"')])
    await service.rebuild([later])
    notes = await service.read_notes(key, invocation_id="i1", kind="begun")
    assert [(one.name, one.body) for one in notes] == [("call", '"first"')]


async def test_of_shared_state_the_newest_value_counts(service, key):
    """I4: sessions that are put back together meet in their user's state, in any order."""
    other = key._replace(session_id="other")
    original = InMemorySessionService()
    for one, name, at in ((key, "new", 2.0), (other, "old", 1.0)):
        user_event = event("e", "i1", delta={"user:u": name}, timestamp=at)
        await opened(original, one, user_event=user_event)
    both = [
        Rebuilt(key=one, after=0, events=await original.read_events(one)) for one in (key, other)
    ]
    await service.rebuild(both)
    assert (await service.read_state(key))[1] == {"user:u": "new"}


async def test_a_session_that_has_changed_is_not_rebuilt(service, key):
    """I1, I3: neither over events that came meanwhile nor with a gap; all of it or nothing."""
    original = InMemorySessionService()
    await paused(original, key)
    await original.append_event(await original.get_session(**names(key)), event("late"))
    whole = await _as_rebuilt(original, key)
    await service.rebuild([whole])
    with pytest.raises(StaleSessionError):
        await service.rebuild([whole])
    gap = [one.model_copy(update={"seq": 4}) for one in whole.events[:1]]
    with pytest.raises(EventConflictError):
        await service.rebuild([Rebuilt(key=key, after=2, events=gap)])
    assert await log(service, key) == [(1, "i1/user"), (2, "late")]
