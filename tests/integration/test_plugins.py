"""Plugins: when their hooks run, what they change, what becomes of their errors."""

import asyncio
import inspect
import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from google.genai import types
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowFailureError
from temporalio.exceptions import ApplicationError

from durable_adk.agents import BaseAgent, InvocationContext, LlmAgent, SequentialAgent
from durable_adk.apps import App
from durable_adk.artifacts import InMemoryArtifactService
from durable_adk.errors import (
    CallbackError,
    EventConflictError,
    InvalidRequestError,
    InvocationCancelledError,
    ModelError,
    SessionNotFoundError,
    describe,
)
from durable_adk.events import Event
from durable_adk.models import LlmResponse, ScriptedModel
from durable_adk.plugins import (
    BasePlugin,
)
from durable_adk.plugins.base_plugin import HOOKS
from durable_adk.runners import InMemoryRunner, Runner
from durable_adk.sessions import SessionKey, SqliteSessionService
from durable_adk.sessions.records import Status
from durable_adk.settings import Limits
from durable_adk.tools.agent_tool import AgentTool
from durable_adk.tools.long_running_tool import LongRunningFunctionTool
from durable_adk.wire.messages import workflow_id
from durable_adk.worker import WorkerOptions, worker
from tests.conftest import MakeRunner
from tests.support.gates import until_set
from tests.support.scripts import USER, call, calls, gist, send, shape, state, stored
from tests.support.waiting import PATIENCE, forever, until

KEY = SessionKey("app", "u", "s")


INSIDE = ["before_model", "after_model", "before_tool", "after_tool", "on_event"]
"""The hooks that run inside the steps they are about."""


def text(value: str, role: str = "model") -> types.Content:
    """A text."""
    return types.Content(role=role, parts=[types.Part(text=value)])


class Spy(BasePlugin):
    """Notes every hook that runs in `seen`, and answers with what it was made with."""

    def __init__(self, name: str = "spy", *, seen: list[str] | None = None, **answers: Any) -> None:
        super().__init__(name)
        self.seen = [] if seen is None else seen
        for hook in HOOKS:
            setattr(self, hook, self._hook(hook, answers.get(hook.removesuffix("_callback"))))

    def _hook(self, hook: str, answer: Any) -> Any:
        async def run(**given: Any) -> Any:
            about = given.get("agent") or given.get("tool")
            words = [hook.removesuffix("_callback"), about and about.name]
            if "event" in given:
                words.append(gist(given["event"]))
            if "error" in given:
                words.append(describe(given["error"])[0])
            self.seen.append(" ".join(filter(None, words)))
            said = answer(**given) if callable(answer) else answer
            return await said if inspect.isawaitable(said) else said

        return run


def only(*hooks: str, name: str = "spy", **options: Any) -> Spy:
    """A spy with these hooks alone."""
    spy = Spy(name, **options)
    for hook in HOOKS:
        if hook.removesuffix("_callback") not in hooks:
            delattr(spy, hook)
    return spy


def echo(word: str) -> str:
    """Return the word."""
    return word


def broken() -> None:
    """Raise."""
    raise ValueError("no")


def echoing(**fields: Any) -> LlmAgent:
    """An agent that calls echo once."""
    model = ScriptedModel(replies=[call("echo", word="hi"), "done"])
    return LlmAgent(name="a", model=model, tools=[echo], **fields)


def waiting() -> LlmAgent:
    """An agent whose call waits for its answer."""

    def order(item: str) -> None:
        """Order something."""

    tool = LongRunningFunctionTool(order)
    model = ScriptedModel(replies=[call("order", item="pen"), "done"])
    return LlmAgent(name="a", model=model, tools=[tool])


def answering(call_id: str, **response: Any) -> types.Content:
    """An answer to its call."""
    given = types.FunctionResponse(id=call_id, name="order", response=response)
    return types.Content(role="user", parts=[types.Part(function_response=given)])


def requests(agent: LlmAgent) -> list[Any]:
    """What the agent's model was asked."""
    assert isinstance(agent.model, ScriptedModel)
    return agent.model.requests


async def failed(runner: Runner) -> tuple[Exception, list[Event]]:
    """What a run raised, and what it had stored then, without the user's event."""
    with pytest.raises(Exception) as raised:  # noqa: PT011 # the tests look at it
        await send(runner)
    return raised.value, (await stored(runner))[1:]


async def plain(agent: BaseAgent, invocation_id: str) -> list[Event]:
    """The events of a run without plugins."""
    async with InMemoryRunner(agent, app_name="app") as runner:
        return await send(runner, invocation_id=invocation_id)


async def until_seen(spy: Spy, what: str) -> None:
    """Wait for a notice, which may come after its run has ended for the client."""
    await until(lambda: what in spy.seen)


# ----- places and order


async def test_every_hook_runs_once_at_its_place(make_runner: MakeRunner) -> None:
    """PLG-2, RUN-26: round run, agent, model, tool and each event but the user's."""
    spy = Spy()
    runner = await make_runner(echoing(), plugins=[spy])
    events = await send(runner)
    assert spy.seen == [
        "on_user_message",
        "before_run",
        "before_agent a",
        "before_model",
        "after_model",
        "on_event a call echo",
        "before_tool echo",
        "after_tool echo",
        "on_event a response echo",
        "before_model",
        "after_model",
        "on_event a text done",
        "after_agent a",
        "after_run",
    ]
    assert [gist(event) for event in events] == ["a call echo", "a response echo", "a text done"]
    record = await runner.session_service.get_invocation(KEY, events[0].invocation_id)
    assert record is not None
    assert record.status is Status.COMPLETED


async def test_hooks_that_answer_nothing_change_nothing(make_runner: MakeRunner) -> None:
    """PLG-2: hooks in a step leave the events of an app without plugins, ids and all."""
    name = uuid.uuid4().hex
    runner = await make_runner(echoing(), plugins=[only(*INSIDE)])
    events = await send(runner, invocation_id=name)
    assert [shape(event) for event in events] == [shape(e) for e in await plain(echoing(), name)]


POINTS: dict[str, tuple[Any, list[Any]]] = {
    "before_agent": (text("plugin's"), ["never"]),
    "after_agent": (text("plugin's"), ["said"]),
    "before_model": (LlmResponse(content=text("plugin's")), ["never"]),
    "after_model": (LlmResponse(content=text("plugin's")), ["said"]),
    "on_model_error": (LlmResponse(content=text("plugin's")), [ModelError("refused")]),
    "before_tool": ({"text": "plugin's"}, [call("echo", word="hi"), "done"]),
    "after_tool": ({"text": "plugin's"}, [call("echo", word="hi"), "done"]),
    "on_tool_error": ({"text": "plugin's"}, [call("broken"), "done"]),
}


@pytest.mark.parametrize("point", POINTS)
async def test_the_first_answer_skips_later_plugins_and_the_agents_own(
    make_runner: MakeRunner, point: str
) -> None:
    """PLG-3: in the order of the app, before the agent's callback of the same point."""
    answer, replies = POINTS[point]
    seen: list[str] = []

    def own(**_: Any) -> None:
        seen.append("own")

    agent = LlmAgent(
        name="a",
        model=ScriptedModel(replies=replies),
        tools=[echo, broken],
        **{f"{point}_callback": own},
    )
    plugins = [
        only(point, name="one", seen=seen),
        only(point, name="two", seen=seen, **{point: answer}),
        only(point, name="three", seen=seen),
    ]
    events = await send(await make_runner(agent, plugins=plugins))
    assert len(seen) == 2
    assert "own" not in seen
    assert "plugin's" in str([event.content for event in events])


@pytest.mark.parametrize("point", POINTS)
async def test_without_an_answer_the_agents_own_comes_last(
    make_runner: MakeRunner, point: str
) -> None:
    """PLG-3: a plugin that returns None leaves the point to the next."""
    answer, replies = POINTS[point]
    seen: list[str] = []

    def own(**_: Any) -> Any:
        seen.append("own")
        return answer

    agent = LlmAgent(
        name="a",
        model=ScriptedModel(replies=replies),
        tools=[echo, broken],
        **{f"{point}_callback": own},
    )
    plugins = [only(point, name=name, seen=seen) for name in ("one", "two")]
    events = await send(await make_runner(agent, plugins=plugins))
    assert [item.split()[0] for item in seen] == [point, point, "own"]
    assert "plugin's" in str([event.content for event in events])


async def test_an_answer_before_an_agent_skips_it_and_what_comes_after(
    make_runner: MakeRunner,
) -> None:
    """AGT-6 for plugins: no body, no after_agent of anybody; the run itself ends as always."""
    spy = Spy(before_agent=text("instead"))
    runner = await make_runner(echoing(), plugins=[spy])
    assert [gist(event) for event in await send(runner)] == ["a text instead"]
    assert spy.seen == [
        "on_user_message",
        "before_run",
        "before_agent a",
        "on_event a text instead",
        "after_run",
    ]


async def test_after_model_sees_what_an_error_was_answered_with(make_runner: MakeRunner) -> None:
    """FLW-61, CB-7: not what before_model has answered; that is no model's word."""
    spy = Spy(on_model_error=LlmResponse(content=text("sorry")))
    agent = LlmAgent(name="a", model=ScriptedModel(replies=[ModelError("refused")]))
    await send(await make_runner(agent, plugins=[spy]))
    assert spy.seen[3:6] == ["before_model", "on_model_error ModelError", "after_model"]
    spy = Spy(before_model=LlmResponse(content=text("canned")))
    await send(await make_runner(echoing(), plugins=[spy]))
    assert "after_model" not in spy.seen
    assert [note for note in spy.seen if "on_event" in note] == ["on_event a text canned"]


async def test_a_tool_that_does_not_exist_is_an_error_that_can_be_answered(
    make_runner: MakeRunner,
) -> None:
    """FLW-47 as 2.13: the hook gets the name that the model called."""
    spy = only("on_tool_error", on_tool_error={"text": "use echo"})
    agent = LlmAgent(name="a", model=ScriptedModel(replies=[call("nope"), "done"]))
    events = await send(await make_runner(agent, plugins=[spy]))
    assert spy.seen == ["on_tool_error nope ValueError"]
    assert events[1].get_function_responses()[0].response == {"text": "use echo"}


async def test_a_hook_may_change_state_that_rides_on_its_event(make_runner: MakeRunner) -> None:
    """STA-16: each hook's change is stored with the event of its step, or as one of its own."""

    def write(hook: str) -> Any:
        def run(**given: Any) -> None:
            context = next(value for name, value in given.items() if name.endswith("context"))
            context.state[hook] = True

        return run

    hooks = [hook.removesuffix("_callback") for hook in HOOKS if "error" not in hook]
    spy = Spy(**{hook: write(hook) for hook in hooks})
    runner = await make_runner(echoing(), plugins=[spy])
    await send(runner)
    changes = [(gist(e), sorted(e.actions.state_delta)) for e in await stored(runner)]
    assert changes == [
        ("user text hello", ["on_user_message"]),
        ("model delta", ["before_run", "on_event"]),
        ("a delta", ["before_agent", "on_event"]),
        ("a call echo", ["after_model", "before_model", "on_event"]),
        ("a response echo", ["after_tool", "before_tool", "on_event"]),
        ("a text done", ["after_model", "before_model", "on_event"]),
        ("a delta", ["after_agent", "on_event"]),
        ("model delta", ["after_run", "on_event"]),
    ]
    assert set(await state(runner)) == set(hooks)


async def test_artifacts_of_two_hooks_are_two_versions(make_runner: MakeRunner) -> None:
    """CTX-9, TRAP-41: also of hooks round the same event; both are in its delta."""

    async def save(**given: Any) -> None:
        context = next(value for name, value in given.items() if name.endswith("context"))
        await context.save_artifact("note", types.Part(text=str(sorted(given))))

    hooks = {"before_model": save, "on_event": save}
    artifacts = InMemoryArtifactService()
    agent = LlmAgent(name="a", model=ScriptedModel(replies=["said"]))
    spy = only(*hooks, **hooks)
    runner = await make_runner(agent, plugins=[spy], artifact_service=artifacts)
    (event,) = await send(runner)
    assert event.actions.artifact_delta == {"note": 1}
    versions = await artifacts.list_versions(app_name="app", **USER, filename="note")
    assert versions == [0, 1]


async def test_what_a_hook_keeps_in_temp_lasts_as_long_as_the_run(make_runner: MakeRunner) -> None:
    """STA-14, TRAP-7: from the message to the end, in no stored event and no event of its own."""
    found: list[Any] = []

    def begin(invocation_context: Any, **_: Any) -> None:
        invocation_context.state["temp:one"] = 1

    def go_on(invocation_context: Any, **_: Any) -> None:
        invocation_context.state["temp:two"] = invocation_context.state["temp:one"] + 1

    def end(invocation_context: Any, **_: Any) -> None:
        found.append(invocation_context.state["temp:two"])

    spy = only(
        *("on_user_message", "before_run", "after_run"),
        on_user_message=begin,
        before_run=go_on,
        after_run=end,
    )
    runner = await make_runner(echoing(), plugins=[spy])
    assert [gist(e) for e in await send(runner)] == [
        "a call echo",
        "a response echo",
        "a text done",
    ]
    assert found == [2]
    assert await state(runner) == {}


# ----- the message


async def test_a_changed_message_is_the_one_there_is(make_runner: MakeRunner) -> None:
    """RUN-26: stored, passed to the model and to later hooks; changed before anything is stored."""
    found: list[Any] = []

    async def change(invocation_context: Any, user_message: types.Content) -> types.Content:
        found.append([len(invocation_context.session.events), user_message.parts[0].text])
        found.append(invocation_context.session.state["given"])
        invocation_context.state["asked"] = True
        return text("changed", "user")

    def look(invocation_context: Any) -> None:
        found.append(invocation_context.user_content.parts[0].text)
        found.append(invocation_context.agent.name)

    spy = only("on_user_message", "before_run", on_user_message=change, before_run=look)
    agent = echoing()
    runner = await make_runner(agent, plugins=[spy])
    await send(runner, "secret", state_delta={"given": 1})
    (user, *_) = await stored(runner)
    assert found == [[0, "secret"], 1, "changed", "a"]
    assert (gist(user), user.actions.state_delta) == (
        "user text changed",
        {"given": 1, "asked": True},
    )
    assert "changed" in str(requests(agent)[0].contents)
    assert "secret" not in str(await stored(runner))


class Parrot(BaseAgent):
    """A custom agent that says what the user said."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        yield Event(author=self.name, content=ctx.user_content)


async def test_a_changed_message_is_the_one_in_the_loop(make_runner: MakeRunner) -> None:
    """CTX-2: a custom agent's context has it too."""
    spy = only("on_user_message", on_user_message=text("changed", "user"))
    runner = await make_runner(Parrot(name="a"), plugins=[spy])
    assert [gist(event) for event in await send(runner)] == ["a text changed"]


async def test_a_message_changed_in_place_is_changed(make_runner: MakeRunner) -> None:
    """PLG-2: as in ADK, an answer is not needed for that."""

    def change(user_message: types.Content, **_: Any) -> None:
        user_message.parts.append(types.Part(text=" and more"))

    runner = await make_runner(echoing(), plugins=[only("on_user_message", on_user_message=change)])
    await send(runner, "this")
    assert gist((await stored(runner))[0]) == "user text this and more"


async def test_an_answer_is_seen_and_changed_before_it_is_stored(make_runner: MakeRunner) -> None:
    """RUN-26: as a message is, once; the tool gets what the hook has left of it."""
    found: list[Any] = []

    async def change(invocation_context: Any, user_message: types.Content) -> types.Content | None:
        (part,) = user_message.parts or []
        if part.function_response is None:
            return None
        found.append([part.function_response.response, invocation_context.user_content])
        invocation_context.state["seen"] = invocation_context.state.get("seen", 0) + 1
        part.function_response.response = {"status": "screened"}
        return user_message

    spy = only("on_user_message", on_user_message=change)
    runner = await make_runner(waiting(), plugins=[spy])
    events = await send(runner, "buy")
    (call_id,) = events[0].long_running_tool_ids or ()
    sent = answering(call_id, status="raw")
    assert [gist(event) for event in await send(runner, sent, invocation_id="x")] == ["a text done"]
    assert found == [[{"status": "raw"}, text("buy", "user")]]
    answer = next(
        e for e in await stored(runner) if e.author == "user" and e.get_function_responses()
    )
    assert answer.get_function_responses()[0].response == {"status": "screened"}
    assert answer.actions.state_delta == {"seen": 1}
    # The same request again is the same answer.
    assert [gist(event) for event in await send(runner, sent, invocation_id="x")] == ["a text done"]
    assert len(found) == 1


async def test_an_answer_that_a_hook_refuses_is_not_stored(make_runner: MakeRunner) -> None:
    """RUN-26: its sender gets the reason, the call keeps waiting, and another answer is taken."""

    def screen(user_message: types.Content, **_: Any) -> None:
        if "secret" in str(user_message):
            raise ValueError("no secrets")

    spy = only("on_user_message", on_user_message=screen)
    runner = await make_runner(waiting(), plugins=[spy])
    events = await send(runner, "buy")
    (call_id,) = events[0].long_running_tool_ids or ()
    with pytest.raises(InvalidRequestError, match="no secrets"):
        await send(runner, answering(call_id, status="secret"))
    assert "secret" not in str(await stored(runner))
    after = await send(runner, answering(call_id, status="fine"))
    assert [gist(event) for event in after] == ["a text done"]


async def test_an_answer_is_taken_once_the_hook_that_refused_it_is_mended(
    make_runner: MakeRunner,
) -> None:
    """D9: its sender sends it again under its id and does not get the old reason for ever."""
    broken = [True]

    def screen(user_message: types.Content, **_: Any) -> None:
        if broken and "fine" in str(user_message):
            raise ValueError("the screen is down")

    spy = only("on_user_message", on_user_message=screen)
    runner = await make_runner(waiting(), plugins=[spy])
    events = await send(runner, "buy")
    (call_id,) = events[0].long_running_tool_ids or ()
    sent = answering(call_id, status="fine")
    for _ in range(2):
        with pytest.raises(InvalidRequestError, match="the screen is down"):
            await send(runner, sent, invocation_id="x")
    assert spy.seen == ["on_user_message"] * 3
    broken.clear()
    for _ in range(2):  # what was taken is not looked at again
        after = await send(runner, sent, invocation_id="x")
        assert [gist(event) for event in after] == ["a text done"]
    assert spy.seen == ["on_user_message"] * 4


async def test_the_same_request_again_is_the_first_one(make_runner: MakeRunner) -> None:
    """DUR-13: also when plugins have changed its message and state; another one is refused."""

    def change(invocation_context: Any, **_: Any) -> types.Content:
        invocation_context.state["by"] = "plugin"
        return text("changed", "user")

    spy = only("on_user_message", on_user_message=change)
    runner, name = await make_runner(echoing(), plugins=[spy]), uuid.uuid4().hex
    same = {"invocation_id": name, "state_delta": {"by": "user"}}
    first = await send(runner, "this", **same)
    assert await state(runner) == {"by": "plugin"}
    assert await send(runner, "this", **same) == first
    assert spy.seen == ["on_user_message"]
    with pytest.raises(EventConflictError, match="another message"):
        await send(runner, "that", **same)
    with pytest.raises(EventConflictError, match="another state_delta"):
        await send(runner, "this", invocation_id=name, state_delta={"by": "plugin"})


@asynccontextmanager
async def workflows(client: Client, sessions: SqliteSessionService, spy: Spy) -> AsyncIterator[Any]:
    """Run workflows as any client may, for a request to an app with the spy."""
    app = App(name="app", root_agent=echoing(), plugins=[spy])
    queue = f"test-{uuid.uuid4().hex}"
    options = WorkerOptions(task_queue=queue)

    async def run(**changes: Any) -> Any:
        request = {"app": "app", "user": "u", "session": "s", "message": "hi", **changes}
        name = uuid.uuid4().hex
        return await client.execute_workflow("Invocation", request, id=name, task_queue=queue)

    async with worker(client, apps=[app], session_service=sessions, options=options):
        yield run


async def test_an_invocation_of_another_workflow_is_not_shown_to_plugins_again(
    client: Client, sessions: SqliteSessionService
) -> None:
    """DUR-13, D7: who finds the invocation there takes its message as it is stored."""
    spy = only("on_user_message", on_user_message=lambda **_: text(uuid.uuid4().hex, "user"))
    async with workflows(client, sessions, spy) as run:
        results = [(await run(invocationId="e-1"))["text"] for _ in range(2)]
        with pytest.raises(WorkflowFailureError) as raised:
            await run(invocationId="e-1", message="other")
    assert isinstance(raised.value.cause, ApplicationError)
    assert raised.value.cause.type == "EventConflictError"
    assert results == ["done", "done"]
    assert spy.seen == ["on_user_message"]


async def test_a_message_without_a_session_is_not_shown_to_plugins(
    client: Client, sessions: SqliteSessionService
) -> None:
    """RUN-16: also if only the worker finds that out."""
    spy = only("on_user_message")
    async with workflows(client, sessions, spy) as run:
        with pytest.raises(WorkflowFailureError) as raised:
            await run(createSession=False)
    assert isinstance(raised.value.cause, ApplicationError)
    assert raised.value.cause.type == "SessionNotFoundError"
    assert spy.seen == []


def fail(**_: Any) -> None:
    """Raise."""
    raise ZeroDivisionError("oh")


@pytest.mark.parametrize("answer", [fail, types.Content(parts=[]), "no content"])
async def test_a_message_that_its_hook_refuses_is_not_stored(
    make_runner: MakeRunner, answer: Any
) -> None:
    """PLG-4: nothing is stored, and the session is free."""
    spy = only("on_user_message", on_user_message=answer)
    runner = await make_runner(echoing(), plugins=[spy])
    with pytest.raises((CallbackError, RuntimeError)):
        await send(runner)
    assert await stored(runner) == []
    assert await runner.session_service.active_invocation(KEY) is None


async def test_a_message_for_a_session_that_is_not_there(make_runner: MakeRunner) -> None:
    """RUN-16: the hook is not asked, unless the session is to be created."""
    spy = only("on_user_message")
    runner = await make_runner(echoing(), plugins=[spy])
    with pytest.raises(SessionNotFoundError):
        [event async for event in runner.run_async(**USER, new_message="hi")]
    assert spy.seen == []
    runner = await make_runner(echoing(), plugins=[spy], auto_create_session=True)
    assert [event async for event in runner.run_async(**USER, new_message="hi")]
    assert spy.seen == ["on_user_message"]


# ----- the run


async def test_an_answer_before_the_run_is_all_there_is_of_it(make_runner: MakeRunner) -> None:
    """PLG-5: one event of author model, through on_event; the run has succeeded."""
    spy = Spy(before_run=text("closed today"))
    agent = echoing()
    runner = await make_runner(agent, plugins=[spy])
    events = await send(runner)
    assert [gist(event) for event in events] == ["model text closed today"]
    assert spy.seen == [
        "on_user_message",
        "before_run",
        "on_event model text closed today",
        "after_run",
    ]
    assert requests(agent) == []
    record = await runner.session_service.get_invocation(KEY, events[0].invocation_id)
    assert record is not None
    assert record.status is Status.COMPLETED


async def test_after_run_comes_after_everything_and_before_the_next_message(
    make_runner: MakeRunner,
) -> None:
    """PLG-5, RUN-26: all events are stored, the session is still held."""
    found: list[Any] = []
    runners: list[Runner] = []

    async def look(invocation_context: Any) -> None:
        sessions = runners[0].session_service
        active = await sessions.active_invocation(KEY)
        found.append(gist(invocation_context.session.events[-1]))
        found.append(active is not None and active.status)

    runner = await make_runner(echoing(), plugins=[only("after_run", after_run=look)])
    runners.append(runner)
    await send(runner)
    assert found == ["a text done", Status.RUNNING]


async def test_a_failing_after_run_fails_the_run(make_runner: MakeRunner) -> None:
    """PLG-4, 17.1 RUN-8: the answer was stored before, the error event comes last."""
    spy = Spy(after_run=fail)
    runner = await make_runner(echoing(), plugins=[spy])
    error, events = await failed(runner)
    assert isinstance(error, RuntimeError)
    assert [gist(event) for event in events][2:] == ["a text done", "a error RuntimeError"]
    await until_seen(spy, "on_run_error RuntimeError")


# ----- the events


class Speaker(BaseAgent):
    """A custom agent, whose events the loop commits."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        event = Event(author=self.name, content=text("hello"))
        yield event
        yield Event(author=self.name, content=text(f"I said {event.text}"))


TEAM: dict[str, Any] = {
    "a step's": echoing,
    "the loop's": lambda: Speaker(name="a"),
    "merged": lambda: LlmAgent(
        name="a",
        model=ScriptedModel(replies=[calls(("echo", {"word": "1"}), ("echo", {"word": "2"})), "x"]),
        tools=[echo],
    ),
    "a callback's": lambda: echoing(
        before_agent_callback=lambda callback_context: callback_context.state.update({"k": 1})
    ),
}


@pytest.mark.parametrize("kind", TEAM)
async def test_replaced_events_are_the_stored_ones(make_runner: MakeRunner, kind: str) -> None:
    """PLG-6, 17.1: whoever commits them; id, invocation, author and what was not set stay."""

    def replace(event: Event, **_: Any) -> Event:
        return Event(id="x", invocation_id="x", timestamp=1.0, custom_metadata={"seen": True})

    spy = only("on_event", on_event=replace)
    runner = await make_runner(TEAM[kind](), plugins=[spy])
    name = uuid.uuid4().hex
    events = await send(runner, invocation_id=name)
    expected = await plain(TEAM[kind](), name)
    assert events == (await stored(runner))[1:]
    assert {str(event.custom_metadata) for event in events} == {"{'seen': True}"}
    assert all(event.timestamp > 1.0 for event in events)
    unlike = {"timestamp", "custom_metadata"}
    assert [e.model_dump(exclude=unlike) for e in events] == [
        e.model_dump(exclude=unlike) for e in expected
    ]
    assert len(spy.seen) == len(events)


async def test_an_event_changed_in_place_is_changed_for_the_agent_too(
    make_runner: MakeRunner,
) -> None:
    """PLG-6: what is stored is what the agent continues with, here and in the next prompt."""

    def shout(event: Event, **_: Any) -> None:
        event.content = text(event.text.upper())
        event.id = event.invocation_id = "mine"

    runner = await make_runner(Speaker(name="a"), plugins=[only("on_event", on_event=shout)])
    assert [gist(event) for event in await send(runner)] == ["a text HELLO", "a text I SAID HELLO"]


async def test_a_call_that_is_taken_out_is_not_made(make_runner: MakeRunner) -> None:
    """PLG-6, TRAP-2: the stored event decides; here it is a final answer."""

    def veto(event: Event, **_: Any) -> Event | None:
        return Event(content=text("vetoed")) if event.get_function_calls() else None

    runner = await make_runner(echoing(), plugins=[only("on_event", on_event=veto)])
    assert [gist(event) for event in await send(runner)] == ["a text vetoed"]


async def test_calls_that_are_put_in_are_made(make_runner: MakeRunner) -> None:
    """FLW-40: they get ids, every time anew, also from a plugin that keeps its answer."""
    content = call("echo", word="from the plugin")

    def put_in(event: Event, **_: Any) -> Event | None:
        return Event(content=content) if event.text == "call" else None

    model = ScriptedModel(replies=["call", "call", "done"])
    agent = LlmAgent(name="a", model=model, tools=[echo])
    runner = await make_runner(agent, plugins=[only("on_event", on_event=put_in)])
    events = await send(runner)
    assert [gist(e) for e in events] == ["a call echo", "a response echo"] * 2 + ["a text done"]
    ids = [c.id for event in events for c in event.get_function_calls()]
    assert len(set(ids)) == 2
    assert ids == [r.id for event in events for r in event.get_function_responses()]


async def test_a_response_cannot_be_taken_out(make_runner: MakeRunner) -> None:
    """I9: its call would stay unanswered; the run fails, and answers it."""

    def drop(event: Event, **_: Any) -> Event | None:
        return Event(content=text("x")) if event.get_function_responses() else None

    runner = await make_runner(echoing(), plugins=[only("on_event", on_event=drop)])
    error, events = await failed(runner)
    assert "function responses" in str(error)
    assert [gist(e) for e in events][1:] == ["a response echo", "a error CallbackError"]


async def test_a_merged_event_larger_than_an_activitys_input_is_seen_too(
    make_runner: MakeRunner,
) -> None:
    """FLW-43: calls side by side may have large results each; the plugin sees them together."""

    def large() -> str:
        """Return much."""
        return "x" * 900_000

    model = ScriptedModel(replies=[calls(*[("large", {})] * 4), "done"])
    spy = only("on_event")
    runner = await make_runner(LlmAgent(name="a", model=model, tools=[large]), plugins=[spy])
    events = await send(runner)
    assert len(str(events[1].content)) > 3_600_000
    assert spy.seen[1] == "on_event a response large,large,large,large"


async def test_what_a_hook_makes_of_an_event_must_be_storable(make_runner: MakeRunner) -> None:
    """It is refused in the hook, by name, and not by the store for ever."""

    def grow(event: Event, **_: Any) -> Event:
        return Event(content=text("x" * 1_100_000))

    runner = await make_runner(echoing(), plugins=[only("on_event", on_event=grow)])
    error, events = await failed(runner)
    assert "on_event_callback" in str(error)
    assert [gist(event) for event in events] == ["a error PayloadTooLargeError"]


# ----- errors


@pytest.mark.parametrize(
    "hook", [h.removesuffix("_callback") for h in HOOKS if "error" not in h][1:]
)
async def test_an_error_in_a_hook_names_plugin_and_hook_and_ends_the_run(
    make_runner: MakeRunner, hook: str
) -> None:
    """PLG-4, 17.1 RUN-8: a RuntimeError; the error event is stored, no call stays open."""
    runner = await make_runner(echoing(), plugins=[only(hook, **{hook: fail})])
    error, events = await failed(runner)
    assert isinstance(error, RuntimeError)
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert "'spy'" in str(error)
    assert f"'{hook}_callback'" in str(error)
    assert str(error).endswith(": oh")
    assert gist(events[-1]) == "a error RuntimeError"
    called = {c.id for event in events for c in event.get_function_calls()}
    assert called == {r.id for event in events for r in event.get_function_responses()}
    assert await runner.session_service.active_invocation(KEY) is None


@pytest.mark.parametrize(("hook", "tool"), [("on_tool_error", "broken"), ("on_model_error", None)])
async def test_an_error_in_a_hook_for_errors_ends_the_run(
    make_runner: MakeRunner, hook: str, tool: str | None
) -> None:
    """PLG-4: it replaces the error that was to be answered."""
    replies = [call(tool), "never"] if tool else [ModelError("refused")]
    agent = LlmAgent(name="a", model=ScriptedModel(replies=replies), tools=[broken])
    error, _ = await failed(await make_runner(agent, plugins=[only(hook, **{hook: fail})]))
    assert f"'{hook}_callback'" in str(error)


async def test_agents_and_run_are_told_of_an_error_from_the_inside_out(
    make_runner: MakeRunner,
) -> None:
    """PLG-2 as 2.13: each agent that fails, then the run, once its error event is stored."""
    found: list[str] = []
    runners: list[Runner] = []

    async def look(**_: Any) -> None:
        found.append(gist((await stored(runners[0]))[-1]))

    model = ScriptedModel(replies=[ModelError("refused")])
    team = SequentialAgent(name="team", sub_agents=[LlmAgent(name="a", model=model)])
    hooks = ["on_agent_error", "on_run_error"]
    one = only(*hooks, name="one", on_agent_error=fail, on_run_error=fail)
    two = only(*hooks, name="two", on_run_error=look)
    runner = await make_runner(team, plugins=[one, two])
    runners.append(runner)
    error, _ = await failed(runner)
    assert isinstance(error, ModelError)
    await until_seen(two, "on_run_error ModelError")
    assert two.seen == [
        "on_agent_error a ModelError",
        "on_agent_error team ModelError",
        "on_run_error ModelError",
    ]
    await until(lambda: found)
    assert found == ["team error ModelError"]


async def test_the_event_of_an_error_is_seen_and_changed_before_it_is_stored(
    make_runner: MakeRunner,
) -> None:
    """RUN-8, PLG-6: between the notices to agents and run; the caller gets the error itself."""

    def change(event: Event, **_: Any) -> Event | None:
        return event.model_copy(update={"error_message": "hidden"}) if event.error_code else None

    spy = only("on_agent_error", "on_event", "on_run_error", on_event=change)
    agent = LlmAgent(name="a", model=ScriptedModel(replies=[ModelError("refused")]))
    error, events = await failed(await make_runner(agent, plugins=[spy]))
    assert str(error) == "refused"
    assert [(gist(one), one.error_message) for one in events] == [("a error ModelError", "hidden")]
    await until_seen(spy, "on_run_error ModelError")
    assert spy.seen == [
        "on_agent_error a ModelError",
        "on_event a error ModelError",
        "on_run_error ModelError",
    ]


async def test_the_error_is_stored_whatever_its_hook_does(make_runner: MakeRunner) -> None:
    """RUN-8: a hook that raises for the event of an error takes neither it nor the outcome away."""
    agent = LlmAgent(name="a", model=ScriptedModel(replies=[ModelError("refused")]))
    error, events = await failed(
        await make_runner(agent, plugins=[only("on_event", on_event=fail)])
    )
    assert str(error) == "refused"
    assert [gist(event) for event in events] == ["a error ModelError"]


async def test_a_hook_that_hangs_is_given_up(make_runner: MakeRunner) -> None:
    """D11: nothing hangs; the hooks have the time that callbacks have."""

    async def hang(**_: Any) -> None:
        await forever()

    limits = {"limits": Limits(callback_timeout=0.2)}
    for hook in ("before_run", "on_event"):
        spy = only(hook, **{hook: hang})
        error, _ = await failed(await make_runner(echoing(), plugins=[spy], **limits))
        assert "did not finish in 0.2 s" in str(error)


@pytest.mark.thorough
async def test_a_notice_that_fails_changes_no_outcome(make_runner: MakeRunner) -> None:
    """PLG-2: nobody waits for it for ever, and the caller gets the error it was about."""

    async def hang(**_: Any) -> None:
        await forever()

    agent = LlmAgent(name="a", model=ScriptedModel(replies=[ModelError("refused")]))
    spy = only("on_agent_error", "on_run_error", on_agent_error=hang, on_run_error=hang)
    limits = Limits(callback_timeout=2.0)
    error, events = await failed(await make_runner(agent, plugins=[spy], limits=limits))
    assert isinstance(error, ModelError)
    assert [gist(event) for event in events] == ["a error ModelError"]
    await until_seen(spy, "on_run_error ModelError")


async def cancelled(runner: Runner, name: str, reached: asyncio.Event) -> None:
    """Cancel a run once a hook of it is reached; wait for its end."""
    run = asyncio.ensure_future(send(runner, invocation_id=name))
    await until_set(reached)
    assert await runner.cancel(**USER, invocation_id=name)
    # Of an invocation that was never opened there is nothing to show but that.
    async with asyncio.timeout(PATIENCE):
        with suppress(InvocationCancelledError, asyncio.CancelledError):
            await run


@pytest.mark.parametrize("hook", ["on_user_message", "before_run", "on_event", "after_run"])
async def test_a_run_is_cancelled_in_a_hook(make_runner: MakeRunner, hook: str) -> None:
    """CAN-1, CAN-2: the session is left free and sealed; a message that was not stored is not."""
    reached = asyncio.Event()

    async def hang(**_: Any) -> None:
        reached.set()
        await forever()

    name = uuid.uuid4().hex
    runner = await make_runner(Speaker(name="a"), plugins=[only(hook, **{hook: hang})])
    await cancelled(runner, name, reached)
    events = [gist(event) for event in await stored(runner)]
    if hook == "on_user_message":
        assert events == []
    else:
        assert events[-1] == "a error INVOCATION_ABORTED"
    assert await runner.session_service.active_invocation(KEY) is None


# ----- deploys, agents as tools, and what it costs


def order() -> None:
    """Order something; the shop answers later."""


@pytest.mark.parametrize("before", [True, False])
async def test_a_deploy_may_add_and_remove_plugins(
    client: Client, sessions: SqliteSessionService, *, before: bool
) -> None:
    """D6: an open invocation continues; what it schedules was recorded when it opened."""
    queue = f"test-{uuid.uuid4().hex}"
    spies = [Spy(), Spy()]

    def serving(spy: Spy, *, plugged: bool) -> Any:
        model = ScriptedModel(replies=[call("order"), "came"])
        agent = LlmAgent(name="a", model=model, tools=[LongRunningFunctionTool(order)])
        app = App(name="app", root_agent=agent, plugins=[spy] if plugged else [])
        options = WorkerOptions(task_queue=queue, max_cached_workflows=0)
        return app, worker(client, apps=[app], session_service=sessions, options=options)

    app, first = serving(spies[0], plugged=before)
    async with (
        first,
        Runner(app=app, session_service=sessions, client=client, task_queue=queue) as runner,
    ):
        await send(runner)
        (pending,) = await runner.pending(**USER)
    part = types.FunctionResponse(id=pending.call_id, name="order", response={"book": 1})
    answer = types.Content(role="user", parts=[types.Part(function_response=part)])
    app, second = serving(spies[1], plugged=not before)
    async with (
        second,
        Runner(app=app, session_service=sessions, client=client, task_queue=queue) as runner,
    ):
        events = [event async for event in runner.run_async(**USER, new_message=answer)]
    assert [gist(event) for event in events] == ["a text came"]
    assert ("on_event a call order" in spies[0].seen) is before
    # What runs inside a step is the worker's; what the loop schedules is the invocation's.
    assert spies[1].seen == ([] if before else ["before_model", "after_model"])


@pytest.mark.parametrize("included", [True, False])
async def test_an_agent_as_a_tool_runs_with_or_without_the_plugins(
    make_runner: MakeRunner, *, included: bool
) -> None:
    """TOL-21: as `include_plugins` says, in its steps and round its run."""
    child = LlmAgent(name="child", model=ScriptedModel(replies=["found"]))
    model = ScriptedModel(replies=[call("child", request="look"), "done"])
    tool = AgentTool(child, include_plugins=included)
    spy = Spy()
    runner = await make_runner(LlmAgent(name="a", model=model, tools=[tool]), plugins=[spy])
    await send(runner)
    assert spy.seen.count("before_model") == (3 if included else 2)
    assert spy.seen.count("after_run") == (2 if included else 1)
    assert ("on_event child text found" in spy.seen) is included


async def history(client: Client, sessions: SqliteSessionService, *plugins: Any) -> list[Any]:
    """The events of a tool turn's history."""
    queue = f"test-{uuid.uuid4().hex}"
    app = App(name="app", root_agent=echoing(), plugins=list(plugins))
    options = WorkerOptions(task_queue=queue)
    async with (
        worker(client, apps=[app], session_service=sessions, options=options),
        Runner(app=app, session_service=sessions, client=client, task_queue=queue) as runner,
    ):
        name = f"e-{uuid.uuid4().hex}"
        await send(runner, invocation_id=name)
        handle = client.get_workflow_handle(workflow_id(KEY, name))
        await handle.result()
        return list((await handle.fetch_history()).events)


@pytest.mark.parametrize("hooks", [[], [*INSIDE, "on_agent_error", "on_run_error"]])
async def test_plugins_cost_nothing_where_they_run_inside_a_step(
    client: Client, sessions: SqliteSessionService, hooks: list[str]
) -> None:
    """D4: a tool turn is three activities and 24 events, also with plugins round model and tool."""
    events = await history(client, sessions, *([only(*hooks)] if hooks else []))
    kinds = [event.event_type for event in events]
    assert len(events) == 24
    assert kinds.count(EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED) == 3
    assert kinds.count(EventType.EVENT_TYPE_MARKER_RECORDED) == 1


# ----- the stock plugins, end to end


async def test_plugins_are_closed_with_what_serves_them(make_runner: MakeRunner) -> None:
    """PLG-2: once, when the runner in process, or the worker, ends."""
    closed: list[str] = []

    class Closing(BasePlugin):
        async def close(self) -> None:
            closed.append(self.name)

    app = App(name="app", root_agent=echoing(), plugins=[Closing("p")])
    async with InMemoryRunner(app=app) as runner:
        await send(runner)
        assert closed == []
    assert closed == ["p"]


async def test_an_event_put_in_the_place_of_another_keeps_its_author(
    make_runner: MakeRunner,
) -> None:
    """PLG-6: a plugin that names no author does not make the event nobody's."""
    spy = Spy(on_event=Event(content=text("instead"), author=""))
    runner = await make_runner(echoing(), plugins=[spy])
    authors = {event.author for event in await send(runner)}
    assert authors == {"a"}
