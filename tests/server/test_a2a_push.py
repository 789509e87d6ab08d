"""Push notifications of A2A: asked for by the official client, received over a socket."""

import asyncio
import logging
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from a2a.types import (
    AuthenticationInfo,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest,
    ListTaskPushNotificationConfigsRequest,
    StreamResponse,
    TaskPushNotificationConfig,
)
from a2a.utils.errors import (
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotFoundError,
)
from google.protobuf.json_format import ParseDict
from temporalio.client import WorkflowExecution

from durable_adk.activities.webhook import delivery
from durable_adk.agents import LlmAgent
from durable_adk.models import ScriptedModel
from durable_adk.settings import Webhooks
from durable_adk.tools.long_running_tool import LongRunningFunctionTool
from tests.server.test_a2a import BOB, rpc, runs
from tests.server.test_authentication import TOKEN, digest, settings_for
from tests.support.a2a_client import answers, asked, brief, connected, said, state, task_of
from tests.support.http_server import Place, placed
from tests.support.receiver import Receiver, receiving
from tests.support.scripts import call
from tests.support.streams import StreamingModel
from tests.support.waiting import PATIENCE, until

pytestmark = pytest.mark.thorough

HOSTS = ["127.0.0.1"]
CANARY = "canary-of-the-token"
PASSWORD = "canary-of-the-credentials"  # noqa: S105 - of this test


def ask(question: str) -> None:
    """Ask somebody, who answers later."""


TOOLS = [LongRunningFunctionTool(ask)]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Who is notified."""
    with receiving(signed=False) as opened:
        yield opened


@asynccontextmanager
async def told(client, folder, model) -> AsyncIterator[Place]:
    """A place whose workers and servers may tell receivers of this machine."""
    agent = LlmAgent(name="a", model=model, tools=TOOLS)
    async with placed(client, folder, agent, Webhooks(push_hosts=tuple(HOSTS))) as place:
        yield place


async def serving(place: Place, **settings: Any):
    """A server of it."""
    return await place.server(apps=["app"], settings={"push_hosts": HOSTS} | settings)


def scripted(*replies) -> ScriptedModel:
    """A model that says some replies."""
    return ScriptedModel(replies=list(replies))


def hook(receiver: Receiver, name: str = "", task: str = "") -> TaskPushNotificationConfig:
    """A configuration with secrets."""
    return TaskPushNotificationConfig(
        id=name,
        task_id=task,
        url=receiver.url,
        token=CANARY,
        authentication=AuthenticationInfo(scheme="Bearer", credentials=PASSWORD),
    )


async def arrived(receiver: Receiver, number: int) -> list[StreamResponse]:
    """What was received, once there is so much."""
    await until(lambda: len(receiver.received) >= number)
    found = [{**one} for one in receiver.received]
    assert len({one.pop("webhookId") for one in found}) == len(receiver.ids) == number
    return [ParseDict(one, StreamResponse()) for one in found]


async def deliveries(client, place: Place, number: int) -> list[str]:
    """The histories of the workflows that tell somebody, so many, once they have ended."""
    query = f"WorkflowType = 'DeliverWebhook' AND TaskQueue = '{place.queue}'"

    async def listed() -> list[WorkflowExecution] | None:
        found = [one async for one in client.list_workflows(query)]
        return found if len(found) >= number else None

    handles = [client.get_workflow_handle(one.id) for one in await until(listed)]
    for handle in handles:
        await handle.result()
    shown = [(await one.describe()).raw_description for one in handles]
    return [str(one) for one in shown] + [(await one.fetch_history()).to_json() for one in handles]


async def test_a_message_says_who_is_told_of_its_task(client, tmp_path, receiver, caplog):
    """Of each state once, with the headers that prove it; no log and no history has a secret."""
    caplog.set_level(logging.INFO)
    model = scripted(call("ask", question="why"), "I see.")
    async with told(client, tmp_path, model) as place:
        http = await serving(place)
        card = (await http.get("/a2a/app/.well-known/agent-card.json")).json()
        async with connected(http, streaming=False) as agent:
            task = await task_of(agent, said("hi"), push=hook(receiver))
            (paused,) = await arrived(receiver, 1)
            done = await task_of(agent, said("because", task=task.id))
            _, ended = await arrived(receiver, 2)
        texts = await deliveries(client, place, 2)
    assert card["capabilities"]["pushNotifications"]
    assert [brief(paused), brief(ended)] == ["(input-required)", "(completed)"]
    assert asked(paused.status_update) == asked(task)
    for one in (paused.status_update, ended.status_update):
        assert (one.task_id, one.context_id) == (task.id, task.context_id)
        assert one.status.HasField("timestamp")
    for headers in receiver.headers:
        assert headers["x-a2a-notification-token"] == CANARY
        assert headers["authorization"] == f"Bearer {PASSWORD}"
        assert headers["content-type"] == "application/json"
    assert answers(done) == ["I see."]
    assert len(texts) == 4
    for text in (*texts, caplog.text):
        for secret in (CANARY, PASSWORD, "of-the-receiver"):
            assert secret not in text


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
async def test_configurations_are_set_read_and_deleted(client, tmp_path, receiver, binding):
    """At any server; no answer has a secret, and what is deleted gets nothing more."""
    model = scripted(call("ask", question="why"), "I see.")
    with receiving(signed=False) as other:
        async with told(client, tmp_path, model) as place:
            async with connected(await serving(place), streaming=False, binding=binding) as agent:
                task = await task_of(agent, said("hi"))
                first = await agent.create_task_push_notification_config(
                    hook(other, "one", task.id)
                )
                unnamed = hook(receiver, "", task.id)
                for _ in range(2):
                    second = await agent.create_task_push_notification_config(unnamed)
            async with connected(await serving(place), streaming=False, binding=binding) as agent:
                name = GetTaskPushNotificationConfigRequest(task_id=task.id, id="one")
                wanted = ListTaskPushNotificationConfigsRequest(task_id=task.id)
                got = await agent.get_task_push_notification_config(name)
                listed = await agent.list_task_push_notification_configs(wanted)
                gone = DeleteTaskPushNotificationConfigRequest(task_id=task.id, id="one")
                for _ in range(2):
                    await agent.delete_task_push_notification_config(gone)
                with pytest.raises(TaskNotFoundError):
                    await agent.get_task_push_notification_config(name)
                rest = await agent.list_task_push_notification_configs(wanted)
                await task_of(agent, said("because", task=task.id))
                (ended,) = await arrived(receiver, 1)
            assert len(await deliveries(client, place, 1)) == 2
    assert first == got
    assert (got.id, got.task_id, got.url) == ("one", task.id, other.url)
    assert (got.token, got.authentication) == ("", AuthenticationInfo(scheme="Bearer"))
    assert second.id == task.id
    assert {one.id for one in listed.configs} == {"one", task.id}
    assert [one.id for one in rest.configs] == [task.id]
    assert brief(ended) == "(completed)"
    assert other.ids == []


async def test_a_deletion_stops_what_is_on_its_way(client, tmp_path, receiver, monkeypatch):
    """A notification that could not be delivered yet is not sent again."""
    receiver.responses = [(503, {"Retry-After": "0"})]
    take, deleted = receiver.take, threading.Event()

    def taken(body: bytes, headers: dict[str, str]) -> tuple[int, dict[str, str]]:
        response = take(body, headers)
        deleted.wait(PATIENCE)
        return response

    monkeypatch.setattr(receiver, "take", taken)
    monkeypatch.setattr(delivery, "TIMEOUT", PATIENCE)
    async with (
        told(client, tmp_path, scripted("Hello.")) as place,
        connected(await serving(place), streaming=False) as agent,
    ):
        task = await task_of(agent, said("hi"), push=hook(receiver, "one"))
        await until(lambda: receiver.ids)
        gone = DeleteTaskPushNotificationConfigRequest(task_id=task.id, id="one")
        await agent.delete_task_push_notification_config(gone)
        deleted.set()
        await deliveries(client, place, 1)  # waits for its end
    assert len(receiver.ids) == 1
    assert receiver.received == []


async def test_failed_and_cancelled_tasks_are_told(client, tmp_path, receiver):
    """A failure with its error, as the task has it."""
    turns = [[ValueError("no such model"), ""]]
    model = StreamingModel(turns=[lambda: turns[-1]])  # however often it is asked
    async with (
        told(client, tmp_path, model) as place,
        connected(await serving(place), streaming=False) as agent,
    ):
        first = await task_of(agent, said("hi"), push=hook(receiver))
        (failed,) = await arrived(receiver, 1)
        turns.append([asyncio.Event(), ""])
        second = await task_of(agent, said("hi"), push=hook(receiver), at_once=True)
        await agent.cancel_task(CancelTaskRequest(id=second.id))
        _, cancelled = await arrived(receiver, 2)
    assert [brief(failed), brief(cancelled)] == ["(failed)", "(canceled)"]
    assert state(first) == "(failed)"
    assert failed.status_update.status.message == first.status.message


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
async def test_another_users_configurations_do_not_exist(client, tmp_path, receiver, binding):
    """Not to be set, read, listed or deleted, nor by a message."""
    known = settings_for().model_dump(include={"tokens", "operators"})
    known["tokens"].append({"user": "bob", "sha256": digest(BOB)})
    async with told(client, tmp_path, scripted(call("ask", question="why"), "I see.")) as place:
        http = await serving(place, **known)
        async with connected(http, streaming=False, token=TOKEN) as alice:
            task = await task_of(alice, said("hi"), push=hook(receiver, "one"))
            names = {"task_id": task.id, "id": "one"}
            async with connected(http, streaming=False, token=BOB, binding=binding) as bob:
                for refused in (
                    bob.create_task_push_notification_config(hook(receiver, "two", task.id)),
                    bob.get_task_push_notification_config(
                        GetTaskPushNotificationConfigRequest(**names)
                    ),
                    bob.list_task_push_notification_configs(
                        ListTaskPushNotificationConfigsRequest(task_id=task.id)
                    ),
                    bob.delete_task_push_notification_config(
                        DeleteTaskPushNotificationConfigRequest(**names)
                    ),
                    task_of(bob, said("x", task=task.id), push=hook(receiver, "two")),
                ):
                    with pytest.raises(TaskNotFoundError):
                        await refused
            left = await alice.list_task_push_notification_configs(
                ListTaskPushNotificationConfigsRequest(task_id=task.id)
            )
    assert [one.id for one in left.configs] == ["one"]


BAD = {
    "not https": {"url": "http://93.184.215.14/"},
    "loopback": {"url": "https://127.0.0.1/"},
    "named loopback": {"url": "https://localhost/"},
    "private": {"url": "https://10.0.0.7/"},
    "unknown": {"url": "https://nobody.invalid/"},
    "mapped": {"url": "https://[::ffff:169.254.169.254]/"},
    "no web server": {"url": "file:///etc/passwd"},
    "no URL": {"url": "https://\x00/"},
    "none": {},
    "password": {"url": "https://a:b@93.184.215.14/"},
    "token": {"url": "https://93.184.215.14/", "token": "a\r\nb: c"},
    "scheme": {
        "url": "https://93.184.215.14/",
        "authentication": AuthenticationInfo(scheme="Bearer x", credentials="y"),
    },
    "no credentials": {
        "url": "https://93.184.215.14/",
        "authentication": AuthenticationInfo(scheme="Bearer"),
    },
    "id": {"url": "https://93.184.215.14/", "id": "i" * 300},
}


async def test_what_cannot_be_told_is_refused(client, tmp_path, monkeypatch):
    """Before anything is started; where the address is wrong, the error says who can allow it."""
    look_up = socket.getaddrinfo

    def known(host, *args, **kwargs):
        if host == "nobody.invalid":
            raise socket.gaierror
        return look_up(host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", known)
    async with (
        told(client, tmp_path, scripted("Hello.")) as place,
        connected(await serving(place, push_hosts=[]), streaming=False) as agent,
    ):
        found = {}
        for name, bad in BAD.items():
            with pytest.raises(InvalidParamsError) as refused:
                await task_of(agent, said("hi"), push=TaskPushNotificationConfig(**bad))
            found[name] = str(refused.value)
        assert await runs(place) == 0
        task = await task_of(agent, said("hi"))
        many = [
            TaskPushNotificationConfig(task_id=task.id, id=f"{n}", url="https://93.184.215.14/")
            for n in range(11)
        ]
        for one in many[:-1]:
            await agent.create_task_push_notification_config(one)
        await agent.create_task_push_notification_config(many[0])
        with pytest.raises(InvalidParamsError, match="delete one"):
            await agent.create_task_push_notification_config(many[-1])
    assert found["unknown"] == found["private"], "or users could ask which names a network has"
    for name in list(BAD)[:9]:
        assert "DURABLE_ADK_PUSH_HOSTS" in found[name], name


async def test_a_server_may_leave_them_out(client, tmp_path, receiver):
    """Its card says so, and they are refused."""
    async with told(client, tmp_path, scripted("Hello.")) as place:
        http = await serving(place, push_notifications=False)
        card = (await http.get("/a2a/app/.well-known/agent-card.json")).json()
        refused = await rpc(http, "CreateTaskPushNotificationConfig", taskId="t", url=receiver.url)
        async with connected(http, streaming=False) as agent:
            with pytest.raises(PushNotificationNotSupportedError):
                await task_of(agent, said("hi"), push=hook(receiver))
        assert await runs(place) == 0
    assert not card["capabilities"].get("pushNotifications")
    assert refused["error"]["code"] == -32003


async def test_clients_of_the_version_before_set_them_too(client, tmp_path, receiver):
    """0.3 names methods and fields otherwise; the notification is of 1.0."""
    model = scripted(call("ask", question="why"), "I see.")
    async with told(client, tmp_path, model) as place:
        http = await serving(place)
        async with connected(http, streaming=False) as agent:
            task = await task_of(agent, said("hi"))
            config = {"id": "one", "url": receiver.url, "token": CANARY}
            names = {"taskId": task.id, "pushNotificationConfig": config}
            method = "tasks/pushNotificationConfig"
            made = (await rpc(http, f"{method}/set", "0.3", **names))["result"]
            one = {"id": task.id, "pushNotificationConfigId": "one"}
            got = (await rpc(http, f"{method}/get", "0.3", **one))["result"]
            await task_of(agent, said("because", task=task.id))
            (ended,) = await arrived(receiver, 1)
    assert made == got
    assert got["pushNotificationConfig"]["url"] == receiver.url
    assert "token" not in got["pushNotificationConfig"]
    assert brief(ended) == "(completed)"
