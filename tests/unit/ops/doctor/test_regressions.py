"""Which invocations are of a session that was deleted, and which the store has lost."""

from typing import Any, cast

import pytest

from durable_adk.ops.doctor.regressions import compare, orphans
from durable_adk.ops.doctor.sources import Missing, Sources
from durable_adk.sessions import InMemorySessionService
from tests.unit.ops.doctor.test_rebuild import KEY, log, opens
from tests.unit.sessions.contract import event

CASES = [(Missing.UNKNOWN, "asks"), (Missing.DELETED, "ends"), (Missing.LOST, "puts back")]


@pytest.mark.parametrize(("missing", "what"), CASES)
async def test_no_workflow_is_ended_because_of_a_clock(missing: Missing, what: str) -> None:
    """I21: the session's creation was written by a clock that is ahead of the invocation's.

    Which happens to a session that was restored without the invocation, as well as to one that was
    deleted and created again: the operator says whether it was deleted.
    """
    store = InMemorySessionService()
    session = await store.create_session(app_name="app", user_id="u", session_id="s")
    await store.append_event(session, event("before"))
    late = log(opens("one", 1, 2))
    late.is_open = True
    sources = Sources(client=cast("Any", None), sessions=store, missing=missing)
    compared = await compare(sources, [late], apps=["app"])
    cases = orphans(sources, compared, is_empty=False)
    assert (KEY in compared.regressed) == (what == "puts back")
    assert [one.remedy is not None for one in cases] == {
        "asks": [False],
        "ends": [True],
        "puts back": [],
    }[what]
