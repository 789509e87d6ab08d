"""What every session service keeps of notes, run against each of them."""

import asyncio
import json

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from durable_adk.errors import (
    InvalidRequestError,
    InvocationNotFoundError,
    SessionNotFoundError,
    StateValueError,
)
from durable_adk.sessions import SessionKey, Status
from durable_adk.sessions.records import ATTEMPT, PUSH
from tests.support.examples import examples
from tests.unit.sessions.contract import abandon, event, log, names, opened, resumed

MEGABYTES = 8_000_000


async def noted(service, key, name="n", body='"first"', invocation_id="i1", **options):
    """Write a note the way a step does."""
    options = {"kind": "call", **options}
    return await service.note(key, invocation_id=invocation_id, name=name, body=body, **options)


async def notes(service, key, invocation_id="i1", kind="call", **options):
    """The notes of a kind as pairs."""
    found = await service.read_notes(key, invocation_id=invocation_id, kind=kind, **options)
    return [(note.name, note.body) for note in found]


async def test_the_first_body_of_a_name_stays(service, key):
    """A repeat finds what was written first, whatever it brings (I10); `replace` lets it go."""
    await opened(service, key)
    assert await noted(service, key) == '"first"'
    assert await noted(service, key, body='"second"') == '"first"'
    assert await noted(service, key, body='"third"', replace=True) == '"third"'
    assert await noted(service, key, body='"fourth"') == '"third"'
    assert await notes(service, key) == [("n", '"third"')]


async def test_of_many_writers_all_learn_the_one_body_that_stays(service, key):
    """Attempts that overlap continue with the same note."""
    await opened(service, key)
    told = await asyncio.gather(*(noted(service, key, body=str(number)) for number in range(8)))
    assert len(set(told)) == 1
    assert await notes(service, key) == [("n", told[0])]


async def test_notes_are_told_apart_by_session_invocation_kind_and_name(service, key):
    """Each part of what names a note counts (I18)."""
    other = key._replace(session_id="other")
    for session in (key, other):
        await opened(service, session)
    places = [(key, {}), (other, {}), (key, {"kind": "k"}), (key, {"name": "m"})]
    for number, (session, options) in enumerate(places):
        assert await noted(service, session, body=str(number), **options) == str(number)
    assert await notes(service, key) == [("m", "3"), ("n", "0")]
    assert await notes(service, other) == [("n", "1")]
    assert await notes(service, key, kind="k") == [("n", "2")]
    assert await notes(service, key, "i2") == []
    assert await notes(service, key, kind="none") == []


@settings(
    deadline=None,
    max_examples=examples(25),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    written=st.sets(st.text("aBb-é_9 \U0001f600\uffee", min_size=1, max_size=3), max_size=8),
    after=st.none() | st.text("aBé", max_size=2),
    limit=st.none() | st.integers(0, 4),
)
async def test_notes_are_read_in_the_order_of_their_names(service, written, after, limit):
    """By code point in every store, after a name, at most so many; one name is found alone."""
    service.counter = getattr(service, "counter", 0) + 1
    key = SessionKey("app-notes", "user", f"{id(service)}-{service.counter}")
    await opened(service, key)
    for name in written:
        await noted(service, key, name, json.dumps(name))
    expected = [(name, json.dumps(name)) for name in sorted(written) if not after or name > after]
    assert await notes(service, key, after=after, limit=limit) == expected[:limit]
    for name in written:
        assert await notes(service, key, name=name) == [(name, json.dumps(name))]
    assert await notes(service, key, name="another") == []


async def test_a_body_of_8_megabytes_comes_back_as_it_was(service, key):
    """The answer of a model fits, however long."""
    await opened(service, key)
    body = json.dumps("ä\n" * (MEGABYTES // 4), ensure_ascii=False)
    assert await noted(service, key, body=body) == body
    assert await notes(service, key) == [("n", body)]


@pytest.mark.parametrize("end", ["close", "commit", "abandon", "expire"])
async def test_with_their_invocation_all_but_attempts_go(service, key, end, monkeypatch):
    """Whatever ends it: nothing that only it would read is left (I24); others' notes stay."""
    await opened(service, key, ttl=1000.0)
    await noted(service, key)
    await noted(service, key, kind=ATTEMPT)
    await noted(service, key, name="m")
    if end == "close":
        await service.close_invocation(key, invocation_id="i1", epoch=1, status=Status.COMPLETED)
    elif end == "commit":
        closing = {"invocation_id": "i1", "epoch": 1, "closing": Status.COMPLETED}
        await service.commit_event(key, event("e"), **closing)
    elif end == "abandon":
        await abandon(service, key)
    else:
        monkeypatch.setattr("time.time", lambda: 1e11)
    await opened(service, key, "i2")
    await noted(service, key, invocation_id="i2")
    assert await notes(service, key) == []
    assert await notes(service, key, kind=ATTEMPT) == [("n", '"first"')]
    assert await notes(service, key, "i2") == [("n", '"first"')]


async def test_a_pause_keeps_the_notes(service, key):
    """An invocation that waits for an answer finds them when it continues (D9)."""
    await opened(service, key)
    await noted(service, key)
    await service.pause_invocation(key, invocation_id="i1", epoch=1)
    await noted(service, key, "m")
    await resumed(service, key)
    assert [name for name, _ in await notes(service, key)] == ["m", "n"]


async def test_who_comes_after_the_end_leaves_nothing(service, key):
    """A late attempt gets what it wrote before, and stores nothing (I24), unless of its kind."""
    await opened(service, key)
    await service.close_invocation(key, invocation_id="i1", epoch=1, status=Status.COMPLETED)
    assert await noted(service, key) == '"first"'
    assert await noted(service, key, kind=ATTEMPT) == '"first"'
    assert await notes(service, key) == []
    assert await notes(service, key, kind=ATTEMPT) == [("n", '"first"')]


async def test_a_note_needs_an_invocation(service, key):
    """Neither a missing session nor a missing invocation takes notes; they have none either."""
    with pytest.raises(InvocationNotFoundError):
        await noted(service, key)
    await opened(service, key)
    with pytest.raises(InvocationNotFoundError):
        await noted(service, key, invocation_id="i2")
    assert await notes(service, key._replace(session_id="missing")) == []


async def test_a_note_needs_no_lease_and_changes_no_session(service, key):
    """Nobody else sees that something was noted: not its log, not its revision (I6)."""
    await opened(service, key)
    before = await log(service, key), await service.get_session(**names(key))
    await service.pause_invocation(key, invocation_id="i1", epoch=1)
    await opened(service, key, "i2")
    await noted(service, key)
    assert await notes(service, key) == [("n", '"first"')]
    assert (await log(service, key))[:1] == before[0]
    assert (await service.active_invocation(key)).invocation_id == "i2"


async def test_deleting_a_session_deletes_its_notes(service, key):
    """A session made anew under the same name finds nothing, not even attempts."""
    await opened(service, key)
    await noted(service, key)
    await noted(service, key, kind=ATTEMPT)
    await service.delete_session(**names(key))
    await opened(service, key)
    assert await notes(service, key) == await notes(service, key, kind=ATTEMPT) == []


async def pushed(service, key, name="p", **options):
    """Store a receiver of an invocation's notifications."""
    body, limit = options.pop("body", '"first"'), options.pop("limit", 9)
    await service.put_push_config(
        key, invocation_id="i1", name=name, body=body, limit=limit, **options
    )


async def test_who_is_told_is_kept_until_it_is_removed(service, key):
    """From before the opening to after the end; the last body of a name counts."""
    with pytest.raises(SessionNotFoundError):
        await pushed(service, key)
    await pushed(service, key, create_session=True)
    await pushed(service, key, "q")
    await opened(service, key)
    await pushed(service, key, body='"second"')
    await service.close_invocation(key, invocation_id="i1", epoch=1, status=Status.COMPLETED)
    await pushed(service, key, "r", create_session=True)
    for _ in range(2):
        await service.remove_push_config(key, invocation_id="i1", name="q")
    assert await notes(service, key, kind=PUSH) == [("p", '"second"'), ("r", '"first"')]
    await service.delete_session(**names(key))
    await opened(service, key)
    assert await notes(service, key, kind=PUSH) == []
    await service.remove_push_config(key._replace(session_id="missing"), invocation_id="i", name="")


async def test_so_many_are_told_and_no_more(service, key):
    """However many ask at once; to replace one adds none."""
    await opened(service, key)
    found = await asyncio.gather(
        *(pushed(service, key, str(number), limit=3) for number in range(8)),
        return_exceptions=True,
    )
    assert len([one for one in found if isinstance(one, InvalidRequestError)]) == 5
    kept = await notes(service, key, kind=PUSH)
    assert len(kept) == 3
    await pushed(service, key, kept[0][0], limit=3)


@pytest.mark.parametrize("field", ["kind", "name", "body"])
@pytest.mark.parametrize("bad", ["\ud800", "\x00"])
async def test_unfit_text_is_refused(service, key, field, bad):
    """What some store would not keep is refused by all of them (TRAP-21)."""
    await opened(service, key)
    with pytest.raises(StateValueError, match="note"):
        await noted(service, key, **{field: bad})
    assert await notes(service, key) == []
