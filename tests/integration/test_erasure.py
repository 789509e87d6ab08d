"""Erasing a person: from every store, and from Temporal (S6)."""

import asyncio
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from google.genai import types
from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.common import RawValue, SearchAttributePair, TypedSearchAttributes
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from campaign.proxy import FaultProxy
from durable_adk.auth import AuthCredential
from durable_adk.client import connect, create_schedule
from durable_adk.client.invocations import start_of
from durable_adk.client.schedules import list_schedules
from durable_adk.client.search_attributes import register_search_attributes
from durable_adk.embedded import TemporalServer
from durable_adk.embedded.stores import folder_stores
from durable_adk.encryption import Key
from durable_adk.events import Event
from durable_adk.memory.memory_entry import MemoryEntry
from durable_adk.ops.erasure import Erasure, Holdings, erase, erasure, survey
from durable_adk.ops.erasure.workflows import UserRuns, delete_runs
from durable_adk.sessions import SessionKey, SqliteSessionService
from durable_adk.sessions.lease_owner import TemporalLeaseOwner
from durable_adk.wire import search_attributes
from durable_adk.wire.messages import InvocationRequest
from tests.support.commands import Terminal
from tests.support.private_agent import KINDS, canary
from tests.support.private_place import OPEN_USER, Place, converse, key_file, placed
from tests.support.waiting import until

pytestmark = pytest.mark.thorough

THEIRS = {"app_name": "private", "user_id": OPEN_USER}
THEIRS_TOO = ("state", "argument", "result", "artifact", "answer")
"""What the agent says, keeps and is given is the same for everybody."""
OTHER = {"user_id": "somebody-else", "session_id": "another"}


async def erasure_at(place: Place, stack: AsyncExitStack) -> Erasure:
    """For the person whose secrets the place has, with a memory and a credential more."""
    stores = await stack.enter_async_context(folder_stores(place.folder))
    said = types.UserContent(canary("memory"))
    await stores.memory_service.add_memory(**THEIRS, memories=[MemoryEntry(content=said)])
    credential = AuthCredential(auth_type="apiKey", api_key=canary("credential"))
    await stores.credential_service.save(**THEIRS, key="k", credential=credential)
    return Erasure(app="private", user=OPEN_USER, client=place.client, **stores.services())


def search(folder: Path) -> None:
    """Nothing of the person is in a file, or in a file's name."""
    kinds = (*KINDS, "memory", "credential")
    mine = {canary(kind) for kind in kinds if kind not in THEIRS_TOO} | {OPEN_USER}
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert folder / "temporal.db" in files
    for path in files:
        assert not [word for word in mine if word.encode() in path.read_bytes()], path
        assert OPEN_USER not in str(path.relative_to(folder))


async def test_after_an_erasure_no_file_has_a_word_of_the_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S6, I19: sessions, state, artifacts, memory, credentials, payloads, histories, open runs.

    What Temporal's database has left in free pages is encrypted. Others keep all that is theirs,
    and a repeat finds nothing.
    """
    keys = key_file(tmp_path / "keys", Key.new())
    settings = {
        "DURABLE_ADK_ENCRYPTION_KEYS": str(keys),
        "DURABLE_ADK_PAYLOAD_THRESHOLD": "0",
    }
    async with placed(tmp_path, settings, monkeypatch) as place, AsyncExitStack() as stack:
        await converse(place)
        await place.tell("pay")  # stays open
        others = place.runner.run_async(**OTHER, new_message="keep this")
        assert [event async for event in others]
        erasure = await erasure_at(place, stack)

        async def whole() -> Holdings | None:
            found = await survey(erasure)
            return found if len(found.runs.workflows) == 5 else None

        before = await until(whole)
        assert (len(before.sessions), before.state_keys) == (1, 1)
        assert (before.artifacts, before.credentials, before.runs.unread) == (1, 1, 0)
        assert len(before.payloads) == 5
        assert len(before.runs.open) == 1
        assert not before.empty
        assert await survey(erasure) == before  # it has changed nothing
        assert (await erase(erasure)).runs.workflows == before.runs.workflows
        assert (await erase(erasure)).empty
        others = await place.sessions.user_sessions(app_name="private", user_id=OTHER["user_id"])
        assert len(others) == 1
        assert [run.id async for run in place.client.list_workflows()]
    search(tmp_path)


async def test_a_workflow_that_was_never_opened_is_found_by_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S6: no store knows it; Temporal has the message."""
    async with placed(tmp_path, {}, monkeypatch) as place, AsyncExitStack() as stack:
        for user, name in ((OPEN_USER, "mine"), ("somebody-else", "theirs")):
            request = {"app": "private", "user": user, "message": canary("message")}
            await place.client.start_workflow(
                "Invocation", request, id=name, task_queue="where nobody listens"
            )
        broken = Payload(metadata={"encoding": b"json/plain"}, data=b"{ no JSON")
        await place.client.start_workflow(
            "Invocation", RawValue(broken), id="broken", task_queue="where nobody listens"
        )
        erasure = await erasure_at(place, stack)
        await until(lambda: _are_seen(place.client, 3))
        runs = (await survey(erasure)).runs
        assert runs.workflows == runs.open == ["mine"]
        assert runs.unread == 1  # and it keeps nobody else from being forgotten
        await erase(erasure)

        async def is_gone() -> bool:
            return "mine" not in [run.id async for run in place.client.list_workflows()]

        await until(is_gone)
        left = {run.id async for run in place.client.list_workflows()}
        assert left == {"theirs", "broken"}


async def test_a_connection_that_is_closed_ends_no_erasure(client: Client) -> None:
    """S6: Temporal closes each connection after some minutes, with requests on their way."""
    _, port = client.service_client.config.target_host.split(":")
    proxy, names = FaultProxy(int(port)), [f"cut-off-{uuid4()}" for _ in range(10)]
    await proxy.start()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(proxy.close)
        through = await connect(f"127.0.0.1:{proxy.port}", namespace=client.namespace)
        for name in names:
            request = {"app": "cut-off", "user": "u", "message": "hi"}
            await client.start_workflow("Invocation", request, id=name, task_queue="nobody")
            run = await client.get_workflow_handle(name).describe()
            proxy.cut()
            assert (await start_of(through, name)).workflow_type.name == "Invocation"
            proxy.cut()
            await delete_runs(through, UserRuns([run]))


@pytest.mark.parametrize("encrypted", [False, True])
async def test_schedules_that_send_the_persons_messages_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encrypted: bool
) -> None:
    """S6: they hold a message, and would start again what was erased; those of others stay.

    Without the key nobody can say whose one is, and it is left alone.
    """
    keys = {"DURABLE_ADK_ENCRYPTION_KEYS": str(key_file(tmp_path / "keys", Key.new()))}
    settings = keys if encrypted else {}
    async with placed(tmp_path, settings, monkeypatch) as place, AsyncExitStack() as stack:
        for user, name in ((OPEN_USER, "mine"), ("somebody-else", "theirs")):
            request = InvocationRequest(app="private", user=user, message=canary("message"))
            await create_schedule(place.client, name, request, cron="0 9 1 1 *")

        async def listed(*names: str) -> bool:
            found = [line.name async for line in list_schedules(place.client)]
            return sorted(found) == [*names]

        await until(lambda: listed("mine", "theirs"))  # the list is behind by a moment
        erasure = await erasure_at(place, stack)
        monkeypatch.delenv("DURABLE_ADK_ENCRYPTION_KEYS", raising=False)
        address = place.client.service_client.config.target_host
        blind = replace(erasure, client=await connect(address))
        unread = (await survey(blind)).schedules
        assert (unread.names, unread.unread) == (([], 2) if encrypted else (["mine"], 0))
        found = await survey(erasure)
        assert (found.schedules.names, found.schedules.unread, found.empty) == (["mine"], 0, False)
        await erase(erasure)
        await until(lambda: listed("theirs"))
        assert (await erase(erasure)).schedules.names == []


async def test_a_schedule_that_fires_meanwhile_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S6: it is gone before anybody looks for what it has started."""
    async with TemporalServer.start(data_dir=tmp_path, headless=True) as server:
        client = await connect(server.address)
        request = InvocationRequest(app="shop", user="anna", message="my diagnosis")
        schedule = await create_schedule(client, "digest", request, cron="0 9 1 1 *")
        look = erasure.survey

        async def fires(erasure: Erasure) -> Holdings:
            with suppress(RPCError):  # it is gone
                await schedule.trigger()
            found = await look(erasure)
            with suppress(RPCError):
                await schedule.trigger()
            return found

        monkeypatch.setattr(erasure, "survey", fires)
        sessions = SqliteSessionService(tmp_path / "s.db")

        async def listed() -> list[Any]:
            return [line async for line in list_schedules(client)]

        await until(listed)
        found = await erase(
            Erasure(app="shop", user="anna", client=client, session_service=sessions)
        )
        assert found.schedules.names == ["digest"]

        async def runs() -> list[str]:
            return [run.id async for run in client.list_workflows()]

        # What the schedule has started is seen before what is started now.
        await client.start_workflow("Any", id="later", task_queue="where nobody listens")
        assert await until(runs) == ["later"]
        await sessions.close()


@workflow.defn(name="Invocation")
class Foreign:
    """Stands for a user's invocation: it continues in a second run, or ends at once."""

    @workflow.run
    async def run(self, argument: dict | None = None) -> None:
        """What the message says."""
        match argument:
            case {"message": "roll"}:
                names = {name: argument[name] for name in ("app", "user", "session")}
                cursor = {**names, "invocationId": "e", "checkpoint": 1, "digest": "d"}
                workflow.continue_as_new(cursor)
            case {"checkpoint": _}:
                await workflow.wait_condition(lambda: False)
            case _:
                return


async def _are_seen(client: Client, runs: int) -> bool:
    """Whether Temporal's list, which is behind by a moment, has so many runs."""
    return (await client.count_workflows()).count >= runs


async def test_nobody_else_loses_a_workflow(tmp_path: Path) -> None:
    """S1, S6: not one that has continued as new, not one whose id was the person's before.

    And starts that nobody can read keep no person from being erased.
    """
    anna = {"app": "shop", "user": "anna", "session": "s"}
    bob = {**anna, "user": "bob"}
    async with TemporalServer.start(data_dir=tmp_path, headless=True) as server:
        client = await connect(server.address)
        runner = UnsandboxedWorkflowRunner()
        async with Worker(client, task_queue="q", workflows=[Foreign], workflow_runner=runner):

            async def start(name: str, *arguments: dict) -> None:
                await client.start_workflow("Invocation", args=arguments, id=name, task_queue="q")

            await start("long", {**bob, "message": "roll"})
            await start("mine", {**anna, "message": "roll"})
            await start("nothing")
            for who in (anna, bob):
                await start("daily", {**who, "message": "end"})
                await client.get_workflow_handle("daily").result()
            sessions = SqliteSessionService(tmp_path / "s.db")
            erasure = Erasure(app="shop", user="anna", client=client, session_service=sessions)
            await until(lambda: _are_seen(client, 7))
            found = (await survey(erasure)).runs
            assert sorted(run.id for run in found.found) == ["daily", "mine", "mine"]
            assert "daily" in found.shared
            await sessions.close()


async def test_of_workflows_that_are_marked_as_others_nothing_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I22: where starts are marked, a person's erasure costs what the person has.

    An unmarked start is read, whoever's it is, and so is one whose mark contradicts the store.
    """

    async def start(name: str, request: dict[str, str], **marked: str) -> None:
        keys = {"user": search_attributes.USER, "app": search_attributes.APP}
        pairs = [SearchAttributePair(keys[name], value) for name, value in marked.items()]
        await client.start_workflow(
            "Invocation",
            {"message": "hi"} | request,
            id=name,
            task_queue="where nobody listens",
            search_attributes=TypedSearchAttributes(pairs),
        )

    async with TemporalServer.start(data_dir=tmp_path, headless=True) as server:
        client = await connect(server.address)
        await register_search_attributes(client)
        anna, bob = {"app": "shop", "user": "anna"}, {"app": "shop", "user": "bob"}

        async def is_marked() -> bool:
            marked = f"{search_attributes.USER.name} = 'bob'"
            try:
                with suppress(WorkflowAlreadyStartedError):
                    await start("bob-0", bob, user="bob")
                return (await client.count_workflows(marked)).count == 1
            except RPCError:  # the attributes are not known everywhere yet
                return False

        await until(is_marked)
        for number in range(1, 20):
            await start(f"bob-{number}", bob, user="bob")
        await start("marked", anna, user="anna")
        await start("zoo", {**anna, "app": "zoo"}, user="anna", app="zoo")
        await start("unmarked", anna)
        await start("unmarked-bob", bob)
        await start("stored", {"app": "shop"}, user="bob")
        sessions = SqliteSessionService(tmp_path / "s.db")
        first = client.get_workflow_handle("stored")
        lease_owner = TemporalLeaseOwner(
            namespace=client.namespace,
            workflow_id="stored",
            first_run_id=(await first.describe()).run_id,
        )
        await sessions.open_invocation(
            SessionKey("shop", "anna", "s"),
            invocation_id="e",
            lease_owner=str(lease_owner),
            user_event=Event(id="e.0", invocation_id="e", author="user"),
            create_session=True,
        )
        await until(lambda: _are_seen(client, 25))
        read: list[str] = []
        real = client.workflow_service.get_workflow_execution_history

        async def counted(request: Any, **options: Any) -> Any:
            read.append(request.execution.workflow_id)
            return await real(request, **options)

        monkeypatch.setattr(client.workflow_service, "get_workflow_execution_history", counted)
        erasure = Erasure(app="shop", user="anna", client=client, session_service=sessions)
        assert (await survey(erasure)).runs.workflows == ["marked", "stored", "unmarked"]
        assert sorted(read) == ["marked", "stored", "unmarked", "unmarked-bob"]
        await sessions.close()


async def test_a_person_is_erased_from_all_apps_at_once(tmp_path: Path) -> None:
    """S6: nobody has to know which apps there are; others, and with --app other apps, stay."""
    terminal = Terminal(tmp_path)
    store = SqliteSessionService(tmp_path / "s.db")
    for app, user in (("desk", "u"), ("shop", "u"), ("zoo", "u"), ("shop", "other")):
        await store.create_session(app_name=app, user_id=user)
    command = ["erase", "--user", "u", "--store", "s.db", "--yes"]
    told = [
        await asyncio.to_thread(terminal.run, *command, *options)
        for options in (["--app", "zoo"], [])
    ]
    assert [done.returncode for done in told] == [0, 0], [done.stderr for done in told]
    heads = [[line for line in done.stdout.splitlines() if line[:4] == "app "] for done in told]
    assert heads == [["app zoo:"], ["app desk:", "app shop:"]]
    for app in ("desk", "shop", "zoo"):
        assert not await store.user_sessions(app_name=app, user_id="u")
    assert await store.user_sessions(app_name="shop", user_id="other")
    await store.close()
    terminal.close()
