"""Requests that nobody would write, made of the server's own description of its routes."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

from durable_adk.agents import LlmAgent
from durable_adk.models import ScriptedModel
from tests.support.http_server import Place, placed, session

QUICK = settings(
    max_examples=3,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
    database=None,
)
pytestmark = [pytest.mark.property, pytest.mark.thorough]
STREAMS = ("/changes", "/events", "/run_sse")
"""Ends of the paths whose responses may have no end."""


@pytest.fixture
async def place(client, tmp_path) -> AsyncIterator[Place]:
    """A place whose agent says one thing."""
    agent = LlmAgent(name="a", model=ScriptedModel(replies=lambda _: "hi"))
    async with placed(client, tmp_path, agent) as made:
        yield made


@pytest.mark.thorough
async def test_no_request_breaks_the_server(place):
    """Whatever a request has in its path, query and body, its response is no 5xx."""
    http = await place.server(apps=["app"])
    await session(http)
    schema = schemathesis.openapi.from_dict((await http.get("/openapi.json")).json())
    found, statuses = list[str](), set[int]()
    for result in schema.get_all_operations():
        operation = result.ok()
        for case in await asyncio.to_thread(cases, operation):
            given = case.as_transport_kwargs(base_url=str(http.base_url))
            status = await sent(http, given, endless=operation.path.endswith(STREAMS))
            statuses.add(status)
            busy = status == 503 and operation.path == "/ready"  # a slow machine is not ready
            if status >= 500 and not busy:
                found.append(f"{status}: {case.as_curl_command()}")
    assert found == []
    assert {200, 404, 422} <= statuses


def cases(operation: schemathesis.APIOperation) -> list[schemathesis.Case]:
    """Some requests of an operation."""
    made: list[schemathesis.Case] = []

    @QUICK
    @given(st.data())
    def collect(data: st.DataObject) -> None:
        made.append(data.draw(operation.as_strategy()))

    collect()
    return made


async def sent(http: httpx.AsyncClient, given: dict, *, endless: bool) -> int:
    """The status of the response to a request."""
    given = {name: value for name, value in given.items() if value is not None}
    if "data" in given:
        given["content"] = given.pop("data")
    try:
        request = http.build_request(**given)
    except (httpx.InvalidURL, UnicodeEncodeError):
        return 0  # no client can send it
    try:
        response = await http.send(request, stream=endless)
    except (httpx.LocalProtocolError, UnicodeEncodeError):
        return 0
    await response.aclose()
    return response.status_code
