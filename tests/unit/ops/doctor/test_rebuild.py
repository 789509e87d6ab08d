"""Rebuilding sessions: an operation counts only at its position, and only with its result."""

import itertools
from dataclasses import replace
from math import inf
from typing import Any

import pytest
from google.genai import types

from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.conversation.tool_responses import ABORTED
from durable_adk.errors import BudgetExceededError, InvocationCancelledError, as_detail
from durable_adk.events import Event, EventActions
from durable_adk.ops.doctor.inferred_operations import infer_operations
from durable_adk.ops.doctor.operation_log import Operation, OperationLog
from durable_adk.ops.doctor.rebuild import LogPosition, SessionRebuild, is_stored, position_of
from durable_adk.sessions import InMemorySessionService, InvocationRecord, SessionKey, Status
from durable_adk.settings import Limits
from durable_adk.wire.checkpoint import (
    CHECKPOINT,
    Cursor,
    JournalPage,
    LoadedCheckpoint,
    ReadCheckpointStep,
    ReadJournalStep,
    SaveCheckpointStep,
    packed,
)
from durable_adk.wire.graph.batch import ItemsResult, ItemsStep
from durable_adk.wire.graph.node_run import NodeRef, NodeSite
from durable_adk.wire.manifest import AgentNode
from durable_adk.wire.messages import InvocationAnswer, ToolRun
from durable_adk.wire.steps import (
    AnswerStep,
    AnswerTaken,
    CloseStep,
    CommitStep,
    DynamicNodes,
    EarlyCommit,
    Ending,
    NodeStep,
    Opened,
    OpenStep,
    PauseStep,
    StepResult,
)

KEY = SessionKey("app", "u", "s")
TIMES = itertools.count(1.0)


def record(name: str, epoch: int, start: int, **fields: Any) -> InvocationRecord:
    return InvocationRecord(
        invocation_id=name,
        epoch=epoch,
        start_seq=start,
        **{"lease_owner": name, "status": Status.RUNNING, "update_time": next(TIMES), **fields},
    )


def operation(name: str, step: Any, result: Any = None, *, done: bool = True) -> Operation:
    return Operation(name=name, step=step, at=next(TIMES), result=result, done=done)


def opens(name: str, epoch: int, start: int) -> Operation:
    text = types.Content(role="user", parts=[types.Part(text="go")])
    step = OpenStep(
        key=KEY,
        invocation_id=name,
        lease_owner=name,
        event_id=f"{name}.0",
        timestamp=next(TIMES),
        message=text,
        create_session=True,
    )
    manifest = AgentNode(name="root", kind="llm")
    opened = Opened(
        record=record(name, epoch, start),
        manifest=manifest,
        agent="root",
        limits=Limits(),
        registry="none",
        rules=1,
    )
    return operation("open_invocation", step, opened)


def commits(name: str, epoch: int, seq: int, **fields: Any) -> Operation:
    parts = fields.pop("parts", [types.Part(text=str(seq))])
    event = Event(
        id=f"{name}.{seq}",
        invocation_id=name,
        author="root",
        timestamp=next(TIMES),
        content=types.Content(role="model", parts=parts),
        actions=EventActions(state_delta={"seq": seq}),
        **fields,
    )
    step = CommitStep(key=KEY, invocation_id=name, epoch=epoch, event=event)
    return operation("commit_event", step, seq)


def closes(name: str, epoch: int, end: int, status: Status = Status.COMPLETED) -> Operation:
    step = CloseStep(
        key=KEY,
        invocation_id=name,
        epoch=epoch,
        status=status,
        author="root",
        timestamp=next(TIMES),
        lease_owner=name,
    )
    ended = record(name, epoch, 1, status=status, end_seq=end)
    return operation("close_invocation", step, Ending(record=ended))


def pauses(name: str, epoch: int) -> Operation:
    step = PauseStep(key=KEY, invocation_id=name, epoch=epoch, lease_owner=name)
    return operation("pause_invocation", step)


def log(*operations: Operation) -> OperationLog:
    return OperationLog(
        workflow_id="w", first_run_id="r", is_open=False, operations=list(operations)
    )


async def redone(*logs: OperationLog, store: InMemorySessionService | None = None) -> Any:
    store = store or InMemorySessionService()
    one = (await SessionRebuild(store).run({KEY: list(logs)}))[KEY]
    if one.rebuilt is not None:
        await store.rebuild([one.rebuilt])
    return one, store


async def test_any_order_of_histories_gives_the_same_session() -> None:
    """I3: acts are ordered by epoch and number, wherever their workflows are listed."""
    logs = [
        log(opens("a", 1, 1), commits("a", 1, 2), closes("a", 1, 2)),
        log(opens("b", 2, 3), commits("b", 2, 4), closes("b", 2, 4)),
        log(opens("c", 3, 5), commits("c", 3, 6)),
    ]
    expected = None
    for order in itertools.permutations(logs):
        _, store = await redone(*order)
        found = (await store.read_events(KEY), await store.active_invocation(KEY))
        assert [item.seq for item in found[0]] == [1, 2, 3, 4, 5, 6]
        assert expected in (None, found)
        expected = found


@pytest.mark.parametrize("end", ["closed", "paused", "running"])
async def test_what_was_lost_follows_what_was_appended_in_its_place(end: str) -> None:
    """I21: both ways that a session went are kept; who was running has lost the lease."""
    before = log(opens("a", 1, 1), commits("a", 1, 2), closes("a", 1, 2))
    last = {"closed": [closes("b", 2, 4)], "paused": [pauses("b", 2)], "running": []}[end]
    lost = log(opens("b", 2, 3), commits("b", 2, 4), *last)
    _, store = await redone(before)
    _, whole = await redone(before, lost)
    forked = log(opens("x", 2, 3), closes("x", 2, 3))
    await redone(before, forked, store=store)
    found, _ = await redone(before, lost, store=store)
    assert found.forked
    ids = [item.event.id for item in await store.read_events(KEY)]
    (lost_ids, end_ids) = (["b.0", "b.4"], ["b.end"] if end == "running" else [])
    assert ids == ["a.0", "a.2", "x.0", *lost_ids, *end_ids]
    one, other = [await each.get_invocation(KEY, "b") for each in (store, whole)]
    assert one is not None
    assert other is not None
    assert (one.start_seq, one.epoch) == (4, 3)
    assert one.status == (Status.ABANDONED if end == "running" else other.status)
    assert one.end_seq == {"closed": 5, "paused": None, "running": 6}[end]
    assert await store.active_invocation(KEY) is None
    again = await SessionRebuild(store).run({KEY: [before, lost]})
    assert again[KEY].rebuilt is not None
    assert again[KEY].rebuilt.events == []


async def test_what_a_workflow_continues_with_is_put_back() -> None:
    """I21: the next run of an open workflow reads it, and nobody writes it again."""
    saved = SaveCheckpointStep(
        key=KEY, invocation_id="a", number=1, digest="d", checkpoint=packed('{"n": 1}')
    )
    one = log(opens("a", 1, 1), operation("save_checkpoint", saved, "recorded"))
    one.is_open = True
    _, store = await redone(one)
    (note,) = await store.read_notes(KEY, invocation_id="a", kind=CHECKPOINT)
    assert (note.name, note.body) == ("000000001.recorded", '{"n": 1}')


async def test_what_is_stored_already_is_not_done_again() -> None:
    """I1: to a part of the session the rest is added, from whatever place on."""
    operations = [opens("a", 1, 1), commits("a", 1, 2), commits("a", 1, 3), closes("a", 1, 3)]
    _, whole = await redone(log(*operations))
    for length in range(1, len(operations) + 1):
        _, store = await redone(log(*operations[:length]))
        one, store = await redone(log(*operations), store=store)
        assert len(one.rebuilt.events) == max(0, 3 - length)
        assert await store.read_events(KEY) == await whole.read_events(KEY)
        assert await store.get_invocation(KEY, "a") == await whole.get_invocation(KEY, "a")


async def test_what_no_history_tells_is_not_guessed() -> None:
    """I21: a gap, which somebody else has written, is said, and nothing is rebuilt."""
    one, store = await redone(log(opens("a", 1, 1), commits("a", 1, 3)))
    assert one.rebuilt is None
    assert "event 2 is in no history" in one.failure
    assert await store.read_events(KEY) == []


@pytest.mark.parametrize("untold", ["items", "called nodes"])
async def test_what_the_last_step_has_stored_untold_is_missed(untold: str) -> None:
    """I21: nothing comes after it that would show the gap."""
    site = NodeSite(path="wf@1/w@1", prefix="a.1", input=NodeRef())
    step = NodeStep(
        key=KEY,
        invocation_id="a",
        revision=1,
        run_start=1,
        agent="wf",
        event_id="a.1",
        attempt_timeout=1.0,
        early_commit=EarlyCommit(epoch=1),
        site=site,
        node="w",
        kind="function",
    )
    if untold == "items":
        items = ItemsStep(step=step, items=[(1, 2)], at_once=2, attempt_timeout=1.0)
        last = operation("run_items", items, ItemsResult(stored={"1": 2, "2": 3}))
    else:
        dynamic = DynamicNodes(revision=3, last_event_id="a.1.b@1.1")
        last = operation("run_node", step, StepResult(dynamic=dynamic))
    logs = [log(opens("a", 1, 1), last)]
    infer_operations(logs, [])
    result = (await SessionRebuild(InMemorySessionService()).run({KEY: logs}))[KEY]
    assert result.rebuilt is None
    assert "is in no history" in result.failure


async def test_who_was_taken_over_is_sealed_as_it_was() -> None:
    """D7: the events that the next opening had to write are in no history, and are made again."""
    call = types.Part(function_call=types.FunctionCall(id="c", name="tool", args={}))
    gone = log(opens("a", 1, 1), commits("a", 1, 2, parts=[call]))
    _, store = await redone(gone, log(opens("b", 2, 5)))
    stored = [item.event for item in await store.read_events(KEY)]
    assert [event.id for event in stored] == ["a.0", "a.2", "a.2.sealed", "a.end", "b.0"]
    old = await store.get_invocation(KEY, "a")
    assert old is not None
    assert (old.status, old.end_seq) == (Status.ABANDONED, 4)


def waits(name: str, epoch: int, seq: int) -> Operation:
    call = types.Part(function_call=types.FunctionCall(id="c", name="tool", args={}))
    return commits(name, epoch, seq, parts=[call], long_running_tool_ids={"c"})


def answers(epoch: int, seq: int) -> Operation:
    answer = AnswerStep(
        key=KEY,
        invocation_id="a",
        lease_owner="a",
        epoch=1,
        start_seq=1,
        event_id="a.answer.1",
        timestamp=next(TIMES),
        answer=InvocationAnswer(call_id="c", response={"ok": True}),
    )
    return operation("take_answer", answer, AnswerTaken(epoch=epoch, seq=seq, call_ids=["c"]))


PAUSED = operation(
    "pause_invocation", PauseStep(key=KEY, invocation_id="a", epoch=1, lease_owner="temporal:n:r:w")
)


@pytest.mark.parametrize("pause", [[PAUSED], []])
async def test_an_answer_is_made_again(pause: list[Operation]) -> None:
    """D9: a pause gives the lease back, and the answer takes it under the next epoch.

    Also when no history has the pause (F6): its worker died, and then the answer was there.
    """
    operations = [opens("a", 1, 1), waits("a", 1, 2), *pause, answers(2, 3), commits("a", 2, 4)]
    _, store = await redone(log(*operations))
    stored = [item.event for item in await store.read_events(KEY)]
    assert [event.id for event in stored] == ["a.0", "a.2", "a.answer.1", "a.4"]
    found = await store.active_invocation(KEY)
    assert found is not None
    assert (found.epoch, found.pauses) == (2, 1)


async def test_who_had_paused_untold_is_not_taken_for_gone() -> None:
    """D7, I21: another invocation had the session meanwhile; the first one continues afterwards."""
    first = [opens("a", 1, 1), waits("a", 1, 2), answers(3, 5), commits("a", 3, 6)]
    other = [opens("b", 2, 3), commits("b", 2, 4), closes("b", 2, 4)]
    one, store = await redone(log(*first), log(*other))
    assert one.failure == ""
    stored = [item.event for item in await store.read_events(KEY)]
    assert [event.id for event in stored] == ["a.0", "a.2", "b.0", "b.4", "a.answer.1", "a.6"]


@pytest.mark.parametrize("asked", ["read_checkpoint", "read_journals"])
@pytest.mark.parametrize("status", [Status.COMPLETED, Status.FAILED])
async def test_an_end_is_made_again_that_only_the_next_run_knows_of(
    status: Status, asked: str
) -> None:
    """I24, F30: its worker died after it, and what came then was the limit of a history.

    Without a reason for its failure, such a session is left alone.
    """
    place = Cursor(app="app", user="u", session="s", invocation_id="a", checkpoint=1, digest="d")
    found = Ending(record=record("a", 1, 1, status=status, end_seq=2))
    going_on = operation(
        asked, ReadCheckpointStep(cursor=place, lease_owner="a"), LoadedCheckpoint(ending=found)
    )
    if asked == "read_journals":  # it has ended since the place was read
        going_on.step = ReadJournalStep(key=KEY, invocation_id="a", parts=["body-1.x"])
        going_on.result = JournalPage(parts=[], ending=found)
    first = log(opens("a", 1, 1), commits("a", 1, 2), going_on)
    infer_operations([first], [])
    one, store = await redone(first, log(opens("b", 2, 3), commits("b", 2, 4)))
    assert (one.rebuilt is not None) is (status is Status.COMPLETED)
    if one.rebuilt is not None:
        assert await store.get_invocation(KEY, "a") == found.record
        assert [item.event.id for item in await store.read_events(KEY)][2:] == ["b.0", "b.4"]


@pytest.mark.parametrize("end", [2, 3])
async def test_so_is_one_that_only_the_next_attempt_to_open_it_knows_of(end: int) -> None:
    """I21, F6: its worker opened and ended it in one task, which Temporal does not know.

    Where more was stored in between, which nobody knows, the session is left alone.
    """
    first, error = opens("a", 1, 1), as_detail(InvocationCancelledError())
    first.result.record = record("a", 1, 1, status=Status.CANCELLED, end_seq=end, error=error)
    first.result.ending = Ending(record=first.result.record)
    whole = log(first)
    infer_operations([whole], [])
    one, store = await redone(whole, log(opens("b", 2, end + 1), commits("b", 2, end + 2)))
    assert (one.rebuilt is not None) is (end == 2)
    if one.rebuilt is None:
        assert "is in no history" in one.failure
        return
    assert await store.get_invocation(KEY, "a") == first.result.record
    stored = [item.event for item in await store.read_events(KEY)]
    assert [event.id for event in stored] == ["a.0", "a.end", "b.0", "b.4"]
    assert (stored[1].author, stored[1].error_code) == ("root", ABORTED)


async def test_an_end_of_another_workflow_is_not_made_of_what_this_one_found() -> None:
    """I21: it is in that one's history, or it took the invocation over."""
    first, error = opens("a", 1, 1), as_detail(InvocationCancelledError())
    ended = record("a", 1, 1, status=Status.CANCELLED, end_seq=2, error=error, lease_owner="other")
    first.result.record, first.result.ending = ended, Ending(record=ended)
    whole = log(first)
    infer_operations([whole], [])
    assert whole.operations == [first]


@pytest.mark.parametrize("known", [[], [App(name="app", root_agent=LlmAgent(name="root"))]])
async def test_who_ended_it_while_it_opened_is_its_apps_first_agent(known: list[App]) -> None:
    """I21: not an agent that is used as a tool, nor the one that the message would have gone to."""
    lost = replace(opens("a", 1, 1), done=False, result=None)
    end = closes("a", 1, 2, Status.CANCELLED)
    end.step.author, end.step.epoch = "", 0
    tool, other = opens("b", 1, 1), opens("c", 2, 3)
    tool.step.tool_run = ToolRun(agent="helper", caller=KEY, root=KEY)
    tool.result.manifest = AgentNode(name="helper", kind="llm")
    other.result.agent = "sub"
    others = [log(other)] if not known else []
    first, asked = log(lost, end), log(tool)
    infer_operations([asked, first, *others], known)
    one, store = await redone(first, *others)
    assert one.failure == ""
    stored = [item.event for item in await store.read_events(KEY)]
    assert [(event.id, event.author) for event in stored[:2]] == [
        ("a.0", "user"),
        ("a.end", "root"),
    ]


async def test_so_is_an_end_by_an_error_and_what_seals_the_session() -> None:
    """I9, I21: the next run knows the error, and the opening whose name is under it."""
    error = as_detail(BudgetExceededError("It has used up its budget."))
    ending = Ending(
        record=record("a", 1, 1, status=Status.FAILED, end_seq=4).model_copy(
            update={"error": error}
        )
    )
    place = Cursor(app="app", user="u", session="s", invocation_id="a", checkpoint=1, digest="d")
    going_on = operation(
        "read_checkpoint",
        ReadCheckpointStep(cursor=place, lease_owner="a"),
        LoadedCheckpoint(ending=ending),
    )
    call = types.Part(function_call=types.FunctionCall(id="c", name="look", args={}))
    first = log(opens("a", 1, 1), commits("a", 1, 2, parts=[call]), going_on)
    infer_operations([first], [])
    one, store = await redone(first, log(opens("b", 2, 5), commits("b", 2, 6)))
    assert one.failure == ""
    stored = [item.event for item in await store.read_events(KEY)]
    assert [event.id for event in stored] == ["a.0", "a.2", "a.2.sealed", "a.end", "b.0", "b.6"]
    assert (stored[3].author, stored[3].error_code) == ("root", "BudgetExceededError")


@pytest.mark.parametrize(
    "nothing",
    [
        operation("commit_event", commits("a", 1, 2).step, None, done=False),
        operation("take_answer", None, AnswerTaken(refused="no")),
        operation("call_model", None, None),
        operation(
            "pause_invocation",
            PauseStep(key=KEY, invocation_id="a", epoch=1, lease_owner="temporal:n:r:w"),
            False,
        ),  # its result
    ],
)
def test_what_has_changed_nothing_has_no_place(nothing: Operation) -> None:
    """A commit whose result was lost is made again by its run; what was refused never was."""
    assert position_of(nothing) is None


def test_an_end_is_stored_when_its_record_says_so() -> None:
    """I24: a backup from between the last event and the end lacks the end."""
    end = closes("a", 1, 2)
    place = position_of(end)
    assert place == LogPosition(1, inf)
    assert not is_stored(end, place, ["a.0", "a.2"], record("a", 1, 1))
    assert is_stored(end, place, ["a.0", "a.2"], record("a", 1, 1, status=Status.COMPLETED))
