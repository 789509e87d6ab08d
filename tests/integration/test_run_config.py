"""What a run's options change."""

import uuid
from typing import Any

import pytest
from google.genai import types
from pydantic import ValidationError

from durable_adk.agents import LlmAgent
from durable_adk.artifacts import InMemoryArtifactService
from durable_adk.context.activity import CallbackContext
from durable_adk.errors import EventConflictError, InvalidRequestError
from durable_adk.events import Event, EventActions
from durable_adk.models import ScriptedModel
from durable_adk.models.llm_request import LlmRequest
from durable_adk.plugins import BasePlugin
from durable_adk.runners import Runner
from durable_adk.sessions import GetSessionConfig, SessionKey, base_session_service
from durable_adk.wire.run_config import RunConfig
from tests.conftest import MakeRunner
from tests.support.scripts import USER, call, ensure_session, gist, send, state, stored

KEY = SessionKey("app", "u", "s")
OWNER = KEY._asdict()
PNG = types.Part.from_bytes(data=b"\x89PNG", mime_type="image/png")
SAVING = RunConfig(save_input_blobs_as_artifacts=True)


def echo(request: LlmRequest) -> str:
    """Answer `re:` and the last text."""
    return f"re:{(request.contents[-1].parts or [])[-1].text}"


def talker(**fields: Any) -> LlmAgent:
    """An agent that echoes."""
    return LlmAgent(name="talker", model=ScriptedModel(replies=echo), **fields)


def last(agent: LlmAgent) -> LlmRequest:
    """The last request."""
    assert isinstance(agent.model, ScriptedModel)
    return agent.model.requests[-1]


def prompt(agent: LlmAgent) -> list[str]:
    """The texts of the last request."""
    contents = last(agent).contents
    return [part.text or "" for content in contents for part in content.parts or []]


# ----- what the model is shown


async def test_a_context_is_shown_and_not_stored(make_runner: MakeRunner) -> None:
    """FLW-29: it comes before the user's message, at every call of the run, and only there."""
    agent = talker()
    runner = await make_runner(agent)
    await send(runner, "one")
    context = [types.Content(role="user", parts=[types.Part(text="it rains")])]
    await send(runner, "two", run_config=RunConfig(model_input_context=context))
    assert prompt(agent) == ["one", "re:one", "it rains", "two"]
    await send(runner, "three")
    assert "it rains" not in prompt(agent)
    assert "it rains" not in str(await stored(runner))


@pytest.mark.parametrize("shown", [True, False])
async def test_thoughts_of_others_are_shown_if_wanted(make_runner: MakeRunner, shown: bool) -> None:
    """FLW-22: what another agent thought, as a quotation."""
    agent = talker()
    runner = await make_runner(agent)
    await ensure_session(runner)
    session = await runner.session_service.get_session(app_name="app", **USER)
    assert session
    parts = [types.Part(text="hmm", thought=True), types.Part(text="said")]
    content = types.Content(role="model", parts=parts)
    await runner.session_service.append_event(session, Event(author="other", content=content))
    await send(runner, "hi", run_config=RunConfig(include_thoughts_from_other_agents=shown))
    assert ("hmm" in str(prompt(agent))) is shown
    assert "said" in str(prompt(agent))


@pytest.mark.parametrize(
    ("limit", "seen"),
    [
        (0, []),
        (1, ["re:two"]),
        (3, ["re:one", "two", "re:two"]),
        (99, ["one", "re:one", "two", "re:two"]),
    ],
)
async def test_the_last_so_many_events_are_seen(
    make_runner: MakeRunner, limit: int, seen: list[str]
) -> None:
    """SSN-6, TRAP-16: 0 is none; the run's own events and the state are there all the same."""

    async def look(callback_context: CallbackContext) -> None:
        texts.append([event.text for event in callback_context.session.events])
        states.append(callback_context.session.state.get("kept"))

    texts: list[list[str]] = []
    states: list[Any] = []
    agent = talker(before_agent_callback=look)
    runner = await make_runner(agent)
    await send(runner, "one", state_delta={"kept": 1})
    await send(runner, "two")
    config = RunConfig(get_session_config=GetSessionConfig(num_recent_events=limit))
    await send(runner, "three", run_config=config)
    assert prompt(agent) == [*seen, "three"]
    assert texts[-1] == [*seen, "three"]
    assert states == [1, 1, 1]
    assert len(await stored(runner)) == 6


def test_there_is_one_config_of_reads() -> None:
    """The class that ADK's path gives is the one that RunConfig takes (SSN-6)."""
    assert base_session_service.GetSessionConfig is GetSessionConfig
    config = RunConfig(
        get_session_config=base_session_service.GetSessionConfig(num_recent_events=2)
    )
    assert config.get_session_config == GetSessionConfig(num_recent_events=2)


async def test_events_since_a_time_are_seen(make_runner: MakeRunner) -> None:
    """SSN-6: first those at or after a time, then the last so many of them."""
    agent = talker()
    runner = await make_runner(agent)
    await send(runner, "one")
    await send(runner, "two")
    since = (await stored(runner))[2].timestamp
    await send(
        runner,
        "three",
        run_config=RunConfig(get_session_config=GetSessionConfig(after_timestamp=since)),
    )
    assert prompt(agent) == ["two", "re:two", "three"]
    both = GetSessionConfig(after_timestamp=since, num_recent_events=1)
    await send(runner, "four", run_config=RunConfig(get_session_config=both))
    assert prompt(agent) == ["re:three", "four"]


async def test_a_response_without_its_call_is_not_seen(make_runner: MakeRunner) -> None:
    """TRAP-16: where the limit cuts between a call and its response, neither is in the prompt."""

    def look() -> str:
        """Look."""
        return "seen"

    def reply(request: LlmRequest) -> Any:
        part = (request.contents[-1].parts or [])[-1]
        return call("look") if part.text == "look" else "done"

    agent = LlmAgent(name="a", model=ScriptedModel(replies=reply), tools=[look])
    runner = await make_runner(agent)
    await send(runner, "look")
    config = RunConfig(get_session_config=GetSessionConfig(num_recent_events=2))
    await send(runner, "hi", run_config=config)
    assert prompt(agent) == ["done", "hi"]
    await send(runner, "look", run_config=config)
    parts = [part for content in last(agent).contents for part in content.parts or []]
    assert [bool(part.function_response) for part in parts[-1:]] == [True]


async def test_what_was_rewound_is_not_seen_again(make_runner: MakeRunner) -> None:
    """REW-1, SSN-6: also where the place that the rewind goes back to is cut off."""
    agent = talker()
    runner = await make_runner(agent)
    await send(runner, "one")
    (event,) = await send(runner, "two")
    await send(runner, "three")
    await runner.rewind_async(**USER, rewind_before_invocation_id=event.invocation_id)
    config = RunConfig(get_session_config=GetSessionConfig(num_recent_events=2))
    await send(runner, "four", run_config=config)
    assert prompt(agent) == ["one", "re:one", "four"]


async def test_who_is_addressed_goes_by_what_is_seen(make_runner: MakeRunner) -> None:
    """AGT-45: a hand-over that the run is not to see does not count."""

    def reply(request: LlmRequest) -> Any:
        part = (request.contents[-1].parts or [])[-1]
        return call("transfer_to_agent", agent_name="expert") if part.text == "go" else "root here"

    expert = LlmAgent(name="expert", model=ScriptedModel(replies=lambda _: "expert here"))
    root = LlmAgent(name="root", model=ScriptedModel(replies=reply), sub_agents=[expert])
    runner = await make_runner(root)
    await send(runner, "go")
    for limit, answer in ((1, "expert text expert here"), (0, "root text root here")):
        config = RunConfig(get_session_config=GetSessionConfig(num_recent_events=limit))
        assert gist((await send(runner, "hi", run_config=config))[0]) == answer


async def test_the_output_of_a_run_is_its_own_text(make_runner: MakeRunner) -> None:
    """AGT-21, SSN-6: text before a call belongs to the output, also if earlier events are cut."""

    def look() -> str:
        """Look."""
        return "seen"

    def reply(request: LlmRequest) -> Any:
        part = (request.contents[-1].parts or [])[-1]
        if part.function_response:
            return "after"
        look_at = types.FunctionCall(name="look", args={})
        return [types.Part(text="before "), types.Part(function_call=look_at)]

    agent = LlmAgent(
        name="a", model=ScriptedModel(replies=reply), tools=[look], output_key="answer"
    )
    runner = await make_runner(agent)
    await send(runner, "one")
    whole = (await state(runner))["answer"]
    config = RunConfig(get_session_config=GetSessionConfig(num_recent_events=1))
    await send(runner, "two", run_config=config)
    assert (await state(runner))["answer"] == whole
    assert "after" in whole


# ----- what the provider is told


async def test_labels_and_headers_go_before_the_agents(make_runner: MakeRunner) -> None:
    """One by one; the agent's own definition stays as it is."""
    own = types.GenerateContentConfig(
        labels={"team": "a", "run": "agent"},
        http_options=types.HttpOptions(timeout=5, headers={"x-a": "1", "x-b": "1"}),
    )
    agent = talker(generate_content_config=own.model_copy(deep=True))
    runner = await make_runner(agent)
    options = types.HttpOptions(timeout=9, headers={"x-b": "2"})
    config = RunConfig(labels={"run": "mine"}, http_options=options)
    await send(runner, "one", run_config=config)
    made = last(agent).config
    assert made.labels == {"adk_agent_name": "talker", "team": "a", "run": "mine"}
    assert made.http_options == types.HttpOptions(timeout=9, headers={"x-a": "1", "x-b": "2"})
    assert agent.generate_content_config == own
    await send(runner, "two")
    assert last(agent).config.labels == {"adk_agent_name": "talker", **(own.labels or {})}


def test_a_message_does_not_choose_the_host() -> None:
    """S-rules: whoever may send a message is not shown the model's key."""
    with pytest.raises(ValidationError, match="base_url is a setting of the model's client"):
        RunConfig(http_options=types.HttpOptions(base_url="https://elsewhere"))


# ----- files in the message


async def files(runner: Runner, *parts: types.Part, **options: Any) -> list[Event]:
    """Send a message of parts."""
    await ensure_session(runner)
    message = types.Content(role="user", parts=list(parts))
    options = {"new_message": message, "run_config": SAVING, **options}
    return [event async for event in runner.run_async(**USER, **options)]


async def test_files_become_artifacts(make_runner: MakeRunner) -> None:
    """RUN-22: by invocation and place; the stored message names them and has no bytes."""
    artifacts, agent = InMemoryArtifactService(), talker()
    runner = await make_runner(agent, artifact_service=artifacts)
    (event,) = await files(runner, types.Part(text="look"), PNG, PNG)
    message = (await stored(runner))[0]
    names = [f"artifact_{event.invocation_id}_{index}" for index in (1, 2)]
    assert not any(part.inline_data for part in message.parts)
    assert message.parts[0].text == "look"
    told = zip(names, message.parts[1:], strict=True)
    assert all(name in (part.text or "") for name, part in told)
    assert message.actions.artifact_delta == dict.fromkeys(names, 0)
    for name in names:
        saved = await artifacts.load_artifact(**OWNER, filename=name)
        assert saved
        assert saved.inline_data == PNG.inline_data
    assert names[0] in str(prompt(agent))
    await files(runner, PNG, run_config=None)
    assert (await stored(runner))[2].parts == [PNG]


async def test_the_same_message_again_makes_no_second_version(make_runner: MakeRunner) -> None:
    """RUN-22, DUR-13, TRAP-41: a repeated request follows the first; another one is refused."""
    artifacts = InMemoryArtifactService()
    runner = await make_runner(talker(), artifact_service=artifacts)
    name = f"e-{uuid.uuid4()}"
    first = await files(runner, PNG, invocation_id=name)
    assert await files(runner, PNG, invocation_id=name) == first
    with pytest.raises(EventConflictError):
        await files(runner, PNG, PNG, invocation_id=name)
    assert await artifacts.list_versions(**OWNER, filename=f"artifact_{name}_0") == [0]
    assert len(await stored(runner)) == 2


async def test_without_a_service_nothing_is_stored(make_runner: MakeRunner) -> None:
    """RUN-22: files that cannot be kept are not dropped silently."""
    runner = await make_runner(talker())
    with pytest.raises(InvalidRequestError, match="artifact_service"):
        await files(runner, PNG)
    assert await stored(runner) == []
    assert len(await files(runner, types.Part(text="no files"))) == 1


async def test_plugins_see_the_files_first(make_runner: MakeRunner) -> None:
    """RUN-26, RUN-22: what a plugin takes out of the message is no artifact."""

    class Cutter(BasePlugin):
        async def on_user_message_callback(self, *, user_message: types.Content, **_: Any) -> Any:
            assert user_message.parts
            return types.Content(role="user", parts=user_message.parts[:2])

    artifacts = InMemoryArtifactService()
    runner = await make_runner(talker(), artifact_service=artifacts, plugins=[Cutter("cutter")])
    await files(runner, types.Part(text="look"), PNG, PNG)
    assert len(await artifacts.list_artifact_keys(**OWNER)) == 1
    message = (await stored(runner))[0]
    assert len(message.parts) == 2
    assert message.actions == EventActions(artifact_delta=message.actions.artifact_delta)


# ----- trying out


async def test_run_debug_converses(
    make_runner: MakeRunner, capsys: pytest.CaptureFixture[str]
) -> None:
    """RUN-31: the session is made, every message is sent in turn, what is said is printed."""
    runner = await make_runner(talker())
    events = await runner.run_debug(["one", "two"])
    assert [gist(event) for event in events] == ["talker text re:one", "talker text re:two"]
    printed = capsys.readouterr().out
    assert printed == "user > one\ntalker > re:one\nuser > two\ntalker > re:two\n"
    await runner.run_debug("three", quiet=True)
    assert capsys.readouterr().out == ""
    session = await runner.session_service.get_session(
        app_name="app", user_id="debug_user_id", session_id="debug_session_id"
    )
    assert session
    assert len(session.events) == 6


async def test_run_debug_tells_of_calls_if_asked(
    make_runner: MakeRunner, capsys: pytest.CaptureFixture[str]
) -> None:
    """RUN-31: verbose shows what the agent did between the words."""

    def look(at: str) -> str:
        """Look."""
        return f"{at} seen"

    model = ScriptedModel(replies=[call("look", at="it"), "done"] * 2)
    runner = await make_runner(LlmAgent(name="a", model=model, tools=[look]))
    await runner.run_debug("one", user_id="u", session_id="s", verbose=True)
    assert capsys.readouterr().out.splitlines() == [
        "user > one",
        "a > [Calling tool: look({'at': 'it'})]",
        "a > [Tool result: {'result': 'it seen'}]",
        "a > done",
    ]
    await runner.run_debug("two", user_id="u", session_id="s")
    assert capsys.readouterr().out.splitlines() == ["user > two", "a > done"]
