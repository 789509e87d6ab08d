"""Where waiting meets other things that happen (D9)."""

import asyncio
from collections.abc import Iterator
from typing import Any

from google.genai import types

from durable_adk.agents import BaseAgent, InvocationContext, LlmAgent, ParallelAgent
from durable_adk.errors import ToolTimeoutError
from durable_adk.events import Event, EventActions
from durable_adk.models import ScriptedModel
from durable_adk.sessions.records import Status
from durable_adk.tools import AgentTool, FunctionTool, ToolContext
from durable_adk.tools.long_running_tool import LongRunningFunctionTool
from tests.conftest import MakeRunner
from tests.integration.test_pausing import answer, attached, closed, order, reply, status
from tests.support.bounds import bounded, within
from tests.support.gates import until_set
from tests.support.scripts import USER, call, ensure_session, gist, send, state, stored
from tests.support.streams import StreamingModel
from tests.support.waiting import PATIENCE, forever, until


def says(name: str, text: str) -> Event:
    """An event with a text."""
    content = types.Content(role="model", parts=[types.Part(text=text)])
    return Event(author=name, content=content)


def waiter(name: str = "waiter", *after: str, **options: Any) -> LlmAgent:
    """An agent that waits for one answer."""
    tool = LongRunningFunctionTool(order, **options)
    model = ScriptedModel(replies=[call("order", item="x"), *(after or ["it came"])])
    return LlmAgent(name=name, model=model, tools=[tool])


async def tick() -> None:
    """A short step."""
    looks = iter((False, True))
    await until(lambda: next(looks))


class Poller(BaseAgent):
    """Polls for ever, in short steps."""

    async def _run_async_impl(self, ctx: InvocationContext) -> Any:
        yield says(self.name, "polling")
        while True:
            await ctx.step(tick)


@bounded
async def test_a_cancellation_reaches_a_body_that_only_makes_steps(make_runner: MakeRunner) -> None:
    """CAN-3: a step that is shorter than the heartbeat swallows it, the next one heeds it."""
    runner = await make_runner(Poller(name="p"))
    await ensure_session(runner)
    events = runner.run_async(**USER, new_message="hello")
    first = await anext(events)
    with within(15, "a cancellation reaches a body that only makes steps"):
        assert await runner.cancel(**USER, invocation_id=first.invocation_id)
        await closed(runner, first.invocation_id)
    assert await status(runner, first.invocation_id) is Status.CANCELLED
    await events.aclose()


class Patient(BaseAgent):
    """Continues without the answer when the deadline passes."""

    inner: BaseAgent

    def model_post_init(self, context: Any, /) -> None:
        """Own the agent it runs."""
        self.sub_agents = [self.inner]
        super().model_post_init(context)

    async def _run_async_impl(self, ctx: InvocationContext) -> Any:
        try:
            async for event in self.inner.run_async(ctx):
                yield event
        except ToolTimeoutError:
            yield says(self.name, "went on")


async def test_a_body_that_catches_a_deadline_goes_on_with_the_lease(
    make_runner: MakeRunner,
) -> None:
    """D9: what continues without an answer takes the lease again, and ends as any run."""
    inner = waiter(deadline=0.3, on_deadline="fail")
    runner = await make_runner(Patient(name="p", inner=inner))
    events = await send(runner)
    await closed(runner, events[0].invocation_id)
    assert await status(runner, events[0].invocation_id) is Status.COMPLETED
    assert gist((await attached(runner, events[0].invocation_id))[-1]) == "p text went on"


class Impatient(BaseAgent):
    """Leaves its sub-agents after their first event, then asks for something."""

    def model_post_init(self, context: Any, /) -> None:
        """Make the agents it runs."""
        begun = asyncio.Event()

        async def slow() -> None:
            begun.set()
            await forever()

        busy = LlmAgent(name="busy", model=ScriptedModel(replies=[call("slow"), "x"]), tools=[slow])
        quick = LlmAgent(name="quick", model=StreamingModel(turns=[[begun, "quick"]]))
        self.sub_agents = [ParallelAgent(name="par", sub_agents=[busy, quick]), waiter()]
        super().model_post_init(context)

    async def _run_async_impl(self, ctx: InvocationContext) -> Any:
        parallel, asking = self.sub_agents
        async for event in parallel.run_async(ctx):
            yield event
            if event.author == "quick":
                break
        async for event in asking.run_async(ctx):
            yield event


async def test_a_body_may_leave_its_agents_and_still_pause(make_runner: MakeRunner) -> None:
    """RUN-7, I9, D9: what it left is ended and its calls are answered; the next call pauses."""
    runner = await make_runner(Impatient(name="i"))
    async with asyncio.timeout(PATIENCE):
        events = await send(runner)
    assert await status(runner, events[0].invocation_id) is Status.PAUSED
    (pending,) = await runner.pending(**USER)
    await reply(runner, answer(pending, ok=True))
    assert await status(runner, events[0].invocation_id) is Status.COMPLETED
    log = await stored(runner)
    asked = {c.id for event in log for c in event.get_function_calls()}
    assert asked == {r.id for event in log for r in event.get_function_responses()}


async def test_a_confirmed_tool_that_was_cancelled_does_not_look_as_if_it_never_ran(
    make_runner: MakeRunner,
) -> None:
    """I8, CAN-2: its last response says that it may have run, not that it needs an approval."""
    running = asyncio.Event()

    async def pay() -> None:
        running.set()
        await forever()

    tool = FunctionTool(pay, require_confirmation=True)
    agent = LlmAgent(name="a", model=ScriptedModel(replies=[call("pay"), "x"]), tools=[tool])
    runner = await make_runner(agent)
    events = await send(runner)
    (pending,) = await runner.pending(**USER)
    answering = asyncio.ensure_future(reply(runner, answer(pending, confirmed=True)))
    await until_set(running)
    assert await runner.cancel(**USER, invocation_id=events[0].invocation_id)
    await asyncio.gather(answering, return_exceptions=True)
    responses = [r for event in await stored(runner) for r in event.get_function_responses()]
    last = [r for r in responses if r.name == "pay"][-1]
    assert "may have run" in str(last.response)


async def test_an_approved_call_that_takes_its_time_is_not_forgotten(
    make_runner: MakeRunner,
) -> None:
    """TOL-60, FLW-50: after the approval and after the result the model speaks, as in ADK."""

    async def work(tool_context: ToolContext) -> Any:
        if tool_context.tool_confirmation is None:
            tool_context.request_confirmation(hint="sure?")
            return {"status": "asked"}
        return None

    # A prompt with the result does not show what was said before it.
    replies: Iterator[Any] = iter([call("work"), "under way", "all done"])
    agent = LlmAgent(
        name="a",
        model=ScriptedModel(replies=lambda _: next(replies)),
        tools=[LongRunningFunctionTool(work)],
    )
    runner = await make_runner(agent)
    await send(runner)
    (pending,) = await runner.pending(**USER)
    approved = await reply(runner, answer(pending, confirmed=True))
    assert [gist(event) for event in approved] == ["a text under way"]
    (pending,) = await runner.pending(**USER)
    assert pending.kind == "long_running"
    after = await reply(runner, answer(pending, result=1))
    assert [gist(event) for event in after] == ["a text all done"]


async def test_the_output_begins_anew_with_an_answer(make_runner: MakeRunner) -> None:
    """AGT-21: what was said before the pause is not in the output, as in ADK."""

    def work() -> None:
        """Work; the result comes later."""

    asked = types.Content(parts=[types.Part(text="let me see"), *(call("work").parts or [])])
    agent = LlmAgent(
        name="a",
        model=ScriptedModel(replies=[asked, "done"]),
        tools=[LongRunningFunctionTool(work)],
        output_key="out",
    )
    runner = await make_runner(agent)
    await send(runner)
    assert await state(runner) == {"out": "let me see"}
    (pending,) = await runner.pending(**USER)
    await reply(runner, answer(pending, result=1))
    assert await state(runner) == {"out": "done"}


async def test_an_answer_that_is_faster_than_its_tool_loses_nothing(
    make_runner: MakeRunner,
) -> None:
    """D9, TRAP-9: the tool's changes stay, its interim result does not, the model speaks once."""
    gate = asyncio.Event()

    async def work(tool_context: ToolContext) -> dict[str, str]:
        tool_context.state["ticket"] = "t1"
        await until_set(gate)
        return {"status": "pending"}

    agent = LlmAgent(
        name="a",
        model=ScriptedModel(replies=[call("work"), "all done", "once too often"]),
        tools=[LongRunningFunctionTool(work)],
    )
    runner = await make_runner(agent)
    running = asyncio.ensure_future(send(runner))
    (pending,) = await until(lambda: runner.pending(**USER))
    answering = asyncio.ensure_future(reply(runner, answer(pending, result=1)))

    async def is_answered() -> bool:
        return not await runner.pending(**USER)

    await until(is_answered)
    gate.set()
    await asyncio.gather(running, answering)
    assert await state(runner) == {"ticket": "t1"}
    texts = [gist(event) for event in await stored(runner) if event.text]
    assert texts == ["user text hello", "a text all done"]


async def test_calls_of_one_id_are_told_apart(make_runner: MakeRunner) -> None:
    """F15, TRAP-19, I8: a provider that counts anew with each answer reuses no result."""
    keys: list[str] = []

    def note(tool_context: ToolContext) -> str:
        keys.append(tool_context.idempotency_key)
        return "ok"

    def numbered(name: str, **args: Any) -> types.Content:
        function = types.FunctionCall(id="call_0", name=name, args=args)
        return types.Content(role="model", parts=[types.Part(function_call=function)])

    def echo(request: Any) -> str:
        return f"answer to {request.contents[-1].parts[0].text}"

    child = LlmAgent(name="child", model=ScriptedModel(replies=echo))
    replies = [
        numbered("note"),
        numbered("note"),
        numbered("child", request="q1"),
        numbered("child", request="q2"),
        "done",
    ]
    agent = LlmAgent(name="a", model=ScriptedModel(replies=replies), tools=[note, AgentTool(child)])
    events = await send(await make_runner(agent))
    assert len(set(keys)) == 2
    results = [str(r.response) for event in events for r in event.get_function_responses()]
    assert "answer to q1" in results[2]
    assert "answer to q2" in results[3]


async def test_state_comes_along_with_an_answer(make_runner: MakeRunner) -> None:
    """TRAP-17: what is passed to `run_async` with an answer is on the answer's event."""
    runner = await make_runner(waiter())
    await send(runner)
    (pending,) = await runner.pending(**USER)
    events = runner.run_async(
        **USER, new_message=answer(pending, ok=True), state_delta={"by": "alice"}
    )
    assert [gist(event) async for event in events] == ["waiter text it came"]
    assert await state(runner) == {"by": "alice"}


async def test_a_sibling_is_not_asked_about_another_s_answer(make_runner: MakeRunner) -> None:
    """AGT-33, AGT-17: the answer is on the branch of who asked."""
    first, second = waiter("a"), waiter("b")
    for agent in (first, second):
        agent.include_contents = "none"
    runner = await make_runner(ParallelAgent(name="par", sub_agents=[first, second]))
    await send(runner)
    pending = {item.author: item for item in await runner.pending(**USER)}
    await reply(runner, answer(pending["a"], n=1))
    await reply(runner, answer(pending["b"], n=2))
    assert isinstance(second.model, ScriptedModel)
    last = str(second.model.requests[-1].contents)
    assert "'n': 2" in last
    assert "'n': 1" not in last
    log = await stored(runner)
    branches = {e.branch for e in log if e.author == "user" and e.get_function_responses()}
    assert branches == {"par.a", "par.b"}


class Adding(BaseAgent):
    """Adds to what the state holds when the answer is there."""

    inner: BaseAgent

    def model_post_init(self, context: Any, /) -> None:
        """Own the agent it runs."""
        self.sub_agents = [self.inner]
        super().model_post_init(context)

    async def _run_async_impl(self, ctx: InvocationContext) -> Any:
        if "by hand" in str(ctx.user_content):
            yield Event(author=self.name, actions=EventActions(state_delta={"n": 5}))
            return
        async for event in self.inner.run_async(ctx):
            yield event
        n = ctx.session.state.get("n", 0) + 1
        yield Event(author=self.name, actions=EventActions(state_delta={"n": n}))


async def test_a_body_sees_what_others_changed_while_it_waited(make_runner: MakeRunner) -> None:
    """D9, STA-13: the state after the answer is the session's, not the opening's."""
    runner = await make_runner(Adding(name="adding", inner=waiter()))
    await send(runner)
    await send(runner, "by hand")
    (pending,) = await runner.pending(**USER)
    await reply(runner, answer(pending, ok=True))
    assert await state(runner) == {"n": 6}
