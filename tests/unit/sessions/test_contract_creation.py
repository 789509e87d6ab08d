"""What tells a session from an earlier one of its name, in each session service (I15)."""

import pytest

from durable_adk.errors import LeaseLostError, SessionRegressedError
from durable_adk.sessions import SessionKey
from tests.unit.sessions.contract import event, opened


async def delete(service, key):
    """Delete a session."""
    await service.delete_session(app_name=key[0], user_id=key[1], session_id=key[2])


async def create(service, key):
    """Create a session."""
    await service.create_session(app_name=key[0], user_id=key[1], session_id=key[2])


async def test_epochs_go_on_over_a_deletion(service, key):
    """I6: however often the session is created again, no epoch of its lease is used twice."""
    epochs = [(await opened(service, key)).epoch]
    await delete(service, key)
    epochs.append((await opened(service, key, "i2")).epoch)
    await delete(service, key)
    await create(service, key)
    epochs.append((await opened(service, key, "i3")).epoch)
    await delete(service, key)
    await service.withdraw_invocation(
        key, invocation_id="i4", lease_owner="local:1", create_session=True
    )
    epochs.append((await opened(service, key, "i5")).epoch)
    assert epochs == sorted(set(epochs))
    assert epochs[0] == 1


async def test_a_session_that_was_never_deleted_begins_with_epoch_0(service, key):
    """The epochs of ordinary sessions are 1, 2, and so on."""
    await create(service, key)
    assert (await service.read_creation(key)).epoch == 0


async def test_a_run_of_a_deleted_session_is_fenced_off(service, key):
    """I6: by its epoch, though the session is shorter than the run has seen."""
    record = await opened(service, key)
    for number in range(3):
        await service.commit_event(key, event(f"e{number}"), invocation_id="i1", epoch=record.epoch)
    await delete(service, key)
    await create(service, key)
    late = event("late")
    with pytest.raises(LeaseLostError, match="deleted"):
        await service.commit_event(key, late, invocation_id="i1", epoch=record.epoch, revision=4)
    with pytest.raises(LeaseLostError, match="deleted"):
        await service.read_state(key, epoch=record.epoch)
    assert await service.read_state(key) == (0, {})


async def test_a_store_that_is_older_is_no_deleted_session(service, key):
    """I21: a run of the session itself that has seen more waits for the store's repair."""
    record = await opened(service, key)
    with pytest.raises(SessionRegressedError):
        await service.commit_event(
            key, event("e"), invocation_id="i1", epoch=record.epoch, revision=9
        )


async def test_a_deletion_is_remembered_until_the_name_is_used_again(service, key):
    """I21: so nobody takes the session for one that was lost."""
    assert await service.read_creation(key) is None
    record = await opened(service, key)
    first = await service.read_creation(key)
    await delete(service, key)
    deleted = await service.read_creation(key)
    assert deleted.epoch >= int(first.time * 1000) > record.epoch  # a backup may lack some
    assert deleted.time >= first.time
    await create(service, key)
    again = await service.read_creation(key)
    assert again.epoch == deleted.epoch
    assert again.time >= deleted.time


async def test_nothing_is_remembered_of_a_user_who_is_erased(service, key):
    """S6: nor of the sessions that the user had deleted before; other users are not touched."""
    other = SessionKey(key.app_name, "other", key.session_id)
    for one in (key, other):
        await opened(service, one)
        await delete(service, one)
    await service.delete_user_state(app_name=key.app_name, user_id=key.user_id)
    assert await service.read_creation(key) is None
    assert await service.read_creation(other) is not None


async def test_what_never_existed_leaves_nothing_when_it_is_deleted(service, key):
    """I24: deleting is no way to fill the store."""
    await delete(service, key)
    assert await service.read_creation(key) is None
