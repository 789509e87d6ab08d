"""Which invocations are of a session that was deleted, and which the store has lost."""

from typing import Any, cast

import pytest

from durable_adk.ops.doctor.findings import Kind
from durable_adk.ops.doctor.regressions import compare, orphans, unexamined
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


def test_what_the_store_knows_nothing_of_is_a_finding() -> None:
    """I24: an empty store, or another one than the workers', is not found to be in order."""
    sources = Sources(client=cast("Any", None), sessions=InMemorySessionService())
    lost, unread, ended = log(opens("one", 1, 2)), log(), log(opens("two", 3, 4))
    lost.is_open = unread.is_open = True
    unread.failure = "a key is missing"
    found = unexamined(sources, [lost, unread, ended], apps=[])
    assert [(one.finding.kind, one.remedy) for one in found] == [
        (Kind.ORPHAN, None),
        (Kind.UNREAD, None),
    ]
    assert "no session of its app" in found[0].finding.problem
    assert "a key is missing" in found[1].finding.problem
    assert unexamined(sources, [lost], apps=["app"]) == []
    one = Sources(client=cast("Any", None), sessions=sources.sessions, app="other")
    assert unexamined(one, [lost, unread], apps=[]) == []
