"""What operators see of a run: spans, metrics and log lines (D17, I19, S8)."""

import asyncio
import logging
import threading
import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from google.genai import types
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from temporalio import activity
from temporalio.client import Client

from durable_adk import failpoints
from durable_adk.agents import LlmAgent, SequentialAgent
from durable_adk.errors import InvocationTerminatedError, ModelUnavailableError
from durable_adk.models import LlmResponse, ScriptedModel
from durable_adk.runners import Runner
from durable_adk.sessions import SessionKey
from durable_adk.settings import Limits
from durable_adk.telemetry import redact_with
from durable_adk.telemetry.content import VARIABLE
from durable_adk.telemetry.identity import TraceIdentity
from durable_adk.tools import ActivityTool, AgentTool, FunctionTool
from durable_adk.tools.tool_context import ToolContext
from durable_adk.wire.messages import workflow_id
from tests.conftest import MakeRunner
from tests.support.gates import until_set
from tests.support.scripts import USER, call, send
from tests.support.telemetry import Seen, Watched, points, reader, tree, watched
from tests.support.waiting import forever, until

KEY = SessionKey("app", "u", "s")
SECRET = "swordfish-4711"  # noqa: S105 - the canary
RUN = "run app"
CHAT = ["chat scripted"]


@pytest.fixture
def spans() -> Iterator[Watched]:
    """The spans of this process."""
    with watched() as seen:
        yield seen


def weather(city: str) -> str:
    """The weather somewhere."""
    return f"fine in {city}"


def reporter(name: str = "reporter", **fields: Any) -> LlmAgent:
    """Asks for the weather, then says something, and counts its tokens."""
    said = LlmResponse(
        content=types.Content(role="model", parts=[types.Part(text="It is fine.")]),
        model_version="scripted-001",
        finish_reason=types.FinishReason.STOP,
        usage_metadata=types.GenerateContentResponseUsageMetadata(
            prompt_token_count=11, candidates_token_count=7, total_token_count=18
        ),
    )
    model = ScriptedModel(replies=[call("weather", city="Rome"), said])
    return LlmAgent(name=name, model=model, tools=[weather], **fields)


async def ended(spans: Watched, roots: int = 1) -> list[Seen]:
    """All spans, once those of so many invocations are there: they come after the last event."""
    await until(lambda: sum("durable_adk.status" in s.attributes for s in spans.spans()) >= roots)
    return spans.spans()


def named(spans: list[Seen], name: str) -> list[Seen]:
    """Those of a name."""
    return [span for span in spans if span.name == name]


async def test_a_turn_is_one_trace_with_one_span_for_each_step(
    make_runner: MakeRunner, spans: Watched
) -> None:
    """D17: the tree is that of the turn, also where the workflow is replayed at every task."""
    runner = await make_runner(reporter())
    await send(runner)
    seen = await ended(spans)
    below = [CHAT, ["execute_tool weather"], CHAT]
    assert tree(seen) == [[RUN, ["invoke_agent reporter", *below]]]
    assert len({span.trace for span in seen}) == 1
    assert not any(span.error for span in seen)


async def test_spans_say_what_the_conventions_ask_for(
    make_runner: MakeRunner, spans: Watched
) -> None:
    """D17: attributes of the GenAI conventions, the step's own, and nothing else (S8)."""
    runner = await make_runner(reporter())
    events = await send(runner)
    seen = await ended(spans)
    chat = named(seen, "chat scripted")[1].attributes
    common = {
        "gen_ai.agent.name": "reporter",
        "gen_ai.conversation.id": "s",
        "durable_adk.app": "app",
        "durable_adk.invocation.id": events[0].invocation_id,
        "durable_adk.attempt": 1,
    }
    assert chat == {
        **common,
        "durable_adk.event.id": events[-1].id,
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "ScriptedModel",
        "gen_ai.request.model": "scripted",
        "gen_ai.request.stream": False,
        "gen_ai.response.model": "scripted-001",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": 11,
        "gen_ai.usage.output_tokens": 7,
    }
    assert named(seen, "execute_tool weather")[0].attributes == {
        **common,
        "durable_adk.event.id": events[1].id,
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "weather",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": events[0].get_function_calls()[0].id,
    }
    del common["durable_adk.attempt"]
    assert named(seen, "invoke_agent reporter")[0].attributes == {
        **common,
        "gen_ai.operation.name": "invoke_agent",
        "durable_adk.status": "completed",
        "durable_adk.pauses": 0,
        "durable_adk.events": 4,
        "durable_adk.model_calls": 2,
        "durable_adk.tool_calls": 1,
        "durable_adk.tokens": 18,
    }


async def test_each_run_of_an_agent_has_a_span(make_runner: MakeRunner, spans: Watched) -> None:
    """D17: steps hang under the agent whose they are, agents under those that run them."""
    inner = SequentialAgent(name="inner", sub_agents=[reporter("second")])
    runner = await make_runner(SequentialAgent(name="all", sub_agents=[reporter("first"), inner]))
    await send(runner)
    steps = [CHAT, ["execute_tool weather"], CHAT]
    second = ["invoke_agent inner", ["invoke_agent second", *steps]]
    assert tree(await ended(spans)) == [
        [RUN, ["invoke_agent all", ["invoke_agent first", *steps], second]]
    ]


async def test_who_is_handed_over_to_has_a_span_of_its_own(
    make_runner: MakeRunner, spans: Watched
) -> None:
    """AGT-50: the agent that ends the invocation is not the one that began it."""
    model = ScriptedModel(replies=[call("transfer_to_agent", agent_name="helper")])
    boss = LlmAgent(name="boss", model=model, sub_agents=[reporter("helper")])
    runner = await make_runner(boss)
    await send(runner)
    seen = await ended(spans)
    assert len(named(seen, "invoke_agent boss")) == len(named(seen, "invoke_agent helper")) == 1
    (root,) = named(seen, "invoke_agent boss")
    (helper,) = named(seen, "invoke_agent helper")
    assert helper.parent == root.id
    assert {s.parent for s in named(seen, "execute_tool weather")} == {helper.id}


async def test_an_agent_as_a_tool_is_in_the_callers_trace(
    make_runner: MakeRunner, spans: Watched
) -> None:
    """OPEN-6: a child workflow's invocation hangs under the tool that it is."""
    model = ScriptedModel(replies=[call("expert", request="weather?"), "so it is"])
    runner = await make_runner(
        LlmAgent(name="boss", model=model, tools=[AgentTool(reporter("expert"))])
    )
    await send(runner)
    seen = await ended(spans, roots=2)
    child = ["invoke_agent expert", CHAT, ["execute_tool weather"], CHAT]
    assert tree(seen) == [[RUN, ["invoke_agent boss", CHAT, ["execute_tool expert", child], CHAT]]]
    assert len({span.trace for span in seen}) == 1


@activity.defn
async def look() -> str:
    """An activity of others, which only a run in process finds."""
    return "seen"


async def test_an_activity_as_a_tool_is_one_span(make_runner: MakeRunner, spans: Watched) -> None:
    """D18: the two steps of ours round it are no runs of a tool; its error is recorded."""
    soon = timedelta(milliseconds=200)
    tool = ActivityTool(
        look,
        task_queue="nobody",
        schedule_to_start_timeout=soon,
        start_to_close_timeout=soon * 1000,
    )
    model = ScriptedModel(replies=[call("look"), "so it is"])
    runner = await make_runner(LlmAgent(name="boss", model=model, tools=[tool]))
    events = await send(runner)
    seen = await ended(spans)
    assert tree(seen) == [[RUN, ["invoke_agent boss", CHAT, ["execute_tool look"], CHAT]]]
    ((response,),) = [e.get_function_responses() for e in events if e.get_function_responses()]
    (ran,) = named(seen, "execute_tool look")
    failed = "error" in (response.response or {})
    assert ran.attributes.get("error.type") == ("ToolTimeoutError" if failed else None)


async def asked_and_told(make_runner: MakeRunner, *, confirmed: bool) -> None:
    """A run that waits for an approval, and continues with an answer."""
    tool = FunctionTool(weather, require_confirmation=True)
    model = ScriptedModel(replies=[call("weather", city="Rome"), "fine"])
    runner = await make_runner(LlmAgent(name="asker", model=model, tools=[tool]))
    await send(runner)
    (pending,) = await runner.pending(**USER)
    response = types.FunctionResponse(
        id=pending.call_id, name=pending.name, response={"confirmed": confirmed}
    )
    message = types.Content(role="user", parts=[types.Part(function_response=response)])
    async for _ in runner.run_async(**USER, new_message=message):
        pass


async def test_an_approval_later_is_in_the_same_trace(
    make_runner: MakeRunner, spans: Watched
) -> None:
    """D9: the wait is a span, and the answer joins the trace by itself."""
    await asked_and_told(make_runner, confirmed=True)
    seen = await ended(spans)
    assert len({span.trace for span in seen}) == 1
    (root,) = named(seen, "invoke_agent asker")
    (wait,) = named(seen, "wait_for_answer")
    (told,) = named(seen, "answer app")
    assert wait.parent == told.parent == root.id
    assert root.attributes["durable_adk.pauses"] == 1
    asked, ran = named(seen, "execute_tool weather")
    assert asked.attributes["durable_adk.waits_for"] == "confirmation"
    assert "durable_adk.waits_for" not in ran.attributes
    assert wait.end <= ran.start
    assert root.start <= wait.start <= wait.end <= root.end


@pytest.mark.thorough
async def test_new_runs_of_the_workflow_are_in_the_same_trace(
    make_runner: MakeRunner, spans: Watched
) -> None:
    """D10: an invocation that continues as new has one span, and so has each of its agents."""
    model = ScriptedModel(replies=[*(call("weather", city=str(n)) for n in range(12)), "done"])
    agent = LlmAgent(name="long", model=model, tools=[weather])
    runner = await make_runner(
        SequentialAgent(name="all", sub_agents=[agent]), limits=Limits(max_history_events=25)
    )
    await send(runner)
    seen = await ended(spans)
    steps = [part for _ in range(12) for part in (CHAT, ["execute_tool weather"])] + [CHAT]
    assert tree(seen) == [[RUN, ["invoke_agent all", ["invoke_agent long", *steps]]]]


async def test_the_callers_trace_goes_on(make_runner: MakeRunner, spans: Watched) -> None:
    """D17: with a span of the application's around it, the run is in its trace."""
    runner = await make_runner(reporter())
    tracer = spans.provider.get_tracer("application")
    with tracer.start_as_current_span("request"):
        await send(runner)
    seen = await ended(spans)
    assert [top[0] for top in tree(seen)] == ["request"]
    assert len({span.trace for span in seen}) == 1


@pytest.mark.parametrize("make_runner", ["temporal", "temporal-uncached"], indirect=True)
async def test_a_client_that_sends_nothing_gets_the_derived_trace(
    make_runner: MakeRunner, spans: Watched, client: Client
) -> None:
    """D17, D18: the trace of a plain Temporal client follows from the invocation's name."""
    runner = await make_runner(reporter())
    name, queue = uuid.uuid4().hex, runner._client.backend._invocations.task_queue
    request = {"app": "app", "user": "u", "session": "s", "message": "hi", "invocationId": name}
    await client.execute_workflow("Invocation", request, id=f"mine-{name}", task_queue=queue)
    seen = await ended(spans)
    whose = TraceIdentity.of(KEY, name)
    (root,) = named(seen, "invoke_agent reporter")
    assert (root.trace, root.id) == (f"0x{whose.trace_id:032x}", f"0x{whose.root:016x}")
    assert root.parent is None
    assert tree(seen) == [["invoke_agent reporter", CHAT, ["execute_tool weather"], CHAT]]


@pytest.mark.parametrize("ratio", [0.0, 1.0])
async def test_the_sampler_decides_about_whole_traces(
    make_runner: MakeRunner, client: Client, ratio: float
) -> None:
    """D17: nobody carries its decision; it follows from the trace's id in each process."""
    with watched(ParentBased(TraceIdRatioBased(ratio))) as spans:
        runner = await make_runner(reporter())
        runs = runner._client.backend
        if hasattr(runs, "_invocations"):
            request = {"app": "app", "user": "u", "session": "s", "message": "hi"}
            name, queue = f"mine-{uuid.uuid4().hex}", runs._invocations.task_queue
            await client.execute_workflow("Invocation", request, id=name, task_queue=queue)
        else:
            await send(runner)
        if ratio:
            await ended(spans)
        assert bool(spans.spans()) == bool(ratio)


def raising(city: str) -> str:
    """Fail."""
    raise LookupError(SECRET + city)


async def test_an_error_is_told_by_its_class(make_runner: MakeRunner, spans: Watched) -> None:
    """S8: spans of what failed have error.type and no message, which quotes users' data."""
    model = ScriptedModel(replies=[call("raising", city="x")])
    runner = await make_runner(LlmAgent(name="bold", model=model, tools=[raising]))
    with pytest.raises(LookupError):
        await send(runner)
    seen = await ended(spans)
    failed = {span.name: span.attributes.get("error.type") for span in seen if span.error}
    assert failed == {
        RUN: "LookupError",
        "invoke_agent bold": "LookupError",
        "execute_tool raising": "LookupError",
    }
    places = {span.attributes.get("exception.stacktrace") for span in seen if span.error}
    assert any(place and f"{__file__}:" in place and " in raising" in place for place in places)
    assert SECRET not in spans.raw()


def keep(secret: str, tool_context: ToolContext) -> dict[str, str]:
    """Keep a secret, then fail the second time."""
    tool_context.state["kept"] = secret
    if tool_context.state.get("again"):
        raise ValueError(f"cannot keep {secret} again")
    tool_context.state["again"] = True
    return {"kept": secret}


def keeper() -> LlmAgent:
    """Everything it does is secret."""
    replies = [call("keep", secret=SECRET), call("keep", secret=SECRET), SECRET]
    return LlmAgent(
        name="keeper", model=ScriptedModel(replies=replies), tools=[keep], instruction=SECRET
    )


async def test_no_content_leaves_by_default(
    make_runner: MakeRunner, spans: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    """I19, S8: message, state, argument, result and exception are in no span, metric or line."""
    reader()
    caplog.set_level(logging.INFO, "durable_adk")
    runner = await make_runner(keeper())
    with pytest.raises(ValueError, match="cannot keep"):
        await send(runner, f"remember {SECRET}")
    await ended(spans)
    ours = [str(vars(r)) for r in caplog.records if r.name.startswith("durable_adk")]
    assert ours
    assert SECRET not in "".join(ours)
    assert SECRET not in spans.raw()
    assert SECRET not in str(points())


async def test_content_is_told_when_it_is_switched_on(
    make_runner: MakeRunner, spans: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S8: with OpenTelemetry's switch, past the redaction hook."""
    monkeypatch.setenv(VARIABLE, "true")
    redact_with(lambda attribute, text: text.replace(SECRET, f"<{attribute}>"))
    try:
        runner = await make_runner(keeper())
        with pytest.raises(ValueError, match="cannot keep"):
            await send(runner, f"remember {SECRET}")
        seen = await ended(spans)
    finally:
        redact_with(None)
    assert SECRET not in spans.raw()
    chat = named(seen, "chat scripted")[0].attributes
    assert "remember <gen_ai.input.messages>" in chat["gen_ai.input.messages"]
    assert chat["gen_ai.system_instructions"].startswith("<gen_ai.system_instructions>")
    assert "<gen_ai.output.messages>" in chat["gen_ai.output.messages"]
    first, second = (span.attributes for span in named(seen, "execute_tool keep"))
    assert first["gen_ai.tool.call.arguments"] == '{"secret": "<gen_ai.tool.call.arguments>"}'
    assert "<gen_ai.tool.call.result>" in first["gen_ai.tool.call.result"]
    assert second["exception.message"] == "cannot keep <exception.message> again"


LABELS = {
    "gen_ai.operation.name",
    "gen_ai.provider.name",
    "gen_ai.request.model",
    "gen_ai.response.model",
    "gen_ai.token.type",
    "gen_ai.tool.name",
    "gen_ai.tool.type",
    "durable_adk.app",
    "durable_adk.status",
    "durable_adk.step",
    "error.type",
}


@pytest.mark.thorough
async def test_metrics_count_what_happens_under_few_labels(make_runner: MakeRunner) -> None:
    """S8: ten invocations in ten sessions make no more series than one: labels hold no ids."""
    reader()
    runner = await make_runner(reporter())

    async def turn(session: str) -> None:
        key = {"user_id": f"user-{session}", "session_id": session}
        await runner.session_service.create_session(app_name="app", **key)
        async for _ in runner.run_async(**key, new_message=session):
            pass

    def series() -> dict[str, int]:
        return {name: len(found) for name, found in points().items()}

    def total(name: str) -> float:
        return sum(getattr(point, "count", None) or point.value for point in points()[name])

    await turn("first")
    before, counted = series(), total("durable_adk.invocations.ended")
    for number in range(9):
        await turn(f"s{number}")
    await until(lambda: total("durable_adk.invocations.ended") >= counted + 9)
    # Labels with ids would add one for each session; a late end of another test may add one in all.
    assert all(count < before.get(name, 0) + 9 for name, count in series().items())
    assert {
        "gen_ai.client.token.usage",
        "gen_ai.client.operation.duration",
        "durable_adk.invocations.started",
        "durable_adk.invocations.ended",
        "durable_adk.queue.wait",
        "durable_adk.queue.waiting",
        "durable_adk.steps",
        "durable_adk.commits",
    } <= set(before)
    used = {label for found in points().values() for p in found for label in p.attributes}
    assert used <= LABELS


async def test_who_waits_for_a_session_is_counted(make_runner: MakeRunner) -> None:
    """D7: a message behind another one is in the gauge of those that wait, and then is not."""
    reader()
    gate = asyncio.Event()

    async def slow(city: str) -> str:
        """Wait."""
        await until_set(gate)
        return city

    model = ScriptedModel(replies=[call("slow", city="x"), "done", "again"])
    runner = await make_runner(LlmAgent(name="slow", model=model, tools=[slow]))

    def waiting() -> int:
        return points()["durable_adk.queue.waiting"][0].value

    await until(lambda: waiting() == 0)
    first = asyncio.ensure_future(send(runner))
    await until(lambda: _has_opened(runner))
    second = asyncio.ensure_future(send(runner))
    await until(lambda: waiting() == 1)
    gate.set()
    await asyncio.gather(first, second)
    await until(lambda: waiting() == 0)


async def _has_opened(runner: Runner) -> bool:
    session = await runner.session_service.get_session(app_name=runner.app_name, **USER)
    return session is not None and len(session.events) > 0


async def test_log_lines_name_their_invocation_and_trace(
    make_runner: MakeRunner, spans: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    """D17: one line for the beginning and one for the end, with ids, counts and no user."""
    caplog.set_level(logging.INFO, "durable_adk.activities")
    runner = await make_runner(reporter())
    events = await send(runner)
    (root,) = named(await ended(spans), "invoke_agent reporter")
    lines = [vars(r) for r in caplog.records if r.message.startswith("invocation.")]
    *started, last = [line["message"] for line in lines]
    assert set(started) == {"invocation.started"}  # again if an attempt came too late
    assert last == "invocation.ended"
    for line in lines:
        assert line["invocation_id"] == events[0].invocation_id
        assert (line["app"], line["session"]) == ("app", "s")
        assert f"0x{line['trace_id']}" == root.trace
        assert "user" not in line
    told = {name: lines[-1][name] for name in ("status", "events", "model_calls", "tool_calls")}
    assert told == {"status": "completed", "events": 4, "model_calls": 2, "tool_calls": 1}
    assert workflow_id(KEY, events[0].invocation_id) not in str(lines)


async def test_an_attempt_that_failed_is_logged_and_counted(
    make_runner: MakeRunner, spans: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    """I10: a model that was unavailable once has two spans, the first with its error."""
    asked: list[int] = []

    def reply(_: Any) -> Any:
        asked.append(1)
        if len(asked) == 1:
            raise ModelUnavailableError("busy", retry_after=0.05)
        return "here"

    caplog.set_level(logging.INFO, "durable_adk")
    runner = await make_runner(LlmAgent(name="patient", model=ScriptedModel(replies=reply)))
    await send(runner)
    seen = named(await ended(spans), "chat scripted")
    assert [span.attributes["durable_adk.attempt"] for span in seen] == [1, 2]
    assert [span.attributes.get("error.type") for span in seen] == ["ModelUnavailableError", None]
    assert "step.retried" in [record.message for record in caplog.records]


@pytest.mark.parametrize("make_runner", ["temporal"], indirect=True)
async def test_a_takeover_is_told(
    make_runner: MakeRunner, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """D7: a terminated invocation is counted and named by the next message that ends it."""
    reader()
    caplog.set_level(logging.INFO, "durable_adk.activities")
    begun = threading.Event()

    async def slow(city: str) -> str:
        """Take long."""
        begun.set()
        await forever()
        return city

    replies = [call("slow", city="x"), "again"]
    runner = await make_runner(
        LlmAgent(name="slow", model=ScriptedModel(replies=replies), tools=[slow])
    )
    first = asyncio.ensure_future(send(runner, invocation_id="lost"))
    await until(begun.is_set)
    await client.get_workflow_handle(workflow_id(KEY, "lost")).terminate()
    with pytest.raises(InvocationTerminatedError):
        await first
    await send(runner, "next")
    lines = {record.message: vars(record) for record in caplog.records}
    assert lines["invocation.taken_over"]["abandoned"] == "lost"
    assert sum(point.value for point in points()["durable_adk.takeovers"]) >= 1
    ended_as = {
        p.attributes["durable_adk.status"] for p in points()["durable_adk.invocations.ended"]
    }
    assert "abandoned" in ended_as


async def test_a_pause_is_told(make_runner: MakeRunner, caplog: pytest.LogCaptureFixture) -> None:
    """D9: one line when it begins, and one with its length when it ends."""
    caplog.set_level(logging.INFO, "durable_adk.activities")
    await asked_and_told(make_runner, confirmed=False)
    await until(lambda: any(r.message == "invocation.ended" for r in caplog.records))
    told = [r.message for r in caplog.records if r.message.startswith("invocation.")]
    assert told == [f"invocation.{what}" for what in ("started", "paused", "resumed", "ended")]


@pytest.mark.parametrize("make_runner", ["temporal"], indirect=True)
async def test_a_store_that_is_away_is_told(
    make_runner: MakeRunner, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """D4: whoever watches sees what an invocation waits for, by which invocation."""
    caplog.set_level(logging.INFO, "durable_adk")
    runner = await make_runner(reporter())
    failpoints.arm("open.before:raise@1", tmp_path / "failpoints")
    try:
        events = await send(runner)
    finally:
        failpoints.arm("", tmp_path / "failpoints")
    (line,) = [vars(r) for r in caplog.records if r.message == "store.unavailable"]
    assert line["error_type"] == "StoreUnavailableError"
    assert line["activity"] == "open_invocation"
    assert line["final"] is False
    assert line["invocation_id"] == events[0].invocation_id
