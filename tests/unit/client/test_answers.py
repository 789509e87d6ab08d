"""Which answers are the same again, and which come too late: the judge that every door asks."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any, cast

import pytest
from google.genai import types

from durable_adk.client.answers import SentAnswer
from durable_adk.client.invocation_client import Backend, InvocationClient
from durable_adk.conversation.pending_calls import pending_calls
from durable_adk.errors import AlreadyAnsweredError, EventConflictError, InvalidRequestError
from durable_adk.events import Event
from durable_adk.sessions import InMemorySessionService, SessionKey
from durable_adk.sessions.records import InvocationRecord, Status, StoredEvent
from durable_adk.wire.messages import InvocationAnswer, InvocationRequest, answer_event
from tests.support.pausing import GOOD, answer, authenticating, confirming, message, working
from tests.unit.cli.test_pending import pause

KEY = SessionKey("app", "u", "s")
OLGA = {"user": "olga"}


class Worker:
    """Stores an answer like a workflow, after another one that came first, if there is one."""

    def __init__(self, sessions: InMemorySessionService) -> None:
        self.sessions = sessions
        self.earlier: InvocationAnswer | None = None
        self.spent = set[str]()

    async def answer(
        self, key: SessionKey, record: InvocationRecord, sent: InvocationAnswer
    ) -> None:
        """Refuse it, because another one was stored; or store it, and end."""
        await self.store(self.earlier or sent)
        if self.earlier:
            raise InvalidRequestError("waits for nothing")

    async def store(self, sent: InvocationAnswer) -> None:
        """Store an answer, which resumes the invocation."""
        event = Event(
            id=answer_event("i", sent.answer_id or ""),
            invocation_id="i",
            author="user",
            timestamp=2.0,
            content=sent.message,
            custom_metadata={"adk_answered_by": sent.answered_by},
        )
        await self.sessions.resume_invocation(
            KEY, invocation_id="i", lease_owner="temporal:d:r:w", user_event=event
        )

    async def attach(self, *_: Any) -> None:
        """It runs elsewhere."""

    async def is_spent(self, _: SessionKey, name: str) -> bool:
        """Whether a message of this id was cancelled."""
        return name in self.spent

    def release(self, _: Any) -> None:
        """Nothing is kept."""


class Desk:
    """A client of a session in which one call waits."""

    def __init__(self) -> None:
        self.sessions = InMemorySessionService()
        self.worker = Worker(self.sessions)
        self.client = InvocationClient(
            sessions=self.sessions, backend=cast("Backend", self.worker), credentials=None
        )
        self.good = types.Part()

    async def ask(self, events: list[Event]) -> None:
        """Store a paused invocation of these events."""
        await pause(self.sessions, KEY, "i", events)
        (call,) = pending_calls(events)
        self.good = answer(call.call_id, call.name, GOOD[call.name])

    def sent(self, part: types.Part | None = None, **fields: Any) -> SentAnswer:
        """An answer, by default one that the call accepts."""
        named = {"invocation_id": fields.pop("invocation_id", None)}
        request = InvocationRequest.parse(
            {**KEY.ids(), "message": message(part or self.good), **named}
        )
        return SentAnswer(request=request, **fields)

    def other(self) -> types.Part:
        """Another answer to the call."""
        given = self.good.function_response
        assert given is not None
        changed = {"confirmed": False} if "confirmed" in (given.response or {}) else {"n": 2}
        return answer(given.id, given.name, changed)

    async def give(self, sent: SentAnswer) -> str:
        """Send an answer; the id of the event that is followed."""
        feed = self.client.give(await self.client.judge(sent))
        async with aclosing(cast("AsyncGenerator[Any]", feed)) as items:
            async for item in items:
                if isinstance(item, StoredEvent):
                    return item.event.id
        return ""

    async def answered(self, sent: SentAnswer) -> InvocationAnswer:
        """What a client would send to the workflow."""
        judged = await self.client.judge(sent)
        return InvocationAnswer(
            message=sent.request.user_content(),
            answer_id=judged.answer_id,
            answered_by=sent.answered_by,
        )

    async def completed(self) -> None:
        """End the invocation."""
        record = await self.sessions.get_invocation(KEY, "i")
        assert record is not None
        end = Event(id="i.9", invocation_id="i", author="agent", timestamp=3.0)
        await self.sessions.commit_event(KEY, end, invocation_id="i", epoch=record.epoch)
        await self.sessions.close_invocation(
            KEY, invocation_id="i", epoch=record.epoch, status=Status.COMPLETED
        )


@pytest.fixture
def desk() -> Desk:
    """See `Desk`."""
    return Desk()


NAMED = [{"invocation_id": "mine"}, {"answer_id": "mine"}, {"once": True, "answered_by": OLGA}]


@pytest.mark.parametrize("make", [confirming, working])
@pytest.mark.parametrize("named", NAMED)
async def test_the_same_answer_again_is_the_first_one(desk, make, named):
    """I12: by an id or by what it says and who says it; it is followed, and not sent."""
    await desk.ask(make())
    sent = desk.sent(**named)
    await desk.worker.store(await desk.answered(sent))
    first = (await desk.client.judge(sent)).first
    assert first is not None
    assert first.event.id.startswith(answer_event("i"))
    assert await desk.give(sent) == first.event.id


@pytest.mark.parametrize("named", NAMED[:2])
async def test_another_answer_of_an_id_is_refused(desk, named):
    """I12: what was accepted under the id stays."""
    await desk.ask(confirming())
    await desk.worker.store(await desk.answered(desk.sent(**named)))
    with pytest.raises(EventConflictError) as refused:
        await desk.client.judge(desk.sent(desk.other(), **named))
    assert refused.value.field == "new_message"


async def test_another_answer_comes_too_late(desk):
    """TRAP-28: another one, the same of another user, and the same without any id."""
    await desk.ask(confirming())
    once = desk.sent(once=True, answered_by=OLGA)
    await desk.worker.store(await desk.answered(once))
    late = [
        desk.sent(desk.other(), once=True, answered_by=OLGA),
        replace(once, answered_by={"user": "alice"}),
        desk.sent(answered_by=OLGA),
    ]
    for sent in late:
        with pytest.raises(AlreadyAnsweredError, match="already answered"):
            await desk.client.judge(sent)


async def test_an_update_repeats_the_last_one_only(desk):
    """TOL-41: the same id as long as it is the same news, and its message was not cancelled."""
    await desk.ask(working())
    once, other = desk.sent(once=True), desk.sent(desk.other(), once=True)
    await desk.worker.store(await desk.answered(once))
    await desk.completed()
    assert (await desk.client.judge(once)).first is not None
    update = (await desk.client.judge(other)).starts
    assert update == (await desk.client.judge(other)).starts
    desk.worker.spent.add(update)
    after = (await desk.client.judge(other)).starts
    assert after not in ("", update)
    news = Event(id=f"{after}.0", invocation_id=after, author="user", timestamp=4.0)
    news.content = message(desk.other())
    await desk.sessions.open_invocation(
        KEY, invocation_id=after, lease_owner="temporal:d:r:v", user_event=news
    )
    assert (await desk.client.judge(other)).starts == after
    again = await desk.client.judge(once)
    assert again.first is None
    assert again.starts not in ("", update, after)


@pytest.mark.parametrize("named", [*NAMED[2:], {}])
async def test_a_refused_answer_is_judged_again(desk, named):
    """I12: another one was first, which is the reason, unless it was the same one."""
    await desk.ask(confirming())
    sent = desk.sent(**named)
    desk.worker.earlier = await desk.answered(sent)
    if named:
        assert await desk.give(sent) == answer_event("i", desk.worker.earlier.answer_id)
    else:
        with pytest.raises(AlreadyAnsweredError):
            await desk.give(sent)


async def test_no_id_is_derived_from_a_credential(desk):
    """TRAP-48: a credential that is sent again is refused; its secret is in no id."""
    await desk.ask(authenticating())
    sent = desk.sent(answered_by=OLGA)
    await desk.worker.store(await desk.answered(sent))
    with pytest.raises(AlreadyAnsweredError):
        await desk.client.judge(sent)
    assert "canary" not in repr(sent)
