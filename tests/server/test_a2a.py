"""Apps as agents of A2A, asked by the official client over a real socket."""

import asyncio
import json
import re
import time
import uuid
from collections.abc import AsyncIterator

import httpx
import pytest
from a2a.client import Client
from a2a.server.routes.jsonrpc_dispatcher import JSONRPC03Adapter
from a2a.types import (
    CancelTaskRequest,
    GetExtendedAgentCardRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    SendMessageRequest,
    StreamResponse,
    Task,
    TaskState,
)
from a2a.utils.errors import (
    InternalError,
    InvalidParamsError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from google.genai import types

from durable_adk.activities.invocation.take_over import NOTIFIED
from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.client import temporal_backend
from durable_adk.errors import LeaseLostError, ModelUnavailableError
from durable_adk.models import ScriptedModel
from durable_adk.server.protocols.a2a import operations
from durable_adk.server.protocols.a2a.http import _V03, MAX_PING_SECONDS
from durable_adk.server.streams import Reading
from durable_adk.sessions.records import Note
from durable_adk.tools import FunctionTool, ToolContext
from durable_adk.tools.long_running_tool import LongRunningFunctionTool
from tests.integration.test_credentials import SECRET, sender
from tests.server.test_authentication import OTHER, TOKEN, digest, settings_for
from tests.server.test_runs import reading
from tests.support.a2a_client import (
    answers,
    asked,
    brief,
    connected,
    followed,
    said,
    sending,
    sent,
    state,
    task_of,
    texts,
)
from tests.support.gates import GATES, listener, until_begun
from tests.support.http_server import Place, absent_worker, placed
from tests.support.scripts import call, calls
from tests.support.streams import StreamingModel, thought
from tests.support.waiting import PATIENCE, until
from tests.unit.sessions.contract import event, opened

pytestmark = pytest.mark.thorough

BOB = "00112233445566778899aabbccddeeff"
PAID: list[int] = []


def pay(amount: int) -> str:
    """Pay an amount."""
    PAID.append(amount)
    return f"paid {amount}"


def ask(question: str) -> None:
    """Ask somebody, who answers later."""


async def draw(tool_context: ToolContext) -> str:
    """Draw something."""
    await tool_context.save_artifact(
        "a.png", types.Part(inline_data=types.Blob(data=b"png", mime_type="image/png"))
    )
    return "drawn"


TOOLS = [FunctionTool(pay, require_confirmation=True), LongRunningFunctionTool(ask), draw]


@pytest.fixture(autouse=True)
def nothing_paid() -> None:
    """Nothing is paid before a test."""
    PAID.clear()


def place_of(client, folder, *replies):
    """A place whose agent says some replies."""
    model = ScriptedModel(replies=list(replies))
    agent = LlmAgent(name="a", description="Pays.", model=model, tools=TOOLS)
    return placed(client, folder, agent)


def streams(client, folder, *turns):
    """A place whose agent says its turns in chunks."""
    model = StreamingModel(turns=[list(turn) for turn in turns])
    return placed(client, folder, LlmAgent(name="a", model=model, tools=TOOLS))


async def runs(place: Place) -> int:
    """How many invocations there are."""
    return sum((await place.sessions.count_invocations(app_name="app")).values())


async def test_a_message_is_answered_by_a_task(client, tmp_path):
    """It has ended, and its artifact is the answer; the next one of the context continues."""
    async with (
        place_of(client, tmp_path, "Hello.", "Again.") as place,
        connected(await place.server(), streaming=False) as agent,
    ):
        first = await task_of(agent, said("hi"))
        second = await task_of(agent, said("hi", context=first.context_id))
    assert (state(first), answers(first)) == ("(completed)", ["Hello."])
    assert (state(second), answers(second)) == ("(completed)", ["Again."])
    assert first.context_id == second.context_id
    assert [texts(one.parts) for one in first.history] == ["hi"]


async def shown_in_steps(
    client: Client, message: Message, steps: dict[str, asyncio.Event]
) -> list[StreamResponse]:
    """What comes of a message; with each chunk that is shown the model may go a step further."""
    found = []
    async for one in sending(client, message):
        found.append(one)
        if step := steps.get(brief(one)):
            step.set()
    return found


async def test_an_answer_is_streamed_in_chunks_and_then_whole(client, tmp_path, monkeypatch):
    """Chunks are appended to each other, the whole replaces them; thoughts are not shown."""
    monkeypatch.setattr(Reading.first, "__defaults__", (PATIENCE,))
    steps = {"~one ": asyncio.Event(), "+two": asyncio.Event()}
    turn = [thought("hm"), "one ", steps["~one "], "two", steps["+two"], "one two"]
    async with (
        streams(client, tmp_path, turn) as place,
        connected(await place.server()) as agent,
    ):
        found = await shown_in_steps(agent, said("count"), steps)
    assert [brief(one) for one in found] == [
        "task (working)",
        "~one ",
        "+two",
        "one two",
        "(completed)",
    ]


@pytest.mark.parametrize(("path", "said_in"), [("", "params"), ("/message:stream", "")])
async def test_a_stream_in_which_nothing_happens_is_kept_alive(client, tmp_path, path, said_in):
    """Sooner than the official client, which has the time limits of httpx, gives it up."""
    read = httpx.AsyncClient().timeout.read
    assert read is not None
    assert read > MAX_PING_SECONDS + 1
    gate = asyncio.Event()
    message = {"messageId": uuid.uuid4().hex, "role": "ROLE_USER", "parts": [{"text": "count"}]}
    body = {"message": message}
    if said_in:
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", said_in: body}
    async with streams(client, tmp_path, [gate, "one"]) as place:
        http = await place.server(settings={"ping_seconds": 0.05})
        headers = {"A2A-Version": "1.0"}
        async with http.stream(
            "POST", f"/a2a/app{path}", json=body, headers=headers, timeout=read
        ) as response:
            async for line in response.aiter_lines():
                if line.startswith(": ping"):
                    gate.set()
    assert gate.is_set()


async def test_a_new_attempt_replaces_what_was_shown(client, tmp_path):
    """A model that breaks off is asked again, and its answer begins anew."""
    steps = {"~uno ": asyncio.Event(), "+dos": asyncio.Event()}
    second = ["uno ", steps["~uno "], "dos", steps["+dos"], "uno dos"]
    attempts = iter([["one ", "tw", ModelUnavailableError("gone"), ""], second])
    model = StreamingModel(turns=[lambda: next(attempts)])
    async with (
        placed(client, tmp_path, LlmAgent(name="a", model=model)) as place,
        connected(await place.server()) as agent,
    ):
        found = await shown_in_steps(agent, said("count"), steps)
    shown = [brief(one) for one in found]
    assert shown[-4:] == ["~uno ", "+dos", "uno dos", "(completed)"]
    names = {
        one.artifact_update.artifact.artifact_id for one in found if one.HasField("artifact_update")
    }
    assert len(names) == 1


async def test_the_same_message_starts_one_run(client, tmp_path):
    """However often it is sent, to any server, in its context or in the one made for it."""
    first_id, second_id = uuid.uuid4().hex, uuid.uuid4().hex
    async with place_of(client, tmp_path, "Hello.", "Again.") as place:
        servers = [await place.server(), await place.server()]
        found = []
        for http in servers:
            async with connected(http, streaming=False) as agent:
                found.append(await task_of(agent, said("hi", message_id=first_id)))
                with pytest.raises(InvalidParamsError, match="another message"):
                    await task_of(agent, said("something else", message_id=first_id))
                context = found[0].context_id
                named = [await task_of(agent, said("hi", message_id=second_id, context=context))]
                found += named
        assert await runs(place) == 2
    assert found[0] == found[2]
    assert found[1] == found[3]
    assert answers(found[0]) == ["Hello."]


async def test_a_task_that_needs_a_decision_waits_for_it(client, tmp_path):
    """Text decides nothing; data does, and the same message again pays nothing twice."""
    async with place_of(client, tmp_path, call("pay", amount=3), "Done.") as place:
        here, there = await place.server(), await place.server()
        async with connected(here) as agent, connected(there, streaming=False) as other:
            *_, last = await sent(agent, said("pay"))
            assert brief(last) == "(input-required)"
            (request,) = asked(last.status_update)
            assert (request["kind"], request["name"]) == ("confirmation", "pay")
            assert request["arguments"] == {"amount": 3}
            task = last.status_update.task_id
            with pytest.raises(InvalidParamsError, match="not by text"):
                await task_of(other, said("yes", task=task))
            again = await other.get_task(GetTaskRequest(id=task))
            assert asked(again) == [request]
            decision = said({"confirmed": True}, task=task)
            found = [brief(one) for one in await sent(agent, decision)]
            whole = [one for one in found if one != "~Done."]  # which may come too late
            assert whole == ["task (working)", "Done.", "(completed)"]
            done = await task_of(other, decision)
            with pytest.raises(UnsupportedOperationError):
                await task_of(other, said("more", task=task))
    assert (state(done), answers(done)) == ("(completed)", ["Done."])
    assert PAID == [3]


async def test_text_answers_the_only_question(client, tmp_path):
    """The tool's result is the text; the history has question and answer."""
    async with (
        place_of(client, tmp_path, call("ask", question="why"), "I see.") as place,
        connected(await place.server(), streaming=False) as agent,
    ):
        task = await task_of(agent, said("ask"))
        assert (state(task), asked(task)[0]["kind"]) == ("(input-required)", "long_running")
        done = await task_of(agent, said("because", task=task.id))
        stored = await place.sessions.read_events(await key_of(place, task))
    assert answers(done) == ["I see."]
    responses = [one for item in stored for one in item.event.get_function_responses()]
    assert {"result": "because"} in [one.response for one in responses]


async def test_a_credential_is_given_and_not_shown(client, tmp_path):
    """The task waits for it, the tool gets it, and nobody reads it from the task."""
    async with (
        placed(client, tmp_path, sender()) as place,
        connected(await place.server(), streaming=False) as agent,
    ):
        task = await task_of(agent, said("mail"))
        assert state(task) == "(auth-required)"
        (request,) = asked(task)
        with pytest.raises(InvalidParamsError, match="not by text"):
            await task_of(agent, said(SECRET, task=task.id))
        key = {"authType": "apiKey", "apiKey": SECRET}
        config = request["authConfig"] | {"exchangedAuthCredential": key}
        done = await task_of(agent, said(config, task=task.id))
        stored = await place.sessions.read_events(await key_of(place, task))
    results = [one.response for item in stored for one in item.event.get_function_responses()]
    assert {"key_length": len(SECRET)} in results
    assert (state(done), answers(done)) == ("(completed)", ["sent"])
    assert SECRET not in str(done)


async def key_of(place: Place, task):
    """The session of a task."""
    (key,) = await place.sessions.sessions_with(task.id)
    return key


async def test_of_several_calls_each_is_named(client, tmp_path):
    """Without its id an answer is refused, and nothing is answered by it."""
    both = calls(("ask", {"question": "a"}), ("ask", {"question": "b"}))
    async with (
        place_of(client, tmp_path, both, "I see.") as place,
        connected(await place.server(), streaming=False) as agent,
    ):
        task = await task_of(agent, said("ask"))
        first, second = asked(task)
        with pytest.raises(InvalidParamsError, match="callId"):
            await task_of(agent, said("x", task=task.id))
        wrong = {"callId": "none", "response": {}}
        with pytest.raises(InvalidParamsError, match="No call 'none'"):
            await task_of(agent, said(wrong, task=task.id))
        answer = {"callId": first["callId"], "response": {"n": 1}}
        half = await task_of(agent, said(answer, task=task.id))
        assert state(half) == "(input-required)"
        assert asked(half) == [second]
        last = {"callId": second["callId"], "response": {"n": 2}}
        done = await task_of(agent, said(last, task=task.id))
    assert (state(done), answers(done)[-1]) == ("(completed)", "I see.")


async def test_files_go_both_ways(client, tmp_path):
    """A file of the message reaches the model, a saved one is an artifact."""
    model = ScriptedModel(replies=[call("draw"), "Drawn."])
    async with (
        placed(client, tmp_path, LlmAgent(name="a", model=model, tools=TOOLS)) as place,
        connected(await place.server(), streaming=False) as agent,
    ):
        file = Part(raw=b"jpeg", media_type="image/jpeg", filename="b.jpg")
        link = Part(url="https://example.com/c.pdf", media_type="application/pdf")
        task = await task_of(agent, said("draw", file, link, {"size": 3}))
        stored = await place.sessions.read_events(await key_of(place, task))
    parts = stored[0].event.content.parts
    assert parts[1].inline_data == types.Blob(
        data=b"jpeg", mime_type="image/jpeg", display_name="b.jpg"
    )
    assert parts[2].file_data.file_uri == "https://example.com/c.pdf"
    assert parts[3].text == '{"size": 3}'
    drawn, answer = task.artifacts
    assert (drawn.name, drawn.parts[0].raw, drawn.parts[0].media_type) == (
        "a.png",
        b"png",
        "image/png",
    )
    assert texts(answer.parts) == "Drawn."
    assert [part.WhichOneof("content") for part in task.history[0].parts] == [
        "text",
        "raw",
        "url",
        "text",
    ]


async def test_a_cancelled_task_has_ended(client, tmp_path):
    """Its stream ends with it, and it cannot be cancelled again."""
    async with streams(client, tmp_path, ["one ", asyncio.Event(), "one "]) as place:
        http = await place.server()
        async with connected(http) as agent, connected(http) as other:
            shown = []
            async for one in sending(agent, said("count")):
                shown.append(brief(one))
                if shown[-1] == "~one ":
                    task = one.artifact_update.task_id
                    cancelled = await other.cancel_task(CancelTaskRequest(id=task))
                    assert state(cancelled) == "(canceled)"
            with pytest.raises(TaskNotCancelableError):
                await other.cancel_task(CancelTaskRequest(id=task))
            with pytest.raises(UnsupportedOperationError):
                await anext(followed(other, task))
    assert shown[-1] == "(canceled)"


async def test_a_task_is_followed_by_whoever_comes_later(client, tmp_path):
    """At another server: as it is, with the chunks so far, until it ends."""
    steps = {"~one ": asyncio.Event(), "+two": asyncio.Event()}
    turn = ["one ", steps["~one "], "two", steps["+two"], "one two"]
    async with streams(client, tmp_path, turn) as place:
        async with connected(await place.server(), streaming=False) as agent:
            task = await task_of(agent, said("count"), at_once=True)
            assert state(task) == "(working)"
        async with connected(await place.server()) as other:
            shown = []
            async for one in followed(other, task.id):
                shown.append(brief(one))
                if step := steps.get(shown[-1]):
                    step.set()
    assert shown == ["task (working)", "~one ", "+two", "one two", "(completed)"]


async def waiting(
    place: Place, agent: Client, message: Message, monkeypatch: pytest.MonkeyPatch
) -> Task:
    """Send a message that has to wait for its session, until it is known to; its task."""
    monkeypatch.setattr(operations, "_STARTED", 0.2)
    (key,) = await place.sessions.user_sessions(
        app_name="app", user_id=f"A2A_USER_{message.context_id}"
    )

    async def sent() -> Task | None:
        task = await task_of(agent, message, at_once=True)
        return task if await place.sessions.waiting(key, limit=1) else None

    return await until(sent)


async def test_a_message_waits_for_its_session(client, tmp_path, monkeypatch):
    """Its task is submitted, can be found and followed, and begins when the first has ended.

    With the header `When-Busy: reject` it is refused.
    """
    gates = [asyncio.Event(), asyncio.Event()]
    async with streams(client, tmp_path, [gates[0], "first"], [gates[1], "second"]) as place:
        http = await place.server()
        async with connected(http, streaming=False) as agent, connected(http) as other:
            first = await task_of(agent, said("one"), at_once=True)
            message = said("two", context=first.context_id)
            second = await waiting(place, agent, message, monkeypatch)
            found = await agent.get_task(GetTaskRequest(id=second.id))
            assert state(second) == state(found) == "(submitted)"
            async with connected(http, streaming=False, when_busy="reject") as hasty:
                with pytest.raises(InvalidParamsError, match="is active in this session"):
                    await task_of(hasty, said("three", context=first.context_id))
            shown = []
            async for one in followed(other, second.id):
                shown.append(brief(one))
                gates[shown[-1] == "(working)"].set()
    assert shown == ["task (submitted)", "(working)", "second", "(completed)"]


async def test_a_message_waits_for_a_worker(client, tmp_path, monkeypatch):
    """Its task is submitted, its waiting callers learn so, and a stream continues."""
    monkeypatch.setattr(temporal_backend, "WORKER_CHECK", 0.3)
    monkeypatch.setattr(temporal_backend, "FIRST_LOOK", 0.1)
    late = LlmAgent(name="a", model=ScriptedModel(replies=lambda _: "Hello."))
    async with (
        place_of(client, tmp_path) as place,
        absent_worker(place, late) as come,
        asyncio.timeout(PATIENCE),
    ):
        http = await place.server()
        async with connected(http, streaming=False) as agent, connected(http) as other:
            message = said("hi", context=uuid.uuid4().hex)
            stream = other.send_message(SendMessageRequest(message=said("hi")))
            assert brief(await anext(stream)) == "task (submitted)"
            for _ in range(2):  # the second follows the first
                assert state(await task_of(agent, message)) == "(submitted)"
            for name in ("FIRST_LOOK", "WORKER_CHECK"):  # it may be slow to come
                monkeypatch.setattr(temporal_backend, name, PATIENCE)
            await come()
            assert state(await task_of(agent, message)) == "(completed)"
            assert [brief(one) async for one in stream][-1] == "(completed)"


async def notes(place: Place, task: Task) -> list[Note]:
    """What a task that works knows of messages that steer it."""
    key = await key_of(place, task)
    return await place.sessions.read_notes(key, invocation_id=task.id, kind=NOTIFIED)


async def until_told(place: Place, task: Task) -> None:
    """Wait until a task that works knows of a message that steers it."""
    await until(lambda: notes(place, task))


async def test_a_message_steers_a_task_that_works(client, tmp_path):
    """It is delivered before the next model call, and once however often it is sent."""
    name = uuid.uuid4().hex
    async with placed(client, tmp_path, listener(name)) as place:
        http = await place.server()
        async with connected(http, streaming=False) as agent, connected(http) as other:
            task = await task_of(agent, said("one"), at_once=True)
            await until_begun(name)
            with pytest.raises(InvalidParamsError, match="no parts"):
                await task_of(agent, said(task=task.id))
            message = said("two", task=task.id)
            steering = asyncio.ensure_future(sent(other, message))
            await until_told(place, task)
            GATES[name].set()
            found = await steering
            again = await task_of(agent, message)
            with pytest.raises(UnsupportedOperationError):
                await task_of(agent, said("three", task=task.id))
        assert await runs(place) == 1
    assert brief(found[0]) == "task (working)"
    assert [brief(one) for one in found[-2:]] == ["heard two", "(completed)"]
    assert found[0].task.id == again.id == task.id
    assert [texts(one.parts) for one in again.history] == ["one", "two"]
    assert answers(again) == ["heard two"]


async def test_the_header_has_a_message_steer_the_task_that_works(client, tmp_path, monkeypatch):
    """Who sends it, streaming or not, gets that task; without one the message starts its own."""
    name = uuid.uuid4().hex
    async with placed(client, tmp_path, listener(name)) as place:
        http, steer = await place.server(), "steer"
        async with (
            connected(http, streaming=False, when_busy=steer) as agent,
            connected(http, when_busy=steer) as other,
        ):
            task = await task_of(agent, said("one"), at_once=True)
            await until_begun(name)
            messages = [said(text, context=task.context_id) for text in ("two", "three")]
            steering = asyncio.ensure_future(sent(other, messages[0]))
            await until_told(place, task)
            monkeypatch.setattr(operations, "_STARTED", 0.2)

            async def heard() -> Task | None:
                early = await task_of(agent, messages[1], at_once=True)
                return early if len(await notes(place, task)) == 2 else None

            early = await until(heard)
            assert (early.id, state(early)) == (task.id, "(working)")
            GATES[name].set()
            found = await steering
            again = [await task_of(agent, message) for message in messages]
            async with connected(http, streaming=False) as patient:  # the header is no part of it
                again.append(await task_of(patient, messages[0]))
        assert await runs(place) == 1
    assert brief(found[0]) == "task (working)"
    assert brief(found[-1]) == "(completed)"
    assert found[0].task.id == found[-1].status_update.task_id == task.id
    for one in again:
        assert (one.id, state(one)) == (task.id, "(completed)")
        assert [texts(heard.parts) for heard in one.history] == ["one", "two", "three"]


async def test_a_message_that_comes_too_late_has_a_task_of_its_own(client, tmp_path):
    """If the one that works calls no model any more; the answer and its repeat name the other."""
    gate = asyncio.Event()
    async with streams(client, tmp_path, [gate, "first"], ["second"]) as place:
        http = await place.server()
        async with connected(http, streaming=False) as agent, connected(http) as other:
            task = await task_of(agent, said("one"), at_once=True)
            message = said("two", task=task.id)
            found = []
            async for one in sending(other, message):
                found.append(one)
                if not gate.is_set():
                    await until_told(place, task)
                    gate.set()
            again = await task_of(agent, message)
    assert [brief(one) for one in found[-2:]] == ["second", "(completed)"]
    assert again.id == found[-1].status_update.task_id != task.id
    assert again.context_id == task.context_id
    assert [one.task.id for one in found if one.HasField("task")] == [task.id, again.id]
    assert answers(again) == ["second"]


async def test_tasks_are_listed_in_pages(client, tmp_path):
    """The newest first; by state and context, artifacts only on demand."""
    async with (
        place_of(client, tmp_path, *[f"{n}" for n in range(3)]) as place,
        connected(await place.server(), streaming=False) as agent,
    ):
        made = [await task_of(agent, said("hi", context="c"))]
        made += [await task_of(agent, said("hi", context="c")) for _ in range(2)]
        made.append(await task_of(agent, said("hi")))
        page = await agent.list_tasks(ListTasksRequest(page_size=3))
        rest = await agent.list_tasks(
            ListTasksRequest(page_size=3, page_token=page.next_page_token)
        )
        context = await agent.list_tasks(
            ListTasksRequest(context_id="c", include_artifacts=True, history_length=0)
        )
        failed = await agent.list_tasks(ListTasksRequest(status=TaskState.TASK_STATE_FAILED))
        with pytest.raises(InvalidParamsError):
            await agent.list_tasks(ListTasksRequest(page_token=page.tasks[0].id))
    newest = [one.id for one in reversed(made)]
    assert [one.id for one in (*page.tasks, *rest.tasks)] == newest
    assert (page.total_size, rest.next_page_token) == (4, "")
    assert not any(one.artifacts for one in page.tasks)
    assert [answers(one) for one in context.tasks] == [["2"], ["1"], ["0"]]
    assert context.total_size == 3
    assert not any(one.history for one in context.tasks)
    assert list(failed.tasks) == []


async def test_large_tasks_end_a_page_early(client, tmp_path):
    """So a page takes the server no longer than another one; all tasks are listed."""
    async with (
        place_of(client, tmp_path, *[f"{n}" for n in range(3)]) as place,
        connected(
            await place.server(settings={"max_list_bytes": 10_000}), streaming=False
        ) as agent,
    ):
        made = [(await task_of(agent, said("hi" * 3_000))).id for _ in range(3)]
        pages, token = list[list[str]](), ""
        while token or not pages:
            page = await agent.list_tasks(ListTasksRequest(page_token=token))
            pages.append([one.id for one in page.tasks])
            token = page.next_page_token
    assert pages == [[made[2], made[1]], [made[0]]]


async def test_a_task_too_large_to_be_read_is_listed(client, tmp_path):
    """By its status, beside the others: what was asked for has been done all the same."""
    async with (
        place_of(client, tmp_path, "Hello.") as place,
        connected(await place.server(settings={"max_session_bytes": 400}), streaming=False) as one,
    ):
        sent_task = await task_of(one, said("hi" * 300))
        (listed,) = (await one.list_tasks(ListTasksRequest())).tasks
        got = await one.get_task(GetTaskRequest(id=listed.id))
    assert [state(task) for task in (sent_task, listed, got)] == ["(completed)"] * 3
    assert not [*sent_task.history, *listed.history, *got.history]


async def save_files(tool_context: ToolContext) -> None:
    """Save two files."""
    for name in ("a", "b"):
        blob = types.Blob(data=bytes(20_000), mime_type="image/png")
        await tool_context.save_artifact(name, types.Part(inline_data=blob))


async def test_a_task_has_no_more_files_than_a_session_bytes(client, tmp_path):
    """Its metadata names the others, which other routes have."""
    model = ScriptedModel(replies=[call("save_files"), "Saved."])
    async with (
        placed(client, tmp_path, LlmAgent(name="a", model=model, tools=[save_files])) as place,
        connected(
            await place.server(settings={"max_session_bytes": 20_000}), streaming=False
        ) as agent,
    ):
        task = await task_of(agent, said("save"))
    assert [one.name for one in task.artifacts] == ["a", "a"]
    assert answers(task)[-1] == "Saved."
    assert list(task.metadata["adk_omitted_artifacts"]) == ["b"]


async def test_a_failed_task_says_why(client, tmp_path):
    """Its status has the error."""
    async with (
        streams(client, tmp_path, [ValueError("no such model"), ""]) as place,
        connected(await place.server(), streaming=False) as agent,
    ):
        task = await task_of(agent, said("hi"))
    assert state(task) == "(failed)"
    assert "no such model" in texts(task.status.message.parts)


@pytest.fixture
async def guarded(client, tmp_path) -> AsyncIterator[Place]:
    """A place whose servers ask who one is."""
    async with place_of(client, tmp_path, call("ask", question="secret"), "Done.") as place:
        yield place


def test_a_task_of_a_deleted_context_does_not_exist():
    """Also for a caller that has waited for it; InternalError would blame the server."""
    with pytest.raises(TaskNotFoundError, match="was deleted"), operations._reported():
        raise LeaseLostError("The session 's' was deleted.")


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
async def test_another_users_tasks_do_not_exist(guarded, binding):
    """Not to be read, listed, followed, cancelled or answered; an operator sees them."""
    known = settings_for().model_dump(include={"tokens", "operators"})
    known["tokens"].append({"user": "bob", "sha256": digest(BOB)})
    http = await guarded.server(apps=["app"], settings=known)
    async with connected(http, streaming=False, token=TOKEN) as alice:
        task = await task_of(alice, said("hi"))
        key = await key_of(guarded, task)
    async with (
        connected(http, streaming=False, token=BOB, binding=binding) as bob,
        connected(http, token=BOB, binding=binding) as follower,
    ):
        own = await task_of(bob, said("hi", context=task.context_id))
        for refused in (
            bob.get_task(GetTaskRequest(id=task.id)),
            bob.cancel_task(CancelTaskRequest(id=task.id)),
            task_of(bob, said("because", task=task.id)),
            anext(followed(follower, task.id)),
        ):
            with pytest.raises(TaskNotFoundError):
                await refused
        listed = await bob.list_tasks(ListTasksRequest())
    # Another protocol would let bob choose the id, and the operator could name no context.
    taken = event(f"{task.id}.0", task.id, timestamp=time.time())
    await opened(guarded.sessions, key._replace(user_id="bob"), task.id, user_event=taken)
    async with connected(http, streaming=False, token=OTHER) as olga:
        seen = await olga.list_tasks(ListTasksRequest())
        found = await olga.get_task(GetTaskRequest(id=task.id))
    assert key.user_id == "alice"
    assert own.id != task.id
    assert [one.id for one in listed.tasks] == [own.id]
    assert {one.id for one in seen.tasks} == {own.id, task.id}
    assert found.context_id == task.context_id
    assert state(found) == "(input-required)"


async def test_a_card_says_what_there_is(client, tmp_path):
    """To all how to authenticate, to those who have a token also the tools."""
    model = ScriptedModel(replies=["Hello."])
    helper = LlmAgent(name="helper", description="Helps.", model=model)
    agent = LlmAgent(name="a", description="Pays.", model=model, tools=TOOLS, sub_agents=[helper])
    app = App(name="app", root_agent=agent)
    async with placed(client, tmp_path, app) as place:
        known = settings_for().model_dump(include={"tokens", "operators"})
        http = await place.server(apps=[app], settings=known)
        card = (await http.get("/a2a/app/.well-known/agent-card.json")).json()
        missing = await http.get("/a2a/other/.well-known/agent-card.json")
        async with connected(http, token=TOKEN) as alice:
            whole = await alice.get_extended_agent_card(GetExtendedAgentCardRequest())
    assert missing.status_code == 404
    assert (card["name"], card["description"]) == ("app", "Pays.")
    assert card["capabilities"]["streaming"]
    assert [one["name"] for one in card["skills"]] == ["a"]
    assert card["supportedInterfaces"][0]["url"] == f"{http.base_url}/a2a/app"
    assert "bearer" in card["securitySchemes"]
    assert [one.name for one in whole.skills] == ["a", "pay", "ask", "draw", "helper"]


async def rpc(http, method: str, version: str = "1.0", **params):
    """What JSON-RPC answers, by hand."""
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
    response = await http.post("/a2a/app", json=body, headers={"A2A-Version": version})
    assert response.status_code == 200
    return response.json()


async def test_errors_have_the_codes_of_the_protocol(client, tmp_path):
    """Whatever is wrong: with the task, the message, the method or the version."""
    empty = {"messageId": "m", "role": "ROLE_USER", "parts": []}
    hooked = {
        "message": empty | {"parts": [{"text": "hi"}]},
        "configuration": {"taskPushNotificationConfig": {"url": "http://127.0.0.1/"}},
    }
    cases = [
        (-32001, "GetTask", {"id": "none"}),
        (-32001, "CancelTask", {"id": "none"}),
        (-32602, "GetTask", {"id": " "}),
        (-32602, "SendMessage", {"message": empty}),
        (-32602, "SendMessage", {"message": empty | {"messageId": "m" * 200}}),
        (-32602, "SendStreamingMessage", {"message": empty}),
        (-32602, "ListTasks", {"pageSize": 1000}),
        (-32602, "SendMessage", hooked),
        (-32001, "CreateTaskPushNotificationConfig", {"taskId": "t", "url": "http://x/"}),
        (-32601, "NoSuchMethod", {}),
    ]
    async with place_of(client, tmp_path, "Hello.") as place:
        http = await place.server()
        found = [(await rpc(http, method, **params))["error"] for _, method, params in cases]
        old = (await rpc(http, "GetTask", version="2.0", id="none"))["error"]
        assert await runs(place) == 0
    assert [one["code"] for one in found] == [code for code, *_ in cases]
    assert old["code"] == -32009


def test_all_methods_of_the_version_before_are_checked():
    """Those that the library answers, by the requests that it reads them as."""
    assert {name: one for name, (one, _) in _V03.items()} == JSONRPC03Adapter.METHOD_TO_MODEL


_SAID = {"messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "hi"}]}
_HUGE = 10**400


@pytest.mark.parametrize(
    ("method", "params", "place"),
    [
        ("message/send", {"message": _SAID | {"parts": ["word"] * 4_000}}, "problems|parts"),
        ("message/send", {"message": _SAID | {"taskId": "\ud800"}}, "taskId"),
        ("message/stream", {"message": _SAID | {"taskId": "\ud800"}}, "taskId"),
        (
            "message/send",
            {"message": _SAID, "configuration": {"historyLength": 10**30}},
            "out of range",
        ),
        ("tasks/get", {"id": "t", "historyLength": 10**12}, "out of range"),
        ("message/send", {"message": _SAID | {"metadata": {"a": _HUGE}}}, "out of range|digits"),
        (
            "message/stream",
            {"message": _SAID | {"parts": [{"kind": "data", "data": {"a": _HUGE}}]}},
            "out of range|digits",
        ),
        (
            "message/send",
            {"message": _SAID | {"parts": [{"kind": "file", "file": {"bytes": "YQ"}}]}},
            "base64",
        ),
        ("tasks/cancel", {"id": 7}, "params.id"),
        ("tasks/get", {"id": "t", "metadata": {"k" * 90_000: "\0"}}, "metadata"),
        ("tasks/resubscribe", {"id": "\udfff"}, "id"),
        ("tasks/pushNotificationConfig/set", {"taskId": []}, "taskId"),
        ("tasks/pushNotificationConfig/list", "word", "params"),
    ],
)
async def test_a_malformed_request_of_the_version_before_is_not_quoted(
    client, tmp_path, method, params, place
):
    """What is wrong is named, in a few words, and is the sender's fault."""
    async with place_of(client, tmp_path, "Hello.") as served:
        http = await served.server()
        sent = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
        response = await http.post(
            "/a2a/app",
            content=json.dumps(sent),
            headers={"A2A-Version": "0.3", "content-type": "application/json"},
        )
        assert await runs(served) == 0
    found = response.json()
    assert (found["id"], found["error"]["code"]) == (7, -32602)
    assert re.search(place, found["error"]["message"])
    assert "word" not in response.text
    assert len(response.text) < 2_000


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
@pytest.mark.parametrize("parts", ["word" * 10_000, {"word" * 10_000: 1}, "\ud800"])
async def test_a_malformed_request_is_not_quoted_at_length(client, tmp_path, binding, parts):
    """The library quotes a value of the wrong type whole; the error keeps its beginning."""
    params = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": parts}}
    sent = {"jsonrpc": "2.0", "id": 7, "method": "SendMessage", "params": params}
    is_rpc = binding == "JSONRPC"
    async with place_of(client, tmp_path, "Hello.") as served:
        http = await served.server()
        response = await http.post(
            "/a2a/app" if is_rpc else "/a2a/app/message:send",
            content=json.dumps(sent if is_rpc else params),
            headers={"A2A-Version": "1.0", "content-type": "application/json"},
        )
        assert await runs(served) == 0
    assert response.status_code == (200 if is_rpc else 400)
    assert len(response.text) < 2_000
    assert response.json()["error"]["code"] == (-32602 if is_rpc else 400)


async def test_clients_of_the_version_before_are_answered(client, tmp_path):
    """0.3 names methods and parts otherwise."""
    message = {
        "messageId": uuid.uuid4().hex,
        "role": "user",
        "parts": [{"kind": "text", "text": "hi"}],
    }
    async with place_of(client, tmp_path, "Hello.") as place:
        http = await place.server()
        sent_task = (await rpc(http, "message/send", "0.3", message=message))["result"]
        got = (await rpc(http, "tasks/get", "0.3", id=sent_task["id"]))["result"]
    assert sent_task == got
    assert got["status"]["state"] == "completed"
    assert got["artifacts"][0]["parts"] == [{"kind": "text", "text": "Hello."}]


async def test_a_server_that_stops_ends_no_task(client, tmp_path, monkeypatch):
    """A waiting caller has to ask again, and a stream ends; another server has the rest."""
    monkeypatch.setattr(Reading.first, "__defaults__", (PATIENCE,))
    gate, settings = asyncio.Event(), {"drain_seconds": PATIENCE}
    async with streams(client, tmp_path, ["one ", gate, "one"]) as place:
        first, second = [await place.server(settings=settings) for _ in range(2)]
        async with connected(first) as agent, connected(first, streaming=False) as waiting:
            message, shown = said("count"), []
            async for one in sending(agent, message):
                shown.append(brief(one))
                if shown[-1] == "~one ":
                    blocked = asyncio.ensure_future(task_of(waiting, message))
                    await until(lambda: len(reading()) == 2)  # the stream, and who waits
                    place.stop(first)
            with pytest.raises(InternalError, match="Ask for it again"):
                await blocked
        gate.set()
        async with connected(second, streaming=False) as agent:
            task = await task_of(agent, message)
    assert shown == ["task (working)", "~one "]
    assert (state(task), answers(task)) == ("(completed)", ["one"])


async def test_a_waiting_message_can_be_cancelled(client, tmp_path, monkeypatch):
    """It never begins, and the one before it continues."""
    gate = asyncio.Event()
    async with (
        streams(client, tmp_path, [gate, "first"], ["third"]) as place,
        connected(await place.server(), streaming=False) as agent,
    ):
        first = await task_of(agent, said("one"), at_once=True)
        message = said("two", context=first.context_id)
        second = await waiting(place, agent, message, monkeypatch)
        cancelled = await agent.cancel_task(CancelTaskRequest(id=second.id))
        gate.set()
        done = await task_of(agent, said("three", context=first.context_id))
        assert await runs(place) == 2
    assert state(cancelled) == "(canceled)"
    assert state(done) == "(completed)"


async def test_the_binding_without_rpc_does_the_same(client, tmp_path):
    """HTTP+JSON: streams, tasks, lists, cancelling and errors."""
    steps = {"~one ": asyncio.Event(), "+two": asyncio.Event()}
    turn = ["one ", steps["~one "], "two", steps["+two"], "one two"]
    async with (
        streams(client, tmp_path, turn, [asyncio.Event(), ""]) as place,
        connected(await place.server(), binding="HTTP+JSON") as agent,
    ):
        found = await shown_in_steps(agent, said("count"), steps)
        task = found[0].task
        got = await agent.get_task(GetTaskRequest(id=task.id))
        last = said("more", context=task.context_id)
        async for one in sending(agent, last):
            name = one.task.id
            break
        cancelled = await agent.cancel_task(CancelTaskRequest(id=name))
        listed = await agent.list_tasks(ListTasksRequest())
        with pytest.raises(TaskNotFoundError):
            await agent.get_task(GetTaskRequest(id="none"))
    shown = ["~one ", "+two", "one two", "(completed)"]
    assert [brief(one) for one in found][-4:] == shown  # it may be submitted before it works
    assert answers(got) == ["one two"]
    assert state(cancelled) == "(canceled)"
    assert [one.id for one in listed.tasks] == [name, task.id]
