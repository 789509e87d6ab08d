"""The list of calls that wait for an answer, over many sessions and apps."""

import time
from collections.abc import AsyncIterator
from typing import Any, cast

import httpx
import pytest

from durable_adk.server.app import app as application
from durable_adk.server.routes import pending
from durable_adk.sessions import InMemorySessionService, SessionKey
from tests.support.pausing import working
from tests.unit.cli.test_pending import pause, run

WAITING = [("two", "v", "i1"), ("one", "u", "i2"), ("two", "u", "i3"), ("one", "u", "i4")]
"""App, user and invocation, in the order in which they paused."""
CALLS = [f"{name}-order" for *_, name in WAITING]


@pytest.fixture
async def http(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[httpx.AsyncClient]:
    """A server's client; three invocations run for longer than others wait."""
    sessions = InMemorySessionService()
    clock = iter(range(1000))
    monkeypatch.setattr(time, "time", lambda: float(next(clock)))
    for number in range(3):
        await run(sessions, SessionKey("one", "u", f"r{number}"), "running", [])
    for app, user, name in WAITING:
        await pause(sessions, SessionKey(app, user, f"s-{name}"), name, working(name))
    monkeypatch.undo()
    server = application(session_service=sessions, client=cast("Any", None))
    transport = httpx.ASGITransport(server)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


async def pages(http: httpx.AsyncClient, **query: Any) -> list[list[str]]:
    """The ids of the calls of each page."""
    found, token = list[list[str]](), None
    while True:
        more = {"page_token": token} if token else {}
        body = (await http.get("/pending", params={**query, **more})).json()
        found.append([one["callId"] for one in body["pending"]])
        if not (token := body.get("nextPageToken")):
            return found


@pytest.mark.parametrize("limit", range(1, 6))
async def test_each_page_goes_on_where_the_last_one_ended(
    http: httpx.AsyncClient, limit: int
) -> None:
    """What waits longest comes first, of all apps; the last page has no token."""
    expected = [CALLS[at : at + limit] for at in range(0, len(CALLS), limit)]
    assert await pages(http, limit=limit) == expected


async def test_the_list_is_narrowed(http: httpx.AsyncClient) -> None:
    """To an app, a user or a session."""
    assert await pages(http, app_name="one") == [["i2-order", "i4-order"]]
    assert await pages(http, user_id="v") == [["i1-order"]]
    assert await pages(http, session_id="s-i3") == [["i3-order"]]
    assert (await http.get("/pending", params={"page_token": "x"})).status_code == 400
    assert (await http.get("/pending", params={"limit": 0})).status_code == 422


async def test_one_request_looks_at_so_many_invocations(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many run and wait for nothing; the next page looks at the others."""
    monkeypatch.setattr(pending, "_SCANNED", 2)
    assert await pages(http) == [[], CALLS[:1], CALLS[1:3], CALLS[3:]]
