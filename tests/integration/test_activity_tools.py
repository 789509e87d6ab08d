"""Activities of a worker of others as tools (D18): two workers, two task queues."""

import asyncio
import re
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from google.genai import types
from pydantic import BaseModel
from temporalio import activity
from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.common import Priority, RawValue, RetryPolicy
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.client import connect
from durable_adk.context.activity import ToolContext
from durable_adk.embedded import TemporalServer
from durable_adk.encryption import EncryptionCodec, Key, KeyRing
from durable_adk.errors import AgentDefinitionError, BudgetExceededError, ToolError
from durable_adk.models import ScriptedModel
from durable_adk.plugin import DurableAdkPlugin
from durable_adk.plugins import BasePlugin
from durable_adk.runners import Runner
from durable_adk.sessions import InMemorySessionService, SqliteSessionService
from durable_adk.sessions.records import Status
from durable_adk.settings import Limits
from durable_adk.tools import ActivityTool
from durable_adk.wire.converter import data_converter, encrypted
from durable_adk.wire.run_config import Budget
from durable_adk.worker import WorkerOptions, worker
from tests.support.scripts import USER, call, calls, gist, send, shape, state, stored
from tests.support.waiting import PATIENCE, forever, until

LONG = timedelta(seconds=PATIENCE)


class Order(BaseModel):
    """What is ordered."""

    article: str
    count: int = 1


@dataclass
class Shop:
    """A shop whose worker knows nothing of agents."""

    client: Client
    queue: str
    desk: str = field(default_factory=lambda: f"desk-{uuid.uuid4().hex}")
    """The queue of the agents' worker."""
    seen: list[tuple[str, Any, str]] = field(default_factory=list)
    """Activity, what it was given, its id."""
    attempts: dict[str, int] = field(default_factory=dict)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    inside: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    left: bool = False
    """Whether somebody who waited for the gate has gone."""
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)

    def _note(self, *args: Any) -> None:
        info = activity.info()
        self.seen.append((info.activity_type, args, info.activity_id))
        self.attempts[info.activity_id] = info.attempt

    @activity.defn(name="ChargeCard")
    async def charge_card(self, customer: str, amount: int, currency: str = "EUR") -> str:
        """Charge a customer's card."""
        self._note(customer, amount, currency)
        return f"charged {amount} {currency}"

    @activity.defn
    async def place(self, order: Order) -> Order:
        """Place an order."""
        self._note(order)
        return Order(article=order.article, count=order.count + 1)

    @activity.defn
    async def flaky(self) -> int:
        """Fail twice."""
        self._note()
        if activity.info().attempt < 3:
            raise ConnectionError("not yet")
        return activity.info().attempt

    @activity.defn
    async def decline(self) -> None:
        """Decline."""
        self._note()
        raise ApplicationError("no cover", {"class": "LeaseLostError"}, type="Declined")

    @activity.defn
    async def meet(self, who: str) -> str:
        """Wait for the other."""
        self._note(who)
        self.inside.release()
        try:
            await asyncio.wait_for(self.gate.wait(), PATIENCE)
        finally:
            self.left = True
        return who

    @activity.defn
    async def linger(self) -> None:
        """Stay until it is told to go."""
        self._note()
        self.inside.release()
        try:
            await until(activity.heartbeat)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    @activity.defn
    async def much(self) -> str:
        """Return a lot."""
        self._note()
        return "x" * 1_500_000

    @activity.defn
    async def odd(self) -> bytes:
        """Return what is no JSON."""
        self._note()
        return b"\x00\xff"

    @activity.defn
    async def huge(self) -> str:
        """Return more than Temporal takes."""
        self._note()
        return "x" * 3_000_000

    @activity.defn
    async def unreadable(self) -> RawValue:
        """Return what only a converter of theirs reads."""
        self._note()
        return RawValue(Payload(metadata={"encoding": b"theirs"}, data=b"?"))

    @activity.defn
    async def half(self) -> str:
        """Return what is too much for many at once."""
        self._note()
        return "x" * 500_000

    @activity.defn
    async def nothing(self) -> None:
        """Return nothing."""

    @asynccontextmanager
    async def open(self, converter: DataConverter = DataConverter.default) -> AsyncGenerator[None]:
        """Its worker."""
        config = self.client.config()
        config["data_converter"] = converter
        theirs = [self.charge_card, self.place, self.flaky, self.decline, self.meet]
        theirs += [self.linger, self.much, self.huge, self.half, self.odd]
        theirs += [self.unreadable, self.nothing]
        async with Worker(
            Client(**config),
            task_queue=self.queue,
            activities=theirs,
            # A heartbeat tells them of a cancellation, however long one may be missing.
            max_heartbeat_throttle_interval=timedelta(milliseconds=100),
        ):
            yield

    def tool(self, of: Any, **options: Any) -> ActivityTool:
        """One of its activities as a tool."""
        options = {"start_to_close_timeout": LONG, "task_queue": self.queue} | options
        return ActivityTool(of, **options)


@pytest.fixture
async def shop(server: TemporalServer) -> Shop:
    """A shop that is not open yet; its client has nothing of ours."""
    return Shop(await Client.connect(server.address), f"shop-{uuid.uuid4().hex}")


MakeDesk = Callable[..., Awaitable[Runner]]


@pytest.fixture(params=[1000, pytest.param(0, marks=pytest.mark.thorough)])
async def make_desk(
    request: pytest.FixtureRequest, client: Client, shop: Shop, tmp_path: Path
) -> AsyncGenerator[MakeDesk]:
    """A runner whose worker has none of the shop's activities; also with the cache at zero."""
    async with AsyncExitStack() as stack:

        async def make(*tools: Any, replies: list[Any], **fields: Any) -> Runner:
            own = {name: fields.pop(name) for name in list(fields) if name in App.model_fields}
            limits = fields.pop("limits", Limits())
            agent = LlmAgent(
                name="desk", model=ScriptedModel(replies=replies), tools=list(tools), **fields
            )
            app = App(name="app", root_agent=agent, **own)
            store = SqliteSessionService(tmp_path / f"{uuid.uuid4().hex}.db")
            stack.push_async_callback(store.close)
            queue = shop.desk
            options = WorkerOptions(
                task_queue=queue, max_cached_workflows=request.param, limits=limits
            )
            await stack.enter_async_context(
                worker(client, apps=[app], session_service=store, options=options)
            )
            runner = Runner(app=app, session_service=store, client=client, task_queue=queue)
            return await stack.enter_async_context(runner)

        yield make


def responses(events: list[Any]) -> list[Any]:
    """What the tools have answered."""
    return [item.response for event in events for item in event.get_function_responses()]


_SCHEDULED = "activity_task_scheduled_event_attributes"
_CANCEL_REQUESTED = "activity_task_cancel_requested_event_attributes"


async def histories(client: Client, shop: Shop) -> list[list[Any]]:
    """The events of the agents' workflows, once the list has come to show any."""

    async def found() -> list[Any]:
        runs = client.list_workflows(f"TaskQueue = '{shop.desk}'")
        return [client.get_workflow_handle(run.id, run_id=run.run_id) async for run in runs]

    return [list((await handle.fetch_history()).events) for handle in await until(found)]


async def test_it_is_their_activity_that_temporal_shows(
    client: Client, shop: Shop, make_desk: MakeDesk
) -> None:
    """D18: scheduled by its own name, with their options and a summary; arguments by position."""
    options = {
        "retry_policy": RetryPolicy(maximum_attempts=7, non_retryable_error_types=["Declined"]),
        "heartbeat_timeout": timedelta(seconds=90),
        "schedule_to_start_timeout": timedelta(seconds=110),
        "schedule_to_close_timeout": timedelta(seconds=120),
        "priority": Priority(priority_key=2),
    }
    tool = shop.tool(shop.charge_card, **options)
    runner = await make_desk(tool, replies=[call("charge_card", customer="c", amount="3"), "done"])
    async with shop.open():
        events = await send(runner)
    assert responses(events) == [{"result": "charged 3 EUR"}]
    (call_id,) = [item.id for item in events[0].get_function_calls()]
    ((name, args, key),) = shop.seen
    assert (name, args) == ("ChargeCard", ("c", 3, "EUR"))
    assert re.fullmatch(f"{events[0].invocation_id}:[0-9a-f]{{32}}:{call_id}", key)
    (history,) = await histories(client, shop)
    (event,) = [
        event
        for event in history
        if event.HasField(_SCHEDULED)
        and event.activity_task_scheduled_event_attributes.task_queue.name == shop.queue
    ]
    assert b"desk: charge_card" in event.user_metadata.summary.data
    attributes = event.activity_task_scheduled_event_attributes
    assert attributes.activity_type.name == "ChargeCard"
    assert attributes.retry_policy.maximum_attempts == 7
    assert "Declined" in attributes.retry_policy.non_retryable_error_types
    assert attributes.priority.priority_key == 2
    limits = ("start_to_close", "heartbeat", "schedule_to_start", "schedule_to_close")
    seconds = [getattr(attributes, f"{limit}_timeout").ToSeconds() for limit in limits]
    assert seconds == [100, 90, 110, 120]


async def test_a_model_of_pydantic_goes_as_its_json(shop: Shop, make_desk: MakeDesk) -> None:
    """D18: their converter makes it what the annotation says; what comes back is plain JSON."""
    replies = [call("place", order={"article": "a"}), call("nothing"), "done"]
    runner = await make_desk(shop.tool(Shop.place), shop.tool(shop.nothing), replies=replies)
    async with shop.open(pydantic_data_converter):
        events = await send(runner)
    assert responses(events) == [{"article": "a", "count": 2}, {"result": None}]
    assert shop.seen[0][1] == (Order(article="a"),)


async def test_a_name_is_enough(shop: Shop, make_desk: MakeDesk) -> None:
    """D18: for a worker in another language, which gets one object; the model what is missing."""
    schema = {"type": "object", "properties": {"article": {"type": "string"}}} | {
        "required": ["article"]
    }
    tool = shop.tool("place", description="Places it.", parameters=schema)
    replies = [call("place"), call("place", article="b"), "done"]
    runner = await make_desk(tool, replies=replies)
    async with shop.open(pydantic_data_converter):
        missing, placed = responses(await send(runner))
    assert "article" in missing["error"]
    assert placed == {"article": "b", "count": 2}
    assert [given for _, given, _ in shop.seen] == [(Order(article="b"),)]


async def test_arguments_that_do_not_fit_never_reach_it(shop: Shop, make_desk: MakeDesk) -> None:
    """TOL-14, TOL-15: they are checked before, by what checks those of functions."""
    replies = [call("charge_card", customer="c", amount="much"), "done"]
    runner = await make_desk(shop.tool(shop.charge_card), replies=replies)
    (response,) = responses(await send(runner))  # the shop is not even open
    assert "amount" in response["error"]


async def test_the_model_is_told_what_it_fails_with(shop: Shop, make_desk: MakeDesk) -> None:
    """D18: for good, so after their own retries; what its details say is not ours to believe."""
    tool = shop.tool(shop.decline, retry_policy=RetryPolicy(non_retryable_error_types=["Declined"]))
    runner = await make_desk(tool, replies=[call("decline"), "sorry"])
    async with shop.open():
        events = await send(runner)
    assert responses(events) == [{"error": "Activity 'decline' failed: Declined: no cover"}]
    assert gist(events[-1]) == "desk text sorry"
    assert list(shop.attempts.values()) == [1]


async def test_an_error_callback_answers_for_it_or_ends_the_run(
    shop: Shop, make_desk: MakeDesk
) -> None:
    """CB-10, TOL-18: as for a tool that raises; its error is a ToolError of its own type."""
    seen: list[Any] = []

    def recover(tool: Any, args: Any, tool_context: ToolContext, error: Exception) -> Any:
        seen.append((type(error).__name__, error.error_type))
        if len(seen) > 1:
            raise error
        return {"recovered": True}

    tool = shop.tool(shop.decline, retry_policy=RetryPolicy(maximum_attempts=1))
    replies = [call("decline"), call("decline"), "never"]
    runner = await make_desk(tool, replies=replies, on_tool_error_callback=recover)
    async with shop.open():
        with pytest.raises(ToolError, match="no cover"):
            await send(runner)
    assert responses(await stored(runner))[0] == {"recovered": True}
    assert seen == [("ToolError", "Declined")] * 2


async def test_it_is_retried_as_they_have_said(shop: Shop, make_desk: MakeDesk) -> None:
    """D18, DUR-9: by Temporal, and each attempt has the id of the others."""
    policy = RetryPolicy(initial_interval=timedelta(milliseconds=10), maximum_attempts=3)
    fewer = RetryPolicy(initial_interval=timedelta(milliseconds=10), maximum_attempts=2)
    tools = [
        shop.tool(shop.flaky, retry_policy=policy),
        shop.tool(shop.flaky, retry_policy=fewer, name="less"),
    ]
    runner = await make_desk(*tools, replies=[call("flaky"), call("less"), "done"])
    async with shop.open():
        first, second = responses(await send(runner))
    assert first == {"result": 3}
    assert second == {"error": "Activity 'flaky' failed: ConnectionError: not yet"}
    ids = [seen for _, _, seen in shop.seen]
    assert ids == [ids[0]] * 3 + [ids[3]] * 2
    assert ids[0] != ids[3]


async def test_calls_of_a_turn_run_side_by_side(shop: Shop, make_desk: MakeDesk) -> None:
    """FLW-43: both are there at once; their responses are one event, in the order of the calls."""
    replies = [calls(("meet", {"who": "a"}), ("meet", {"who": "b"})), "done"]
    runner = await make_desk(shop.tool(shop.meet), replies=replies)
    async with shop.open():
        sending = asyncio.ensure_future(send(runner))
        for _ in range(2):
            await asyncio.wait_for(shop.inside.acquire(), PATIENCE)
        shop.gate.set()
        events = await sending
    assert responses(events[1:2]) == [{"result": "a"}, {"result": "b"}]
    assert len({seen for _, _, seen in shop.seen}) == 2


async def test_cancelling_the_invocation_cancels_it(
    client: Client, shop: Shop, make_desk: MakeDesk
) -> None:
    """CAN-3: its next heartbeat says so, and the session does not wait for it."""
    tool = shop.tool(shop.linger, heartbeat_timeout=timedelta(seconds=60))
    runner = await make_desk(tool, replies=[call("linger"), "never"])
    name = f"e-{uuid.uuid4()}"
    async with shop.open():
        sending = asyncio.ensure_future(send(runner, invocation_id=name))
        await asyncio.wait_for(shop.inside.acquire(), PATIENCE)
        assert await runner.cancel(**USER, invocation_id=name)
        await asyncio.gather(sending, return_exceptions=True)
        await asyncio.wait_for(shop.cancelled.wait(), PATIENCE)
    ((_, record),) = await runner.session_service.invocations_by_time(app_name="app")
    assert record.status is Status.CANCELLED
    assert len(responses(await stored(runner))) == 1  # the call is sealed
    (history,) = await histories(client, shop)
    assert any(event.HasField(_CANCEL_REQUESTED) for event in history)


async def test_cancelling_does_not_wait_for_what_never_hears_of_it(
    shop: Shop, make_desk: MakeDesk
) -> None:
    """CAN-3: without heartbeats it continues; the session is free all the same."""
    tool = shop.tool(shop.meet, start_to_close_timeout=timedelta(minutes=10))
    runner = await make_desk(tool, replies=[call("meet", who="a"), "never"])
    name = f"e-{uuid.uuid4()}"
    async with shop.open():
        sending = asyncio.ensure_future(send(runner, invocation_id=name))
        await asyncio.wait_for(shop.inside.acquire(), PATIENCE)
        assert await runner.cancel(**USER, invocation_id=name)
        await asyncio.gather(sending, return_exceptions=True)
        ((_, record),) = await runner.session_service.invocations_by_time(app_name="app")
        assert record.status is Status.CANCELLED
        assert not shop.left
        shop.gate.set()


async def test_a_call_waits_for_their_worker(shop: Shop, make_desk: MakeDesk) -> None:
    """D18: nothing is lost without a worker, for as long as they allow; then the model knows it."""
    tools = [
        shop.tool(shop.charge_card),
        shop.tool(
            shop.charge_card, name="now", schedule_to_start_timeout=timedelta(milliseconds=300)
        ),
    ]
    given = {"customer": "c", "amount": 1}
    replies = [call("now", **given), call("charge_card", **given), "done"]
    runner = await make_desk(*tools, replies=replies)
    sending = asyncio.ensure_future(send(runner))

    async def told_first() -> list[Any]:
        return responses(await stored(runner))

    await until(told_first)
    assert not shop.seen
    async with shop.open():
        told, charged = responses(await sending)
    assert "before a worker took it" in told["error"]
    assert charged == {"result": "charged 1 EUR"}


class Watching(BasePlugin):
    """Notes what it sees of tools."""

    def __init__(self) -> None:
        super().__init__("watching")
        self.seen: list[str] = []

    async def before_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: Any) -> None:
        """Note it."""
        self.seen.append(f"before {tool.name} {tool_args['amount']}")

    async def after_tool_callback(
        self, *, tool: Any, tool_args: Any, tool_context: Any, result: Any
    ) -> None:
        """Note it."""
        self.seen.append(f"after {tool.name} {tool_args['amount']} {result}")


async def test_callbacks_and_plugins_run_round_it(shop: Shop, make_desk: MakeDesk) -> None:
    """CB-10, PLG-2: once each; arguments they change go out, state they change is committed."""
    keys: list[str] = []

    def before(tool: Any, args: Any, tool_context: ToolContext) -> None:
        args["amount"] = 5
        tool_context.state["before"] = 1
        keys.append(tool_context.idempotency_key)

    def after(tool: Any, args: Any, tool_context: ToolContext, tool_response: Any) -> Any:
        tool_context.state["after"] = tool_context.state["before"] + 1
        keys.append(tool_context.idempotency_key)
        return {"wrapped": tool_response, "args": dict(args)}

    plugin = Watching()
    runner = await make_desk(
        shop.tool(shop.charge_card),
        replies=[call("charge_card", customer="c", amount=1), "done"],
        before_tool_callback=before,
        after_tool_callback=after,
        plugins=[plugin],
    )
    async with shop.open():
        events = await send(runner)
    assert plugin.seen == ["before charge_card 1", "after charge_card 5 charged 5 EUR"]
    assert responses(events) == [
        {"wrapped": "charged 5 EUR", "args": {"customer": "c", "amount": 5}}
    ]
    assert await state(runner) == {"before": 1, "after": 2}
    assert keys == [shop.seen[0][2]] * 2


async def test_a_callback_before_it_ends_the_agent(shop: Shop, make_desk: MakeDesk) -> None:
    """CTX-11: the wish is kept until the second step: the call is answered, and nothing follows."""

    def before(tool: Any, args: Any, tool_context: ToolContext) -> None:
        tool_context.end_invocation()

    runner = await make_desk(
        shop.tool(shop.nothing), replies=[call("nothing"), "never"], before_tool_callback=before
    )
    async with shop.open():
        events = await send(runner)
    assert [gist(event) for event in events] == ["desk call nothing", "desk response nothing"]


async def test_a_callback_may_answer_in_its_place(shop: Shop, make_desk: MakeDesk) -> None:
    """CB-10: then nothing is scheduled for them."""
    runner = await make_desk(
        shop.tool(shop.decline),
        replies=[call("decline"), "done"],
        before_tool_callback=lambda **_: {"cached": True},
    )
    assert responses(await send(runner)) == [{"cached": True}]


async def test_it_runs_once_it_is_confirmed(shop: Shop, make_desk: MakeDesk) -> None:
    """TOL-60, TOL-63: the question comes first; a rejected call never reaches them."""
    tool = shop.tool(shop.charge_card, require_confirmation=lambda amount: amount > 1)
    given = {"customer": "c", "amount": 2}
    replies = [call("charge_card", **given), "done", call("charge_card", **given), "no"]
    runner = await make_desk(tool, replies=replies)
    async with shop.open():
        for confirmed in (True, False):
            await send(runner)
            (pending,) = await runner.pending(**USER)
            assert len(shop.seen) == (0 if confirmed else 1)
            answer = types.FunctionResponse(
                id=pending.call_id, name=pending.name, response={"confirmed": confirmed}
            )
            content = types.Content(role="user", parts=[types.Part(function_response=answer)])
            last = [e async for e in runner.run_async(**USER, new_message=content)]
            assert last
    assert len(shop.seen) == 1
    told = [response for response in responses(await stored(runner)) if "result" in response]
    assert told == [{"result": "charged 2 EUR"}]


@pytest.mark.thorough
async def test_a_new_run_of_the_workflow_runs_nothing_twice(
    client: Client, shop: Shop, make_desk: MakeDesk
) -> None:
    """D10: with a rollover wherever there may be one; ids of calls are never used again."""
    given = {"customer": "c", "amount": 1}
    replies = [*(call("charge_card", **given) for _ in range(4)), "done"]
    limits = Limits(max_history_events=1)
    runner = await make_desk(shop.tool(shop.charge_card), replies=replies, limits=limits)
    async with shop.open():
        events = await send(runner)
    assert responses(events) == [{"result": "charged 1 EUR"}] * 4
    ids = [seen for _, _, seen in shop.seen]
    assert len(ids) == len(set(ids)) == 4

    async def has_gone_on() -> bool:
        return len(await histories(client, shop)) > 1

    await until(has_gone_on)


async def test_what_cannot_be_stored_is_told_and_not_run_again(
    shop: Shop, make_desk: MakeDesk
) -> None:
    """1c, 1j: too large, no JSON, too large together; as typed errors, to the model."""
    seen: list[str] = []

    def note(tool: Any, args: Any, tool_context: Any, error: Exception) -> None:
        seen.append(type(error).__name__)

    alone = ("much", "huge", "odd", "unreadable")
    replies = [*map(call, alone), calls(*[("half", {})] * 8), "done"]
    tools = [shop.tool(getattr(shop, name)) for name in (*alone, "half")]
    runner = await make_desk(*tools, replies=replies, on_tool_error_callback=note)
    async with shop.open():
        events = await send(runner)
    much, huge, odd, unreadable, *halves = responses(events)
    assert "1,500,0" in much["error"]
    assert "huge" in huge["error"]
    assert "is a bytes" in odd["error"]
    assert "cannot be read" in unreadable["error"]
    assert ["500,002 bytes" in item["error"] for item in halves] == [True] * 8
    assert sorted({*seen}) == ["ToolError", "ToolResultError"]
    assert len(seen) == 12
    assert set(shop.attempts.values()) == {1}
    assert gist(events[-1]) == "desk text done"


async def test_a_call_counts_once(shop: Shop, make_desk: MakeDesk) -> None:
    """A budget of one call is one activity, though it has two steps of ours."""
    given = {"customer": "c", "amount": 1}
    replies = [call("charge_card", **given), call("charge_card", **given)]
    runner = await make_desk(
        shop.tool(shop.charge_card), replies=replies, budget=Budget(tool_calls=1)
    )
    async with shop.open():
        with pytest.raises(BudgetExceededError):
            await send(runner)
    assert len(shop.seen) == 1


async def test_another_worker_goes_on_though_the_tool_is_gone(
    client: Client, shop: Shop, tmp_path: Path
) -> None:
    """I10, D6: what it has done comes out; a deploy meanwhile neither loses nor repeats it."""
    store = SqliteSessionService(tmp_path / "deploy.db")

    def app(*tools: Any, replies: list[Any]) -> App:
        model = ScriptedModel(replies=replies)
        return App(name="app", root_agent=LlmAgent(name="desk", model=model, tools=list(tools)))

    options = WorkerOptions(task_queue=shop.desk)
    before = app(shop.tool(shop.meet), replies=[call("meet", who="a")])
    runner = Runner(app=before, session_service=store, client=client, task_queue=shop.desk)
    async with shop.open():
        async with worker(client, apps=[before], session_service=store, options=options):
            sending = asyncio.ensure_future(send(runner))
            await asyncio.wait_for(shop.inside.acquire(), PATIENCE)
        shop.gate.set()
        after = app(replies=["unused", "done"])
        async with worker(client, apps=[after], session_service=store, options=options):
            events = await sending
    assert responses(events) == [{"result": "a"}]
    assert len(shop.seen) == 1
    await store.close()


@activity.defn
async def greet(who: str) -> str:
    """Greet."""
    return f"hello {who}"


@activity.defn
async def now() -> str:
    """Need nothing."""
    return "noon"


@pytest.mark.thorough
async def test_where_payloads_are_encrypted_their_worker_needs_the_keys(tmp_path: Path) -> None:
    """D16: with them it reads and writes as ours; without, the model gets an error; nothing hangs.

    On a server of its own, as nobody else can read its histories.
    """
    codec = EncryptionCodec(keys=KeyRing([Key.new("k")]))
    converter = encrypted(data_converter, codec)
    policy = RetryPolicy(maximum_attempts=1)
    store = SqliteSessionService(tmp_path / "encrypted.db")
    async with TemporalServer.start(data_dir=tmp_path / "own", headless=True) as server:
        ours = await connect(server.address, data_converter=converter)

        async def told(theirs: DataConverter, queue: str) -> list[Any]:
            tools = [tool(of, task_queue=queue, retry_policy=policy) for of in (greet, now)]
            replies = [call("greet", who="Ada"), call("now"), "done"]
            agent = LlmAgent(name="desk", model=ScriptedModel(replies=replies), tools=tools)
            app = App(name=queue, root_agent=agent)
            client = await Client.connect(server.address, data_converter=theirs)
            options = WorkerOptions(task_queue=f"desk-{queue}")
            async with (
                worker(ours, apps=[app], session_service=store, options=options),
                Worker(client, task_queue=queue, activities=[greet, now]),
            ):
                runner = Runner(
                    app=app, session_service=store, client=ours, task_queue=f"desk-{queue}"
                )
                return responses(await send(runner))

        keyed = await told(replace(DataConverter.default, payload_codec=codec), "keyed")
        assert keyed == [{"result": "hello Ada"}, {"result": "noon"}]
        without = await told(DataConverter.default, "plain")
        assert "decoding" in without[0]["error"]
        assert "cannot be read" in without[1]["error"]
    await store.close()


# ----- in process


@activity.defn
async def add(first: int, second: int = 2) -> int:
    """Add."""
    return first + second


@activity.defn
async def fail() -> None:
    """Fail."""
    raise LookupError("not there")


@activity.defn
def shout(order: Order) -> Order:
    """Blocks, as sync activities may."""
    return Order(article=order.article.upper(), count=order.count)


@activity.defn
async def who_am_i() -> str:
    """Wants to be in an activity."""
    return activity.info().activity_id


@activity.defn
async def dawdle() -> None:
    """Take too long."""
    await forever()


async def in_process(*tools: Any, replies: list[Any], **options: Any) -> list[Any]:
    """What a runner without Temporal makes of it."""
    agent = LlmAgent(name="desk", model=ScriptedModel(replies=replies), tools=list(tools))
    app = App(name="app", root_agent=agent)
    async with Runner(app=app, session_service=InMemorySessionService()) as runner:
        return await send(runner, **options)


def tool(of: Any, **options: Any) -> ActivityTool:
    """A tool whose task queue means nothing here."""
    return ActivityTool(of, **{"start_to_close_timeout": LONG} | options)


async def test_in_process_the_function_is_called_directly() -> None:
    """D14: with what its annotations say; errors and time are as on Temporal, without retries."""
    replies = [
        calls(("add", {"first": 1}), ("shout", {"order": {"article": "a"}})),
        calls(("who_am_i", {}), ("dawdle", {})),
        "done",
    ]
    short = tool(dawdle, start_to_close_timeout=timedelta(milliseconds=50))
    events = await in_process(tool(add), tool(shout), tool(who_am_i), short, replies=replies)
    first, second, third, fourth = responses(events)
    assert first == {"result": 3}
    assert second == {"article": "A", "count": 1}
    assert third["error"].startswith("Activity 'who_am_i' failed: RuntimeError: Not in activity")
    assert "given up after 0.05 s" in fourth["error"]


@pytest.mark.parametrize("of", ["elsewhere", Shop.place])
async def test_in_process_a_name_or_a_method_without_object_is_refused(of: Any) -> None:
    """D18: the run fails with what is missing, and the model is not blamed for it."""
    extra = {"parameters": {"type": "object"}} if isinstance(of, str) else {}
    name = of if isinstance(of, str) else "place"
    with pytest.raises(AgentDefinitionError, match="cannot run in this process"):
        await in_process(tool(of, **extra), replies=[call(name, order={"article": "a"}), "never"])


async def test_events_are_the_same_in_process_and_on_their_worker_with_the_plugin(
    server: TemporalServer, tmp_path: Path
) -> None:
    """D14, D18: one worker has their activities and our agents, so no task queue is named."""
    replies = [calls(("add", {"first": 1}), ("fail", {})), call("add", first="x"), "done"]
    tools = [tool(add), tool(fail, retry_policy=RetryPolicy(maximum_attempts=1))]
    here = await in_process(*tools, replies=replies, invocation_id="e-same")
    store = SqliteSessionService(tmp_path / "plugin.db")
    agent = LlmAgent(name="desk", model=ScriptedModel(replies=replies), tools=tools)
    app = App(name="app", root_agent=agent)
    client = await Client.connect(
        server.address, plugins=[DurableAdkPlugin(apps=[app], session_service=store)]
    )
    queue = f"theirs-{uuid.uuid4().hex}"
    async with Worker(client, task_queue=queue, activities=[add, fail]):
        runner = Runner(app=app, session_service=store, client=client, task_queue=queue)
        there = await send(runner, invocation_id="e-same")
    await store.close()
    assert [shape(event) for event in there] == [shape(event) for event in here]
