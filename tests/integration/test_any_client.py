"""Workflow type Invocation takes and returns plain JSON, whoever the client is (D18)."""

import asyncio
import json
import re
import sys
import threading
import uuid
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.client import (
    Client,
    WithStartWorkflowOperation,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowUpdateFailedError,
    WorkflowUpdateStage,
)
from temporalio.common import RawValue, WorkflowIDConflictPolicy
from temporalio.exceptions import ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.context.activity import CallbackContext
from durable_adk.embedded import TemporalServer
from durable_adk.models import LlmRequest, ScriptedModel
from durable_adk.runners import Runner
from durable_adk.sessions import SessionKey, SqliteSessionService, Status
from durable_adk.tools import FunctionTool
from durable_adk.tools.long_running_tool import LongRunningFunctionTool
from durable_adk.wire.messages import InvocationAnswer
from durable_adk.worker import WorkerOptions, worker
from tests.support.packages import install_packages, run_command
from tests.support.required import has_program
from tests.support.scripts import call, gist
from tests.support.waiting import PATIENCE, until

TEMPORAL = Path(sys.executable).parent / "temporal"
DOCUMENT = Path(__file__).parents[2] / "docs" / "use" / "temporal-clients.md"


def get_capital(country: str) -> str:
    """Return the capital of a country."""
    return {"France": "Paris"}[country]


def geographer() -> App:
    """An app that answers where France's capital is."""
    model = ScriptedModel(replies=[call("get_capital", country="France"), "It is Paris."] * 3)
    return App(name="geo", root_agent=LlmAgent(name="g", model=model, tools=[get_capital]))


def refund(amount: int) -> dict[str, int]:
    """Give money back."""
    return {"refunded": amount}


def order(item: str) -> None:
    """Order something; the shop answers later."""


GOES_ON = threading.Event()
"""While it is not set, the desk asks its model nothing."""
GOES_ON.set()


def held(callback_context: CallbackContext, llm_request: LlmRequest) -> None:
    """Hold a model call."""
    GOES_ON.wait(PATIENCE)


def desk() -> App:
    """An app whose tools wait for people: a refund for approval, an order for its result."""

    def reply(request: LlmRequest) -> Any:
        last = (request.contents[-1].parts or [])[0]
        if last.function_response:
            return f"That was it: {last.function_response.response}"
        return call("order", item="tea") if last.text == "order" else call("refund", amount=5)

    tools = [FunctionTool(refund, require_confirmation=True), LongRunningFunctionTool(order)]
    return App(
        name="desk",
        root_agent=LlmAgent(
            name="clerk",
            model=ScriptedModel(replies=reply),
            tools=tools,
            before_model_callback=held,
        ),
    )


@pytest.fixture
async def task_queue(client: Client, sessions: SqliteSessionService) -> AsyncIterator[str]:
    """The task queue of a worker that serves the geographer."""
    options = WorkerOptions(task_queue=f"test-{uuid.uuid4().hex}")
    silent = LlmAgent(name="silent", model=ScriptedModel(replies=["never"], delay=3600))
    apps = [geographer(), desk(), App(name="slow", root_agent=silent)]
    async with worker(client, apps=apps, session_service=sessions, options=options):
        yield options.task_queue


def check(result: dict[str, Any]) -> None:
    """The documented result of the geographer's answer."""
    assert result["status"] == "completed"
    assert result["text"] == "It is Paris."
    assert (result["events"], result["modelCalls"], result["toolCalls"]) == (4, 2, 1)
    assert result["revision"] == 4
    assert {"app", "user", "session", "invocationId", "lastEventId"} <= set(result)


async def test_the_temporal_command_line_starts_an_invocation(
    server: TemporalServer, task_queue: str, sessions: SqliteSessionService
) -> None:
    """A person with `temporal` and a line of JSON needs nothing else."""
    request = {"app": "geo", "user": "alice@example.com", "session": "trip", "message": "France?"}
    name = f"cli-{uuid.uuid4().hex}"
    at = ["--address", server.address, "--workflow-id", name]
    await run_command(
        str(TEMPORAL), "workflow", "start", "--type", "Invocation", "--task-queue", task_queue,
        "--input", json.dumps(request), *at,
    )  # fmt: skip
    out = await run_command(str(TEMPORAL), "workflow", "result", "--output", "json", *at)
    check(json.loads(out)["result"])
    session = await sessions.get_session(
        app_name="geo", user_id="alice@example.com", session_id="trip"
    )
    assert session is not None
    assert gist(session.events[0]) == "user text France?"


WITHOUT_US = """
import asyncio, json, os, sys
sys.modules["durable_adk"] = None  # importing it is an error from here on
from temporalio.client import Client

async def main():
    address, queue, name = sys.argv[1:]
    client = await Client.connect(address)
    content = {"role": "user", "parts": [{"text": "France?"}]}
    request = {"app": "geo", "user": "u", "message": content, "runConfig": {"maxLlmCalls": 5}}
    result = await client.execute_workflow("Invocation", request, id=name, task_queue=queue)
    print(json.dumps(result))

asyncio.run(main())
sys.stdout.flush()
os._exit(0)  # the SDK may crash at interpreter exit (temporalio/sdk-python#300)
"""


async def test_a_client_without_our_package_starts_an_invocation(
    server: TemporalServer, task_queue: str
) -> None:
    """Message as Content, camelCase, no session: a new one is made and named in the result."""
    out = await run_command(
        sys.executable, "-c", WITHOUT_US, server.address, task_queue, f"py-{uuid.uuid4().hex}"
    )
    result = json.loads(out)
    check(result)
    assert result["session"] == result["invocationId"]


@workflow.defn(name="TripPlanner")
class TripPlanner:
    """Somebody else's workflow, which has an agent answer a question."""

    @workflow.run
    async def run(self, task_queue: str) -> dict[str, Any]:
        """Run the child and hand its result on."""
        request = {"app": "geo", "user": "u", "session": "child", "message": "France?"}
        return await workflow.execute_child_workflow(
            "Invocation", request, task_queue=task_queue, result_type=dict
        )


async def test_an_invocation_runs_as_a_child_workflow(client: Client, task_queue: str) -> None:
    """A team's own workflow, on its own worker, awaits an agent."""
    own_queue = f"test-{uuid.uuid4().hex}"
    async with Worker(
        client,
        task_queue=own_queue,
        workflows=[TripPlanner],
        workflow_runner=UnsandboxedWorkflowRunner(),
    ):
        result = await client.execute_workflow(
            "TripPlanner", task_queue, id=uuid.uuid4().hex, task_queue=own_queue, result_type=dict
        )
    check(result)


@pytest.mark.parametrize(
    ("request_", "kind", "words"),
    [
        ("just text", "InvalidRequestError", "one JSON object"),
        ({"app": "geo", "user": "u"}, "InvalidRequestError", "message: Field required"),
        ({"app": "geo", "user": "u", "message": ""}, "InvalidRequestError", "No parts"),
        ({"app": "geo", "user": "a\nb", "message": "x"}, "InvalidRequestError", "user holds"),
        ({"app": "geo", "user": "u", "message": "x", "mesage": 1}, "InvalidRequestError", "mesage"),
        ({"app": "no", "user": "u", "message": "x"}, "UnknownAppError", "not served here"),
        (
            {"app": "geo", "user": "u", "session": "?", "message": "x", "createSession": False},
            "SessionNotFoundError",
            "'?'",
        ),
        ({"app": "geo", "user": "u", "message": "x" * 1_100_000}, "PayloadTooLargeError", "bytes"),
    ],
)
async def test_a_bad_request_fails_the_workflow_with_its_reason(
    client: Client, task_queue: str, request_: Any, kind: str, words: str
) -> None:
    """D11: not a workflow task that is retried for ever, but a failure with type and remedy."""
    with pytest.raises(WorkflowFailureError) as caught:
        await client.execute_workflow(
            "Invocation",
            request_,
            id=uuid.uuid4().hex,
            task_queue=task_queue,
            execution_timeout=timedelta(seconds=PATIENCE),
        )
    cause = caught.value.cause
    assert isinstance(cause, ApplicationError)
    assert cause.type == kind
    assert words in cause.message


def nested(depth: int) -> Any:
    """A list in a list in a list."""
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "payloads",
    [
        [],
        [b"{}", b"{}"],
        [b"{"],
        [b'"\\ud800"'],
        [b'{"app": "geo", "user": "u", "message": "\\ud800"}'],
        [json.dumps({"app": "geo", "user": "u", "stateDelta": {"x": nested(300)}}).encode()],
    ],
    ids=["none", "two", "half", "surrogate", "surrogate-in-message", "deep"],
)
async def test_an_argument_that_cannot_be_read_fails_the_workflow(
    client: Client, task_queue: str, payloads: list[bytes]
) -> None:
    """D11: whatever the bytes are, the workflow ends; its task is not retried for ever."""
    raw = [RawValue(Payload(metadata={"encoding": b"json/plain"}, data=data)) for data in payloads]
    handle = await client.start_workflow(
        "Invocation", args=raw, id=uuid.uuid4().hex, task_queue=task_queue
    )
    with pytest.raises(WorkflowFailureError) as caught:
        await asyncio.wait_for(handle.result(), PATIENCE)
    assert isinstance(caught.value.cause, ApplicationError)


async def test_an_invocation_started_elsewhere_can_be_followed(
    client: Client, task_queue: str, sessions: SqliteSessionService
) -> None:
    """Whoever started it under whatever workflow id: its invocation id is enough to attach."""
    request = {"app": "geo", "user": "u", "session": "s", "message": "?", "invocationId": "e-own"}
    await client.start_workflow(
        "Invocation", request, id=f"their-{uuid.uuid4().hex}", task_queue=task_queue
    )
    runner = Runner(
        app=geographer(), session_service=sessions, client=client, task_queue=task_queue
    )
    await until(lambda: sessions.get_invocation(SessionKey("geo", "u", "s"), "e-own"))
    events = runner.run_async(user_id="u", session_id="s", invocation_id="e-own")
    assert [gist(event) async for event in events] == [
        "g call get_capital",
        "g response get_capital",
        "g text It is Paris.",
    ]


async def test_a_second_workflow_for_an_invocation_finds_its_outcome(
    client: Client, task_queue: str
) -> None:
    """I12: whoever starts it again, under whatever workflow id, gets the same result."""
    request = {"app": "geo", "user": "u", "session": "s", "message": "?", "invocationId": "e-own"}
    first, second = [
        await client.execute_workflow(
            "Invocation", request, id=uuid.uuid4().hex, task_queue=task_queue
        )
        for _ in range(2)
    ]
    check(first)
    assert second == first


async def test_an_invocation_whose_workflow_is_gone_is_ended_by_its_next_start(
    client: Client, task_queue: str, sessions: SqliteSessionService
) -> None:
    """D7: no workflow that cannot continue keeps its id, and its session is free."""
    request = {"app": "slow", "user": "u", "session": "s", "message": "?", "invocationId": "e-own"}
    first = await client.start_workflow(
        "Invocation", request, id=uuid.uuid4().hex, task_queue=task_queue
    )
    key = SessionKey("slow", "u", "s")
    await until(lambda: sessions.get_invocation(key, "e-own"))
    await first.terminate()
    with pytest.raises(WorkflowFailureError) as caught:
        await asyncio.wait_for(
            client.execute_workflow(
                "Invocation", request, id=uuid.uuid4().hex, task_queue=task_queue
            ),
            PATIENCE,
        )
    assert isinstance(caught.value.cause, ApplicationError)
    assert caught.value.cause.type == "InvocationTerminatedError"
    record = await sessions.get_invocation(key, "e-own")
    assert record is not None
    assert record.status is Status.ABANDONED
    assert await sessions.active_invocation(key) is None


def documented_program(words: str) -> str:
    """The program of the document that holds some words."""
    programs = re.findall(r"^```py\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    (found,) = [program for program in programs if words in program]
    return found


@pytest.mark.thorough
async def test_the_documented_program_approves_a_call(
    server: TemporalServer, task_queue: str
) -> None:
    """D9: a plain client sees what waits, answers it, and gets the result."""
    program = documented_program('"pending"')
    for shown, real in (
        ("127.0.0.1:7233", server.address),
        ("durable-adk-desk", task_queue),
        ("refund-1", uuid.uuid4().hex),
        ("asyncio.run(main())", "asyncio.run(main()); sys.stdout.flush(); os._exit(0)"),
    ):
        assert program.count(shown) == 1
        program = program.replace(shown, real)
    start = "import os, sys\nsys.modules['durable_adk'] = None\n"  # importing it is an error
    out = await run_command(sys.executable, "-c", start + program)
    assert out.splitlines() == [
        "clerk asks for confirmation of refund {'amount': 5}",
        "That was it: {'refunded': 5}",
    ]


async def test_the_documented_program_follows_an_invocation(
    server: TemporalServer, client: Client, task_queue: str
) -> None:
    """A plain client prints all events of an invocation until it has ended."""
    request = {"app": "geo", "user": "alice", "session": "trip", "message": "France?"}
    await client.execute_workflow(
        "Invocation",
        request | {"invocationId": "e-1"},
        id=uuid.uuid4().hex,
        task_queue=task_queue,
    )
    program = documented_program('"SessionEvents"')
    for shown, real in (
        ("127.0.0.1:7233", server.address),
        ("durable-adk-capital_agent", task_queue),
        ("capital_agent", "geo"),
        ("asyncio.run(main())", "asyncio.run(main()); sys.stdout.flush(); os._exit(0)"),
    ):
        assert program.count(shown) == 1
        program = program.replace(shown, real)
    start = "import os, sys\nsys.modules['durable_adk'] = None\n"  # importing it is an error
    out = (await run_command(sys.executable, "-c", start + program)).splitlines()
    assert [line.split()[:2] for line in out] == [
        [str(number), author] for number, author in enumerate(["user", "g", "g", "g"], 1)
    ]
    assert "It is Paris." in out[-1]


async def test_the_documented_program_pauses_after_an_empty_page(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A worker on which too many pages wait returns one at once; asking at once again floods it."""
    event = {"seq": 1, "event": {"author": "user", "content": "hi"}}
    pages = [
        {"events": [], "next": 0, "complete": False},
        {"events": [event], "next": 1, "complete": False},
        {"events": [], "next": 1, "complete": True},
    ]
    asked, slept = list[int](), list[tuple[int, float]]()

    async def execute(_kind: str, argument: dict[str, Any], **_: Any) -> dict[str, Any]:
        asked.append(argument["after"])
        return pages.pop(0)

    async def sleep(seconds: float) -> None:
        slept.append((len(asked), seconds))

    async def connected(_address: str) -> SimpleNamespace:
        return SimpleNamespace(execute_workflow=execute)

    monkeypatch.setattr(Client, "connect", connected)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    names = dict[str, Any]()
    program = documented_program('"SessionEvents"').replace("asyncio.run(main())", "")
    exec(program, names)  # noqa: S102  # the documentation's own
    await names["main"]()
    assert (asked, slept) == ([0, 0, 1], [(1, 1)])
    assert capsys.readouterr().out == "1 user hi\n"


async def waiting_invocation(
    client: Client, task_queue: str, message: str
) -> tuple[WorkflowHandle[Any, Any], dict[str, Any]]:
    """An invocation of the desk, and the call that it waits for."""
    handle = await client.start_workflow(
        "Invocation",
        {"app": "desk", "user": "u", "message": message},
        id=uuid.uuid4().hex,
        task_queue=task_queue,
    )
    waiting = await until(lambda: handle.query("pending"))
    return handle, waiting[0]


async def outcomes(handle: WorkflowHandle[Any, Any], count: int) -> dict[str, str | None]:
    """What became of so many answers."""

    async def known() -> dict[str, str | None] | None:
        answers = await handle.query("answers")
        return answers if len(answers) >= count else None

    return await until(known)


async def test_refused_answers_are_seen_and_change_nothing(client: Client, task_queue: str) -> None:
    """D9, TRAP-28: each with its reason; the call keeps waiting, and takes the right answer."""
    handle, waiting = await waiting_invocation(client, task_queue, "refund")
    assert waiting == {
        "callId": waiting["callId"],
        "name": "adk_request_confirmation",
        "agent": "clerk",
        "due": None,
        "kind": "confirmation",
        "tool": "refund",
        "arguments": {"amount": 5},
        "hint": waiting["hint"],
        "responseSchema": waiting["responseSchema"],
    }
    assert "refund" in waiting["hint"]
    assert waiting["responseSchema"]["required"] == ["confirmed"]
    asked = waiting["callId"]
    for answer in (
        {"callId": "forged", "confirmed": True, "answerId": "unknown"},
        {"callId": asked, "response": {"result": "yes"}, "answerId": "shapeless"},
        {"callId": asked, "answerId": "empty"},
        {"callId": asked, "confirmed": True, "answer_id": "typo", "answer": 1},
        {"callId": asked, "confirmed": "yes", "answerId": "a word"},
        {"callId": asked, "confirmed": 1, "answerId": "a number"},
        "yes",
        {"callId": asked, "confirmed": True, "answerId": "a" * 1_200_000},
        {"callId": asked, "confirmed": True, "answerId": "b" * 1_200_000},
    ):
        await handle.signal("answer", answer)
    refused = await outcomes(handle, 9)
    named = {"unknown", "shapeless", "empty", "typo", "a word", "a number"}
    assert named < set(refused)
    assert len(unnamed := set(refused) - named) == 3
    assert all(name.startswith("malformed-") for name in unnamed)
    assert len(json.dumps(refused)) < 2_000
    assert all(refused.values())

    # So many bytes make the workflow continue as new, whose next run shows the details in a moment.
    async def shows_details() -> bool:
        shown = await handle.query("pending")
        assert [call["callId"] for call in shown] == [asked]
        return shown == [waiting]

    await until(shows_details)
    for confirmed in (True, True, False):  # the same again, and another under its name (S22)
        await handle.signal(
            "answer", {"call_id": asked, "confirmed": confirmed, "answer_id": "right"}
        )
    result = await handle.result()
    assert result["text"] == "That was it: {'refunded': 5}"
    assert "different contents" in (await handle.query("answers"))["right"]
    first = InvocationAnswer(call_id=asked, confirmed=True)
    assert (await handle.query("taken"))["right"] == first.digest()
    assert await handle.query("pending") == []


async def test_an_update_says_whether_an_answer_was_accepted(
    client: Client, task_queue: str
) -> None:
    """D9: one call gives the answer and returns its outcome; what is no answer leaves no trace."""
    handle, waiting = await waiting_invocation(client, task_queue, "refund")
    asked = waiting["callId"]
    forged = {"callId": "forged", "confirmed": True, "answerId": "a-1"}
    refused = await handle.execute_update("answer", forged)
    assert (refused["answerId"], refused["accepted"]) == ("a-1", False)
    assert "waits for no answer" in refused["reason"]
    before = (await handle.describe()).history_length
    yes = {"callId": asked, "confirmed": "yes"}
    for bad in ({"callId": asked}, {"steers": "e-1"}, "yes", yes):
        with pytest.raises(WorkflowUpdateFailedError) as caught:
            await handle.execute_update("answer", bad)
        assert isinstance(caught.value.cause, ApplicationError)
        assert caught.value.cause.type == "InvalidRequestError"
    assert (await handle.describe()).history_length == before
    good = {"callId": asked, "confirmed": True, "answerId": "a-2"}
    accepted = {"answerId": "a-2", "accepted": True, "reason": None}
    assert await handle.execute_update("answer", good) == accepted
    assert (await handle.result())["text"] == "That was it: {'refunded': 5}"
    assert await handle.query("answers") == {"a-1": refused["reason"], "a-2": None}


async def test_an_update_returns_when_its_invocation_ends(client: Client, task_queue: str) -> None:
    """D9: an answer that came too late is refused, and its caller does not wait for ever."""
    handle = await client.start_workflow(
        "Invocation",
        {"app": "slow", "user": "u", "message": "Hello"},
        id=uuid.uuid4().hex,
        task_queue=task_queue,
    )
    answer = {"callId": "later", "confirmed": True, "answerId": "a-1"}
    update = await handle.start_update(
        "answer", answer, wait_for_stage=WorkflowUpdateStage.ACCEPTED
    )
    await handle.cancel()
    told = await asyncio.wait_for(update.result(), PATIENCE)
    ended = "The invocation has ended without it."
    assert told == {"answerId": "a-1", "accepted": False, "reason": ended}


async def test_an_update_returns_when_its_invocation_cannot_open(
    client: Client, task_queue: str
) -> None:
    """D9: an answer to an invocation that fails before it is open is refused as well."""
    request = {"app": "unknown", "user": "u", "message": "Hello"}
    start = WithStartWorkflowOperation(
        "Invocation",
        request,
        id=uuid.uuid4().hex,
        task_queue=task_queue,
        id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
    )
    answer = {"callId": "any", "confirmed": True, "answerId": "a-1"}
    told = await asyncio.wait_for(
        client.execute_update_with_start_workflow("answer", answer, start_workflow_operation=start),
        PATIENCE,
    )
    assert (told["answerId"], told["accepted"]) == ("a-1", False)
    with pytest.raises(WorkflowFailureError):
        await (await start.workflow_handle()).result()


async def test_of_two_answers_by_update_one_is_accepted(client: Client, task_queue: str) -> None:
    """S22, D9: a yes and a no at the same moment, or under one id: each caller gets its outcome."""
    for names in (("yes", "no"), ("same", "same")):
        handle, waiting = await waiting_invocation(client, task_queue, "refund")
        GOES_ON.clear()  # else the workflow may have ended before the second one reaches it
        updates = [
            handle.start_update(
                "answer",
                {"callId": waiting["callId"], "confirmed": yes, "answerId": name},
                wait_for_stage=WorkflowUpdateStage.ACCEPTED,
            )
            for name, yes in zip(names, (True, False), strict=True)
        ]
        begun = await asyncio.gather(*updates)
        GOES_ON.set()
        told = await asyncio.gather(*(one.result() for one in begun))
        assert sorted(one["accepted"] for one in told) == [False, True]
        text = (await handle.result())["text"]
        assert told[0]["accepted"] == (text == "That was it: {'refunded': 5}")


@pytest.mark.parametrize("form", ["call", "message"])
async def test_a_result_comes_by_call_or_as_a_message(
    client: Client, task_queue: str, form: str
) -> None:
    """TOL-41, D9: both forms of the signal give a long-running tool its result."""
    handle, waiting = await waiting_invocation(client, task_queue, "order")
    assert waiting["name"] == "order"
    response = {"delivered": True}
    part = {"id": waiting["callId"], "name": "order", "response": response}
    answer = {
        "call": {"callId": waiting["callId"], "response": response},
        "message": {"message": {"parts": [{"functionResponse": part}]}},
    }[form]
    await handle.signal("answer", answer)
    result = await handle.result()
    assert result["text"] == "That was it: {'delivered': True}"
    assert await handle.query("answers") == {"unnamed-1": None}


@pytest.mark.thorough
@pytest.mark.skipif(not has_program("npm"), reason="needs Node.js and npm")
async def test_a_client_in_another_language_approves_a_call(
    server: TemporalServer, task_queue: str, tmp_path: Path
) -> None:
    """D18: Temporal's own client for JavaScript starts, watches, answers and gets the result."""
    folder = await install_packages("javascript", tmp_path)
    name = f"js-{uuid.uuid4().hex}"
    said = await run_command("node", str(folder / "client.js"), server.address, task_queue, name)
    told = json.loads(said)
    (pending,) = told["pending"]
    assert (pending["name"], told["status"]) == ("adk_request_confirmation", "RUNNING")
    assert (pending["tool"], pending["arguments"]) == ("refund", {"amount": 5})
    assert told["accepted"] == {"answerId": "a-1", "accepted": True, "reason": None}
    assert told["answers"] == {"a-1": None}
    assert told["result"]["status"] == "completed"
    assert "refunded" in told["result"]["text"]
    assert [event["author"] for event in told["events"]].count("clerk") >= 3
    assert told["events"][-1]["content"]["parts"] == [{"text": told["result"]["text"]}]
