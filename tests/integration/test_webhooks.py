"""Webhooks: what a receiver over HTTP gets, on a real Temporal."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from google.genai import types
from pydantic import SecretStr
from temporalio.client import (
    Client,
    WorkflowExecution,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
)
from temporalio.exceptions import ApplicationError

from durable_adk.activities.webhook.deliveries import Deliveries
from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.errors import InvocationTerminatedError
from durable_adk.events import Event
from durable_adk.models import ScriptedModel
from durable_adk.runners import Runner
from durable_adk.sessions import SessionKey, SqliteSessionService
from durable_adk.settings import Settings, WebhookEndpoint, Webhooks
from durable_adk.tools import AgentTool, FunctionTool
from durable_adk.wire.answer_token import AnswerToken
from durable_adk.wire.messages import workflow_id
from durable_adk.wire.webhook import DeliverStep
from durable_adk.worker import WorkerOptions, worker
from tests.support.gates import until_set
from tests.support.receiver import SECRET, Receiver, receiving
from tests.support.scripts import USER, call, send
from tests.support.waiting import forever, until

KEY = SecretStr("k" * 32)
Serve = Callable[..., Any]


def refund(amount: int) -> str:
    """Give money back."""
    return f"refunded {amount}"


def cashier(*replies: Any) -> LlmAgent:
    """An agent that asks before it gives money back."""
    model = ScriptedModel(replies=list(replies))
    tool = FunctionTool(refund, require_confirmation=True)
    return LlmAgent(name="cashier", model=model, tools=[tool])


def endpoint(receiver: Receiver, **more: Any) -> WebhookEndpoint:
    """The receiver's endpoint."""
    return WebhookEndpoint.model_validate({"url": receiver.url, "secret": SECRET, **more})


@pytest.fixture
def queue() -> str:
    """The task queue of a test."""
    return f"test-{uuid.uuid4().hex}"


@pytest.fixture
async def serve(client: Client, queue: str, tmp_path: Path) -> AsyncIterator[Serve]:
    """Start workers of one store and queue, each with its webhooks."""
    service = SqliteSessionService(tmp_path / "sessions.db")
    async with AsyncExitStack() as stack:

        async def start(agent: LlmAgent, *endpoints: WebhookEndpoint, **more: Any) -> Runner:
            webhooks = Webhooks(endpoints=endpoints, **more) if endpoints else None
            options = WorkerOptions(task_queue=queue, webhooks=webhooks)
            app = App(name="app", root_agent=agent)
            await stack.enter_async_context(
                worker(client, apps=[app], session_service=service, options=options)
            )
            runner = Runner(app=app, session_service=service, client=client, task_queue=queue)
            return await stack.enter_async_context(runner)

        yield start
    await service.close()


async def arrived(receiver: Receiver, number: int) -> list[dict[str, Any]]:
    """The messages, once there are so many."""
    await until(lambda: len(receiver.received) >= number)
    return receiver.received


async def answer(runner: Runner, **response: Any) -> None:
    """Answer what waits."""
    (pending,) = await runner.pending(**USER)
    part = types.FunctionResponse(id=pending.call_id, name=pending.name, response=response)
    message = types.Content(role="user", parts=[types.Part(function_response=part)])
    async for _ in runner.run_async(**USER, new_message=message):
        pass


async def failed_delivery(client: Client, queue: str) -> WorkflowHandle[Any, Any]:
    """The only workflow that delivers a webhook of a queue, once it has failed."""
    query = f"WorkflowType = 'DeliverWebhook' AND TaskQueue = '{queue}'"

    async def failed() -> list[WorkflowExecution]:
        found = [one async for one in client.list_workflows(query)]
        return found if found and found[0].status is WorkflowExecutionStatus.FAILED else []

    (delivery,) = await until(failed)
    return client.get_workflow_handle(delivery.id)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[DeliverStep]:
    """The deliveries that are started."""
    found: list[DeliverStep] = []
    start = Deliveries.start

    async def record(self: Deliveries, step: DeliverStep) -> None:
        found.append(step)
        await start(self, step)

    monkeypatch.setattr(Deliveries, "start", record)
    return found


async def test_somebody_is_told_when_a_run_waits_and_when_it_ends(
    client: Client, serve: Serve
) -> None:
    """Signed, once each, with what is to be decided; the run's own history has nothing of it."""
    with receiving() as receiver:
        runner = await serve(cashier(call("refund", amount=5), "done"), endpoint(receiver))
        (asked, *_) = await send(runner)
        (paused,) = await arrived(receiver, 1)
        assert paused["type"] == "invocation.paused"
        data = paused["data"]
        assert (data["appName"], data["userId"], data["sessionId"]) == ("app", "u", "s")
        assert (data["invocationId"], data["status"]) == (asked.invocation_id, "paused")
        (pending,) = data["pending"]
        assert (pending["name"], pending["arguments"]) == ("refund", {"amount": 5})
        assert (pending["kind"], "answerUrl" in pending) == ("confirmation", False)
        await answer(runner, confirmed=True)
        _, completed = await arrived(receiver, 2)
        assert (completed["type"], completed["data"]["status"]) == (
            "invocation.completed",
            "completed",
        )
        assert len(set(receiver.ids)) == len(receiver.ids) == 2
    name = workflow_id(SessionKey("app", "u", "s"), asked.invocation_id)
    history = await client.get_workflow_handle(name).fetch_history()
    assert not [event for event in history.events if "ebhook" in str(event)]


async def test_a_failed_and_a_cancelled_run_are_told_too(client: Client, serve: Serve) -> None:
    """With the error that the session has."""
    with receiving() as receiver:
        runner = await serve(
            cashier(ValueError("no"), call("refund", amount=5)), endpoint(receiver)
        )
        with pytest.raises(ValueError, match="no"):
            await send(runner)
        (failed,) = await arrived(receiver, 1)
        assert failed["type"] == "invocation.failed"
        assert failed["data"]["error"] == {"type": "ValueError", "message": "no"}
        (asked, *_) = await send(runner)
        await arrived(receiver, 2)
        assert await runner.cancel(**USER, invocation_id=asked.invocation_id)
        *_, cancelled = await arrived(receiver, 3)
        assert cancelled["type"] == "invocation.cancelled"


async def test_an_abandoned_run_is_told_as_failed(
    client: Client, serve: Serve, started: list[DeliverStep]
) -> None:
    """When the next message of its session ends it; nobody else knows that it is over."""
    begun, lost = asyncio.Event(), f"lost-{uuid.uuid4().hex}"

    async def hang(amount: int) -> str:
        """Never return."""
        begun.set()
        await forever()
        return ""

    model = ScriptedModel(replies=[call("hang", amount=1), "hello"])
    with receiving() as receiver:
        agent = LlmAgent(name="agent", model=model, tools=[FunctionTool(hang)])
        runner = await serve(agent, endpoint(receiver))
        await runner.session_service.create_session(app_name="app", **USER)
        events = runner.run_async(**USER, new_message="hi", invocation_id=lost)
        asking = asyncio.create_task(_all_of(events))
        await until_set(begun, asking)
        name = workflow_id(SessionKey("app", "u", "s"), lost)
        await client.get_workflow_handle(name).terminate()
        with pytest.raises(InvocationTerminatedError):
            await asking
        await _all_of(runner.run_async(**USER, new_message="are you there?"))
        told = {one["data"]["invocationId"]: one for one in await arrived(receiver, 2)}
    assert told[lost]["type"] == "invocation.failed"
    assert told[lost]["data"]["status"] == "abandoned"
    assert told[lost]["data"]["error"]["type"] == "InvocationTerminatedError"
    assert len({one.workflow_id for one in started}) == len(started) == 2


async def _all_of(events: AsyncIterator[Event]) -> list[Event]:
    return [event async for event in events]


async def test_an_endpoint_gets_what_it_wants(serve: Serve, started: list[DeliverStep]) -> None:
    """By type and by app; an agent that is used as a tool is no run of its own."""
    helper = LlmAgent(name="helper", model=ScriptedModel(replies=["helped"]))
    model = ScriptedModel(replies=[call("helper", request="x"), "done"])
    agent = LlmAgent(name="chief", model=model, tools=[AgentTool(agent=helper)])
    with receiving() as receiver:
        runner = await serve(
            agent,
            endpoint(receiver),
            endpoint(receiver, url=f"{receiver.url}&2", types=["invocation.failed"]),
            endpoint(receiver, url=f"{receiver.url}&3", apps=["another"]),
        )
        await send(runner)
        await arrived(receiver, 1)
    assert [one.session for one in started] == ["s"]


async def test_nothing_is_started_without_endpoints(
    serve: Serve, started: list[DeliverStep]
) -> None:
    """Who wants no webhooks pays nothing."""
    runner = await serve(cashier("done"))
    await send(runner)
    assert started == []


@pytest.mark.thorough
async def test_a_receiver_that_is_down_gets_it_when_it_is_up(serve: Serve) -> None:
    """Also if it is busy: then it says when; each time it is the same message."""
    with receiving() as receiver:
        port = receiver.port
    runner = await serve(cashier("done"), endpoint(receiver))
    await send(runner)
    with receiving(port) as receiver:
        receiver.responses = [(code, {"Retry-After": "0"}) for code in (503, 429, 408)]
        (message,) = await arrived(receiver, 1)
    assert set(receiver.ids) == {message["webhookId"]}
    assert len(receiver.ids) == 4


@pytest.mark.parametrize("status", [410, 400, 404, 301])
async def test_a_receiver_that_refuses_is_left_alone(
    client: Client, queue: str, serve: Serve, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A redirect is not followed, and the workflow and the log say why it has failed."""
    with receiving() as receiver, receiving() as elsewhere:
        receiver.responses = [(status, {"Location": elsewhere.url})]
        runner = await serve(cashier("done"), endpoint(receiver))
        await send(runner)
        delivery = await failed_delivery(client, queue)
        with pytest.raises(WorkflowFailureError) as failed:
            await delivery.result()
        assert isinstance(failed.value.cause, ApplicationError)
        assert failed.value.cause.type == "WebhookRefusedError"
        assert str(status) in failed.value.cause.message
        assert len(receiver.ids) == 1
        assert elsewhere.ids == []
    (line,) = [vars(one) for one in caplog.records if one.message == "webhook.failed"]
    assert (line["reason"], line["final"]) == (failed.value.cause.message, True)


async def test_no_history_has_the_address_or_the_secret(
    client: Client, queue: str, serve: Serve
) -> None:
    """Both are in the workers' settings only, and of the conversation nothing is added."""
    with receiving() as receiver:
        receiver.responses = [(400, {})]
        runner = await serve(cashier("a canary"), endpoint(receiver))
        await send(runner)
        delivery = await failed_delivery(client, queue)
        text = (await delivery.fetch_history()).to_json()
    assert "of-the-receiver" not in text
    assert SECRET[6:] not in text
    assert "canary" not in text


async def test_a_webhook_has_urls_that_answer_what_waits(serve: Serve) -> None:
    """Where a server and a key are set; a URL names one call, and says until when."""
    with receiving() as receiver:
        runner = await serve(
            cashier(call("refund", amount=5)),
            endpoint(receiver),
            answer_url="https://agents.example.com/",
            answer_key=KEY,
        )
        await send(runner)
        (message,) = await arrived(receiver, 1)
    (pending,) = message["data"]["pending"]
    url, _, token = pending["answerUrl"].rpartition("/")
    assert url == "https://agents.example.com/answers"
    found = AnswerToken.verified(token, KEY.get_secret_value(), now=0)
    assert (found.call_id, found.session) == (pending["callId"], "s")
    assert found.message_id == message["webhookId"]


def test_settings_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """An address that is none, a secret that is short, and URLs without a key are refused."""
    good = {"url": "https://x.example.com", "secret": SECRET}
    assert Settings().webhooks_of_worker() is None
    made = Settings.model_validate({"webhooks": [good]}).webhooks_of_worker()
    assert made is not None
    assert SECRET not in repr(made) + str(made)
    for bad in (
        {"url": "file:///etc/passwd"},
        {"url": "https:///x"},
        {"secret": "whsec_c2hvcnQ="},
        {"secret": "no base64!"},
        {"types": ["invocation.started"]},
    ):
        with pytest.raises(ValueError, match="webhooks"):
            Settings.model_validate({"webhooks": [{**good, **bad}]})
    with pytest.raises(ValueError, match="answer_key"):
        Webhooks(answer_url="https://x")
