"""URLs by which another system answers one waiting call, and who is said to have answered."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator

import httpx
import pytest

from durable_adk.agents import LlmAgent
from durable_adk.models import ScriptedModel
from durable_adk.sessions import SessionKey
from durable_adk.tools import FunctionTool
from durable_adk.wire.answer_token import AnswerToken
from tests.server.test_authentication import OTHER, bearer, settings_for
from tests.server.test_invocations import reached
from tests.support.http_server import IDS, Place, message, placed, read, session
from tests.support.scripts import call

KEY = "k" * 32


def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


@pytest.fixture
async def place(client, tmp_path) -> AsyncIterator[Place]:
    """A place whose agent wants to pay twice, which has to be confirmed."""
    model = ScriptedModel(replies=[call("pay", amount=3), "Done.", call("pay", amount=4), "Done."])
    agent = LlmAgent(name="a", model=model, tools=[FunctionTool(pay, require_confirmation=True)])
    async with placed(client, tmp_path, agent) as made:
        yield made


def token(pending: dict, **more) -> str:
    """What a webhook's URL ends with."""
    named = AnswerToken(
        app="app",
        user="u",
        session="s",
        invocation_id=more.pop("invocation_id", pending["invocationId"]),
        call_id=more.pop("call_id", pending["callId"]),
        message_id="msg_1",
        expires=more.pop("expires", time.time() + 3600),
    )
    return named.signed(more.pop("key", KEY))


async def waits(http: httpx.AsyncClient) -> dict:
    """Ask for a payment; the call that waits."""
    await read(http, "/run_sse", message("hi"))
    (pending,) = (await http.get("/pending")).json()["pending"]
    return pending


async def give(http: httpx.AsyncClient, ending: str, **body: object) -> int:
    """Send an answer to a URL; the status of the response."""
    body = body or {"confirmed": True}
    return (await http.post(f"/answers/{ending}", json=body)).status_code


async def answers(place: Place) -> list:
    """What the events of answers say of their sender."""
    stored = await place.sessions.read_events(SessionKey("app", "u", "s"))
    given = [one.event for one in stored if one.event.get_function_responses()]
    return [one.custom_metadata for one in given if one.author == "user"]


@pytest.mark.thorough
async def test_a_url_answers_its_call_once(place):
    """S28: whoever has it needs nothing else; the event says by which message it came."""
    known = settings_for().model_dump(include={"tokens", "operators"})
    http = await place.server(settings={**known, "answer_key": KEY})
    http.headers.update(bearer(OTHER))
    await session(http)
    first = await waits(http)
    http.headers.pop("authorization")
    assert (await http.get("/pending")).status_code == 401
    assert await give(http, token(first), confirmed=True, response={}) == 400
    assert sorted(await asyncio.gather(give(http, token(first)), give(http, token(first)))) == [
        202,
        409,
    ]
    assert await give(http, token(first), confirmed=False) == 409
    http.headers.update(bearer(OTHER))
    body = {"callId": first["callId"], "confirmed": True}
    other = await http.post(f"/invocations/{first['invocationId']}/answers", json=body)
    assert other.status_code == 409  # the same, and somebody else's
    assert await answers(place) == [{"adk_answered_by": {"answerUrl": "msg_1"}}]


async def test_any_other_url_answers_nothing(place):
    """S28: forged, expired, for a call or run that there is not, and where there is no key."""
    http = await place.server(settings={"answer_key": KEY})
    await session(http)
    pending = await waits(http)
    assert await give(http, token(pending, key="x" * 32)) == 401
    assert await give(http, token(pending, expires=time.time() - 1)) == 401
    assert await give(http, token(pending)[:-2]) == 401
    assert await give(http, token(pending, call_id="other")) == 404
    assert await give(http, token(pending, invocation_id="other")) == 404
    assert (await http.get(f"/answers/{token(pending)}")).status_code == 405
    without = await place.server()
    assert await give(without, token(pending)) == 404
    assert await answers(place) == []


@pytest.mark.thorough
async def test_an_approval_says_whose_it_is(place):
    """S11: by our route and by ADK's, as the server knows them, whatever the request says."""
    known = settings_for().model_dump(include={"tokens", "operators"})
    http = await place.server(settings=known)
    http.headers.update(bearer(OTHER))
    await session(http)
    first = await waits(http)
    body = {"callId": first["callId"], "confirmed": True}
    path = f"/invocations/{first['invocationId']}/answers"
    both = await asyncio.gather(http.post(path, json=body), http.post(path, json=body))
    assert [one.status_code for one in both] == [202, 202]  # one of them is the same again
    await reached(http, first["invocationId"], "completed")
    second = await waits(http)
    response = {
        "id": second["callId"],
        "name": "adk_request_confirmation",
        "response": {"confirmed": True},
    }
    content = {"role": "user", "parts": [{"functionResponse": response}]}
    key = {"Idempotency-Key": uuid.uuid4().hex}
    await read(http, "/run_sse", IDS | {"newMessage": content}, **key)
    response["response"] = {"confirmed": False}
    other = await http.post("/run", json=IDS | {"newMessage": content}, headers=key)
    assert (other.status_code, other.json()["error"]["field"]) == (409, "newMessage")
    assert await answers(place) == [{"adk_answered_by": {"user": "olga"}}] * 2
    claims = message("hi", customMetadata={"adk_answered_by": {"user": "alice"}})
    refused = await http.post("/run_sse", json=claims)
    assert refused.status_code == 400
    assert "adk_answered_by" in refused.json()["error"]["message"]
    event = {"author": "user", "customMetadata": {"adk_answered_by": {"user": "alice"}}}
    restored = await http.post("/apps/app/users/u/sessions", json={"events": [event]})
    assert restored.status_code == 400
