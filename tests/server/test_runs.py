"""ADK's routes that run an agent, over HTTP on a real server."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from google.genai import types

from durable_adk.agents import LlmAgent
from durable_adk.client import temporal_backend
from durable_adk.models import ScriptedModel
from durable_adk.server import services as server_services
from durable_adk.server.routes import acceptance
from durable_adk.server.streams import Reading
from durable_adk.sessions.session import SessionKey
from durable_adk.wire.messages import InvocationRequest
from tests.support.http_server import (
    IDS,
    USERS,
    Place,
    absent_worker,
    brief,
    message,
    placed,
    read,
    session,
    streamed,
)
from tests.support.scripts import call
from tests.support.streams import StreamingModel
from tests.support.waiting import PATIENCE, until

WHERE = {"app_name": "app", "user_id": "u", "session_id": "s"}


def add(a: int, b: int) -> int:
    """Add numbers."""
    return a + b


def agent(*replies, **fields):
    """An agent whose model is scripted."""
    return LlmAgent(name="a", model=ScriptedModel(replies=list(replies)), **fields)


@pytest.fixture
async def adds(client, tmp_path) -> AsyncIterator[Place]:
    """A place whose agent adds 1 and 2."""
    replies = call("add", a=1, b=2), "It is three."
    async with placed(client, tmp_path, agent(*replies, tools=[add])) as place:
        yield place


async def test_a_run_returns_its_events(adds):
    """The events of the agent in order, as ADK's JSON, without the user's."""
    http = await adds.server()
    await session(http)
    response = await http.post("/run", json=message("add"))
    assert response.status_code == 200
    events = response.json()
    assert [next(iter(event["content"]["parts"][0])) for event in events] == [
        "functionCall",
        "functionResponse",
        "text",
    ]
    stored = (await http.get(f"{USERS}/s")).json()["events"]
    assert stored[1:] == events


async def test_a_stream_sends_what_is_stored(adds):
    """Each event once and with its sequence number as its id."""
    http = await adds.server()
    await session(http)
    sent = await read(http, "/run_sse", message("add"))
    assert [one.id for one in sent] == ["2", "3", "4"]
    stored = (await http.get(f"{USERS}/s")).json()["events"]
    assert [one.data for one in sent] == stored[1:]


async def test_chunks_come_before_their_event(client, tmp_path):
    """With `streaming` each chunk is sent as the model gives it, marked as partial."""
    steps = {f"~{text}": asyncio.Event() for text in ("It ", "is ", "three.")}
    turn = [piece for text, step in steps.items() for piece in (text[1:], step)]
    model = StreamingModel(turns=[[*turn, "It is three."]])
    async with placed(client, tmp_path, LlmAgent(name="a", model=model)) as place:
        http = await place.server()
        await session(http)
        sent = []
        async with streamed(http, "/run_sse", message("add", streaming=True)) as stream:
            async for one in stream:
                sent.append(one)
                if step := steps.get(brief(one)):
                    step.set()  # the model goes on once its chunk is read
    assert [brief(one) for one in sent] == ["~It ", "~is ", "~three.", "It is three."]
    name = sent[-1].data["id"]
    assert [one.id for one in sent] == [f"1:{name}:1:{n}" for n in range(3)] + ["2"]


async def test_an_unknown_session_is_not_found(adds):
    """Before the stream begins, with its own status."""
    http = await adds.server()
    for path in ("/run", "/run_sse"):
        response = await http.post(path, json=message("add"))
        assert response.status_code == 404
        assert response.json()["detail"] == "Session not found: s"
        assert response.json()["error"]["type"] == "SessionNotFoundError"


async def test_an_unknown_app_is_not_found(adds):
    """If the server knows its apps."""
    http = await adds.server(apps=["other"])
    response = await http.post("/run_sse", json=message("add"))
    assert response.status_code == 404


@pytest.mark.parametrize(
    "body",
    [
        {"appName": "app"},
        IDS | {"newMessage": 1},
        IDS | {"newMessage": {"parts": [{"unknown": 1}]}},
        IDS | {"newMessage": {"parts": [{"text": "hi"}]}, "whenBusy": "never"},
    ],
)
async def test_a_malformed_request_names_the_field(adds, body):
    """Status 422, with the problems as FastAPI lists them."""
    http = await adds.server()
    response = await http.post("/run_sse", json=body)
    assert response.status_code == 422
    assert response.json()["error"]["field"]
    assert response.json()["detail"][0]["loc"][0] == "body"


async def test_an_empty_message_is_refused(adds):
    """Status 400 with the reason, before the stream begins."""
    http = await adds.server()
    await session(http)
    response = await http.post("/run_sse", json=IDS | {"newMessage": {"parts": []}})
    assert response.status_code == 400
    assert "No parts" in response.json()["detail"]


async def test_a_failed_run_ends_with_an_error_item(client, tmp_path):
    """Its error event is sent, and then the error as ADK sends it."""
    async with placed(client, tmp_path, agent(ValueError("no model"))) as place:
        http = await place.server()
        await session(http)
        sent = await read(http, "/run_sse", message("hi"))
        assert sent[-2].data["errorMessage"] == "no model"
        assert sent[-1].data["error"] == "ValueError: no model"
        assert sent[-1].data["error_details"]["error_type"] == "ValueError"
        assert sent[-1].id is None


async def test_who_goes_away_ends_nothing(client, tmp_path):
    """The run continues, and a request with its id and the last item's id gets the rest."""
    gate = asyncio.Event()
    model = StreamingModel(turns=[["It ", gate, "is ", "three.", "It is three."]])
    async with placed(client, tmp_path, LlmAgent(name="a", model=model)) as place:
        http = await place.server()
        await session(http)
        async with streamed(http, "/run_sse", message("add", streaming=True)) as stream:
            first = await anext(stream)
        assert brief(first) == "~It "
        gate.set()
        name = first.data["invocationId"]
        sent = await read(
            http, "/run_sse", IDS | {"invocationId": name}, last_event_id=first.id or ""
        )
        assert brief(sent[-1]) == "It is three."
        assert "~It " not in [brief(one) for one in sent]


async def test_the_same_id_and_message_follow_the_first_run(adds):
    """A client that does not know whether its request arrived sends it again."""
    http = await adds.server()
    await session(http)
    body = message("add", invocationId="e-mine")
    first, second = [await read(http, "/run_sse", body) for _ in range(2)]
    assert [one.data for one in first] == [one.data for one in second]


def new_key() -> dict[str, str]:
    """The header with a key of a test's own: all tests share a Temporal server."""
    return {"Idempotency-Key": uuid.uuid4().hex}


async def test_the_same_key_follows_the_first_run(client, tmp_path):
    """It is the same for all routes that start a run; another message under it is refused."""
    async with placed(client, tmp_path, agent("One.", "Two.")) as place:
        http = await place.server()
        await session(http)
        key = new_key()
        first, again = [
            (await http.post("/run", json=message("hi"), headers=key)).json() for _ in range(2)
        ]
        assert [one["content"]["parts"][0]["text"] for one in first] == ["One."]
        assert again == first
        sent = await read(http, "/run_sse", message("hi"), **key)
        assert [one.data for one in sent] == first
        rest = await read(http, "/run_sse", message("hi"), last_event_id=sent[0].id or "", **key)
        assert rest == []
        name = first[0]["invocationId"]
        started = await http.post("/invocations", json=message("hi"), headers=key)
        assert started.json()["invocationId"] == name
        for path in ("/run", "/run_sse", "/invocations"):
            other = await http.post(path, json=message("other"), headers=key)
            assert (other.status_code, other.json()["error"]["field"]) == (409, "newMessage")
        both = await http.post("/run", json=message("hi", invocationId="e-mine"), headers=key)
        assert both.status_code == 400
        assert all(word in both.text for word in ("Idempotency-Key", name, "invocationId"))
        assert len((await http.get("/invocations")).json()["invocations"]) == 1


@pytest.mark.parametrize("once", [False, True])
async def test_a_run_without_a_message_starts(client, tmp_path, once):
    """The agent continues on what the session holds; with the same key only once."""
    key = new_key() if once else {}
    async with placed(client, tmp_path, agent("One.", "Two.")) as place:
        http = await place.server()
        await session(http)
        told = [(await http.post("/run", json=IDS, headers=key)).json() for _ in range(2)]
        assert (told[0] == told[1]) is once


def slow(gate: asyncio.Event) -> LlmAgent:
    """An agent that answers once a gate is open."""
    return LlmAgent(name="a", model=StreamingModel(turns=[[gate, "Done.", "Done."]]))


async def running(place: Place) -> str:
    """The id of the invocation that has begun."""
    found = await until(lambda: place.sessions.invocations_by_time(app_name="app", limit=1))
    return found[0][1].invocation_id


async def is_silent(http: httpx.AsyncClient) -> bool:
    """Whether the server takes no requests.

    Each on a connection of its own: one that was accepted just before the end is served to its end.
    """
    try:
        return not (await http.get("/health", headers={"Connection": "close"})).is_success
    except httpx.TransportError:
        return True


async def test_a_run_ends_while_its_server_stops(client, tmp_path):
    """A response that ends in time is what it would have been."""
    gate = asyncio.Event()
    async with placed(client, tmp_path, slow(gate)) as place, asyncio.timeout(PATIENCE):
        http = await place.server(settings={"drain_seconds": PATIENCE})
        await session(http)
        sending = asyncio.create_task(http.post("/run", json=message("hi")))
        await running(place)
        place.stop(http)
        await until(lambda: is_silent(http))
        gate.set()
        response = await sending
    assert (response.status_code, len(response.json())) == (200, 1)


async def test_the_header_says_what_a_message_does_meanwhile(client, tmp_path):
    """On each route that starts a run; if header and field differ, the request is refused."""
    gate = asyncio.Event()
    async with placed(client, tmp_path, slow(gate)) as place, asyncio.timeout(PATIENCE):
        http = await place.server()
        await session(http)
        sending = asyncio.create_task(http.post("/run", json=message("hi")))
        await running(place)
        reject = {"When-Busy": "reject"}
        for path in ("/run", "/run_sse", "/invocations"):
            refused = await http.post(path, json=message("more"), headers=reject)
            assert (refused.status_code, refused.json()["error"]["type"]) == (
                409,
                "SessionBusyError",
            )
            both = await http.post(path, json=message("more", whenBusy="enqueue"), headers=reject)
            assert both.status_code == 400, path
            assert all(word in both.text for word in ("When-Busy", "'reject'", "'enqueue'"))
            unknown = await http.post(path, json=message("more"), headers={"When-Busy": "never"})
            assert (unknown.status_code, unknown.json()["error"]["field"]) == (422, "When-Busy")
        gate.set()
        assert (await sending).status_code == 200


async def test_a_key_that_was_refused_starts_later(client, tmp_path):
    """Once the session is free, and then it has started one invocation; another message has not."""
    gate = asyncio.Event()
    talking = LlmAgent(name="a", model=StreamingModel(turns=[[gate, "One."], ["Two."]]))
    async with placed(client, tmp_path, talking) as place, asyncio.timeout(PATIENCE):
        http = await place.server()
        await session(http)
        sending = asyncio.create_task(http.post("/run", json=message("hi")))
        await running(place)
        headers = {"When-Busy": "reject"} | new_key()
        for path in ("/run", "/invocations"):
            refused = await http.post(path, json=message("more"), headers=headers)
            assert refused.status_code == 409
        gate.set()
        await sending
        first = await http.post("/run", json=message("more"), headers=headers)
        assert first.status_code == 200
        again = await http.post("/run", json=message("more"), headers=headers)
        assert again.json() == first.json()
        other = await http.post("/run", json=message("other"), headers=headers)
        assert (other.status_code, other.json()["error"]["type"]) == (409, "EventConflictError")
        assert len((await http.get("/invocations")).json()["invocations"]) == 2


async def queued(http: httpx.AsyncClient) -> list:
    """The messages that wait for the session."""
    return (await http.get(f"{USERS}/s/queue")).json()


@pytest.mark.thorough
async def test_a_message_that_waits_keeps_its_key(client, tmp_path):
    """Another one under it is refused before the stream begins, although neither has begun."""
    gate = asyncio.Event()
    async with placed(client, tmp_path, slow(gate)) as place, asyncio.timeout(PATIENCE):
        http = await place.server()
        await session(http)
        await http.post("/invocations", json=message("hi"))
        await running(place)
        key = new_key()
        async with streamed(http, "/run_sse", message("more"), **key):
            await until(lambda: queued(http))
            other = await http.post("/run_sse", json=message("other"), headers=key)
        assert other.status_code == 409
        gate.set()


async def test_a_message_that_waits_is_followed_by_its_id(client, tmp_path):
    """A request without a message continues it, as it does once the message runs."""
    gate = asyncio.Event()
    talking = LlmAgent(name="a", model=StreamingModel(turns=[[gate, "One."], ["Two."]]))
    async with placed(client, tmp_path, talking) as place, asyncio.timeout(PATIENCE):
        http = await place.server()
        await session(http)
        await http.post("/invocations", json=message("hi"))
        await running(place)
        sending = asyncio.create_task(http.post("/invocations", json=message("more")))
        (waiting,) = await until(lambda: queued(http))
        name = {"invocationId": waiting["invocationId"]}
        async with streamed(http, "/run_sse", IDS | name) as stream:
            gate.set()
            assert [brief(one) async for one in stream] == ["Two."]
        assert (await sending).status_code == 202


async def test_a_response_does_not_wait_for_temporal(monkeypatch):
    """While Temporal is away, nothing says which message waits; the feed will."""

    async def away(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(acceptance, "started_with", away)
    monkeypatch.setattr(acceptance, "_CHECKED", 0.01)
    unused: Any = SimpleNamespace(client=None)
    request = InvocationRequest(app="app", user="u", session="s", message="hi", invocation_id="e")
    async with asyncio.timeout(PATIENCE):
        await acceptance.check_waiting(unused, unused, SessionKey("app", "u", "s"), request)


async def test_a_run_that_outlasts_its_server_is_not_sent_again(client, tmp_path, monkeypatch):
    """The response says which invocation continues, and gives no leave to repeat the message."""
    gate = asyncio.Event()
    async with placed(client, tmp_path, slow(gate)) as place, asyncio.timeout(PATIENCE):
        monkeypatch.setattr(server_services, "_DRAINED", 0.0)  # it is told so at once
        settings = {"drain_seconds": PATIENCE}
        first, second = [await place.server(settings=settings) for _ in range(2)]
        await session(first)
        sending = asyncio.create_task(first.post("/run", json=message("hi")))
        name = await running(place)
        place.stop(first)
        response = await sending
        assert response.status_code == 503
        assert "retry-after" not in response.headers
        error = response.json()["error"]
        assert error["invocationId"] == name
        assert f"/invocations/{name}/events" in error["message"]
        gate.set()
        assert "Done." in [brief(one) for one in await read(second, f"/invocations/{name}/events")]


def reading() -> list["asyncio.Task[Any]"]:
    """The tasks in which servers read what happens."""
    return [task for task in asyncio.all_tasks() if "Reading._read" in repr(task)]


async def test_a_run_nobody_waits_for_holds_nothing(client, tmp_path):
    """When the client has gone, the server reads no further, though nothing has happened since."""
    gate = asyncio.Event()
    async with placed(client, tmp_path, slow(gate)) as place, asyncio.timeout(PATIENCE):
        http = await place.server()
        await session(http)
        sending = asyncio.create_task(http.post("/run", json=message("hi")))
        name = await running(place)
        await until(reading)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        await until(lambda: not reading())
        gate.set()
        assert "Done." in [brief(one) for one in await read(http, f"/invocations/{name}/events")]


async def test_without_a_worker_a_run_is_not_sent_again(client, tmp_path, monkeypatch):
    """It begins once there is a worker; the response names it.

    It does not tell a user what an operator should do.
    """
    monkeypatch.setattr(temporal_backend, "WORKER_CHECK", 0.3)
    monkeypatch.setattr(temporal_backend, "FIRST_LOOK", 0.1)
    late = agent("Hello.")
    async with (
        placed(client, tmp_path, agent()) as place,
        absent_worker(place, late) as come,
        asyncio.timeout(PATIENCE),
    ):
        http = await place.server()
        await session(http)
        response = await http.post("/run", json=message("hi"))
        error = response.json()["error"]
        assert (response.status_code, error["type"]) == (503, "NoWorkerError")
        assert "retry-after" not in response.headers
        name = error["invocationId"]
        assert name in error["message"]
        assert "durable-adk" not in response.text
        body = message("hi", invocationId=name)
        monkeypatch.setattr(Reading.first, "__defaults__", (0.0,))  # a stream begins before it
        where = "?app_name=app&user_id=u&session_id=s"
        async with streamed(http, f"/invocations/{name}/events{where}") as stream:
            (told,) = await read(http, "/run_sse", body)
            assert told.data["error_details"]["invocation_id"] == name
            await come()
            shown = [brief(one) async for one in stream]
        assert [one for one in shown if one in ("hi", "Hello.", "(completed)")] == [
            "hi",
            "Hello.",
            "(completed)",
        ]
        assert len((await http.get("/invocations")).json()["invocations"]) == 1


async def test_whose_session_is_deleted_is_told_so(client, tmp_path):
    """Status 409, or an item of the stream; it names the session, and says how to continue."""
    gate = asyncio.Event()
    async with placed(client, tmp_path, slow(gate)) as place, asyncio.timeout(PATIENCE):
        http = await place.server()
        await session(http)
        waiting = asyncio.create_task(http.post("/run", json=message("hi")))
        name = await running(place)
        async with streamed(http, "/run_sse", IDS | {"invocationId": name}) as stream:
            assert (await http.delete(f"{USERS}/s")).status_code == 200
            gate.set()
            refused = [one.data["error"] async for one in stream]
        response = await waiting
    error = response.json()["error"]
    assert (response.status_code, error["type"]) == (409, "LeaseLostError")
    assert "The session 's' was deleted" in error["message"]
    assert "Send the message again to a session that exists" in error["message"]
    assert refused == [f"LeaseLostError: {error['message']}"]


async def is_cancelled(http: httpx.AsyncClient, name: str) -> bool:
    """Cancel an invocation, if it is there already."""
    response = await http.post(f"/invocations/{name}/cancel", params=WHERE)
    return response.status_code != 404


async def test_whose_run_is_cancelled_is_told_so(client, tmp_path):
    """Status 409, whether it runs or waits for its session: the server has no fault."""
    gate = asyncio.Event()
    async with placed(client, tmp_path, slow(gate)) as place, asyncio.timeout(PATIENCE):
        http = await place.server()
        await session(http)
        sent = [asyncio.create_task(http.post("/run", json=message("hi")))]
        names = [await running(place), "e-waits"]
        body = message("hi", invocationId=names[1])
        sent.append(asyncio.create_task(http.post("/run", json=body)))
        for name in reversed(names):
            await until(partial(is_cancelled, http, name))
        for response in await asyncio.gather(*sent):
            assert response.status_code == 409
            assert response.json()["error"]["type"] == "InvocationCancelledError"


async def test_each_half_of_an_event_has_a_position(client, tmp_path):
    """A cut between content and artifacts repeats neither."""

    async def save(callback_context, llm_response):
        await callback_context.save_artifact("a.txt", types.Part(text="a"))
        return llm_response

    saving = agent("Saved.", after_model_callback=save)
    async with placed(client, tmp_path, saving) as place:
        http = await place.server()
        await session(http)
        whole = await read(http, "/run_sse", message("hi"))
        halves = [(one.data.get("content"), one.data["actions"]["artifactDelta"]) for one in whole]
        assert [(bool(said), bool(saved)) for said, saved in halves] == [
            (True, False),
            (False, True),
        ]
        body = IDS | {"invocationId": whole[0].data["invocationId"]}
        for number, one in enumerate(whole, 1):
            rest = await read(http, "/run_sse", body, last_event_id=one.id or "")
            assert rest == whole[number:]
