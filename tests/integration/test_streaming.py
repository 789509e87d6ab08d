"""Answers that are shown while they are written (FLW-70 to FLW-77, D8)."""

import asyncio
import json
import re
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from google.genai import types
from pydantic import SecretStr
from temporalio.client import Client

from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.client import workflow_id
from durable_adk.embedded.process import Process
from durable_adk.errors import ModelError, ModelUnavailableError
from durable_adk.events import Event
from durable_adk.models import Gemini, LlmResponse, ScriptedModel
from durable_adk.partials import LiveText
from durable_adk.plugins import BasePlugin
from durable_adk.runners import Runner
from durable_adk.sessions import SessionKey, SqliteSessionService
from durable_adk.settings import Limits
from durable_adk.tools.agent_tool import AgentTool
from durable_adk.tools.long_running_tool import LongRunningFunctionTool
from durable_adk.wire.run_config import RunConfig, StreamingMode
from durable_adk.worker import WorkerOptions, worker
from tests.conftest import MakeRunner
from tests.stubs.gemini_stub import GeminiStub, answer
from tests.support.commands import EXAMPLE, Terminal
from tests.support.scripts import USER, ensure_session, send, shape, state, stored
from tests.support.streams import StreamingModel, a_call, brief, place, thought
from tests.support.waiting import PATIENCE, until

ROOT = Path(__file__).parents[2]
KEY = SessionKey("app", "u", "s")
SSE = RunConfig(streaming_mode=StreamingMode.SSE)
CALLS = [a_call("look", at="a"), a_call("look", at="b")]
TWO_TURNS = (
    (
        [thought("Which "), thought("one?"), "Let me ", "look.", *CALLS, "So."],
        [thought("Which one?"), types.Part(text="Let me look."), *CALLS, types.Part(text="So.")],
    ),
    (["It is ", "Paris."], "It is Paris."),
)
"""A turn with thoughts, text and calls, then one with text: chunks and whole of each."""


def look(at: str) -> str:
    """Look somewhere."""
    return f"seen {at}"


def streaming(*turns: Any, **fields: Any) -> LlmAgent:
    """An agent whose model streams; each turn is a list of chunks and the whole."""
    model = StreamingModel(turns=[[*chunks, whole] for chunks, whole in turns])
    return LlmAgent(name=fields.pop("name", "a"), model=model, **fields)


async def stream(runner: Runner, message: Any = "hello", **options: Any) -> list[Event]:
    """All that a viewer sees."""
    return await send(runner, message, **{"run_config": SSE, **options})


def new_id() -> str:
    """An invocation's id that no other test has."""
    return f"e-{uuid.uuid4().hex}"


def without_call_ids(text: str) -> str:
    """The text with each derived call id replaced by its rank: they are hashes of event ids."""
    ids = list(dict.fromkeys(re.findall(r"adk-[0-9a-f-]{36}", text)))
    for rank, one in enumerate(ids):
        text = text.replace(one, f"<{rank}>")
    return text


def whole(events: list[Event]) -> list[Event]:
    """The events that count."""
    return [event for event in events if not event.partial]


def chunks(events: list[Event]) -> list[Event]:
    """The others."""
    return [event for event in events if event.partial]


async def test_text_comes_word_by_word_and_then_whole(make_runner: MakeRunner) -> None:
    """FLW-70 to 72, FLW-74: chunks under the id of their event, which has all of their text."""
    model = ScriptedModel(replies=["It is Paris, of course."], chunk_delay=0.005)
    runner = await make_runner(LlmAgent(name="a", model=model))
    events = await stream(runner)
    assert [brief(event) for event in events] == [
        *("~It", "~ is", "~ Paris,", "~ of", "~ course."),
        "It is Paris, of course.",
    ]
    assert [place(event) for event in chunks(events)] == [(1, n) for n in range(5)]
    fields = {(event.id, event.invocation_id, event.author) for event in events}
    assert len(fields) == 1
    live = LiveText()
    shown = [live.feed(event) for event in events]
    assert shown[:2] == ["It", "It is"]
    assert shown[-2:] == ["It is Paris, of course."] * 2


async def test_thoughts_texts_and_calls_keep_their_order(make_runner: MakeRunner) -> None:
    """FLW-73, TRAP-5: each turn's chunks, its whole, then what comes of it; chunks run nothing."""
    seen: list[str] = []

    def look(at: str) -> str:
        """Look somewhere."""
        seen.append(at)
        return "seen"

    runner = await make_runner(streaming(*TWO_TURNS, tools=[look]))
    events = await stream(runner)
    assert [brief(event) for event in events] == [
        *("~(Which )", "~(one?)", "~Let me ", "~look.", "~look?", "~look?", "~So."),
        "(Which one?) Let me look. look? look? So.",
        "look! look!",
        *("~It is ", "~Paris."),
        "It is Paris.",
    ]
    assert sorted(seen) == ["a", "b"]


async def test_call_ids_are_the_same_in_chunks_and_whole(make_runner: MakeRunner) -> None:
    """FLW-74, F15: also of calls that the provider gave no id, or one id to two of them."""
    twice = [types.Part(function_call=types.FunctionCall(id="x", name="look", args={"at": "c"}))]
    said = [a_call("look", at="a"), [a_call("look", at="b"), *twice, *twice]]
    flat = [a_call("look", at="a"), a_call("look", at="b"), *twice, *twice]
    runner = await make_runner(streaming((said, flat), (["ok"], "ok"), tools=[look]))
    events = await stream(runner)
    first = events[2]
    ids = [one.id for event in events[:2] for one in event.get_function_calls()]
    assert ids == [one.id for one in first.get_function_calls()]
    assert len(set(ids)) == 4
    assert ids == [one.id for one in events[3].get_function_responses()]


async def test_what_is_stored_is_what_a_run_without_streaming_stores(
    make_runner: MakeRunner,
) -> None:
    """FLW-72: events and state are equal; watching changes nothing."""
    kept: list[str] = []
    for config in (SSE, RunConfig()):
        agent, name = streaming(*TWO_TURNS, tools=[look], output_key="said"), new_id()
        runner = await make_runner(agent)
        events = await send(runner, run_config=config, invocation_id=name)
        log = [shape(event) for event in await stored(runner)]
        assert [shape(event) for event in whole(events)] == log[1:]
        assert bool(chunks(events)) == (config is SSE)
        assert agent.model.asked == [config is SSE] * 2  # type: ignore[union-attr]
        # Ids are derived from the invocation's, so they are equal but for that.
        kept.append(json.dumps([log, await state(runner)]).replace(name, "e-1"))
    assert without_call_ids(kept[0]) == without_call_ids(kept[1])


async def test_no_chunk_is_kept_anywhere(make_runner: MakeRunner, client: Client) -> None:
    """DUR-8: neither in the store's events, nor in its file, nor in Temporal's history."""
    runner, name = await make_runner(streaming((["half-", "baked"], "done"))), new_id()
    events = await stream(runner, invocation_id=name)
    assert [brief(event) for event in events] == ["~half-", "~baked", "done"]
    assert [event.text for event in await stored(runner)] == ["hello", "done"]
    if isinstance(runner.session_service, SqliteSessionService):
        file = runner.session_service.file
        assert file is not None
        handle = client.get_workflow_handle(workflow_id(KEY, name))
        await handle.result()  # the store knows of the end before the history does
        history = await handle.fetch_history()
        recorded = b"".join(event.SerializeToString() for event in history.events)
        kept = b"".join(one.read_bytes() for one in file.parent.glob(f"{file.name}*"))
        for data in (recorded, kept):
            assert b"done" in data
            assert b"half-" not in data
            assert b"baked" not in data


async def test_callbacks_see_every_chunk(make_runner: MakeRunner) -> None:
    """FLW-75, FLW-77, TRAP-4: they change what is shown; what they write rides on the whole."""

    def shout(callback_context: Any, llm_response: LlmResponse) -> LlmResponse | None:
        seen = callback_context.state.get("seen", [])
        callback_context.state["seen"] = [*seen, bool(llm_response.partial)]
        parts = llm_response.content.parts if llm_response.content else None
        if not llm_response.partial or not parts:
            return None
        loud = types.Part(text=(parts[0].text or "").upper())
        return LlmResponse(content=types.Content(role="model", parts=[loud]))

    agent = streaming((["a ", "b"], "a b"), after_model_callback=shout)
    runner = await make_runner(agent)
    events = await stream(runner)
    assert [brief(event) for event in events] == ["~A ", "~B", "a b"]
    assert [event.actions.state_delta for event in events] == [{}, {}, {"seen": [1, 1, 0]}]
    assert await state(runner) == {"seen": [True, True, False]}


async def test_a_callback_that_fails_at_a_chunk_fails_the_run(make_runner: MakeRunner) -> None:
    """CB-12, TRAP-49: once, and the error hook, which is for the model's errors, is not called."""
    asked: list[str] = []

    def refuse(callback_context: Any, llm_response: LlmResponse) -> None:
        asked.append("refuse")
        raise ValueError("not this")

    def recover(callback_context: Any, llm_request: Any, error: Exception) -> LlmResponse:
        asked.append("recover")
        return LlmResponse(content=types.Content(parts=[types.Part(text="recovered")]))

    agent = streaming(
        (["a ", "b"], "a b"), after_model_callback=refuse, on_model_error_callback=recover
    )
    runner = await make_runner(agent)
    with pytest.raises(ValueError, match="not this"):
        await stream(runner)
    assert asked == ["refuse"]


async def test_slow_callbacks_do_not_use_up_the_model_s_time(make_runner: MakeRunner) -> None:
    """A model that answers in time is not asked again because somebody looks long at its chunks."""

    async def dawdle(callback_context: Any, llm_response: LlmResponse) -> None:
        loop = asyncio.get_running_loop()  # of the step, with the clock of its timeouts
        time = loop.time
        loop.time = lambda: time() + 60

    agent = streaming((["a", "b", "c"], "abc"), after_model_callback=dawdle)
    runner = await make_runner(agent, limits=Limits(model_timeout=100, callback_timeout=1000))
    events = await stream(runner)
    assert [brief(event) for event in events] == ["~a", "~b", "~c", "abc"]
    assert agent.model.asked == [True]  # type: ignore[union-attr]


class Censor(BasePlugin):
    """Hides a name in whatever a viewer sees, and notes what it was shown."""

    async def on_event_callback(self, *, invocation_context: Any, event: Event) -> Event | None:
        """Replace the text."""
        count = invocation_context.state.get("events", 0)
        invocation_context.state["events"] = count + 1
        if "Bob" not in event.text:
            return None
        text = event.text.replace("Bob", "***")
        return Event(content=types.Content(role="model", parts=[types.Part(text=text)]))


async def test_plugins_see_every_chunk(make_runner: MakeRunner) -> None:
    """PLG-6: what a plugin hides in the stored event was not shown before."""
    runner = await make_runner(
        streaming((["I am ", "Bob."], "I am Bob.")), plugins=[Censor(name="censor")]
    )
    events = await stream(runner)
    assert [brief(event) for event in events] == ["~I am ", "~***.", "I am ***."]
    assert [bool(event.actions.state_delta) for event in events] == [False, False, True]


async def test_metadata_of_the_run_is_on_chunks_too(make_runner: MakeRunner) -> None:
    """RUN-27: as on every event, beside the chunk's own place."""
    config = SSE.model_copy(update={"custom_metadata": {"tenant": 7}})
    runner = await make_runner(streaming((["a"], "a")))
    first, last = await stream(runner, run_config=config)
    assert first.custom_metadata == {"tenant": 7, "partial": {"attempt": 1, "index": 0}}
    assert last.custom_metadata == {"tenant": 7}


async def test_a_failed_attempt_is_told_from_the_next(make_runner: MakeRunner) -> None:
    """TRAP-6: the text of the new attempt takes the place of the old one's, and is stored once."""
    attempts = iter(
        [
            ["It was ", "Lon", ModelUnavailableError("gone", retry_after=0), "never"],
            ["It is ", "Paris.", "It is Paris."],
        ]
    )
    model = StreamingModel(turns=[lambda: next(attempts)])
    runner = await make_runner(LlmAgent(name="a", model=model))
    live, shown = LiveText(), []
    events = await stream(runner)
    for event in events:
        live.feed(event)
        shown.append((live.text, live.whole))
    assert shown == [
        ("It was ", False),
        ("It was Lon", False),
        ("It is ", False),
        ("It is Paris.", False),
        ("It is Paris.", True),
    ]
    assert [place(event) for event in chunks(events)] == [(1, 0), (1, 1), (2, 0), (2, 1)]
    assert len(await stored(runner)) == 2


async def test_a_model_that_breaks_off_fails_as_without_streaming(make_runner: MakeRunner) -> None:
    """RUN-8: chunks do not make an answer; the error event replaces it."""
    runner = await make_runner(streaming((["It is ", ModelError("no more")], "never")))
    seen: list[Event] = []
    await ensure_session(runner)
    with pytest.raises(ModelError, match="no more"):  # noqa: PT012 - what was yielded before counts
        async for event in runner.run_async(**USER, new_message="hello", run_config=SSE):
            seen.append(event)  # noqa: PERF401 - to be kept when the run fails
    assert [brief(event) for event in seen] == ["~It is ", ""]
    assert seen[1].error_code
    assert [event.text for event in await stored(runner)] == ["hello", ""]


async def test_an_answer_of_a_callback_has_no_chunks(make_runner: MakeRunner) -> None:
    """TRAP-35: before_model's answer is one whole event."""

    def instead(callback_context: Any, llm_request: Any) -> LlmResponse:
        return LlmResponse(content=types.Content(parts=[types.Part(text="from the cache")]))

    runner = await make_runner(streaming((["a"], "a"), before_model_callback=instead))
    assert [brief(event) for event in await stream(runner)] == ["from the cache"]


async def test_nobody_watches_an_agent_that_is_a_tool(make_runner: MakeRunner) -> None:
    """TOL-21: its run goes without chunks, its caller's has them."""
    child = streaming((["forty-", "two"], "forty-two"), name="expert", description="knows it")
    asks = (
        ["Hm. ", a_call("expert", request="?")],
        [types.Part(text="Hm. "), a_call("expert", request="?")],
    )
    root = streaming(asks, (["so ", "be it"], "so be it"), name="root", tools=[AgentTool(child)])
    runner = await make_runner(root)
    events = await stream(runner)
    assert [brief(event) for event in events] == [
        *("~Hm. ", "~expert?"),
        "Hm.  expert?",
        "expert!",
        *("~so ", "~be it"),
        "so be it",
    ]
    assert child.model.asked == [False]  # type: ignore[union-attr]


async def test_the_message_comes_first_if_it_is_wanted(make_runner: MakeRunner) -> None:
    """RUN-19: the user's own event, before any chunk of what answers it."""
    runner = await make_runner(streaming((["a"], "a")))
    events = await stream(runner, yield_user_message=True)
    assert [brief(event) for event in events] == ["hello", "~a", "a"]


async def test_answers_are_streamed_too(make_runner: MakeRunner) -> None:
    """D9: what a paused invocation says after the answer comes in chunks as well."""

    def order(item: str) -> None:
        """Order something; the shop answers later."""

    agent = streaming(
        ([a_call("order", item="book")], a_call("order", item="book")),
        (["It has ", "come."], "It has come."),
        tools=[LongRunningFunctionTool(order)],
    )
    runner = await make_runner(agent)
    events = await stream(runner)
    assert [brief(event) for event in events] == ["~order?", "order?"]
    (pending,) = await runner.pending(**USER)
    given = types.FunctionResponse(id=pending.call_id, name="order", response={"came": True})
    message = types.Content(role="user", parts=[types.Part(function_response=given)])
    later = [event async for event in runner.run_async(**USER, new_message=message)]
    assert [brief(event) for event in later] == ["~It has ", "~come.", "It has come."]


async def test_a_sync_caller_sees_chunks(make_runner: MakeRunner) -> None:
    """RUN-28: `Runner.run` yields what `run_async` does."""
    runner = await make_runner(streaming((["a ", "b"], "a b")))
    await ensure_session(runner)

    def watch() -> list[str]:
        return [brief(event) for event in runner.run(**USER, new_message="hi", run_config=SSE)]

    assert await asyncio.to_thread(watch) == ["~a ", "~b", "a b"]


class Gate:
    """A model's first turn stops before its second half until the gate is opened."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.agent = streaming((["It ", self.open, "is ", "Paris."], "It is Paris."))


async def test_a_viewer_that_leaves_loses_nothing(make_runner: MakeRunner) -> None:
    """DUR-13: it left amid a text; the run continues, and who attaches gets all that counts."""
    gate = Gate()
    runner, name = await make_runner(gate.agent), new_id()
    await ensure_session(runner)
    events = runner.run_async(
        **USER, new_message="hello", run_config=SSE, invocation_id=name, yield_user_message=True
    )
    async with aclosing(events):
        seen = [brief(await anext(events)) for _ in range(2)]
    assert seen == ["hello", "~It "]
    gate.open.set()
    again = [event async for event in runner.run_async(**USER, invocation_id=name)]
    assert [brief(event) for event in whole(again)] == ["It is Paris."]
    assert [event.text for event in await stored(runner)] == ["hello", "It is Paris."]


async def test_who_comes_amid_a_text_gets_it_from_the_first_word(make_runner: MakeRunner) -> None:
    """D8: a second viewer sees the same committed events, and the chunks that came before it."""
    gate = Gate()
    runner, name = await make_runner(gate.agent), new_id()
    await ensure_session(runner)
    events = runner.run_async(**USER, new_message="hello", run_config=SSE, invocation_id=name)
    async with aclosing(events):
        first = [brief(await anext(events))]
        late = runner.run_async(**USER, invocation_id=name, yield_user_message=True)
        async with aclosing(late):
            second = [brief(await anext(late))]
            gate.open.set()
            second += [brief(event) async for event in late]
        first += [brief(event) async for event in events]
    assert first == ["~It ", "~is ", "~Paris.", "It is Paris."]
    assert second == ["hello", *first]


@pytest.mark.thorough
async def test_a_viewer_in_another_process_sees_the_chunks(
    client: Client, sessions: SqliteSessionService, tmp_path: Path
) -> None:
    """D8: whoever knows the store's file and the invocation's id can watch it."""
    gate = asyncio.Event()
    agent = streaming(([gate, "It ", "is ", "Paris."], "It is Paris."))
    queue, name = f"test-{uuid.uuid4().hex}", new_id()
    address = client.service_client.config.target_host
    command = [sys.executable, "-m", "tests.support.viewer_main", address, queue]
    command += [str(sessions.file), name]
    app, log = App(name="app", root_agent=agent), tmp_path / "viewer.log"
    options = WorkerOptions(task_queue=queue)
    async with (
        worker(client, apps=[app], session_service=sessions, options=options),
        Runner(app=app, session_service=sessions, client=client, task_queue=queue) as runner,
    ):
        mine = asyncio.create_task(stream(runner, invocation_id=name))
        async with await Process.start(command, log=log, cwd=ROOT) as viewer:
            await until(lambda: "hello" in log.read_text())  # it watches, so it has subscribed
            gate.set()
            assert await viewer.wait() == 0, log.read_text()
        theirs = [Event.model_validate_json(line) for line in log.read_text().splitlines()]
        assert [brief(event) for event in theirs[1:]] == ["~It ", "~is ", "~Paris.", "It is Paris."]
        assert [shape(event) for event in theirs[1:]] == [shape(event) for event in await mine]


# --- Gemini, through its own client -----------------------------------------------------------


@pytest.fixture
async def gemini_stub() -> AsyncIterator[GeminiStub]:
    """A scripted Gemini."""
    stub = GeminiStub()
    await stub.start()
    yield stub
    await stub.close()


def said(*parts: dict[str, Any], **candidate: Any) -> dict[str, Any]:
    """One server-sent event of Gemini's."""
    return answer(content={"role": "model", "parts": list(parts)}, **candidate)


async def test_gemini_streams(make_runner: MakeRunner, gemini_stub: GeminiStub) -> None:
    """FLW-72 to 74: thoughts, text and a call without an id, over two turns, one attempt cut."""
    hidden = {"text": "Where to?", "thought": True}
    calls = {"functionCall": {"name": "look", "args": {"at": "a"}}}
    looks = said(calls, finishReason="STOP")
    gemini_stub.script = [
        {"chunks": [said({"text": "Well, "})], "cut": "reset"},
        {"chunks": [*map(said, (hidden, {"text": "Let me "}, {"text": "see."})), looks]},
        {"chunks": [said({"text": "It is "}), said({"text": "there."}, finishReason="STOP")]},
    ]
    model = Gemini(base_url=gemini_stub.url, api_key=SecretStr("key"), timeout=PATIENCE)
    runner = await make_runner(LlmAgent(name="a", model=model, tools=[look]))
    events = await stream(runner)
    assert [brief(event) for event in events] == [
        *("~Well, ", "~(Where to?)", "~Let me ", "~see.", "~look?"),
        "(Where to?) Let me see. look?",
        "look!",
        *("~It is ", "~there."),
        "It is there.",
    ]
    assert [place(event)[0] for event in chunks(events)] == [1, 2, 2, 2, 2, 1, 1]
    ids = {one.id for event in events for one in event.get_function_calls()}
    assert len(ids) == 1
    assert events[-1].usage_metadata is not None
    assert {"streamGenerateContent" in request["path"] for request in gemini_stub.requests} == {
        True
    }


# --- the command line -------------------------------------------------------------------------


@pytest.mark.thorough
def test_the_command_line_streams(tmp_path: Path) -> None:
    """`run --stream` shows the chunks of the worker that it starts."""
    terminal = Terminal(tmp_path)
    try:
        done = terminal.run("run", EXAMPLE, "What is the capital of France?", "--stream", "--json")
    finally:
        terminal.close()
    assert done.returncode == 0, done.stderr
    events = [Event.model_validate_json(line) for line in done.stdout.splitlines()]
    assert {event.id for event in chunks(events)} <= {event.id for event in whole(events)}
    assert chunks(events)
