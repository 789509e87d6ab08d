"""A Temporal that is older than the store: which answers its workflows have forgotten."""

from typing import Any, cast

import pytest

from durable_adk.events import Event
from durable_adk.ops.doctor.operation_log import Operation, OperationLog
from durable_adk.ops.doctor.sources import Sources
from durable_adk.ops.doctor.stale_workflows import undelivered_answers
from durable_adk.sessions import InMemorySessionService
from durable_adk.wire.checkpoint import Cursor, LoadedCheckpoint, ReadCheckpointStep
from tests.unit.ops.doctor.test_rebuild import KEY, log, opens, operation


def goes_on() -> Operation:
    """The beginning of a run that another one was continued as."""
    cursor = Cursor(app="app", user="u", session="s", invocation_id="a", checkpoint=1, digest="d")
    return operation(
        "read_checkpoint", ReadCheckpointStep(cursor=cursor, lease_owner="a"), LoadedCheckpoint()
    )


@pytest.mark.parametrize(
    ("known", "expected"),
    [(log(opens("a", 1, 1)), ["a.answer.one"]), (log(goes_on()), []), (None, [])],
)
async def test_an_answer_that_temporal_may_have_dropped_with_its_run_is_not_forgotten(
    known: OperationLog | None, expected: list[str]
) -> None:
    """F38: where all runs are known, what none has received is; retention removes the first ones.

    The workflow would drop it when it is sent again, and the doctor find the same for ever.
    """
    sessions = InMemorySessionService()
    first = Event(id="a.0", invocation_id="a", author="user", timestamp=1.0)
    record = await sessions.open_invocation(
        KEY, invocation_id="a", lease_owner="a", user_event=first, create_session=True
    )
    answer = Event(id="a.answer.one", invocation_id="a", author="user", timestamp=2.0)
    await sessions.commit_event(KEY, answer, invocation_id="a", epoch=record.epoch)
    sources = Sources(client=cast("Any", None), sessions=sessions)
    assert [
        item.event.id for item in await undelivered_answers(sources, KEY, record, known)
    ] == expected
