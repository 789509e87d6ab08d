"""AG-UI: what a front end gets of runs, by the events that its protocol has."""

import asyncio
import json
import uuid
from typing import Any

import pytest
from ag_ui.core import Event, RunAgentInput
from google.genai import types
from pydantic import TypeAdapter

from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.client import temporal_backend
from durable_adk.errors import ModelUnavailableError
from durable_adk.models import ScriptedModel
from durable_adk.sessions import SqliteSessionService
from durable_adk.tools import AGUIToolset, FunctionTool, ToolContext
from durable_adk.tools.long_running_tool import LongRunningFunctionTool
from tests.server.test_authentication import OTHER, TOKEN, bearer, settings_for
from tests.support.http_server import (
    Place,
    absent_worker,
    message,
    placed,
    read,
    session,
    streamed,
)
from tests.support.scripts import call, calls
from tests.support.streams import StreamingModel, thought
from tests.support.waiting import PATIENCE, until

pytestmark = pytest.mark.thorough

EVENT: TypeAdapter[Any] = TypeAdapter(Event)
PATH = "/agui/app"


def body(text: str | None = "hello", run: str | None = None, **more: Any) -> dict[str, Any]:
    """A request to run an agent."""
    messages = [{"id": "m1", "role": "user", "content": text}] if text else []
    run_input = RunAgentInput.model_validate(
        {
            "threadId": "s",
            "runId": run or uuid.uuid4().hex,
            "messages": messages,
            "tools": [],
            "context": [],
            "state": {},
            "forwardedProps": {},
            **more,
        }
    )
    return run_input.model_dump(mode="json", by_alias=True)


async def events(http: Any, sent: dict[str, Any], path: str = PATH) -> list[Any]:
    """All events of a run, each checked against the protocol."""
    return [EVENT.validate_python(one.data) for one in await read(http, path, sent)]


async def events_in_steps(
    http: Any, sent: dict[str, Any], steps: dict[str, asyncio.Event]
) -> list[Any]:
    """All events of a run; with each delta that is read the model may go a step further."""
    found = []
    async with asyncio.timeout(PATIENCE), streamed(http, PATH, sent) as stream:
        async for one in stream:
            found.append(EVENT.validate_python(one.data))
            if step := steps.get(getattr(found[-1], "delta", "")):
                step.set()
    return found


def steps_of(*deltas: str) -> dict[str, asyncio.Event]:
    """What lets a model continue, by the delta that it waits to be read."""
    return {delta: asyncio.Event() for delta in deltas}


def brief(event: Any) -> str:
    """An event in a few words."""
    name = event.type.value.lower()
    for field in ("delta", "content", "tool_call_name", "name", "message", "snapshot"):
        if (found := getattr(event, field, None)) is not None and isinstance(found, str | dict):
            return f"{name} {found if isinstance(found, str) else json.dumps(found)}"
    return name


async def test_a_front_end_gets_an_answer_as_it_is_written(client, tmp_path):
    """Chunks are deltas of one message; the committed event adds nothing to them."""
    steps = steps_of("Hm.", "It ", "is ", "three.")
    turn = [piece for delta, step in steps.items() for piece in (delta, step)]
    turn[0] = thought("Hm.")
    turn.append([thought("Hm."), types.Part(text="It is three.")])
    agent = LlmAgent(name="a", model=StreamingModel(turns=[turn]))
    async with placed(client, tmp_path, agent) as place:
        found = await events_in_steps(await place.server(), body(), steps)
    assert [brief(one) for one in found] == [
        "run_started",
        "state_snapshot {}",
        "reasoning_start",
        "reasoning_message_start",
        "reasoning_message_content Hm.",
        "text_message_start",
        "text_message_content It ",
        "text_message_content is ",
        "text_message_content three.",
        "reasoning_message_end",
        "reasoning_end",
        "text_message_end",
        "state_snapshot {}",
        "run_finished",
    ]
    assert found[0].protocol_version == "1.0"
    assert found[-1].outcome.type == "success"


async def test_a_front_ends_headers_count(client, tmp_path):
    """The same Idempotency-Key follows the first run, whatever its `runId`; When-Busy counts."""
    gate = asyncio.Event()
    agent = LlmAgent(name="a", model=StreamingModel(turns=[[gate, "One."], ["Two."]]))
    async with placed(client, tmp_path, agent) as place, asyncio.timeout(PATIENCE):
        http, key = await place.server(), {"Idempotency-Key": uuid.uuid4().hex}
        async with streamed(http, PATH, body(), **key) as stream:
            while (await anext(stream)).data["type"] != "STATE_SNAPSHOT":
                pass
            async with http.stream("POST", PATH, json=body(), headers={"When-Busy": "no"}) as wrong:
                assert wrong.status_code == 422
            await until_begun(place)
            busy = (await read(http, PATH, body("more"), When_Busy="reject"))[-1].data
            assert (busy["type"], busy["code"]) == ("RUN_ERROR", "SessionBusyError")
            gate.set()
            assert [one.data["type"] async for one in stream][-1] == "RUN_FINISHED"
        again = [one.data for one in await read(http, PATH, body(), **key)]
        assert "One." in json.dumps(again)
        assert again[-1]["type"] == "RUN_FINISHED"
        elsewhere = message("hello", userId="user")  # AG-UI's own metadata does not count
        assert (await http.post("/run", json=elsewhere, headers=key)).status_code == 200
        other = (await read(http, PATH, body("other"), **key))[-1].data
        assert (other["type"], other["code"]) == ("RUN_ERROR", "EventConflictError")
        assert len((await http.get("/invocations")).json()["invocations"]) == 1


async def until_begun(place: Place) -> None:
    """Wait until an invocation has begun."""
    await until(lambda: place.sessions.invocations_by_time(app_name="app", limit=1))


async def test_a_run_waits_for_a_worker(client, tmp_path, monkeypatch):
    """The stream stays open meanwhile: for a front end an error would be the end of the run."""
    monkeypatch.setattr(temporal_backend, "WORKER_CHECK", 0.3)
    monkeypatch.setattr(temporal_backend, "FIRST_LOOK", 0.1)
    agent = LlmAgent(name="a", model=ScriptedModel(replies=["Hello."]))
    async with (
        placed(client, tmp_path, agent) as place,
        absent_worker(place, agent) as come,
        asyncio.timeout(PATIENCE),
    ):
        http = await place.server()
        waiting = asyncio.create_task(events(http, body()))
        await session(http)
        for _ in range(2):  # each is told that there is no worker
            assert (await http.post("/run", json=message("hi"))).status_code == 503
        assert not waiting.done()
        await come()
        found = await waiting
    assert found[-1].type == "RUN_FINISHED"


def look(city: str, tool_context: ToolContext) -> str:
    """Look out of the window."""
    tool_context.state.update({"city": city, "a/b": 1, "temp:x": 1, "user:home": city})
    return "rain"


async def test_calls_results_and_state_are_shown(client, tmp_path):
    """A call with its arguments, its result, and the state that the session has then.

    The same request follows the run, although the session has the front end's state by then.
    """
    model = ScriptedModel(replies=[call("look", city="Lima"), "It rains."])
    agent = LlmAgent(name="a", model=model, tools=[look])
    async with placed(client, tmp_path, agent) as place:
        sent = body(state={"mine": [1]})
        http = await place.server()
        found, again = await events(http, sent), await events(http, sent)
    assert again[-1] == found[-1]
    start = next(one for one in found if one.type == "TOOL_CALL_START")
    arguments = next(one for one in found if one.type == "TOOL_CALL_ARGS")
    result = next(one for one in found if one.type == "TOOL_CALL_RESULT")
    assert json.loads(arguments.delta) == {"city": "Lima"}
    assert start.tool_call_id == result.tool_call_id
    assert json.loads(result.content) == {"result": "rain"}
    patches = [patch for one in found if one.type == "STATE_DELTA" for patch in one.delta]
    assert [dict(one)["path"] for one in patches] == ["/mine", "/city", "/a~1b", "/user:home"]
    state = [one.snapshot for one in found if one.type == "STATE_SNAPSHOT"]
    assert state[0] == {}
    assert state[-1] == {"mine": [1], "city": "Lima", "a/b": 1, "user:home": "Lima"}


class Reads(SqliteSessionService):
    """A store that notes the positions from which events are read."""

    positions: list[int]

    async def read_events(self, key: Any, *, after: int = 0, **window: Any) -> Any:
        self.positions.append(after)
        return await super().read_events(key, after=after, **window)

    async def read_page(self, key: Any, *, after: int, **window: Any) -> Any:
        self.positions.append(after)
        return await super().read_page(key, after=after, **window)


async def test_a_run_reads_nothing_of_earlier_runs(client, tmp_path):
    """Except for a client that has lost a stream and needs all; a long session costs no more."""
    agent = LlmAgent(name="a", model=ScriptedModel(replies=lambda _: "hi"))
    async with placed(client, tmp_path, agent) as place:
        await place.sessions.list_apps()  # makes the file
        (file,) = tmp_path.glob("*.db")
        async with Reads(file) as store:
            store.positions = []
            place.sessions, _ = store, place.sessions
            http = await place.server(apps=[App(name="app", root_agent=agent)])
            last = body("4", run=uuid.uuid4().hex)
            for sent in (body("1"), body("2"), body("3"), last):
                store.positions.clear()
                found = await events(http, sent)
                assert found[-1].type == "RUN_FINISHED"
            assert min(store.positions) == 6
            again = await events(http, last)
            assert 0 in store.positions
    (snapshot,) = (one for one in again if one.type == "MESSAGES_SNAPSHOT")
    said = [one.content for one in snapshot.messages if one.role == "user"]
    assert said == ["1", "2", "3", "4"]


async def test_a_new_thread_begins_with_the_users_state(client, tmp_path):
    """As the session that the run creates has it; the app's is not shown, as in any snapshot."""
    agent = LlmAgent(name="a", model=ScriptedModel(replies=lambda _: "hi"))
    async with placed(client, tmp_path, agent) as place:
        state = {"user:home": "Lima", "app:price": 1, "own": 2}
        await place.sessions.create_session(app_name="app", user_id="user", state=state)
        found = await events(await place.server(), body())
    snapshots = [one.snapshot for one in found if one.type == "STATE_SNAPSHOT"]
    assert snapshots == [{"user:home": "Lima"}] * 2


def refund(amount: int) -> str:
    """Give money back."""
    return f"refunded {amount}"


def cashier(*replies: Any) -> LlmAgent:
    """An agent that asks before it gives money back."""
    tool = FunctionTool(refund, require_confirmation=True)
    return LlmAgent(name="cashier", model=ScriptedModel(replies=list(replies)), tools=[tool])


def resume(*answers: tuple[str, Any], **more: Any) -> dict[str, Any]:
    """A request to resume a run; None cancels."""
    entries = [
        {"interruptId": name, "status": "cancelled"}
        if payload is None
        else {"interruptId": name, "status": "resolved", "payload": payload}
        for name, payload in answers
    ]
    return body(None, resume=entries, **more)


async def test_a_large_session_pauses_and_is_resumed(client, tmp_path):
    """It has no snapshot of its messages, which the front end has."""
    agent = cashier("x" * 2_000, call("refund", amount=5), "Done.")
    more = [{"id": f"m{number}", "role": "user", "content": "hi"} for number in (1, 2)]
    async with placed(client, tmp_path, agent) as place:
        http = await place.server(settings={"max_session_bytes": 1_000})
        await events(http, body())
        waiting = await events(http, body(None, messages=more))
        (interrupt,) = waiting[-1].outcome.interrupts
        resumed = await events(http, resume((interrupt.id, True)))
    assert not [one for one in (*waiting, *resumed) if one.type == "MESSAGES_SNAPSHOT"]
    (result,) = [one for one in resumed if one.type == "TOOL_CALL_RESULT"]
    assert json.loads(result.content) == {"result": "refunded 5"}
    assert resumed[-1].type == "RUN_FINISHED"


@pytest.mark.parametrize(
    ("payload", "result"),
    [
        ({"approved": True}, {"result": "refunded 5"}),
        (True, {"result": "refunded 5"}),
        ({"confirmed": False}, {"error": "This tool call is rejected."}),
        (None, {"error": "This tool call is rejected."}),
    ],
)
async def test_a_run_waits_for_an_approval_and_is_resumed(client, tmp_path, payload, result):
    """The interrupt names the call; the resumed run shows its result, and no call again."""
    agent = cashier(call("refund", amount=5), "Done.")
    async with placed(client, tmp_path, agent) as place:
        http = await place.server()
        first = await events(http, body())
        (interrupt,) = first[-1].outcome.interrupts
        again = await place.server()
        sent = resume((interrupt.id, payload))
        second = await events(again, sent)
        third = await events(http, sent)
    made = [one.tool_call_id for one in first if one.type == "TOOL_CALL_START"]
    assert [interrupt.tool_call_id] == made
    assert (interrupt.reason, interrupt.metadata["arguments"]) == ("tool_call", {"amount": 5})
    assert not [one for one in first if one.type == "TOOL_CALL_RESULT"]
    (messages,) = [one.messages for one in first if one.type == "MESSAGES_SNAPSHOT"]
    assert [one.role for one in messages] == ["user", "assistant"]
    (told,) = [one for one in second if one.type == "TOOL_CALL_RESULT"]
    assert (told.tool_call_id, json.loads(told.content)) == (made[0], result)
    assert not [one for one in second if one.type == "TOOL_CALL_START"]
    assert "text_message_content Done." in map(brief, second)
    # The same answer again follows the run that the first one has resumed.
    assert [brief(one) for one in third if "SNAPSHOT" not in one.type] == [
        brief(one) for one in second if "SNAPSHOT" not in one.type
    ]


def order(item: str) -> dict[str, str]:
    """Order something, which takes a while."""
    return {"status": f"ordered {item}"}


@pytest.mark.parametrize("as_message", [False, True])
async def test_a_long_running_call_has_its_result_from_the_front_end(client, tmp_path, as_message):
    """By the answer to its interrupt, or as the message of a tool; the interim one is not shown.

    Neither by the run, nor in a snapshot of it or of those before it. The front end's message is
    not sent back, and keeps its id.
    """
    rum = call("order", item="rum")
    model = ScriptedModel(replies=[call("order", item="tea"), "Here is your tea.", rum, rum, "Oh."])
    agent = LlmAgent(name="a", model=model, tools=[LongRunningFunctionTool(order)])
    async with placed(client, tmp_path, agent) as place:
        http = await place.server()
        first = await events(http, body())
        (interrupt,) = first[-1].outcome.interrupts
        result = {"id": "t", "role": "tool", "toolCallId": interrupt.tool_call_id, "content": "hot"}
        sent = body(None, messages=[result]) if as_message else resume((interrupt.id, "hot"))
        second = await events(http, sent)
        said = {"id": "m3", "role": "user", "content": "and rum"}
        third = await events(http, body(None, messages=[result, said] if as_message else [said]))
    assert interrupt.reason == "input_required"
    assert not [one for one in first if one.type == "TOOL_CALL_RESULT"]
    told = [one for one in second if one.type == "TOOL_CALL_RESULT"]
    assert [json.loads(one.content) for one in told] == [{"result": "hot"}] * (not as_message)
    assert second[-1].outcome.type == "success"
    snapshots = [one for one in (*first, *third) if one.type == "MESSAGES_SNAPSHOT"]
    tools = [[one.id for one in shot.messages if one.role == "tool"] for shot in snapshots]
    assert tools == [[], ["t" if as_message else told[0].message_id]]


PAINT = {
    "name": "paint",
    "description": "Paint the page.",
    "parameters": {"type": "object", "properties": {"color": {"type": "string"}}},
}


async def test_a_front_ends_tool_runs_there(client, tmp_path):
    """The model gets its declaration, the run ends with its call, and continues with its result.

    A failure is reported as one, and a message behind a result that was not sent yet is refused.
    """
    model = ScriptedModel(replies=[call("paint", color="red"), "Painted.", "No paint."])
    agent = LlmAgent(name="a", model=model, tools=[AGUIToolset()])
    async with placed(client, tmp_path, agent) as place:
        first = await events(await place.server(), body(tools=[PAINT]))
        (called,) = [one for one in first if one.type == "TOOL_CALL_START"]
        result = {"id": "t", "role": "tool", "toolCallId": called.tool_call_id, "content": "done"}
        result["error"] = "no red left"
        said = {"id": "m2", "role": "user", "content": "and blue"}
        both = await events(
            await place.server(), body(None, messages=[result, said], tools=[PAINT])
        )
        again = body(None, messages=[result], tools=[PAINT])
        second = await events(await place.server(), again)
        await events(await place.server(), body())
    assert both[-1].type == "RUN_ERROR"
    assert "have not been sent yet" in both[-1].message
    told = model.requests[1].contents[-1].parts[-1].function_response
    assert told.response == {"result": "done", "error": "no red left"}
    (declared,) = model.requests[0].config.tools[0].function_declarations
    assert (declared.name, declared.parameters_json_schema) == ("paint", PAINT["parameters"])
    assert first[-1].outcome.type == "success"
    assert not [one for one in second if one.type == "TOOL_CALL_RESULT"]  # the front end has it
    assert "Painted." in [getattr(one, "delta", None) for one in second]
    assert [one.snapshot for one in first if one.type == "STATE_SNAPSHOT"] == [{}, {}]
    assert not model.requests[2].config.tools  # the front end has it no more


async def test_interrupts_and_results_are_answered_together(client, tmp_path):
    """A front end shows what it is asked for, and runs its own tool meanwhile."""
    both = calls(("refund", {"amount": 1}), ("paint", {"color": "red"}))
    tool = FunctionTool(refund, require_confirmation=True)
    model = ScriptedModel(replies=[both, "Both."])
    agent = LlmAgent(name="a", model=model, tools=[AGUIToolset(tool_filter=["paint"]), tool])
    async with placed(client, tmp_path, agent) as place:
        http = await place.server()
        first = await events(http, body(tools=[PAINT, PAINT | {"name": "other"}]))
        (interrupt,) = first[-1].outcome.interrupts
        (called,) = [
            one.tool_call_id for one in first if getattr(one, "tool_call_name", "") == "paint"
        ]
        result = {"id": "t", "role": "tool", "toolCallId": called, "content": "", "error": "dry"}
        answer = resume((interrupt.id, True)) | {"messages": [result], "tools": [PAINT]}
        second = await events(http, answer)
    assert interrupt.reason == "tool_call"
    assert second[-1].outcome.type == "success"
    told = [json.loads(one.content) for one in second if one.type == "TOOL_CALL_RESULT"]
    assert told == [{"result": "refunded 1"}]
    answers = [part.function_response for part in model.requests[1].contents[-1].parts]
    assert {"error": "dry"} in [one.response for one in answers if one]
    names = {one.name for one in model.requests[0].config.tools[0].function_declarations}
    assert names == {"paint", "refund"}


async def test_all_interrupts_of_a_run_are_answered_at_once(client, tmp_path):
    """With some of them nothing is stored; with all of them the run continues."""
    agent = cashier(calls(("refund", {"amount": 1}), ("refund", {"amount": 2})), "Both.")
    async with placed(client, tmp_path, agent) as place:
        http = await place.server()
        first = await events(http, body())
        one, other = first[-1].outcome.interrupts
        refused = await events(http, resume((one.id, True)))
        done = await events(http, resume((one.id, True), (other.id, False)))
    assert refused[-1].type == "RUN_ERROR"
    assert other.id in refused[-1].message
    assert done[-1].outcome.type == "success"
    assert len([one for one in done if one.type == "TOOL_CALL_RESULT"]) == 2


async def test_the_same_run_again_is_followed_from_its_start(client, tmp_path):
    """Also while it runs, on another server: no second answer is asked for, and no text is lost."""
    gate = asyncio.Event()
    model = StreamingModel(turns=[["It ", gate, "is.", "It is."]])
    async with placed(client, tmp_path, LlmAgent(name="a", model=model)) as place:
        sent, here, there = body(), await place.server(), await place.server()
        first = asyncio.create_task(events(here, sent))
        await until(lambda: model.asked)
        second = await events_in_steps(there, sent, {"It ": gate})
        found = [await first, second]
    assert len(model.asked) == 1
    for each in found:
        deltas = [one.delta for one in each if one.type == "TEXT_MESSAGE_CONTENT"]
        assert "".join(deltas) == "It is."
    (snapshot,) = [one for one in found[1] if one.type == "MESSAGES_SNAPSHOT"]
    assert [one.content for one in snapshot.messages] == ["hello"]


@pytest.mark.parametrize("of", ["message", "result"])
async def test_a_front_end_that_lost_a_stream_follows_its_run(client, tmp_path, of):
    """Although its messages end with the beginning of what the run says: it sends all it has.

    With another `runId` what was answered is not new.
    """
    replies = [call("paint", color="red"), "Painted."]
    agent = LlmAgent(name="a", model=ScriptedModel(replies=replies), tools=[AGUIToolset()])
    async with placed(client, tmp_path, agent) as place:
        http = await place.server()
        sent = body(tools=[PAINT])
        found = await events(http, sent)
        (called,) = [one for one in found if one.type == "TOOL_CALL_START"]
        function = {"name": "paint", "arguments": "{}"}
        calls_it = {"id": called.tool_call_id, "type": "function", "function": function}
        begun = {"id": called.parent_message_id, "role": "assistant", "toolCalls": [calls_it]}
        sent["messages"].append(begun)
        if of == "result":
            named = {"toolCallId": called.tool_call_id, "role": "tool"}
            sent["messages"].append(named | {"id": "t", "content": "done"})
            sent["runId"] = "second"
            found = await events(http, sent)
            (text,) = [one for one in found if one.type == "TEXT_MESSAGE_START"]
            begun = {"id": text.message_id, "role": "assistant", "content": "Pain"}
            sent["messages"].append({**begun, "id": "r", "role": "reasoning"})
            sent["messages"].append(begun)
        again = await events(http, sent)
        other = await events(http, sent | {"runId": "other"})
        count = await place.sessions.count_invocations(app_name="app")
    assert [one.type for one in again if one.type == "MESSAGES_SNAPSHOT"] != []
    rest = [one for one in again if one.type not in {"MESSAGES_SNAPSHOT", "STATE_SNAPSHOT"}]
    before = [one for one in found if one.type not in {"MESSAGES_SNAPSHOT", "STATE_SNAPSHOT"}]
    assert [brief(one) for one in rest] == [brief(one) for one in before]
    assert other[-1].type == "RUN_ERROR"
    assert "runId" in other[-1].message
    assert sum(count.values()) == 1


async def test_what_a_model_begins_anew_is_taken_back(client, tmp_path):
    """The message ends, a snapshot lacks it, and it begins again with the next attempt's text."""
    steps = steps_of("It ", "That ", "is.")
    cut = ModelUnavailableError("cut", retry_after=0)
    second = ["That ", steps["That "], "is.", steps["is."], "That is."]
    turns = iter([["It ", steps["It "], cut, "-"], second])
    agent = LlmAgent(name="a", model=StreamingModel(turns=[lambda: next(turns)]))
    async with placed(client, tmp_path, agent) as place:
        found = await events_in_steps(await place.server(), body(), steps)
    shown = [brief(one) for one in found if "MESSAGE" in one.type]
    assert shown == [
        "text_message_start",
        "text_message_content It ",
        "text_message_end",
        "messages_snapshot",
        "text_message_start",
        "text_message_content That ",
        "text_message_content is.",
        "text_message_end",
    ]


async def test_a_sub_agents_work_is_its_own(client, tmp_path):
    """What it says is attributed to its run, which is announced before and ends before the run."""
    expert = LlmAgent(name="expert", model=ScriptedModel(replies=["I know."]))
    model = ScriptedModel(replies=[call("transfer_to_agent", agent_name="expert")])
    agent = LlmAgent(name="chief", model=model, sub_agents=[expert])
    async with placed(client, tmp_path, agent) as place:
        found = await events(await place.server(), body())
    started = next(one for one in found if one.type == "SUBAGENT_STARTED")
    said = [one for one in found if one.type == "TEXT_MESSAGE_CONTENT"]
    assert (started.name, "".join(one.delta for one in said)) == ("expert", "I know.")
    assert {one.subagent_run_id for one in said} == {started.subagent_run_id}
    assert [one.type.value for one in found[-2:]] == ["SUBAGENT_FINISHED", "RUN_FINISHED"]


async def test_what_fails_is_the_last_event(client, tmp_path):
    """A failed run, and a request that is refused, with the class of the error."""

    def broken(**_: Any) -> None:
        raise ValueError("No.")

    agent = LlmAgent(name="a", model=ScriptedModel(replies=["x"]), before_agent_callback=broken)
    async with placed(client, tmp_path, agent) as place:
        http = await place.server()
        failed = await events(http, body())
        tool = {"name": "transfer_to_agent", "description": "", "parameters": {}}
        refused = [
            await events(http, sent)
            for sent in (
                body(tools=[tool]),
                body(None),
                body(state=[1]),
                resume(("nobody", True)),
            )
        ]
        response = await http.post(PATH, json=body(threadId="\n"))
    assert (failed[-1].type, failed[-1].code) == ("RUN_ERROR", "ValueError")
    assert "No." in failed[-1].message
    for each, word in zip(
        refused, ("transfer_to_agent", "messages", "state", "nobody"), strict=True
    ):
        assert (each[-1].type, each[-1].code) == ("RUN_ERROR", "InvalidRequestError")
        assert word in each[-1].message
    assert response.status_code == 400


async def test_a_thread_is_its_senders(client, tmp_path):
    """S1: another user's thread of the same id is another session; their user id is refused."""
    agent = LlmAgent(name="a", model=ScriptedModel(replies=["secret", "other"]))
    async with placed(client, tmp_path, agent) as place:
        http = await place.server(
            apps=["app"], settings=settings_for().model_dump(exclude_unset=True)
        )
        for token, user in ((TOKEN, "alice"), (OTHER, "olga")):
            response = await http.post(PATH, json=body(), headers=bearer(token))
            assert response.status_code == 200, response.text
            key = {"app_name": "app", "user_id": user, "session_id": "s"}
            assert await place.sessions.get_session(**key)
        of_other = f"{PATH}?user_id=bob"
        response = await http.post(of_other, json=body(), headers=bearer(TOKEN))
        assert response.status_code == 403
