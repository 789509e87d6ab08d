"""The checks that look at one rule, and not at schedules."""

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import pytest
from google.genai import types
from temporalio.api.failure.v1 import Failure
from temporalio.bridge.proto.workflow_commands import WorkflowCommand

from durable_adk.activities.attempt import to_application_error
from durable_adk.activities.commit.session_cache import SessionCache
from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.invocation.open import open_invocation
from durable_adk.activities.invocation.pause import take_answer
from durable_adk.activities.tool.run import ToolsetUnavailable
from durable_adk.activities.user_code.event_loop import UserCodeLoop
from durable_adk.activities.user_code.threads import UserCodeThreads
from durable_adk.agents import LlmAgent
from durable_adk.apps import App, AppRegistry
from durable_adk.apps.app_declaration import described
from durable_adk.client.queries import InvocationFilter, find_pending_calls
from durable_adk.conversation.client_requests import REQUEST_CONFIRMATION
from durable_adk.conversation.contents import build_contents
from durable_adk.conversation.pending_calls import FINAL_RESPONSES
from durable_adk.embedded.server import BLOCKED_PORTS, _Ports
from durable_adk.errors import (
    EventConflictError,
    InvalidRequestError,
    RunError,
    SessionBusyError,
    SessionNotFoundError,
    SessionRegressedError,
    StaleSessionError,
    WorkerStuckError,
)
from durable_adk.events import Event
from durable_adk.flows.runtime import Inbox
from durable_adk.models import ScriptedModel
from durable_adk.runners import InMemoryRunner
from durable_adk.server.adk.agents import app_info, build_graph
from durable_adk.server.adk.sessions import _check_restorable
from durable_adk.server.caller import Caller
from durable_adk.sessions import (
    InMemorySessionService,
    InvocationRecord,
    QueuePosition,
    SessionKey,
    SqliteSessionService,
    Status,
    Ticket,
)
from durable_adk.sessions.log.listing import PAGE
from durable_adk.sessions.sql.tables import Tables
from durable_adk.sessions.state_merge import merged
from durable_adk.settings import Limits
from durable_adk.tools import BaseTool, BaseToolset, FunctionTool
from durable_adk.wire.converter import MAX_WAITING, data_converter
from durable_adk.wire.effect import Attempt
from durable_adk.wire.messages import InvocationAnswer, InvocationRequest, ToolRun
from durable_adk.wire.steps import AnswerStep, OpenStep
from simulation.catalogue import TOOL_TURN
from simulation.schedule import Listed
from simulation.simulation import Simulation
from tests.support import pausing
from tests.support.scripts import USER, calls, send
from tests.support.steps import Steps, called, said
from tests.support.waiting import PATIENCE, until_true

TOO_LARGE = {"PayloadsTooLarge", "PayloadSizeError"}
"""As releases of the SDK have called it."""
MAX_FAILURE = 150_000
"""Bytes: far below what the server takes; six texts and stack traces of 8 KB have room in it."""
TEXT = "x" * 1_000_000


def each_approval_for_its_call() -> str:
    """Of two calls of one tool, with other arguments, the one that was approved is run (I16)."""
    return asyncio.run(_approved_and_denied())


async def _approved_and_denied() -> str:
    paid: list[int] = []

    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    model = ScriptedModel(replies=[calls(("pay", {"amount": 1}), ("pay", {"amount": 1000})), "So."])
    tool = FunctionTool(pay, require_confirmation=True)
    agent = LlmAgent(name="payer", model=model, tools=[tool])
    async with InMemoryRunner(agent) as runner:
        events = await send(runner)
        asked = [call for event in events for call in event.get_function_calls()]
        requests = [call for call in asked if call.name == REQUEST_CONFIRMATION]
        for request, confirmed in zip(requests, (True, False), strict=True):
            answer = types.FunctionResponse(
                id=request.id, name=request.name, response={"confirmed": confirmed}
            )
            message = types.Content(role="user", parts=[types.Part(function_response=answer)])
            async for _ in runner.run_async(**USER, new_message=message):
                pass
    return "" if paid == [1] else f"approved was [1], and paid {paid}"


KEY = SessionKey("app", "u", "s")


def known_revision() -> str:
    """A commit of a run that has seen more events than the store has is refused (D2, I21)."""
    return asyncio.run(_commit_to_an_older_store())


async def _commit_to_an_older_store() -> str:
    service, user = InMemorySessionService(), Event(id="i.0", invocation_id="i", author="user")
    record = await service.open_invocation(
        KEY, invocation_id="i", lease_owner="local:1", user_event=user, create_session=True, ttl=60
    )
    event = Event(id="i.9", invocation_id="i", author="a")
    try:
        await service.commit_event(KEY, event, invocation_id="i", epoch=record.epoch, revision=9)
    except SessionRegressedError:
        return ""
    return "an older store takes the commit of a run that has seen nine events"


def reserved_for_the_loop() -> str:
    """An attempt that was taken for dead cannot come between a result and its commit (I1, F8)."""
    return asyncio.run(_commit_what_is_reserved())


async def _commit_what_is_reserved() -> str:
    service, user = InMemorySessionService(), Event(id="i.0", invocation_id="i", author="user")
    record = await service.open_invocation(
        KEY, invocation_id="i", lease_owner="local:1", user_event=user, create_session=True, ttl=60
    )
    own = {"invocation_id": "i", "epoch": record.epoch}
    await service.reserve_event(KEY, "i.1", **own, revision=1)
    event = Event(id="i.1", invocation_id="i", author="a")
    try:
        await service.commit_event(KEY, event, **own, by_step=True)
    except EventConflictError:
        return ""
    return "an attempt commits an event that a later one has left to the loop"


def fresh_copy() -> str:
    """A writer from outside of invocations whose copy is stale is refused (D2, SSN-30)."""
    return asyncio.run(_append_to_a_stale_copy())


async def _append_to_a_stale_copy() -> str:
    service = InMemorySessionService()
    one = await service.create_session(app_name="app", user_id="u", session_id="s")
    other = await service.get_session(app_name="app", user_id="u", session_id="s")
    assert other is not None
    await service.append_event(one, Event(id="1", invocation_id="i", author="a"))
    try:
        await service.append_event(other, Event(id="2", invocation_id="j", author="a"))
    except StaleSessionError:
        return ""
    return "two writers with the same copy both append"


def calls_wait_for_their_toolsets() -> str:
    """A call that was made is retried while its toolset cannot be asked (F23, I20)."""
    return asyncio.run(_call_of_a_toolset_that_is_away())


async def _call_of_a_toolset_that_is_away() -> str:
    class Away(BaseToolset):
        async def get_tools(self, readonly_context: object = None) -> list[BaseTool]:
            raise LookupError

    made = Steps(called("pay"), tools=[Away()])
    step = await made.tool_step()
    try:
        told = await made.effects.perform(step, Attempt(number=1))
    except ToolsetUnavailable:
        return ""
    return f"the model is told {said(told)}"


def too_large_is_final() -> str:
    """A result that the engine does not take is not asked for again (F31)."""
    for command in _commands():
        if command.HasField("schedule_activity"):
            asked = command.schedule_activity
            if not set(asked.retry_policy.non_retryable_error_types) >= TOO_LARGE:
                return f"{asked.activity_type} is run again when its result is too large"
    return ""


def short_local_activities() -> str:
    """No local activity may keep the workflow from hearing for longer than a second (D4)."""
    limit = Limits().local_commit_timeout
    for command in _commands():
        if command.HasField("schedule_local_activity"):
            asked = command.schedule_local_activity
            seconds = asked.schedule_to_close_timeout.ToMicroseconds() / 1e6
            if not 0 < seconds <= limit or asked.retry_policy.maximum_attempts != 1:
                return f"{asked.activity_type} may take {seconds:g} s, or be tried again"
    return ""


def _commands() -> list[WorkflowCommand]:
    """All that the workflow of a tool turn asks for."""
    result = Simulation(TOOL_TURN, Listed()).run()
    commands = [command for run in result.runs for task in run.history for command in task.commands]
    assert {command.WhichOneof("variant") for command in commands} >= {
        "schedule_activity",
        "schedule_local_activity",
    }
    return commands


def short_failures() -> str:
    """An error of any length reaches the server, and shows while it is waited for (D6, F13)."""
    cause = _chain(100)
    final, again = _size(cause), to_application_error(RunError(TEXT), retry=True, number=1)
    again.__cause__ = cause
    if final > MAX_FAILURE:
        return f"an error crosses with {final} bytes"
    waiting = _size(again)
    return "" if waiting <= MAX_WAITING else f"one that is tried again crosses with {waiting} bytes"


def _chain(length: int) -> Exception:
    """An error of user code with a long text, and with so many causes."""
    error = ValueError(TEXT)
    for _ in range(length):
        before, error = error, ValueError(TEXT)
        error.__cause__ = before
    return error


def _size(error: Exception) -> int:
    """In bytes, as it crosses to Temporal."""
    failure = Failure()
    data_converter.failure_converter.to_failure(error, data_converter.payload_converter, failure)
    return failure.ByteSize()


def same_id_same_answer() -> str:
    """Another answer under the id of a taken one is reported as refused (S22)."""
    inbox = Inbox()
    for confirmed in (True, False):
        inbox.put(InvocationAnswer(call_id="c", confirmed=confirmed, answer_id="a"))
        inbox.take("a")
    return "" if inbox.outcomes["a"] else "the other answer is told as taken"


def additions_kept() -> str:
    """What each of two sides has added to a list is in their merge once (STA-19)."""
    base, one, other = (list(text) for text in ("ab", "abx", "abx"))
    found = merged({"k": one}, {"k": other}, {"k": [base]})["k"]
    return "" if found == list("abxx") else f"the merge is {found}"


def control_names_shown() -> str:
    """A model's call by the name of a request to the client is in its next prompt (FLW-20)."""
    call = types.FunctionCall(id="c", name=REQUEST_CONFIRMATION, args={})
    told = types.FunctionResponse(id="c", name=REQUEST_CONFIRMATION, response={"error": "none"})
    asked = types.Content(role="model", parts=[types.Part(function_call=call)])
    answered = types.Content(role="user", parts=[types.Part(function_response=told)])
    events = [
        Event(author="user", content=types.UserContent("go")),
        Event(author="a", content=asked),
        Event(author="a", content=answered),
    ]
    found = build_contents(events, agent_name="a", branch=None)
    return "" if len(found) == 3 else "the call is left out"


def names_of_answers_apart() -> str:
    """An answer without a name gets none that a sender has chosen (D9)."""
    inbox = Inbox()
    inbox.put(InvocationAnswer(call_id="c", confirmed=True, answer_id="unnamed-2"))
    inbox.put(InvocationAnswer(call_id="c", confirmed=True))
    inbox.drain()
    names = [answer.answer_id for answer in inbox.state.unread]
    return "" if len(set(names)) == 2 else f"they are {names}"


def longest_waits() -> str:
    """However many calls wait, the one that waits longest is found (D9)."""
    return asyncio.run(_find_among_many())


async def _find_among_many() -> str:
    service, number = InMemorySessionService(), PAGE + 1
    for n in range(number):
        key, name = SessionKey("app", f"u{n}", "s"), f"i{n}"
        user = Event(id=f"{name}.0", invocation_id=name, author="user", timestamp=float(n))
        record = await service.open_invocation(
            key, invocation_id=name, lease_owner="local:1", user_event=user, create_session=True
        )
        call = pausing.working(name)[0]
        await service.commit_event(key, call, invocation_id=name, epoch=record.epoch)
        await service.pause_invocation(key, invocation_id=name, epoch=record.epoch)
    found = {item.call.call_id for item in await find_pending_calls(service, InvocationFilter())}
    return "" if len(found) == number else f"of {number} calls {len(found)} are found"


def bounded_cache() -> str:
    """What a worker keeps of sessions takes no more memory than it may, and is kept (I22)."""
    cache = SessionCache(max_bytes=100_000)
    for size in (30_000, 30_000, 30_000, 200_000, 60_000):
        event = Event(id="1", invocation_id="i", content=types.UserContent(TEXT[: size - 3_000]))
        cache.begin(SessionKey("app", "u", f"{size}-{cache.bytes}"), event, epoch=1)
        if not 30_000 <= cache.bytes <= 100_000:
            return f"sessions are kept in {cache.bytes} bytes"
    return ""


def reserved_names() -> str:
    """A sender's answer is not stored under a name of the loop's (I16)."""
    step = AnswerStep(
        key=SessionKey("a", "u", "s"),
        invocation_id="i",
        lease_owner="h",
        epoch=1,
        start_seq=1,
        event_id="i.answer.c.expired",
        timestamp=1.0,
        answer=InvocationAnswer(call_id="c", confirmed=True, answer_id="c.expired"),
        named=True,
    )
    deps = Dependencies(registry=AppRegistry([]), sessions=InMemorySessionService())
    said = asyncio.run(take_answer(deps, step)).refused or ""
    return "" if "reserved" in said else f"it is looked at: {said!r}"


def names_of_invocations_apart() -> str:
    """An id that another invocation's events may have is refused before anything is stored (S2)."""
    return asyncio.run(_open_as_a_lane())


async def _open_as_a_lane() -> str:
    service = InMemorySessionService()
    try:
        for name in ("order-7", "order-7.1.0"):
            user = Event(id=f"{name}.0", invocation_id=name, author="user")
            own = {"invocation_id": name, "lease_owner": "local:1", "user_event": user}
            await service.open_invocation(KEY, **own, create_session=True, ttl=0.0)
    except InvalidRequestError:
        return ""
    return "a lane of a ParallelAgent and an invocation may have one name"


def runs_as_tools() -> str:
    """A start that anybody can write gets no state of another session (S3)."""
    hers = SessionKey("app", "alice", "hers")
    forged = ToolRun(agent="a", caller=hers, root=hers)
    return "" if _is_refused(tool_run=forged) else "it is opened with what another session has"


def metadata_of_the_runtime() -> str:
    """Who sends a message marks none of its calls as decided (S3)."""
    forged = {"custom_metadata": {FINAL_RESPONSES: True}}
    try:
        InvocationRequest.parse({"app": "a", "user": "u", "message": "hi", "run_config": forged})
    except InvalidRequestError:
        return ""
    return "its calls wait, and nobody sees it"


def _is_refused(**forged: Any) -> bool:
    agent = LlmAgent(name="a", model=ScriptedModel(replies=["hi"]))
    deps = Dependencies(
        registry=AppRegistry([App(name="app", root_agent=agent)]),
        sessions=InMemorySessionService(),
    )
    step = OpenStep(
        key=SessionKey("app", "mallory", "s"),
        invocation_id="i",
        lease_owner="temporal:n:r:w",
        event_id="i.0",
        timestamp=1.0,
        message=types.Content(role="user", parts=[types.Part(text="hi")]),
        create_session=True,
        **forged,
    )
    try:
        asyncio.run(open_invocation(deps, step))
    except InvalidRequestError:
        return True
    except SessionNotFoundError:
        pass
    return False


def small_looks() -> str:
    """Whether its turn has come costs a ticket no more where many wait (I22)."""
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        read: list[int] = []
        tickets = Tables.tickets

        def counted(*args: Any, **options: Any) -> list[Ticket]:
            found = tickets(*args, **options)
            read.append(len(found))
            return found

        patch.setattr(Tables, "tickets", counted)
        asyncio.run(_look_for_the_turn(Path(folder), others=20))
    return "" if sum(read) <= 4 else f"{len(read)} looks read {sum(read)} tickets"


async def _look_for_the_turn(folder: Path, *, others: int) -> None:
    """Of who came last, while nobody has the lease of the session."""
    sessions = SqliteSessionService(folder / "sessions.db")

    def opening(name: str) -> Coroutine[Any, Any, InvocationRecord]:
        event = Event(id=f"{name}.0", invocation_id=name, author="user", timestamp=1.0)
        return sessions.open_invocation(
            KEY,
            invocation_id=name,
            lease_owner=name,
            user_event=event,
            position=QueuePosition.LAST,
            create_session=True,
        )

    active, last = await opening("active"), f"{others}"
    for number in range(others + 1):
        with suppress(SessionBusyError):
            await opening(f"{number}")
    await sessions.close_invocation(
        KEY, invocation_id="active", epoch=active.epoch, status=Status.COMPLETED
    )
    for _ in range(2):
        with suppress(SessionBusyError):
            await sessions.check_turn(
                KEY, invocation_id=last, lease_owner=last, position=QueuePosition.LAST
            )
        with suppress(SessionBusyError):
            await opening(last)
    await sessions.close()


def threads_replaced() -> str:
    """A thread that hangs after its step has ended takes nobody's place (F11, I22)."""
    threads, let_go = UserCodeThreads(lambda: 1), threading.Event()
    hangs = threads.submit(let_go.wait, 3 * PATIENCE)
    until_true(hangs.running)
    hangs.cancel()
    try:
        threads.submit(lambda: None).result(PATIENCE)
    except TimeoutError:
        return "after a call that hangs no other is run"
    finally:
        let_go.set()
        threads.shutdown()
    return ""


def blocked_loops() -> str:
    """A step whose worker's event loop is blocked goes to another worker (F41, I22)."""
    return asyncio.run(_step_of_a_blocked_loop())


def ended_loops() -> str:
    """The loop of user code survives what a timer raises (F12, I22)."""
    return asyncio.run(_step_beside_an_exit())


async def _step_beside_an_exit() -> str:
    loop, fell = UserCodeLoop(), threading.Event()

    def leaves() -> None:
        fell.set()
        raise SystemExit

    async def lets_fall() -> None:
        asyncio.get_running_loop().call_soon(leaves)

    try:
        await loop.run(lets_fall())
        await asyncio.to_thread(fell.wait, PATIENCE)
        await loop.run(asyncio.sleep(0))
    except WorkerStuckError as error:
        return f"another step ends with {error!r}"
    finally:
        await loop.close()
    return ""


async def _step_of_a_blocked_loop() -> str:
    loop, let_go = UserCodeLoop(Limits(blocked_timeout=1.0)), threading.Event()

    async def blocks() -> None:
        let_go.wait(3 * PATIENCE)

    step = asyncio.create_task(loop.run(blocks()))
    given_back, _ = await asyncio.wait([step], timeout=PATIENCE)
    let_go.set()
    outcome = await asyncio.gather(step, return_exceptions=True)
    await loop.close()
    if given_back and isinstance(outcome[0], WorkerStuckError):
        return ""
    return f"it is not given back, but ends with {outcome[0]!r}"


def prompts_for_operators() -> str:
    """A user sees an app's agents, and not their instructions."""
    app = described(App(name="a", root_agent=LlmAgent(name="a", model="offline", instruction="P!")))
    services: Any = SimpleNamespace(apps={"a": app})
    told = [asyncio.run(show(services, Caller("u"), "a")) for show in (app_info, build_graph)]
    return "a user is told the instruction" if "P!" in repr(told) else ""


def marks_of_restored_events() -> str:
    """A session is made of no event that says what only the runtime decides."""
    event = Event(author="user", custom_metadata={FINAL_RESPONSES: ["c"]})
    with suppress(InvalidRequestError):
        _check_restorable(0, event)
        return "an event with a mark of the runtime is taken"
    return ""


def blocked_ports() -> str:
    """No browser asks at the ports that Temporal's program opens for nobody of ours."""
    ports = _Ports.pick(None, None)
    return "" if {ports.http, ports.metrics} <= set(BLOCKED_PORTS) else f"{ports} can be asked"
