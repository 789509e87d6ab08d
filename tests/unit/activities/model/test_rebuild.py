"""A rebuilt request is the one that the model got."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest
from google.genai import types
from pydantic import BaseModel

from durable_adk import calling
from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.model import rebuild
from durable_adk.activities.model.rebuild import StoredSession, read_model_requests, rebuild_request
from durable_adk.agents import LlmAgent, LoopAgent, ParallelAgent, RunConfig, SequentialAgent
from durable_adk.agents.run_config import StreamingMode
from durable_adk.apps import App, AppRegistry
from durable_adk.apps.app import EventsCompactionConfig, ResumabilityConfig
from durable_adk.artifacts import InMemoryArtifactService
from durable_adk.auth import AuthConfig
from durable_adk.auth.auth_schemes import HTTPBearer
from durable_adk.auth.credential_service import InMemoryCredentialService
from durable_adk.context.step_scope import Services
from durable_adk.errors import (
    NotFoundError,
    PayloadTooLargeError,
    RateLimitError,
    RequestNotRebuiltError,
)
from durable_adk.memory import InMemoryMemoryService
from durable_adk.models import BaseLlm, LlmRequest, LlmResponse, ScriptedModel
from durable_adk.plugins import BasePlugin
from durable_adk.retrying import Deadline
from durable_adk.runners import Runner
from durable_adk.sessions import InMemorySessionService, SessionKey
from durable_adk.tools import BaseTool, FunctionTool, ToolContext
from durable_adk.tools.long_running_tool import LongRunningFunctionTool
from durable_adk.wire.effect import Attempt
from durable_adk.wire.model_request import ModelRequest, ReadModelRequestsStep
from tests.support.scripts import USER, call, calls, send, stored
from tests.support.waiting import forever

LONGEST = 60.0
"""The most seconds that a step may have."""

KEY = SessionKey("app", USER["user_id"], USER["session_id"])


def count(tool_context: ToolContext) -> int:
    """Count."""
    tool_context.state["n"] = tool_context.state.get("n", 0) + 1
    return tool_context.state["n"]


def ask(question: str) -> None:
    """Ask somebody, who answers later."""


def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


class Answer(BaseModel):
    """What an agent is to answer with."""

    number: int


def scripted(*replies: Any, **options: Any) -> ScriptedModel:
    """A model with some replies."""
    return ScriptedModel(replies=list(replies), **options)


def app_of(agent: Any, **options: Any) -> App:
    """An app."""
    return App(name="app", root_agent=agent, **options)


def runs(app: App) -> Runner:
    """A runner in this process."""
    return Runner(app=app, session_service=InMemorySessionService())


def step_of(event_ids: list[str], configs: dict[str, RunConfig], **more: Any) -> Any:
    """A step that asks for requests of the test's session."""
    app, user, session = KEY
    return ReadModelRequestsStep(
        app=app, user=user, session=session, event_ids=event_ids, run_configs=configs, **more
    )


async def assert_rebuilt(
    app: App, runner: Runner, *models: Any, run_config: RunConfig | None = None
) -> int:
    """Check that each request that the models got is rebuilt; how many there are."""
    deps = Dependencies(registry=AppRegistry([app]), sessions=runner.session_service)
    session = await StoredSession.read(deps, KEY)
    rebuilt: dict[str, tuple[str, LlmRequest]] = {}
    for event in await stored(runner):
        configs = {event.invocation_id: run_config} if run_config else {}
        try:
            found = await rebuild_request(deps, step_of([event.id], configs), session, event.id)
        except NotFoundError:
            continue
        rebuilt[found.event.id] = (event.author, found.request)
    got = [(agent_of(request), request) for model in models for request in model.requests]
    assert len(got) == len(rebuilt)
    for agent in {agent for agent, _ in got}:
        theirs = [request for name, request in got if name == agent]
        ours = [request for name, request in rebuilt.values() if name == agent]
        for one, other in zip(theirs, ours, strict=True):
            assert other.contents == one.contents
            assert other.config == one.config
            assert other.model == one.model
            assert other.tools_dict.keys() == one.tools_dict.keys()
    return len(got)


def agent_of(request: LlmRequest) -> str:
    """The agent that a request is of."""
    return (request.config.labels or {})["adk_agent_name"]


async def test_after_tools_and_with_values_of_the_state() -> None:
    """Of the first call and of those after tools, in a first invocation and in a later one."""
    config = types.GenerateContentConfig(temperature=0.3, labels={"team": "x"})
    model = scripted(
        call("count"), calls(("count", {}), ("count", {})), "three", call("count"), "4"
    )
    agent = LlmAgent(
        name="a",
        model=model,
        global_instruction="Be kind to {user:name?}.",
        instruction="So far {n?}, last said {said?}.",
        output_key="said",
        tools=[count],
        generate_content_config=config,
    )
    app = app_of(agent)
    async with runs(app) as runner:
        await send(runner, "one", state_delta={"user:name": "Ann"})
        await send(runner, "two", state_delta={"n": 7})
        assert await assert_rebuilt(app, runner, model) == 5
    assert "So far 8, last said three" in str(model.requests[-1].config.system_instruction)


async def test_of_agents_that_hand_over() -> None:
    """Each sees what the others did as quotations, and whom it may hand over to."""
    root = scripted(call("transfer_to_agent", agent_name="b"))
    below = scripted("hello", "again")
    helper = LlmAgent(name="b", model=below, instruction="Help.", description="Helps.")
    agent = LlmAgent(name="a", model=root, description="First.", sub_agents=[helper])
    app = app_of(agent)
    async with runs(app) as runner:
        await send(runner)
        await send(runner)
        assert await assert_rebuilt(app, runner, root, below) == 3


async def test_with_an_output_schema_alone_and_beside_tools() -> None:
    """As the configuration, or as the tool that takes it; the text made of that is no call."""
    plain = scripted('{"number": 1}')
    tooled = scripted(call("count"), call("set_model_response", number=2))
    agent = SequentialAgent(
        name="all",
        sub_agents=[
            LlmAgent(name="a", model=plain, output_schema=Answer, output_key="x"),
            LlmAgent(
                name="b", model=tooled, instruction="{x}", output_schema=Answer, tools=[count]
            ),
        ],
    )
    app = app_of(agent)
    async with runs(app) as runner:
        await send(runner)
        assert await assert_rebuilt(app, runner, plain, tooled) == 3


async def test_of_the_current_turn_alone() -> None:
    """`include_contents="none"` leaves out earlier turns."""

    def reply(request: LlmRequest) -> Any:
        return "done" if len(request.contents) > 1 else call("count")

    model = ScriptedModel(replies=reply)
    app = app_of(LlmAgent(name="a", model=model, include_contents="none", tools=[count]))
    async with runs(app) as runner:
        await send(runner, "one")
        await send(runner, "two")
        assert await assert_rebuilt(app, runner, model) == 4


async def test_of_parallel_branches_and_loops() -> None:
    """A branch does not see its siblings, however their events lie between its own."""
    slow, fast = scripted(call("count"), "slow", delay=0.05), scripted(call("count"), "fast")
    again = ScriptedModel(replies=lambda _: "again")
    both = ParallelAgent(
        name="both",
        sub_agents=[
            LlmAgent(name="slow", model=slow, tools=[count]),
            LlmAgent(name="fast", model=fast, tools=[count]),
        ],
    )
    after = LoopAgent(name="loop", max_iterations=2, sub_agents=[LlmAgent(name="c", model=again)])
    app = app_of(SequentialAgent(name="all", sub_agents=[both, after]))
    async with runs(app) as runner:
        await send(runner)
        assert await assert_rebuilt(app, runner, slow, fast, again) == 6


@pytest.mark.parametrize("resumable", [False, True])
async def test_of_an_invocation_that_waited(resumable: bool) -> None:
    """Before and after a confirmation, and after the late answer of a long-running tool."""
    model = scripted(call("pay", amount=3), call("ask", question="?"), "waiting", "done", "end")
    tools = [FunctionTool(pay, require_confirmation=True), LongRunningFunctionTool(ask)]
    agent = LlmAgent(name="a", model=model, tools=tools)
    app = app_of(agent, resumability_config=ResumabilityConfig(is_resumable=resumable))
    async with runs(app) as runner:
        events = await send(runner)
        (request,) = (
            one
            for event in events
            for one in event.get_function_calls()
            if one.name == "adk_request_confirmation"
        )
        events += await send(runner, responds(request, {"confirmed": True}))
        asked = [one for event in events for one in event.get_function_calls() if one.name == "ask"]
        assert asked
        await send(runner, responds(asked[0], {"answer": "42"}))
        assert await assert_rebuilt(app, runner, model) >= 3


def responds(asked: types.FunctionCall, response: dict[str, Any]) -> Any:
    """A message that answers a call."""
    answer = types.FunctionResponse(id=asked.id, name=asked.name, response=response)
    return types.Content(role="user", parts=[types.Part(function_response=answer)])


class Several(BaseLlm):
    """Gives several whole responses to each call."""

    model: str = "several"
    requests: list[Any] = []  # noqa: RUF012 - pydantic copies it

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yield a text, a call and a text; after the tool, two texts."""
        del stream
        self.requests.append(llm_request.snapshot())
        said = ["one", call("count"), "two"] if len(self.requests) == 1 else ["three", "four"]
        for each in said:
            content = each if isinstance(each, types.Content) else types.ModelContent(each)
            yield LlmResponse(content=types.Content(role="model", parts=content.parts))


@pytest.mark.parametrize("mode", [StreamingMode.NONE, StreamingMode.SSE])
async def test_of_an_answer_in_pieces(mode: StreamingMode) -> None:
    """Chunks are one answer; several whole responses are of one call, whatever comes between."""
    streamed, several = scripted("a b c"), Several()
    agent = SequentialAgent(
        name="all",
        sub_agents=[
            LlmAgent(name="a", model=streamed),
            LlmAgent(name="b", model=several, tools=[count]),
        ],
    )
    app = app_of(agent)
    async with runs(app) as runner:
        await send(runner, run_config=RunConfig(streaming_mode=mode))
        assert await assert_rebuilt(app, runner, streamed, several) == len(several.requests) + 1


async def test_with_the_options_of_the_run() -> None:
    """Labels, more context and the events that the run may see are in its RunConfig."""
    model = scripted("one", "two")
    app = app_of(LlmAgent(name="a", model=model))
    day = types.Content(role="user", parts=[types.Part(text="Today is Monday.")])
    config = RunConfig(labels={"cost": "centre"}, model_input_context=[day])
    async with runs(app) as runner:
        await send(runner, run_config=config)
        assert await assert_rebuilt(app, runner, model, run_config=config) == 1


async def test_after_a_summary() -> None:
    """What was summarised before a call is a summary in its request, and in no earlier one."""
    model = ScriptedModel(replies=lambda _: "fine")
    agent = LlmAgent(name="a", model=model)
    compaction = EventsCompactionConfig(compaction_interval=2, overlap_size=0)
    app = app_of(agent, events_compaction_config=compaction)
    async with runs(app) as runner:
        for text in ("one", "two", "three"):
            await send(runner, text)
        model._requests[:] = [one for one in model.requests if one.config.labels]
        assert await assert_rebuilt(app, runner, model) == 3


SECRET = "sk-hidden"  # noqa: S105 - of nobody


class Adding(BasePlugin):
    """A plugin that changes requests."""

    def __init__(self) -> None:
        super().__init__(name="adding")

    async def before_model_callback(self, *, llm_request: LlmRequest, **_: Any) -> None:
        """Add to the request."""
        llm_request.append_instructions(["From a plugin."])


def add(callback_context: Any, llm_request: LlmRequest) -> None:
    """Add to the request."""
    callback_context.state["added"] = True
    llm_request.append_instructions(["From a callback."])


class Searching(BaseTool):
    """A tool of the provider, with a credential in its options."""

    async def process_llm_request(self, *, tool_context: Any, llm_request: LlmRequest) -> None:
        """Add a tool that needs a key."""
        key = types.ApiKeyConfig(api_key_string=SECRET)
        maps = types.GoogleMaps(auth_config=types.AuthConfig(api_key_config=key))
        llm_request.config.tools = [*(llm_request.config.tools or []), types.Tool(google_maps=maps)]


async def shown(app: App, runner: Runner, *event_ids: str, **more: Any) -> list[ModelRequest]:
    """The requests of some events as they are shown."""
    deps = Dependencies(registry=AppRegistry([app]), sessions=runner.session_service)
    step = step_of(list(event_ids), {}, **more)
    return (await read_model_requests(deps, step, Attempt())).requests


async def test_what_is_shown_says_what_it_lacks_and_has_no_credentials() -> None:
    """Callbacks and plugins do not run; of files, keys and headers nothing is shown."""
    options = types.HttpOptions(headers={"Authorization": SECRET})
    agent = LlmAgent(
        name="a",
        model=scripted(call("gone"), "done"),
        instruction=lambda context: f"You are {context.agent_name}.",
        before_model_callback=add,
        tools=[count, Searching(name="maps", description="Maps.")],
        generate_content_config=types.GenerateContentConfig(temperature=0.5, http_options=options),
    )

    def gone() -> str:
        """A tool that a deploy removes."""
        return "gone"

    agent.tools.append(gone)
    app = app_of(agent, plugins=[Adding()])
    picture = types.Part.from_bytes(data=SECRET.encode(), mime_type="image/png")
    async with runs(app) as runner:
        await send(runner, types.Content(role="user", parts=[types.Part(text="hi"), picture]))
        agent.tools.remove(gone)
        events = [event.id for event in await stored(runner) if event.author == "a"]
        first, last = await shown(app, runner, *events, skips=True)
        state = (await runner.session_service.read_state(KEY))[1]
    assert first.rebuilt
    assert first.system_instruction == 'You are a.\n\nYou are an agent. Your internal name is "a".'
    assert first.contents[0]["parts"] == [
        {"text": "hi"},
        {"inlineData": {"mimeType": "image/png"}},
    ]
    assert first.config == {"temperature": 0.5, "labels": {"adk_agent_name": "a"}}
    assert [sorted(one) for one in first.tools] == [["functionDeclarations"], ["googleMaps"]]
    assert first.differences == [
        "The RunConfig of the run is no longer known.",
        "before_model_callback of a is not applied.",
        "Plugin adding is not applied.",
        "An instruction is a function, and says what it says now.",
        "The answer calls gone, which a does not have now.",
    ]
    assert SECRET not in first.to_json()
    assert [content["role"] for content in last.contents] == ["user", "model", "user"]
    assert state == {"added": True}


async def test_what_cannot_be_rebuilt_is_refused() -> None:
    """No answer of a model, a value that is not stored, an agent that is gone, a slow function."""
    model = scripted("one", "two")
    agent = LlmAgent(name="a", model=model, instruction="{temp:word}")
    app = app_of(agent)
    async with runs(app) as runner:
        events = await send(runner, state_delta={"temp:word": "hi"})
        said = events[-1].id
        user = (await stored(runner))[0].id
        for missing in (user, "none"):
            with pytest.raises(NotFoundError, match=missing):
                await shown(app, runner, missing)
        with pytest.raises(RequestNotRebuiltError, match="temp:word"):
            await shown(app, runner, said)
        assert await shown(app, runner, said, user, skips=True) == []

        async def slow(_: Any) -> str:
            await forever()

        agent.instruction = slow
        with pytest.raises(RequestNotRebuiltError, match=r"within 0\.01 s"):
            await shown(app, runner, said, attempt_timeout=0.01)
        with pytest.raises(RequestNotRebuiltError, match="no agent 'a'"):
            await shown(app_of(LlmAgent(name="b", model=model)), runner, said)
        agent.instruction = "x" * 2_000
        with pytest.raises(PayloadTooLargeError, match="at most 1,000"):
            await shown(app, runner, said, max_bytes=1_000)
        found = await shown(app, runner, said, said, said, max_bytes=5_000, skips=True)
        assert len(found) == 2
        with pytest.raises(PayloadTooLargeError, match="together they may have at most 5,000"):
            await shown(app, runner, said, said, said, max_bytes=5_000)


async def test_one_session_at_a_time_is_in_a_workers_memory() -> None:
    """Others wait: not for longer than they may take, and they can be cancelled."""
    begun, go_on = asyncio.Semaphore(0), asyncio.Event()

    async def waits(_: Any) -> str:
        begun.release()
        await go_on.wait()
        return ""

    agent = LlmAgent(name="a", model=scripted("one"))
    app = app_of(agent)
    async with runs(app) as runner:
        said = (await send(runner))[-1].id
        agent.instruction = waits
        deps = Dependencies(registry=AppRegistry([app]), sessions=runner.session_service)

        def look(seconds: float = LONGEST) -> Any:
            step = step_of([said], {}, attempt_timeout=seconds)
            return asyncio.ensure_future(read_model_requests(deps, step, Attempt()))

        first = look()
        await begun.acquire()
        cancelled, last = look(), look()
        with pytest.raises(RateLimitError, match="other requests"):
            await look(0.01)
        assert begun.locked()  # nobody else has begun
        cancelled.cancel()
        go_on.set()
        assert len((await first).requests) == len((await last).requests) == 1
        with pytest.raises(asyncio.CancelledError):
            await cancelled


async def test_what_is_left_out_ends_with_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were rebuilt before it are shown; nothing is begun after it."""
    asked: list[str] = []

    class Passing(Deadline):
        def left(self) -> float:
            return super().left() if len(asked) < 2 else 0.0

    async def slow_later(_: Any) -> str:
        asked.append("")
        if len(asked) == 2:  # now the time has come
            limit = calling._limit.get()
            assert limit is not None
            limit.reschedule(asyncio.get_running_loop().time())
            await forever()
        return ""

    monkeypatch.setattr(rebuild, "Deadline", Passing)

    agent = LlmAgent(name="a", model=scripted("one"))
    app = app_of(agent)
    async with runs(app) as runner:
        said = (await send(runner))[-1].id
        agent.instruction = slow_later
        found = await shown(app, runner, *[said] * 4, skips=True, attempt_timeout=LONGEST)
    assert (len(found), len(asked)) == (1, 2)


async def test_an_answer_that_a_callback_may_have_made() -> None:
    """It has nothing that only a model gives, as that of some models; a trace leaves it out."""

    def answers(_: Any) -> types.Content:
        return types.ModelContent("Closed.")

    agent = LlmAgent(name="a", model=scripted(), before_agent_callback=answers)
    app = app_of(agent)
    async with runs(app) as runner:
        said = (await send(runner))[-1].id
        (found,) = await shown(app, runner, said)
        assert found.differences[-1].endswith("a callback may have made it.")
        assert await shown(app, runner, said, skips=True) == []


class Attaching(BaseTool):
    """A tool that adds a file whose bytes nothing may read."""

    async def process_llm_request(self, *, tool_context: Any, llm_request: LlmRequest) -> None:
        """Add it, and one in a response."""
        data: Any = object()
        blob = types.Blob.model_construct(data=data, mime_type="image/png")
        inner = types.FunctionResponseBlob.model_construct(data=data, mime_type="image/png")
        parts = [types.FunctionResponsePart(inline_data=inner)]
        response = types.FunctionResponse(name="f", response={}, parts=parts)
        both = [types.Part(inline_data=blob), types.Part(function_response=response)]
        llm_request.contents.append(types.Content(role="user", parts=both))


async def test_the_bytes_of_files_are_not_turned_into_text() -> None:
    """They may be many megabytes, and are not shown."""
    agent = LlmAgent(name="a", model=scripted("one"))
    app = app_of(agent)
    async with runs(app) as runner:
        said = (await send(runner))[-1].id
        agent.tools = [Attaching(name="attach", description="Attaches.")]
        (found,) = await shown(app, runner, said)
    file = {"inlineData": {"mimeType": "image/png"}}
    response = {"functionResponse": {"name": "f", "response": {}, "parts": [file]}}
    assert found.contents[-1]["parts"] == [file, response]


CREDENTIAL = AuthConfig(auth_scheme=HTTPBearer())
CHANGES: dict[str, Callable[[ToolContext], Awaitable[Any]]] = {
    "save_artifact of 'a'": lambda context: context.save_artifact("a", types.Part(text="x")),
    "save_artifact_stream of 'a'": lambda context: context.save_artifact_stream("a", NO_CHUNKS),
    "delete_artifact of 'note'": lambda context: artifacts_of(context).delete_artifact(
        app_name="app", filename="note", **USER
    ),
    "delete_user": lambda context: artifacts_of(context).delete_user(
        app_name="app", user_id="u", session_ids=["s"]
    ),
    "add_memory": lambda context: context.add_memory(memories=[]),
    "add_events_to_memory": lambda context: context.add_events_to_memory(events=[]),
    "add_session_to_memory": lambda context: context.add_session_to_memory(),
    "delete_memory": lambda context: memory_of(context).delete_memory(app_name="app", user_id="u"),
    "save_credential": lambda context: context.save_credential(CREDENTIAL),
}
NO_CHUNKS: Any = ()


def artifacts_of(context: ToolContext) -> Any:
    """The artifact service that user code can get hold of."""
    return context.get_invocation_context().artifact_service


def memory_of(context: ToolContext) -> Any:
    """The memory service that user code can get hold of."""
    return context.get_invocation_context().memory_service


class Changing(BaseTool):
    """A tool that reads and changes stores when a request is built."""

    change: Any = None

    async def process_llm_request(self, *, tool_context: ToolContext, llm_request: Any) -> None:
        """Read all, then change one."""
        assert await tool_context.list_artifacts() == ["note"]
        assert await tool_context.get_artifact_version("note")
        assert await tool_context.open_artifact("note")
        names = {"app_name": "app", "filename": "note", **USER}
        assert await artifacts_of(tool_context).list_versions(**names) == [0]
        assert len(await artifacts_of(tool_context).list_artifact_versions(**names)) == 1
        assert (await tool_context.search_memory("x")).memories == []
        assert await tool_context.load_credential(CREDENTIAL) is None
        if self.change is not None:
            await self.change(tool_context)


async def test_a_look_reads_from_services_and_changes_nothing() -> None:
    """What the tool would change is refused by name; the stores are as before."""
    services = Services(
        artifacts=InMemoryArtifactService(),
        memory=InMemoryMemoryService(),
        credentials=InMemoryCredentialService(),
    )
    agent = LlmAgent(name="a", model=scripted("one"))
    app = app_of(agent)
    async with runs(app) as runner:
        said = (await send(runner))[-1].id
        assert services.artifacts
        note = types.Part(text="From a file.")
        await services.artifacts.save_artifact(
            app_name="app", filename="note", artifact=note, **USER
        )
        tool = Changing(name="changes", description="Changes.")
        agent.tools, agent.instruction = [tool], "{artifact.note}"
        deps = Dependencies(
            registry=AppRegistry([app]), sessions=runner.session_service, services=services
        )

        async def look() -> Any:
            return await read_model_requests(deps, step_of([said], {}), Attempt())

        assert "From a file." in (await look()).requests[0].system_instruction
        for named, change in CHANGES.items():
            tool.change = change
            with pytest.raises(RequestNotRebuiltError, match=f"{named}.*may change nothing"):
                await look()
        tool.change = None
        await look()  # as before: the tool has looked at all
