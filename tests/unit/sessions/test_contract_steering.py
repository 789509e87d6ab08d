"""What every session service does with messages that the active invocation may hear (D7)."""

import pytest

from durable_adk.errors import (
    EventConflictError,
    InvocationCancelledError,
    LeaseLostError,
    SessionBusyError,
)
from durable_adk.sessions import QueuePosition
from tests.unit.sessions.contract import event, log, opened


async def waits(service, key, name="m", **options):
    """Have a message wait that may be delivered."""
    with pytest.raises(SessionBusyError):
        await opened(service, key, name, position=QueuePosition.LAST, steers=True, **options)


async def hear(service, key, name="m", *, epoch=1, by="i1"):
    """Have the active invocation take it."""
    return await service.deliver_message(key, invocation_id=by, epoch=epoch, steered=name)


async def test_a_message_is_heard_with_all_it_brings_and_leaves_the_queue(service, key):
    """In one transaction; `temp:` keys are returned and not stored (TRAP-7, I24)."""
    await opened(service, key)
    sent = event("m.0", "m", text="two", delta={"k": 1, "temp:t": 2})
    await waits(service, key, user_event=sent)
    heard = await hear(service, key)
    assert heard.seq == 2
    assert heard.event == sent.model_copy(update={"invocation_id": "i1"})
    assert await service.waiting(key) == []
    (stored,) = await service.read_events(key, after=1)
    assert stored.event.invocation_id == "i1"
    assert stored.event.actions.state_delta == {"k": 1}
    assert (await service.read_state(key))[1] == {"k": 1}


async def test_a_repeat_hears_the_same(service, key):
    """I3, also when the lease has gone to somebody else meanwhile."""
    await opened(service, key)
    await waits(service, key, user_event=event("m.0", "m", delta={"temp:t": 2}))
    heard = await hear(service, key)
    assert await hear(service, key) == heard
    assert await hear(service, key, epoch=7) == heard
    assert len(await log(service, key)) == 2


async def test_what_was_heard_neither_opens_nor_waits_again(service, key):
    """I12: an attempt at its opening that is late."""
    await opened(service, key)
    await waits(service, key)
    await hear(service, key)
    for position in (QueuePosition.LAST, QueuePosition.FIRST):
        with pytest.raises(EventConflictError):
            await opened(service, key, "m", position=position, steers=True)
    assert await service.waiting(key) == []


async def test_only_what_waits_to_be_heard_is_heard(service, key):
    """Not what only waits its turn, what was withdrawn, or what nobody has sent."""
    await opened(service, key)
    with pytest.raises(SessionBusyError):
        await opened(service, key, "turn", position=QueuePosition.LAST)
    await waits(service, key, "gone")
    await service.withdraw_invocation(key, invocation_id="gone", lease_owner="local:1")
    await waits(service, key, "left")
    await service.leave_queue(key, invocation_id="left", lease_owner="local:1")
    for name in ("turn", "gone", "left", "never"):
        assert await hear(service, key, name) is None
    with pytest.raises(InvocationCancelledError):
        await opened(service, key, "gone", position=QueuePosition.LAST, steers=True)
    assert len(await log(service, key)) == 1


async def test_only_who_holds_the_lease_hears(service, key):
    """I6: a zombie takes no message from the one that has the session now."""
    await opened(service, key)
    await waits(service, key)
    for options in ({"epoch": 0}, {"epoch": 2}, {"by": "other"}):
        with pytest.raises(LeaseLostError):
            await hear(service, key, **options)
    assert [one.invocation_id for one in await service.waiting(key)] == ["m"]
