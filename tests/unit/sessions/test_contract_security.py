"""Nobody gets at what is another's, whatever their ids, keys and values look like."""

import pytest

from durable_adk.errors import DurableAdkError, InvalidRequestError
from durable_adk.sessions import Status
from durable_adk.sessions.records import QueuePosition
from tests.unit.sessions.contract import event, log, names, opened

HOSTILE = [
    "'; DROP TABLE events; --",
    '" OR "1"="1',
    "%' OR user_id LIKE '%",
    "$1",
    ":user_id",
    "{state}",
    "\\'; SELECT pg_sleep(9); --",
    "a' UNION SELECT body FROM events --",
    "[*]",
    "__class__",
]
"""What a user or a model may call a thing."""


def others(key):
    """Sessions that share something with this one, or look as if."""
    return [
        key._replace(user_id="other"),
        key._replace(session_id="other"),
        key._replace(app_name=f"{key.app_name}-2"),
        key._replace(user_id=key.session_id, session_id=key.user_id),
        key._replace(user_id=f"{key.user_id}%"),
        key._replace(session_id="_" * len(key.session_id)),
    ]


async def reads(service, key, invocation_id):
    """All that the port tells of a session and an invocation."""
    session = await service.get_session(**names(key))
    listed = await service.list_sessions(app_name=key.app_name, user_id=key.user_id)
    runs = await service.invocations_by_time(app_name=key.app_name, user_id=key.user_id)
    found = [
        session and (session.state, session.events),
        [one.state for one in listed.sessions],
        await service.get_user_state(app_name=key.app_name, user_id=key.user_id),
        await service.read_events(key),
        await service.get_invocation(key, invocation_id),
        runs,
        await service.waiting(key),
        await service.read_notes(key, invocation_id=invocation_id, kind="k"),
    ]
    return str(found)


async def test_no_read_shows_what_is_anothers(service, key):
    """S1, I18: guessed ids, exchanged ids and ids with wildcards find nothing of it."""
    canary = "canary-5e1f"
    delta = {"own": canary, "user:own": canary}
    await opened(service, key, user_event=event("i1/user", delta=delta, text=canary))
    await service.note(key, invocation_id="i1", kind="k", name="n", body=f'"{canary}"')
    shown = (await reads(service, key, "i1")).count(canary)
    assert shown >= 5
    for other in others(key):
        # Two sessions of one user share that user's state, and are listed together.
        limit = shown if other[:2] == key[:2] else 1
        try:
            said = await reads(service, other, "i1")
        except DurableAdkError as refused:
            said = refused.message
        assert said.count(canary) < limit, other


async def test_no_write_reaches_what_is_anothers(service, key):
    """S1, I6: with the right invocation and the right epoch, in the wrong session."""
    record = await opened(service, key)
    before = await log(service, key)
    for other in others(key):
        with pytest.raises(DurableAdkError):
            await service.commit_event(other, event("e"), invocation_id="i1", epoch=record.epoch)
        with pytest.raises(DurableAdkError):
            await service.close_invocation(
                other, invocation_id="i1", epoch=record.epoch, status=Status.COMPLETED
            )
        try:
            await service.delete_session(**names(other))
        except DurableAdkError as refused:
            assert "_id" in refused.message or "app_name" in refused.message  # noqa: PT017 - refusing is one of two right answers
    assert await log(service, key) == before
    assert (await service.get_invocation(key, "i1")).status is Status.RUNNING


@pytest.mark.parametrize("name", ["i1.1.0", "i1.12.3.1.0", "i1.answer", "i1.answer.ticket"])
async def test_an_invocation_is_not_named_as_what_another_has_made(service, key, name):
    """S2: events are named after their invocation; a clash would end a run in the middle of it."""
    await opened(service, key)
    await service.close_invocation(key, invocation_id="i1", epoch=1, status=Status.COMPLETED)
    before = await log(service, key)
    with pytest.raises(InvalidRequestError, match=r"does not begin with 'i1\.'"):
        await opened(service, key, name, position=QueuePosition.LAST)
    assert await log(service, key) == before
    assert await service.waiting(key) == []
    other = key._replace(session_id="other")
    assert (await opened(service, other, name)).invocation_id == name


@pytest.mark.parametrize("name", ["i1.1", "i1.0.1", "i1.x.1.0", "i1-1.0", "i2.1.0", "i1.answers"])
async def test_an_invocation_may_have_another_ones_name_before_a_dot(service, key, name):
    """Only what could be the id of something is refused: people number their messages."""
    await opened(service, key)
    await service.close_invocation(key, invocation_id="i1", epoch=1, status=Status.COMPLETED)
    assert (await opened(service, key, name)).invocation_id == name


async def test_a_repeat_of_what_an_earlier_release_has_opened_is_no_new_one(service, key):
    """I12: the other way round nothing is refused; the record is found."""
    await opened(service, key, "i1.1.0")
    await service.close_invocation(key, invocation_id="i1.1.0", epoch=1, status=Status.COMPLETED)
    await opened(service, key)
    await service.close_invocation(key, invocation_id="i1", epoch=2, status=Status.COMPLETED)
    assert (await opened(service, key, "i1.1.0")).epoch == 1


@pytest.mark.parametrize("text", HOSTILE)
async def test_whatever_a_thing_is_called_it_is_kept_as_it_is(service, key, text):
    """S13: as a key, a value, a text, an event's id, a note; as an id it may be refused."""
    neighbour = key._replace(session_id="neighbour")
    await opened(service, neighbour)
    delta = {text: text, f"user:{text}": text, f"app:{text}": text}
    record = await opened(service, key, user_event=event("i1/user", delta=delta, text=text))
    await service.commit_event(key, event(text, text=text), invocation_id="i1", epoch=record.epoch)
    await service.note(key, invocation_id="i1", kind=text, name=text, body='"x"')
    session = await service.get_session(**names(key))
    assert session.state == delta
    assert [one.text for one in session.events] == [text, text]
    assert session.events[-1].id == text
    notes = await service.read_notes(key, invocation_id="i1", kind=text, name=text)
    assert [note.name for note in notes] == [text]
    assert len(await log(service, neighbour)) == 1
    for field in ("app_name", "user_id", "session_id"):
        try:
            found = await service.get_session(**{**names(key), field: text})
        except DurableAdkError as refused:
            assert field in refused.message  # noqa: PT017 - refusing is one of two right answers
        else:
            assert found is None
