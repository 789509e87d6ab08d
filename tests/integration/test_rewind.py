"""Sessions that are taken back to before an invocation (REW-1..4, RUN-32)."""

import asyncio
from typing import Any

import pytest
from google.genai import types

from durable_adk.agents import LlmAgent
from durable_adk.apps import EventsCompactionConfig
from durable_adk.artifacts import InMemoryArtifactService
from durable_adk.context.activity import ToolContext
from durable_adk.errors import (
    InvalidRequestError,
    InvocationNotFoundError,
    SessionBusyError,
    SessionNotFoundError,
)
from durable_adk.models import ScriptedModel
from durable_adk.models.llm_request import LlmRequest
from durable_adk.runners import Runner
from durable_adk.sessions import SessionKey, Status
from durable_adk.tools.long_running_tool import LongRunningFunctionTool
from tests.conftest import MakeRunner
from tests.support.gates import until_set
from tests.support.scripts import USER, call, gist, send, state, stored
from tests.support.summaries import Teller, summed

KEY = SessionKey("app", "u", "s")
OWNER = KEY._asdict()


def script(request: LlmRequest) -> Any:
    """Do what a message that begins with `do` says, and repeat any other."""
    last = (request.contents[-1].parts or [])[-1]
    if last.function_response:
        return "did it"
    verb, _, rest = (last.text or "").partition(" ")
    return call(verb, what=rest) if verb in ("do", "wait") else f"re:{last.text}"


async def do(what: str, tool_context: ToolContext) -> None:
    """Write it down everywhere."""
    name, _, value = what.partition("=")
    tool_context.state[name] = value
    tool_context.state["user:last"] = value
    await tool_context.save_artifact(f"{name}.txt", types.Part(text=value))


def wait(what: str) -> None:
    """Wait for something."""


def doer(**fields: Any) -> LlmAgent:
    """An agent with both tools."""
    tools = [do, LongRunningFunctionTool(wait)]
    return LlmAgent(name="doer", model=ScriptedModel(replies=script), tools=tools, **fields)


def prompt(agent: LlmAgent) -> list[str]:
    """The texts of the last request."""
    assert isinstance(agent.model, ScriptedModel)
    contents = agent.model.requests[-1].contents
    return [part.text or "" for content in contents for part in content.parts or []]


async def talk(runner: Runner, *messages: str) -> list[str]:
    """Send messages; the ids of their invocations."""
    return [(await send(runner, message))[0].invocation_id for message in messages]


async def rewind(runner: Runner, before: str) -> None:
    """Take the session back."""
    await runner.rewind_async(**USER, rewind_before_invocation_id=before)


async def test_what_was_rewound_is_in_no_prompt(make_runner: MakeRunner) -> None:
    """REW-1, TRAP-51: a marker by the user hides it; every event is still there."""
    agent = doer()
    runner = await make_runner(agent)
    _, second, _ = await talk(runner, "one", "two", "three")
    before = await stored(runner)
    await rewind(runner, second)
    (*kept, marker) = await stored(runner)
    assert kept == before
    assert marker.author == "user"
    assert marker.actions.rewind_before_invocation_id == second
    assert marker.timestamp >= before[-1].timestamp
    assert marker.id
    assert marker.invocation_id not in {event.invocation_id for event in before}
    await talk(runner, "four")
    assert prompt(agent) == ["one", "re:one", "four"]


async def test_to_rewind_before_a_rewind_undoes_it(make_runner: MakeRunner) -> None:
    """REW-1: a rewind is an invocation of its own, with its state."""
    agent = doer()
    runner = await make_runner(agent, artifact_service=InMemoryArtifactService())
    (first,) = await talk(runner, "do a=1")
    await rewind(runner, first)
    assert (await state(runner))["a"] is None
    await rewind(runner, (await stored(runner))[-1].invocation_id)
    assert (await state(runner))["a"] == "1"
    await talk(runner, "two")
    assert prompt(agent)[0] == "do a=1"


async def test_state_and_files_get_back_what_they_were(make_runner: MakeRunner) -> None:
    """REW-2, REW-3: the session's own; what it was created with too; the user's stays."""
    artifacts = InMemoryArtifactService()
    runner = await make_runner(doer(), artifact_service=artifacts)
    created = {"init": "0", "user:mine": "m"}
    await runner.session_service.create_session(app_name="app", **USER, state=created)
    await talk(runner, "do a=1", "do init=1")
    third, *_ = await talk(runner, "do a=2", "do b=1", "do init=2")
    await rewind(runner, third)
    now = {"a": "1", "b": None, "init": "1", "user:last": "2", "user:mine": "m"}
    assert await state(runner) == now
    marker = (await stored(runner))[-1]
    assert marker.actions.artifact_delta == {"a.txt": 2, "b.txt": 1, "init.txt": 2}
    assert marker.actions.state_delta == {"a": "1", "b": None, "init": "1"}
    for name, text in (("a.txt", "1"), ("init.txt", "1")):
        restored = await artifacts.load_artifact(**OWNER, filename=name)
        assert restored
        assert restored.text == text
    assert await artifacts.load_artifact(**OWNER, filename="b.txt") is None
    assert await artifacts.list_versions(**OWNER, filename="b.txt") == [0, 1]
    await rewind(runner, (await stored(runner))[0].invocation_id)
    assert (await state(runner))["init"] == "0"


async def test_nothing_is_rewound_without_the_files(make_runner: MakeRunner) -> None:
    """REW-3: a client that cannot reach them gets an error before anything has changed."""
    artifacts = InMemoryArtifactService()
    runner = await make_runner(doer(), artifact_service=artifacts)
    (first,) = await talk(runner, "do a=1")
    runner.artifact_service = None
    before = await stored(runner)
    with pytest.raises(InvalidRequestError, match="artifact_service"):
        await rewind(runner, first)
    assert await stored(runner) == before


async def test_unknown_places_are_refused(make_runner: MakeRunner) -> None:
    """REW-4: no such invocation, no such session; nothing is stored."""
    runner = await make_runner(doer())
    await talk(runner, "one")
    with pytest.raises(InvocationNotFoundError, match="nope"):
        await rewind(runner, "nope")
    with pytest.raises(SessionNotFoundError):
        await runner.rewind_async(
            user_id="u", session_id="nope", rewind_before_invocation_id="nope"
        )
    assert len(await stored(runner)) == 2


async def test_a_session_in_use_is_not_rewound(make_runner: MakeRunner) -> None:
    """D7: while an invocation is active, nobody changes what it works with."""
    gate = asyncio.Event()

    async def think() -> str:
        """Wait for the gate."""
        await until_set(gate)
        return "thought"

    model = ScriptedModel(replies=["one", call("think"), "two"])
    runner = await make_runner(LlmAgent(name="a", model=model, tools=[think]))
    (first,) = await talk(runner, "one")
    events = runner.run_async(**USER, new_message="two")
    await anext(events)
    with pytest.raises(SessionBusyError, match="active"):
        await rewind(runner, first)
    gate.set()
    assert [gist(event) async for event in events] == ["a response think", "a text two"]
    await rewind(runner, first)
    assert len(await stored(runner)) == 7


async def test_what_waits_is_cancelled_and_its_answer_refused(make_runner: MakeRunner) -> None:
    """REW-1, TRAP-28: an answer to a call that was never made would run on in the dark."""
    agent = doer()
    runner = await make_runner(agent)
    kept, lost = await talk(runner, "wait for spring", "wait for summer")
    first, late = await runner.pending(**USER)
    assert [first.invocation_id, late.invocation_id] == [kept, lost]
    await rewind(runner, lost)
    record = await runner.session_service.get_invocation(KEY, lost)
    assert record
    assert record.status is Status.CANCELLED
    assert await runner.pending(**USER) == [first]

    def answer(pending: Any) -> types.Content:
        response = types.FunctionResponse(
            id=pending.call_id, name=pending.name, response={"it": "came"}
        )
        return types.Content(role="user", parts=[types.Part(function_response=response)])

    before = await stored(runner)
    with pytest.raises(InvalidRequestError):
        [event async for event in runner.run_async(**USER, new_message=answer(late))]
    assert await stored(runner) == before
    events = [event async for event in runner.run_async(**USER, new_message=answer(first))]
    assert [gist(event) for event in events] == ["doer text did it"]
    assert "wait for summer" not in prompt(agent)


@pytest.mark.parametrize("between", [0, 40])
async def test_who_speaks_next_is_who_spoke_before(make_runner: MakeRunner, between: int) -> None:
    """AGT-41, REW-1: a hand-over that was rewound hands nothing over, however long ago it was."""

    def reply(request: LlmRequest) -> Any:
        last = (request.contents[-1].parts or [])[-1]
        if last.text == "hand over":
            return call("transfer_to_agent", agent_name="expert")
        return "root here"

    expert = LlmAgent(name="expert", model=ScriptedModel(replies=lambda _: "expert here"))
    root = LlmAgent(name="root", model=ScriptedModel(replies=reply), sub_agents=[expert])
    runner = await make_runner(root)
    (first,) = await talk(runner, "hand over")
    assert gist((await send(runner, "hi"))[0]) == "expert text expert here"
    for number in range(between):
        await note(runner, f"note {number}")
    await rewind(runner, first)
    assert gist((await send(runner, "hi"))[0]) == "root text root here"


async def note(runner: Runner, text: str) -> None:
    """Append a user's event from outside."""
    session = await runner.session_service.get_session(app_name="app", **USER)
    assert session
    content = types.Content(role="user", parts=[types.Part(text=text)])
    (last,) = session.events[-1:]
    await runner.session_service.append_event(
        session, last.model_copy(update={"id": "", "author": "user", "content": content})
    )


async def test_a_summary_is_rewound_with_what_it_tells(make_runner: MakeRunner) -> None:
    """REW-1, CMP-1: what was summarised later is shown itself again; an earlier summary stays."""
    agent, teller = doer(), Teller()
    config = EventsCompactionConfig(compaction_interval=2, overlap_size=0, summarizer=teller)
    runner = await make_runner(agent, events_compaction_config=config)
    _, second = await talk(runner, "one", "two")
    await summed(runner, 1)
    (third,) = await talk(runner, "three")
    await rewind(runner, third)
    await talk(runner, "four")
    assert prompt(agent) == ["sum:one-re:one-two-re:two", "four"]
    await rewind(runner, second)
    await talk(runner, "five")
    assert prompt(agent) == ["one", "re:one", "five"]
    # The next summary is of what counts.
    await summed(runner, 2)
    assert teller.asked[-1] == ["one", "re:one", "five", "re:five"]
    await talk(runner, "six")
    assert prompt(agent) == ["sum:one-re:one-five-re:five", "six"]
