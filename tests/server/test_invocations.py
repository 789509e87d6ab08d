"""The server's own routes of invocations, over HTTP on a real server."""

import asyncio
import base64
from collections.abc import AsyncIterator
from functools import partial

import httpx
import pytest
from google.genai import types

from durable_adk.agents import LlmAgent
from durable_adk.client import feed
from durable_adk.client.temporal_backend import TemporalBackend
from durable_adk.models import ScriptedModel
from durable_adk.server.routes import acceptance
from durable_adk.sessions import SessionKey, SqliteSessionService
from durable_adk.tools import FunctionTool
from durable_adk.tools.agent_tool import AgentTool
from durable_adk.tools.long_running_tool import LongRunningFunctionTool
from tests.server.test_authentication import OTHER, TOKEN, bearer, settings_for
from tests.support.gates import until_set
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
from tests.support.streams import StreamingModel, a_call
from tests.support.waiting import PATIENCE, forever, until


def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


def ask(question: str) -> None:
    """Ask somebody, who answers later."""


TOOLS = [FunctionTool(pay, require_confirmation=True), LongRunningFunctionTool(ask)]


class CountingModel(ScriptedModel):
    """Says which model it is, and what each answer has cost."""

    async def generate_content_async(self, llm_request, stream=False):
        """Answer with counts."""
        usage = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=3,
            candidates_token_count=1,
            thoughts_token_count=2,
            total_token_count=6,
        )
        more = {"usage_metadata": usage, "model_version": "counting-1"}
        async for one in super().generate_content_async(llm_request, stream):
            yield one.model_copy(update=more)


def place_of(client, folder, *replies):
    """A place whose agent says some replies."""
    model = ScriptedModel(replies=list(replies))
    return placed(client, folder, LlmAgent(name="a", model=model, tools=TOOLS))


@pytest.fixture
async def pays(client, tmp_path) -> AsyncIterator[Place]:
    """A place whose agent wants to pay, which has to be confirmed."""
    async with place_of(client, tmp_path, call("pay", amount=3), "Done.") as place:
        yield place


async def start(http: httpx.AsyncClient, text: str = "hi", **more: object) -> dict:
    """Start an invocation; its summary."""
    key = more.pop("key", None)
    headers = {"Idempotency-Key": str(key)} if key else {}

    async def sent() -> httpx.Response | None:
        response = await http.post("/invocations", json=message(text, **more), headers=headers)
        return None if key and response.status_code == 503 else response

    response = await until(sent)  # with a key, it is sent again if Temporal was slow to take it
    assert response.status_code == 202, response.text
    return response.json()


async def reached(http: httpx.AsyncClient, name: str, status: str) -> dict:
    """Wait until an invocation has a status; all that is known of it."""

    async def found() -> dict | None:
        known = (await http.get(f"/invocations/{name}")).json()
        return known if known.get("status") == status else None

    return await until(found)


async def queue(http: httpx.AsyncClient, path: str = f"{USERS}/s") -> list[str]:
    """The invocations whose messages wait for a session."""
    return [one["invocationId"] for one in (await http.get(f"{path}/queue")).json()]


async def test_a_start_returns_at_once_and_once(client, tmp_path):
    """The same idempotency key starts nothing again; another request with it is refused."""
    async with place_of(client, tmp_path, "Hello.") as place:
        http = await place.server()
        await session(http)
        first = await start(http, key="k1")
        assert first["message"] == "hi"
        again = await start(http, key="k1")
        assert again["invocationId"] == first["invocationId"]
        other = await http.post(
            "/invocations", json=message("other"), headers={"Idempotency-Key": "k1"}
        )
        assert other.status_code == 409
        for more in ({"stateDelta": {"a": 1}}, {"customMetadata": {"a": 1}}):
            other = await http.post(
                "/invocations", json=message("hi", **more), headers={"Idempotency-Key": "k1"}
            )
            assert (other.status_code, other.json()["error"]["field"]) == (409, *more)
        done = await reached(http, first["invocationId"], "completed")
        assert done["events"] == 2
        listed = (await http.get("/invocations")).json()["invocations"]
        assert [one["invocationId"] for one in listed] == [first["invocationId"]]


async def test_a_start_says_of_a_run_what_a_list_says(client, tmp_path):
    """Its response is the entry of the list."""
    gate = asyncio.Event()
    agent = LlmAgent(name="a", model=StreamingModel(turns=[[gate, "Done."]]))
    async with placed(client, tmp_path, agent) as place:
        http = await place.server()
        await session(http)
        made = await start(http)
        assert made["status"] == "running"
        assert (await http.get("/invocations")).json()["invocations"] == [made]
        gate.set()


async def test_the_events_of_a_finished_run_are_read_again(client, tmp_path):
    """From the user's on, or after a position; as a stream that ends, or as a list."""
    async with place_of(client, tmp_path, "Hello.") as place:
        http = await place.server()
        await session(http)
        name = (await start(http))["invocationId"]
        await reached(http, name, "completed")
        path = f"/invocations/{name}/events"
        sent = await read(http, path)
        assert [brief(one) for one in sent if one.id] == ["hi", "Hello."]
        assert brief(sent[-1]) == "(completed)"
        assert [one.event for one in sent if one.id] == ["event", "event"]
        after = await read(http, f"{path}?after=1")
        assert [one.id for one in after] == ["2", None]
        response = await http.get(path, headers={"Accept": "application/json"})
        assert [one["seq"] for one in response.json()] == [1, 2]


async def test_a_confirmation_is_found_and_given(pays):
    """It is in the inbox with the arguments; the run continues once it is approved."""
    http = await pays.server()
    await session(http)
    name = (await start(http))["invocationId"]
    waiting = await reached(http, name, "paused")
    (asked,) = (await http.get("/pending")).json()["pending"]
    assert [one | {"message": "hi"} for one in waiting["pending"]] == [asked]
    assert (asked["name"], asked["kind"], asked["arguments"]) == (
        "pay",
        "confirmation",
        {"amount": 3},
    )
    assert "confirmed" in asked["schema"]["properties"]
    response = {
        "id": asked["callId"],
        "name": "adk_request_confirmation",
        "response": {"confirmed": True},
    }
    content = {"role": "user", "parts": [{"functionResponse": response}]}
    misplaced = await http.post("/invocations", json=IDS | {"newMessage": content})
    assert (misplaced.status_code, "/answers" in misplaced.text) == (400, True)
    steered = await http.post(f"/invocations/{name}/steer", json={"message": content})
    assert (steered.status_code, "/answers" in steered.text) == (400, True)
    assert (await http.get("/pending")).json()["pending"] == [asked]
    body = {"callId": asked["callId"], "confirmed": True}
    changed = await http.post(
        f"/invocations/{name}/answers", json=body | {"arguments": {"amount": 4}}
    )
    assert changed.status_code == 400
    for yes in ("on", "true", 1):
        unclear = await http.post(f"/invocations/{name}/answers", json=body | {"confirmed": yes})
        assert (unclear.status_code, unclear.json()["error"]["field"]) == (422, "confirmed")
    response = await http.post(f"/invocations/{name}/answers", json=body)
    assert response.status_code == 202, response.text
    done = await reached(http, name, "completed")
    assert done["pending"] == []
    again = await http.post(f"/invocations/{name}/answers", json=body)
    assert again.status_code == 202
    for other in ({"confirmed": False}, {"payload": 1}):
        refused = await http.post(f"/invocations/{name}/answers", json=body | other)
        assert refused.status_code == 409
    unknown = await http.post(f"/invocations/{name}/answers", json=body | {"callId": "no"})
    assert unknown.status_code == 404
    sent = await read(http, f"/invocations/{name}/events")
    texts = [brief(one) for one in sent]
    assert texts.count("Done.") == 1
    assert texts[-1] == "(completed)"


async def test_a_decision_is_no_result(client, tmp_path):
    """A long-running tool waits for an answer that its caller is to get, and keeps waiting."""
    async with place_of(client, tmp_path, call("ask", question="?"), "Done.", "Oh.") as place:
        http = await place.server()
        await session(http)
        name = (await start(http))["invocationId"]
        (asked,) = (await reached(http, name, "paused"))["pending"]
        path, body = f"/invocations/{name}/answers", {"callId": asked["callId"]}
        refused = await http.post(path, json=body | {"confirmed": True})
        assert (refused.status_code, "give `response`" in refused.text) == (400, True)
        assert (await http.get("/pending")).json()["pending"] == [asked | {"message": "hi"}]
        for answer in ({"answer": "yes"}, {"answer": "yes"}, {"answer": "no"}):
            given = await http.post(path, json=body | {"response": answer})
            assert given.status_code == 202
            # An answer after the end is news for the agent, and the same one is none.
            await reached(http, name, "completed")
        assert len((await http.get("/invocations")).json()["invocations"]) == 2


async def accepted(
    http: httpx.AsyncClient, path: str, answer: dict, headers: dict[str, str] | None = None
) -> None:
    """Send an answer, again if Temporal was slow to take it."""

    async def sent() -> int | None:
        status = (await http.post(path, json=answer, headers=headers)).status_code
        return None if status == 503 else status

    assert await until(sent) == 202


async def is_empty(http: httpx.AsyncClient, path: str) -> bool:
    """Whether no message waits for a session."""
    return not await queue(http, path)


@pytest.mark.thorough
async def test_an_update_starts_one_run_however_often_it_is_sent(client, tmp_path, monkeypatch):
    """Also while it waits for its session; once it was cancelled there, it may be sent again.

    The same answer of another user is another one.
    """
    gate, where = asyncio.Event(), {"app_name": "app", "user_id": "alice", "session_id": "s"}
    turns = [[a_call("ask", question="?")], ["Done."], [gate, "Slow."], ["Heard."], ["Oh."]]
    agent = LlmAgent(name="a", model=StreamingModel(turns=turns), tools=TOOLS)
    known = settings_for().model_dump(include={"tokens", "operators"})
    async with placed(client, tmp_path, agent) as place, asyncio.timeout(PATIENCE):
        http = await place.server(settings=known)
        http.headers.update(bearer(TOKEN))
        users = "/apps/app/users/alice/sessions"
        await http.post(users, json={"sessionId": "s"}, headers=bearer(OTHER))
        name = (await start(http, userId="alice"))["invocationId"]
        (asked,) = (await reached(http, name, "paused"))["pending"]
        path, body = f"/invocations/{name}/answers", {"callId": asked["callId"]}
        assert (await http.post(path, json=body | {"response": {"n": 1}})).status_code == 202
        await reached(http, name, "completed")
        slow = (await start(http, userId="alice"))["invocationId"]
        monkeypatch.setattr(acceptance, "_STARTED", 0.2)
        update, waits = body | {"response": {"n": 2}}, list[str]()
        for _ in range(2):
            await asyncio.gather(*(accepted(http, path, update) for _ in range(2)))
            waits += await until(lambda: queue(http, f"{users}/s"))
            if len(waits) == 1:
                cancelled = await http.post(f"/invocations/{waits[0]}/cancel", params=where)
                assert cancelled.status_code == 200
                await until(partial(is_empty, http, f"{users}/s"))
        gate.set()
        await reached(http, waits[-1], "completed")
        await accepted(http, path, update)
        await accepted(http, path, update, bearer(OTHER))
        earlier = [waits[1], slow, name]

        async def listed() -> list[str]:
            found = (await http.get("/invocations")).json()["invocations"]
            names = [one["invocationId"] for one in found]
            return names if names != earlier else []  # it was accepted, and opens a moment later

        names = await until(listed)
        assert (len(names), names[1:]) == (4, earlier)


async def test_a_reader_reads_through_a_pause(pays):
    """The stream of an invocation that waits continues when it is answered, and then ends."""
    http = await pays.server()
    await session(http)
    name = (await start(http))["invocationId"]
    seen = []
    async with asyncio.timeout(PATIENCE), streamed(http, f"/invocations/{name}/events") as stream:
        async for one in stream:
            seen.append(brief(one))
            if seen[-1] == "(paused)":
                (asked,) = (await http.get("/pending?session_id=s")).json()["pending"]
                answer = {"callId": asked["callId"], "response": {"confirmed": False}}
                await http.post(f"/invocations/{name}/answers", json=answer)
    assert seen.index("(paused)") < seen.index("Done.")
    assert seen[-1] == "(completed)"


async def test_cancelling_ends_what_waits(pays):
    """Its events stay, and nothing waits any more."""
    http = await pays.server()
    await session(http)
    name = (await start(http))["invocationId"]
    await reached(http, name, "paused")
    assert (await http.post(f"/invocations/{name}/cancel")).status_code == 200
    done = await reached(http, name, "cancelled")
    assert done["error"]["type"] == "InvocationCancelledError"
    assert (await http.get("/pending")).json()["pending"] == []


async def test_lists_are_filtered_and_paged(client, tmp_path):
    """Each page continues where the last one ended; counts are by status."""
    async with place_of(client, tmp_path, "Hello.") as place:
        http = await place.server()
        names = []
        for number in range(3):
            await session(http, f"s{number}")
            body = {"sessionId": f"s{number}"}
            name = (await start(http, f"number {number}", **body))["invocationId"]
            await reached(http, name, "completed")
            names.insert(0, name)
        seen, token = [], None
        while True:
            query = {"limit": 2, **({"page_token": token} if token else {})}
            page = (await http.get("/invocations", params=query)).json()
            seen += [one["invocationId"] for one in page["invocations"]]
            if not (token := page.get("nextPageToken")):
                break
        assert seen == names
        for query, expected in [
            ({"query": "number 1"}, [names[1]]),
            ({"session_id": "s0"}, [names[2]]),
            ({"status": "failed"}, []),
            ({"status": ["failed", "completed"]}, names),
            ({"user_id": "other"}, []),
        ]:
            page = (await http.get("/invocations", params=query)).json()["invocations"]
            assert [one["invocationId"] for one in page] == expected
        counts = (await http.get("/invocations/counts")).json()
        assert (counts["completed"], counts["running"]) == (3, 0)
        wrong = await http.get("/invocations", params={"page_token": "x"})
        assert wrong.status_code == 400


async def test_the_changes_of_all_sessions_are_streamed(client, tmp_path):
    """Each new status, with the session that it is of."""
    async with place_of(client, tmp_path, "Hello.") as place:
        http = await place.server()
        await session(http)
        async with asyncio.timeout(PATIENCE), streamed(http, "/changes") as stream:
            await asyncio.sleep(0)
            name = (await start(http))["invocationId"]
            async for one in stream:
                assert one.data["invocationId"] == name
                assert one.data["sessionId"] == "s"
                if one.data["status"] == "completed":
                    break


async def test_a_session_is_streamed_with_all_its_runs(client, tmp_path):
    """Also those that start later; chunks come before their events."""
    turns = [["It ", "is.", "It is."], ["It ", "was.", "It was."]]
    agent = LlmAgent(name="a", model=StreamingModel(turns=turns))
    async with placed(client, tmp_path, agent) as place:
        http = await place.server()
        await session(http)
        seen = []
        async with asyncio.timeout(PATIENCE), streamed(http, f"{USERS}/s/events") as stream:
            await start(http, "one")
            async for one in stream:
                seen.append(brief(one))
                if seen.count("(completed)") == 1 and "two" not in seen:
                    await start(http, "two")
                    seen.append("two")
                if seen.count("(completed)") == 2:
                    break
        assert [text for text in seen if text in ("It is.", "It was.")] == ["It is.", "It was."]
        assert seen.index("It is.") < seen.index("It was.")
        for whole, chunk in (("It is.", "~is."), ("It was.", "~was.")):
            if chunk in seen:
                assert seen.index(chunk) < seen.index(whole)


@pytest.fixture
def idle(monkeypatch):
    """Set once somebody waits who would look again in ten minutes."""
    found, waits = asyncio.Event(), SqliteSessionService.changed

    async def waiting(*given, timeout):  # noqa: ASYNC109  # as in the port
        if timeout == feed.IDLE:
            found.set()
        await waits(*given, timeout=timeout)

    monkeypatch.setattr(SqliteSessionService, "changed", waiting)
    return found


async def test_an_idle_session_wakes_its_readers(client, tmp_path, idle):
    """A notice of the change does, not the next look at the store."""
    async with place_of(client, tmp_path, "Hello.") as place:
        http = await place.server()
        await session(http)
        async with asyncio.timeout(PATIENCE), streamed(http, f"{USERS}/s/events") as stream:
            await idle.wait()
            await start(http)
            seen = [brief(await anext(stream))]
            while seen[-1] != "(completed)":
                seen.append(brief(await anext(stream)))
        assert [text for text in seen if text in ("hi", "Hello.")] == ["hi", "Hello."]


async def test_an_answer_wakes_the_readers_of_a_pause(client, tmp_path, idle):
    """They do not look at the store again and again meanwhile."""
    async with place_of(client, tmp_path, call("pay", amount=1), "Done.") as place:
        http = await place.server()
        await session(http)
        name = (await start(http))["invocationId"]
        await reached(http, name, "paused")
        (asked,) = (await http.get("/pending")).json()["pending"]
        path = f"/invocations/{name}"
        async with asyncio.timeout(PATIENCE), streamed(http, f"{path}/events") as stream:
            await idle.wait()
            body = {"callId": asked["callId"], "confirmed": True}
            assert (await http.post(f"{path}/answers", json=body)).status_code == 202
            seen = [brief(one) async for one in stream]
    assert seen[-1] == "(completed)"
    assert "Done." in seen


async def test_a_session_is_rewound(client, tmp_path):
    """What was said after an invocation began is taken back."""
    async with place_of(client, tmp_path, "Hello.") as place:
        http = await place.server()
        await session(http)
        name = (await start(http))["invocationId"]
        await reached(http, name, "completed")
        response = await http.post(f"{USERS}/s/rewind", json={"invocationId": name})
        assert response.json() == {"rewound": True}
        missing = await http.post(f"{USERS}/s/rewind", json={"invocationId": "no"})
        assert missing.status_code == 404


async def test_attempts_and_tokens_are_told(client, tmp_path):
    """Each model call with the agent, and how it ended."""
    async with place_of(client, tmp_path, ValueError("broken")) as place:
        http = await place.server()
        await session(http)
        name = (await start(http))["invocationId"]
        done = await reached(http, name, "failed")
        assert done["error"] == {"type": "ValueError", "message": "broken"}
        attempts = (await http.get(f"/invocations/{name}/attempts")).json()
        assert done["attempts"] == attempts
        assert {one["outcome"] for one in attempts} <= {"failed", "completed"}
        workers = [one.get("worker") for one in attempts if one["outcome"] == "failed"]
        assert set(workers) == {client.identity}


@pytest.mark.thorough
async def test_the_runs_of_agents_as_tools_are_told(client, tmp_path):
    """Each with its call, its tokens by model and its own children; other routes find it by them.

    Where clients have chosen an id in two sessions, they are those of the session's own calls.
    """
    deep = LlmAgent(name="deep", model=CountingModel(replies=["42"]))
    expert = LlmAgent(
        name="expert",
        model=CountingModel(replies=[call("deep", request="q"), "forty-two"]),
        tools=[AgentTool(deep)],
    )
    asks = [call("expert", request="how much"), "Done."]
    agent = LlmAgent(name="a", model=ScriptedModel(replies=asks), tools=[AgentTool(expert)])
    async with placed(client, tmp_path, agent) as place:
        http = await place.server()
        for name in ("s", "s2"):
            await session(http, name)
            body = message("hi", invocationId="tools", sessionId=name)
            assert (await http.post("/run", json=body)).status_code == 200
        of = {"app_name": "app", "user_id": "u", "session_id": "s"}
        path = "/invocations/tools/children"
        (child,) = (await http.get(path, params=of)).json()
        (other,) = (await http.get(path, params=of | {"session_id": "s2"})).json()
        assert child["sessionId"] != other["sessionId"]
        (deeper,) = child["children"]
        told = [
            (one["tool"], one["message"], one["status"], one["events"]) for one in (child, deeper)
        ]
        assert told == [("expert", "how much", "completed", 4), ("deep", "q", "completed", 2)]
        counted = {"promptTokens": 6, "candidatesTokens": 2, "totalTokens": 12}
        assert child["models"] == [
            counted | {"thoughtsTokens": 4, "model": "counting-1", "calls": 2}
        ]
        events = (await http.get(f"{USERS}/s")).json()["events"]
        assert child["callId"] == events[1]["content"]["parts"][0]["functionCall"]["id"]
        inside = of | {"session_id": child["sessionId"]}
        assert (await http.get(path, params=inside)).json() == [deeper]
        steps = await http.get("/invocations/tools/events", params=inside | {"follow": "false"})
        assert [one["event"]["author"] for one in steps.json()] == ["user", *["expert"] * 3]
        await session(http, "s3")
        (event, *_) = (await http.post("/run", json=message("hi", sessionId="s3"))).json()
        name, trace = event["invocationId"], "/dev/apps/app/debug/trace"
        # Only the caller's session counts where none is named.
        for path in (f"/invocations/{name}", f"/a2a/app/tasks/{name}", f"{trace}/{event['id']}"):
            found = await http.get(path, headers={"A2A-Version": "1.0"})
            assert found.status_code == 200, found.text


async def test_an_id_of_two_sessions_reaches_the_one_that_is_named(client, tmp_path):
    """By any route; without the session, or with another one, nothing is done."""
    replies = [call("pay", amount=3), call("pay", amount=4), "Done."]
    async with place_of(client, tmp_path, *replies) as place:
        http = await place.server()
        for name in ("s", "s2"):
            await session(http, name)
            body = message("hi", invocationId="same", sessionId=name)
            assert (await http.post("/run", json=body)).status_code == 200
        asked = {one["sessionId"]: one for one in (await http.get("/pending")).json()["pending"]}
        decision = {"callId": asked["s"]["callId"], "confirmed": True}
        steered = {"message": {"role": "user", "parts": [{"text": "wait"}]}}
        bodies = {"answers": decision, "cancel": {}, "steer": steered}
        tried = [("GET", path, None) for path in ("", "/events", "/attempts")]
        tried += [("POST", f"/{path}", body) for path, body in bodies.items()]
        for method, path, body in tried:
            response = await http.request(method, f"/invocations/same{path}", json=body)
            assert response.status_code == 409, path
            assert response.json()["error"]["type"] == "AmbiguousInvocationError"
            where = f"/invocations/same{path}?session_id=s3"
            assert (await http.request(method, where, json=body)).status_code == 404, path
        named = {"app_name": "app", "user_id": "u", "session_id": "s"}
        response = await http.post("/invocations/same/answers", json=decision, params=named)
        assert response.status_code == 202, response.text
        other = decision | {"confirmed": False}
        again = await http.post("/invocations/same/answers", json=other, params=named)
        assert again.status_code == 409
        assert again.json()["error"]["type"] == "AlreadyExistsError"
        other = await http.get("/invocations/same", params=named | {"session_id": "s2"})
        assert (other.json()["sessionId"], other.json()["status"]) == ("s2", "paused")
        assert [one | {"message": "hi"} for one in other.json()["pending"]] == [asked["s2"]]


async def is_missing(http: httpx.AsyncClient, path: str) -> bool:
    """Whether nothing is known of an invocation."""
    return (await http.get(path)).status_code == 404


@pytest.mark.thorough
async def test_a_message_that_waits_is_found_and_cancelled(client, tmp_path, monkeypatch):
    """It is in the store only once it has begun, so the query has to name its session.

    Another one with its key is refused meanwhile, too.
    """
    gate = asyncio.Event()
    agent = LlmAgent(name="a", model=StreamingModel(turns=[[gate, "One."], ["Two."]]))
    async with placed(client, tmp_path, agent) as place, asyncio.timeout(PATIENCE):
        http = await place.server()
        await session(http)
        await start(http, "first")
        monkeypatch.setattr(acceptance, "_STARTED", 0.3)
        names = [
            (await start(http, text, key=text))["invocationId"] for text in ("second", "third")
        ]
        assert (await start(http, "second", key="second"))["invocationId"] == names[0]
        for text, delta, field in (("third", {}, "newMessage"), ("second", {"a": 1}, "stateDelta")):
            other = message(text, stateDelta=delta)
            sent = await http.post(
                "/invocations", json=other, headers={"Idempotency-Key": "second"}
            )
            assert (sent.status_code, sent.json()["error"]["field"]) == (409, field)
        here = "app_name=app&user_id=u&session_id=s"
        second, third = (f"/invocations/{name}" for name in names)
        found = (await http.get(f"{second}?{here}")).json()
        assert (found["status"], found["queued"]) == ("running", True)
        assert (await http.get(f"{second}/events?{here}&follow=false")).json() == []

        async def listed() -> list[dict] | None:
            found = (await http.get(f"{USERS}/s/queue")).json()
            return found if len(found) == len(names) else None

        waiting = await until(listed)
        assert [one["invocationId"] for one in waiting] == names
        assert all(one["queued"] for one in waiting)
        for missing in (second, f"{second}?{here}2", f"/invocations/no?{here}"):
            assert (await http.get(missing)).status_code == 404
        cancelled = (await http.post(f"{third}/cancel?{here}")).json()
        assert cancelled["status"] == "cancelled"
        await until(lambda: is_missing(http, f"{third}?{here}"))  # else it may begin, yet
        async with streamed(http, f"{second}/events?{here}") as stream:
            gate.set()
            seen = [brief(one) async for one in stream if not one.data.get("position")]
        assert [seen[0], seen[-2:]] == ["second", ["Two.", "(completed)"]]
        events = (await http.get(f"{USERS}/s")).json()["events"]
        assert names[1] not in {one["invocationId"] for one in events}


async def test_a_message_that_waits_is_its_senders(client, tmp_path, monkeypatch):
    """S1: nobody else reads, follows or cancels it, though they know its session and its id."""
    gate = asyncio.Event()
    agent = LlmAgent(name="a", model=StreamingModel(turns=[[gate, "One."], ["Two."]]))
    async with placed(client, tmp_path, agent) as place, asyncio.timeout(PATIENCE):
        http = await place.server(settings=settings_for().model_dump(exclude_unset=True))
        body = {"appName": "app", "userId": "bob", "sessionId": "s", "createSession": True}
        http.headers.update(bearer(OTHER))
        await start(http, "first", **body)
        monkeypatch.setattr(acceptance, "_STARTED", 0.3)
        made = await start(http, "second", key="k", **body)
        path = f"/invocations/{made['invocationId']}"
        here = "app_name=app&user_id=bob&session_id=s"
        assert (await http.get(f"{path}?{here}", headers=bearer(OTHER))).json()["queued"]
        tried = [
            await http.get(f"{path}?{here}", headers=bearer(TOKEN)),
            await http.get(f"{path}/events?{here}", headers=bearer(TOKEN)),
            await http.post(f"{path}/cancel?{here}", headers=bearer(TOKEN)),
        ]
        assert [one.status_code for one in tried] == [403, 403, 403]
        gate.set()


async def test_an_unknown_invocation_is_not_found(pays):
    """By each of its routes."""
    http = await pays.server()
    for path in ("", "/events", "/attempts"):
        assert (await http.get(f"/invocations/no{path}")).status_code == 404
    assert (await http.post("/invocations/no/cancel")).status_code == 404
    assert (await http.post("/invocations", json=IDS | {"sessionId": "no"})).status_code == 404


async def test_a_message_that_temporal_has_not_is_not_said_to_wait(client, tmp_path, monkeypatch):
    """A start that hangs is no start: the caller is asked to send it again."""
    monkeypatch.setattr(acceptance, "_STARTED", 0.05)
    async with place_of(client, tmp_path, "Hello.") as place:
        http = await place.server()
        await session(http)

        async def hangs(*_: object, **__: object) -> None:
            await forever()

        monkeypatch.setattr(TemporalBackend, "start", hangs)
        response = await http.post("/invocations", json=message("hi"))
        assert response.status_code == 503
        assert response.json()["error"]["type"] == "TemporalUnavailableError"


async def test_an_answer_that_nobody_has_accepted_is_not_said_to_be(pays, monkeypatch):
    """It may be sent again, which does no harm."""
    monkeypatch.setattr(acceptance, "_ACCEPTED", 0.0)
    http = await pays.server()
    await session(http)
    started = await start(http)
    found = await reached(http, started["invocationId"], "paused")
    body = {"callId": found["pending"][0]["callId"], "confirmed": True}
    path = f"/invocations/{started['invocationId']}/answers"
    refused = await http.post(path, json=body)
    assert refused.status_code == 503
    monkeypatch.setattr(acceptance, "_ACCEPTED", PATIENCE)
    again = await http.post(path, json=body)
    assert again.status_code in (202, 409)  # the first may have arrived
    await reached(http, started["invocationId"], "completed")


async def test_a_steering_with_a_key_is_delivered_once(client, tmp_path, monkeypatch):
    """However often it is sent, also when the run is over; another one with its key is refused."""
    gate = asyncio.Event()

    async def hold() -> None:
        await until_set(gate)

    model = ScriptedModel(replies=[call("hold"), "Done."])
    agent = LlmAgent(name="a", model=model, tools=[FunctionTool(hold)])
    async with placed(client, tmp_path, agent) as place:
        http = await place.server()
        await session(http)
        name = (await start(http))["invocationId"]
        await reached(http, name, "running")
        monkeypatch.setattr(acceptance, "_STARTED", 0.3)

        async def steer(text: str = "faster", **headers: str) -> httpx.Response:
            said = {"message": {"role": "user", "parts": [{"text": text}]}}

            async def sent() -> httpx.Response | None:
                response = await http.post(f"/invocations/{name}/steer", json=said, headers=headers)
                return None if response.status_code == 503 else response

            return await until(sent)  # sent again if Temporal was slow to take it

        key = {"Idempotency-Key": "k"}
        told = [await steer(**key), await steer(**key)]
        other_mode = await steer(**key, **{"When-Busy": "reject"})
        gate.set()
        found = await reached(http, name, "completed")
        told.append(await steer(**key))
        refused = [other_mode, await steer("slower", **key), await steer()]
        later = await start(http, "faster", key="k")
        events = await place.sessions.read_events(SessionKey("app", "u", "s"))
    assert [one.status_code for one in told] == [202] * 3
    assert len({one.json()["messageId"] for one in told}) == 1
    assert [one.status_code for one in refused] == [400, 409, 400]
    assert later["invocationId"] == found["invocationId"] == name
    assert [one.event.text for one in events if one.event.author == "user"] == ["hi", "faster"]


async def test_a_steering_that_temporal_has_not_is_not_accepted(client, tmp_path, monkeypatch):
    """Status 503, so the caller sends the message again."""
    gate = asyncio.Event()
    agent = LlmAgent(name="a", model=StreamingModel(turns=[[gate, "Done."]]))
    async with placed(client, tmp_path, agent) as place, asyncio.timeout(PATIENCE):
        http = await place.server()
        await session(http)
        name = (await start(http))["invocationId"]
        await reached(http, name, "running")

        async def hangs(*_: object, **__: object) -> None:
            await forever()

        with monkeypatch.context() as patched:
            patched.setattr(acceptance, "_STARTED", 0.05)
            patched.setattr(TemporalBackend, "start", hangs)
            said = {"message": {"role": "user", "parts": [{"text": "faster"}]}}
            response = await http.post(f"/invocations/{name}/steer", json=said)
        assert response.status_code == 503
        assert response.json()["error"]["type"] == "TemporalUnavailableError"
        gate.set()


@pytest.mark.parametrize(
    "token",
    [
        "x",
        "[" * 20_000,
        f"[1{'0' * 400}, 1, 2, 3]",
        r'[1, "\ud800", "s", "i"]',
        r'[1, "\u0000", 1, 1]',
    ],
)
async def test_a_page_token_of_another_list_is_refused(pays, token):
    """Status 400, whatever it has."""
    http = await pays.server(apps=["app"])
    text = base64.urlsafe_b64encode(token.encode()).decode()
    response = await http.get("/invocations", params={"page_token": text})
    assert response.status_code == 400, response.text
    assert response.json()["error"]["type"] == "InvalidRequestError"


async def test_metadata_of_the_runtime_is_refused_without_a_worker(client, tmp_path):
    """At once: no workflow is started for it."""
    agent = LlmAgent(name="a", model=ScriptedModel(replies=["Hello."]))
    async with placed(client, tmp_path, agent) as place, absent_worker(place, agent):
        http = await place.server()
        await session(http)
        sent = message("hi", customMetadata={"adk_answered_by": {"user": "alice"}})
        refused = await http.post("/invocations", json=sent)
    assert (refused.status_code, "adk_answered_by" in refused.text) == (400, True), refused.text
