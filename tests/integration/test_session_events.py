"""Workflow type SessionEvents gives a session's events to clients without access to its store."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client, WorkflowFailureError
from temporalio.exceptions import ApplicationError

from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.client import connect, data_converter, encrypted
from durable_adk.embedded import TemporalServer
from durable_adk.encryption import EncryptionCodec, Key, KeyRing
from durable_adk.models import LlmRequest, ScriptedModel
from durable_adk.ops.erasure.workflows import user_runs
from durable_adk.sessions import SessionKey, SqliteSessionService
from durable_adk.tools import FunctionTool
from durable_adk.wire.event_page import MAX_WAIT
from durable_adk.worker import WorkerOptions, worker
from tests.support.scripts import call
from tests.support.waiting import PATIENCE, until

KEY = SessionKey("shop", "ann", "s")
WHO = {"app": "shop", "user": "ann", "session": "s"}


def refund(amount: int) -> dict[str, int]:
    """Give money back."""
    return {"refunded": amount}


def shop() -> App:
    """An app that repeats a message, or asks for approval of a refund."""

    def reply(request: LlmRequest) -> Any:
        last = (request.contents[-1].parts or [])[0]
        if last.function_response:
            return "done"
        text = last.text or ""
        if text == "refund":
            return call("refund", amount=5)
        return "x" * int(text.removeprefix("long ")) if text.startswith("long") else f"{text}!"

    tools = [FunctionTool(refund, require_confirmation=True)]
    model = ScriptedModel(replies=reply)
    return App(name="shop", root_agent=LlmAgent(name="clerk", model=model, tools=tools))


@pytest.fixture
async def task_queue(client: Client, sessions: SqliteSessionService) -> AsyncIterator[str]:
    """The task queue of a worker of which one page at a time may wait."""
    options = WorkerOptions(task_queue=f"test-{uuid.uuid4().hex}", max_concurrent=4)
    async with worker(client, apps=[shop()], session_service=sessions, options=options):
        yield options.task_queue


async def send(client: Client, task_queue: str, message: str, name: str | None = None) -> Any:
    """Start an invocation with a plain request; its handle."""
    request = WHO | {"message": message} | ({"invocationId": name} if name else {})
    return await client.start_workflow(
        "Invocation", request, id=uuid.uuid4().hex, task_queue=task_queue
    )


async def read(client: Client, task_queue: str, **more: Any) -> Any:
    """A page of events, as a plain client reads it."""
    return await client.execute_workflow(
        "SessionEvents", WHO | more, id=f"read-{uuid.uuid4().hex}", task_queue=task_queue
    )


async def test_pages_have_all_events_once_and_in_order(
    client: Client, task_queue: str, sessions: SqliteSessionService
) -> None:
    """By the cursor, as the store has them; reading adds nothing to the invocation's history."""
    for message in ("one", "two", "three"):
        handle = await send(client, task_queue, message)
        await handle.result()
    before = (await handle.describe()).history_length
    found, after = list[Any](), 0
    while True:
        page = await read(client, task_queue, after=after, limit=2)
        assert len(page["events"]) <= 2
        found += page["events"]
        after = page["next"]
        if not page["more"]:
            break
    stored = await sessions.read_events(KEY)
    assert found == [{"seq": one.seq, "event": one.event.to_value()} for one in stored]
    assert [one["seq"] for one in found] == [1, 2, 3, 4, 5, 6]
    assert (await handle.describe()).history_length == before
    assert await read(client, task_queue, after=6) == {
        "events": [],
        "next": 6,
        "more": False,
        "complete": False,
    }


async def test_a_page_has_no_more_bytes_than_asked_for(client: Client, task_queue: str) -> None:
    """What is larger than a page is described, and can be read by a larger one."""
    for message in ("long 3000", "long 3000", "long 9000"):
        await (await send(client, task_queue, message)).result()
    pages, after = list[Any](), 0
    while not pages or pages[-1]["more"]:
        pages.append(await read(client, task_queue, after=after, maxBytes=5_000))
        after = pages[-1]["next"]
    assert [[one["seq"] for one in page["events"]] for page in pages] == [[1, 2, 3], [4, 5, 6]]
    large = pages[-1]["events"][-1]
    assert set(large) == {"seq", "id", "size"}
    assert 9_000 < large["size"] < 10_000
    page = await read(client, task_queue, after=5, maxBytes=20_000)
    assert page["events"][0]["event"]["content"]["parts"] == [{"text": "x" * 9_000}]


@pytest.mark.thorough
async def test_a_page_waits_for_events_and_follows_an_invocation(
    client: Client, task_queue: str
) -> None:
    """A client that asks again with `next` sees a pause, what follows the answer, and the end."""
    waits = asyncio.create_task(read(client, task_queue, invocationId="e-1", wait=20))
    handle = await send(client, task_queue, "refund", name="e-1")
    page = await asyncio.wait_for(waits, PATIENCE)
    assert page["events"]
    while page.get("status") != "paused":
        page = await read(client, task_queue, invocationId="e-1", after=page["next"], wait=5)
    assert page["complete"] is False
    (waiting,) = await handle.query("pending")
    answer = {"callId": waiting["callId"], "confirmed": True, "answerId": "a"}
    await handle.execute_update("answer", answer)
    texts = list[str]()
    while not page["complete"]:
        page = await read(client, task_queue, invocationId="e-1", after=page["next"], wait=20)
        parts = [one["event"]["content"]["parts"][0] for one in page["events"]]
        texts += [part["text"] for part in parts if "text" in part]
    assert (page["status"], texts[-1]) == ("completed", "done")


async def test_few_pages_of_a_worker_wait(client: Client, task_queue: str) -> None:
    """Viewers of quiet sessions leave room for other activities: their pages are empty at once."""
    pages = [asyncio.create_task(read(client, task_queue, wait=MAX_WAIT)) for _ in range(3)]
    await until(lambda: sum(page.done() for page in pages) == 2)
    await (await send(client, task_queue, "one")).result()
    found = [(await page)["events"] for page in pages]
    assert sorted(map(bool, found)) == [False, False, True]  # who waits has the next event


@pytest.mark.thorough
async def test_encrypted_pages_are_for_holders_of_the_key(
    tmp_path: Path, sessions: SqliteSessionService
) -> None:
    """D16: neither the request nor the events are readable in Temporal, on a server of its own."""
    codec = EncryptionCodec(keys=KeyRing([Key.new("k")]))
    options = WorkerOptions(task_queue="private")
    async with TemporalServer.start(data_dir=tmp_path / "own", headless=True) as server:
        ours = await connect(server.address, data_converter=encrypted(data_converter, codec))
        async with worker(ours, apps=[shop()], session_service=sessions, options=options):
            await (await send(ours, "private", "canary")).result()
            handle = await ours.start_workflow("SessionEvents", WHO, id="r", task_queue="private")
            assert (await handle.result())["next"] == 2
            history = await handle.fetch_history()
    assert not any(b"canary" in one.SerializeToString() for one in history.events)


@pytest.mark.parametrize(
    ("wrong", "kind", "says"),
    [
        ({"after": -1}, "InvalidRequestError", "after"),
        ({"maxBytes": 5_000_000}, "InvalidRequestError", "maxBytes"),
        ({"wait": 3_600}, "InvalidRequestError", "wait"),
        ({"curser": 1}, "InvalidRequestError", "curser"),
        ({"session": ""}, "InvalidRequestError", "session"),
        ({"app": "other"}, "UnknownAppError", "not served here"),
    ],
)
async def test_a_bad_request_fails_with_its_reason(
    client: Client, task_queue: str, wrong: dict[str, Any], kind: str, says: str
) -> None:
    """The workflow fails for good, and the failure names the field."""
    with pytest.raises(WorkflowFailureError) as caught:
        await read(client, task_queue, **wrong)
    error = caught.value.cause
    assert isinstance(error, ApplicationError)
    assert (error.type, error.non_retryable) == (kind, True)
    assert says in error.message


@pytest.mark.thorough
async def test_erasing_a_user_finds_what_was_read_of_them(client: Client, task_queue: str) -> None:
    """S6: the history of a read has the user's events, and is the user's."""
    await (await send(client, task_queue, "one")).result()
    handle = await client.start_workflow("SessionEvents", WHO, id="read-ann", task_queue=task_queue)
    await handle.result()

    async def is_found(user: str = "ann") -> bool:
        runs = await user_runs(client, app="shop", user=user, known=[])
        return "read-ann" in runs.workflows

    await until(is_found)
    assert not await is_found("bob")
