"""What invocations in Temporal say of the session store (I21, I22)."""

import asyncio
import logging
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload, Payloads
from temporalio.api.history.v1 import (
    HistoryEvent,
    MarkerRecordedEventAttributes,
    WorkflowExecutionStartedEventAttributes,
)
from temporalio.client import WorkflowExecutionStatus, WorkflowHistory
from temporalio.converter import DataConverter

from durable_adk.activities.commit import staleness
from durable_adk.activities.commit.staleness import StalenessCheck
from durable_adk.errors import PayloadLostError, SessionRegressedError
from durable_adk.events import Event
from durable_adk.sessions import InMemorySessionService, SessionKey, Status

MINE, YOURS = SessionKey("app", "alice", "s"), SessionKey("app", "bob", "s")


@dataclass
class Execution:
    """A workflow, as Temporal lists it."""

    key: SessionKey
    id: str
    start_time: datetime
    close_time: datetime | None
    status: WorkflowExecutionStatus = WorkflowExecutionStatus.COMPLETED
    unreadable: bool = False
    stored: int = 1
    """How many events it has committed; 0: it was refused."""
    read: int = 0
    epoch: int = 1

    @property
    def run_id(self) -> str:
        """That of its only run."""
        return f"run-{self.id}"

    async def result(self) -> Any:
        """Its result."""
        self.read += 1
        await asyncio.sleep(0)
        if self.unreadable:
            raise PayloadLostError
        app, user, session = self.key
        fields = {"app": app, "user": user, "session": session, "invocationId": self.id}
        counts = {"events": 1, "modelCalls": 0, "toolCalls": 0, "revision": 1}
        more = {"status": "completed", "text": "", "epoch": self.epoch, "addedLater": 1}
        return {**fields, **counts, **more}

    async def fetch_history(self) -> WorkflowHistory:
        """Its argument, its opening, and its commits."""
        self.read += 1
        app, user, session = self.key
        request = {"app": app, "user": user, "session": session, "message": "hi"}
        record = {
            "invocationId": self.id,
            "status": "running",
            "epoch": self.epoch,
            "leaseOwner": "",
            "startSeq": 1,
        }
        results = [("open_invocation", {"record": record})] if self.stored else []
        results += [("commit_event", seq) for seq in range(2, self.stored + 1)]
        start = WorkflowExecutionStartedEventAttributes(
            first_execution_run_id=self.run_id, input=Payloads(payloads=[encoded(request)])
        )
        markers = [
            MarkerRecordedEventAttributes(
                details={
                    "data": Payloads(payloads=[encoded({"activity_type": name})]),
                    "result": Payloads(payloads=[encoded(value)]),
                }
            )
            for name, value in results
        ]
        events = [HistoryEvent(workflow_execution_started_event_attributes=start)]
        events += [HistoryEvent(marker_recorded_event_attributes=one) for one in markers]
        return WorkflowHistory(self.id, events)


def encoded(value: Any) -> Payload:
    """A value as it is in a history."""
    return DataConverter.default.payload_converter.to_payload(value)


@dataclass
class Temporal:
    """A client that lists workflows, the newest first."""

    listed: list[Execution] = field(default_factory=list)
    listings: int = 0
    namespace: str = "default"
    data_converter: DataConverter = DataConverter.default

    async def list_workflows(self, query: str) -> Any:
        """Those that are open, or have closed since the time in the query."""
        self.listings += 1
        (since,) = re.findall("CloseTime >= '(.+?)'", query)
        for one in self.listed:
            if one.close_time is None or one.close_time >= datetime.fromisoformat(since):
                yield one

    def get_workflow_handle(self, workflow_id: str, **_: Any) -> Execution:
        """One of them."""
        return next(one for one in self.listed if one.id == workflow_id)


class Clinic:
    """A store, and what Temporal knows of it."""

    def __init__(self) -> None:
        self.sessions = InMemorySessionService()
        self.temporal = Temporal()
        self.restart()

    def restart(self) -> None:
        """Have another worker check, which remembers nothing."""
        self.check = StalenessCheck(self.temporal, self.sessions, "q").check  # type: ignore[arg-type]

    async def run(
        self, key: SessionKey, name: str, *, lost: bool = False, ago: float = 0.0, **options: Any
    ) -> None:
        """Run an invocation; if it is lost, the store forgets it."""
        if not lost:
            user = Event(id=f"{name}.0", invocation_id=name, author="user", timestamp=1.0)
            record = await self.sessions.open_invocation(
                key, invocation_id=name, lease_owner="local:1", user_event=user, create_session=True
            )
            await self.sessions.close_invocation(
                key, invocation_id=name, epoch=record.epoch, status=Status.COMPLETED
            )
        now = datetime.now(UTC)
        done = Execution(key, name, now, now - timedelta(seconds=ago), **options)
        self.temporal.listed.insert(0, done)

    async def delete(self, key: SessionKey) -> None:
        """Delete a session."""
        await self.sessions.delete_session(app_name=key[0], user_id=key[1], session_id=key[2])

    async def write_anew(self, key: SessionKey) -> None:
        """Delete a session and write it again with its first event, as it was."""
        events = [item.event for item in await self.sessions.read_events(key, upto=1)]
        await self.delete(key)
        session = await self.sessions.create_session(
            app_name=key[0], user_id=key[1], session_id=key[2]
        )
        for event in events:
            await self.sessions.append_event(session, event)


@pytest.fixture
def clinic(monkeypatch: pytest.MonkeyPatch) -> Clinic:
    """An empty one, that asks Temporal each time."""
    monkeypatch.setattr(staleness, "MAX_AGE", -1.0)
    monkeypatch.setattr(staleness, "RETRY_AGE", -1.0)
    return Clinic()


async def test_a_session_that_was_written_anew_stops_nobody(clinic: Clinic) -> None:
    """I22: a user edits a conversation, with the timestamps that its events had."""
    await clinic.run(MINE, "one")
    await clinic.run(MINE, "two")
    await clinic.write_anew(MINE)
    await clinic.check(MINE)
    await clinic.check(YOURS)


async def test_what_lacked_something_and_was_deleted_stops_nobody(clinic: Clinic) -> None:
    """I21: nor does the next session of its name, though the lost leases had greater epochs."""
    await clinic.run(MINE, "one")
    await clinic.run(MINE, "two", lost=True, epoch=9, status=WorkflowExecutionStatus.TERMINATED)
    with pytest.raises(SessionRegressedError):
        await clinic.check(MINE)
    await clinic.delete(MINE)
    await clinic.check(MINE)
    await clinic.run(MINE, "three")
    await clinic.check(MINE)
    clinic.restart()
    await clinic.check(MINE)


async def test_a_session_that_was_created_again_can_lack_something(clinic: Clinic) -> None:
    """I21: at once, whatever the clocks say: a completed run tells its epoch."""
    await clinic.run(MINE, "one")
    await clinic.write_anew(MINE)
    creation = await clinic.sessions.read_creation(MINE)
    assert creation is not None
    await clinic.run(MINE, "two", lost=True, epoch=creation.epoch + 1)
    with pytest.raises(SessionRegressedError):
        await clinic.check(MINE)


async def test_what_one_session_lacks_stops_that_session(clinic: Clinic) -> None:
    """I21, I22: its user waits for the repair; nobody else does."""
    await clinic.run(MINE, "one")
    await clinic.run(MINE, "two", lost=True)
    for _ in range(2):
        with pytest.raises(SessionRegressedError, match=r"'two'.*'s'"):
            await clinic.check(MINE)
    await clinic.check(YOURS)


async def test_a_session_that_is_missing_is_lost_where_another_one_lacks_something(
    clinic: Clinic,
) -> None:
    """I21: nobody has deleted it; it must not begin again from nothing."""
    gone = SessionKey("app", "alice", "gone")
    await clinic.run(MINE, "one")
    await clinic.run(gone, "new", lost=True)
    await clinic.check(gone)
    await clinic.run(MINE, "two", lost=True)
    with pytest.raises(SessionRegressedError):
        await clinic.check(gone)


async def test_sessions_of_several_users_that_lack_something_stop_everybody(
    clinic: Clinic,
) -> None:
    """I21: that is a store which was restored from a backup."""
    for key in (MINE, YOURS):
        await clinic.run(key, f"{key.user_id}-one")
    for key in (MINE, YOURS):
        await clinic.run(key, f"{key.user_id}-two", lost=True)
    with pytest.raises(SessionRegressedError):
        await clinic.check(SessionKey("app", "carol", "s"))


@pytest.mark.parametrize("worker", ["the same", "a new one"])
async def test_what_is_lacking_is_not_forgotten_for_what_completes(
    worker: str, clinic: Clinic
) -> None:
    """I21: another session's invocations, on the older store, say nothing of this one's."""
    await clinic.run(MINE, "one", ago=100.0)
    await clinic.check(MINE)
    await clinic.run(MINE, "two", lost=True, ago=60.0)
    for number in range(3):
        with pytest.raises(SessionRegressedError):
            await clinic.check(MINE)
        await clinic.check(YOURS)
        await clinic.run(YOURS, f"yours-{number}")
        if worker == "a new one":
            clinic.restart()
    await clinic.delete(MINE)
    await clinic.check(MINE)


ENDS = [one for one in WorkflowExecutionStatus if one is not WorkflowExecutionStatus.COMPLETED]


@pytest.mark.parametrize("status", ENDS)
async def test_each_kind_of_invocation_testifies(
    status: WorkflowExecutionStatus, clinic: Clinic
) -> None:
    """I21: whatever became of it, unless it has stored nothing."""
    await clinic.run(MINE, "one")
    await clinic.run(MINE, "refused", lost=True, status=status, stored=0)
    await clinic.check(MINE)
    await clinic.run(MINE, "two", lost=True, status=status)
    with pytest.raises(SessionRegressedError, match="'two'"):
        await clinic.check(MINE)


@pytest.mark.parametrize("status", ENDS)
async def test_a_record_without_its_events_is_older(
    status: WorkflowExecutionStatus, clinic: Clinic
) -> None:
    """I21: the invocation had begun at the time of the backup."""
    await clinic.run(MINE, "one", status=status, stored=1)
    await clinic.check(MINE)
    await clinic.run(YOURS, "two", status=status, stored=3)
    with pytest.raises(SessionRegressedError, match="'two'"):
        await clinic.check(YOURS)


async def test_what_was_compared_is_read_no_more(clinic: Clinic) -> None:
    """I24: another worker begins at the store's horizon, which an older store does not raise."""
    await clinic.run(MINE, "one", ago=100.0)
    await clinic.run(MINE, "two")
    await clinic.check(MINE)
    clinic.restart()
    await clinic.check(MINE)
    assert [one.read for one in clinic.temporal.listed] == [2, 1]
    await clinic.sessions.raise_horizon("other", seen=0.0, to=5.0)
    await clinic.sessions.raise_horizon("other", seen=6.0, to=7.0)
    assert await clinic.sessions.read_horizon("other") == 5.0


async def test_a_result_that_cannot_be_read_says_nothing(clinic: Clinic) -> None:
    """I22: a payload that was swept, or a key that is missing, stops nobody."""
    await clinic.run(MINE, "one")
    await clinic.run(MINE, "two", lost=True, unreadable=True)
    await clinic.check(MINE)
    await clinic.check(YOURS)


async def test_a_session_that_is_stopped_costs_its_neighbours_nothing(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I22: they go by the last answer of Temporal for as long as ever."""
    await clinic.run(MINE, "one")
    await clinic.run(MINE, "two", lost=True)
    monkeypatch.setattr(staleness, "MAX_AGE", 60.0)
    await clinic.check(YOURS)
    with pytest.raises(SessionRegressedError):
        await clinic.check(MINE)
    asked = clinic.temporal.listings
    for _ in range(5):
        await clinic.check(YOURS)
    assert clinic.temporal.listings == asked


async def put_back(clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a session lack an invocation until it was refused for that."""
    await clinic.run(MINE, "one")
    await clinic.run(MINE, "two", lost=True)
    monkeypatch.setattr(staleness, "MAX_AGE", 60.0)
    with pytest.raises(SessionRegressedError):
        await clinic.check(MINE)
    clinic.temporal.listed.pop(0)
    await clinic.run(MINE, "two")


async def test_a_session_that_was_put_back_goes_on(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I21: soon, without waiting for the next time that Temporal is asked for its neighbours."""
    await put_back(clinic, monkeypatch)
    await clinic.check(MINE)


async def test_messages_that_waited_for_the_repair_look_at_once(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I21: each of them finds that nothing is lacking any more."""
    await put_back(clinic, monkeypatch)
    look = clinic.sessions.get_invocation

    async def look_slowly(*names: Any) -> Any:
        await asyncio.sleep(0)
        return await look(*names)

    monkeypatch.setattr(clinic.sessions, "get_invocation", look_slowly)
    await asyncio.gather(*(clinic.check(MINE) for _ in range(3)))


async def restored(clinic: Clinic) -> None:
    """Have the store lack the newest invocations of several users."""
    for key in (MINE, YOURS):
        await clinic.run(key, f"{key.user_id}-one")
    for key in (MINE, YOURS):
        await clinic.run(key, f"{key.user_id}-two", lost=True)


async def test_who_is_refused_is_told_of_no_other_session(
    clinic: Clinic, caplog: pytest.LogCaptureFixture
) -> None:
    """S23: of another user's ids nothing; the operator finds them in the log."""
    await restored(clinic)
    with caplog.at_level(logging.WARNING), pytest.raises(SessionRegressedError) as refused:
        await clinic.check(SessionKey("app", "carol", "own"))
    for word in ("alice", "bob", "two", "'s'"):
        assert word not in refused.value.message
    (record,) = caplog.records
    assert record.lacking == [("s", "bob-two"), ("s", "alice-two")]
    with pytest.raises(SessionRegressedError) as own:
        await clinic.check(YOURS)
    assert "bob-two" in own.value.message
    assert "alice" not in own.value.message


async def test_messages_that_wait_for_the_repair_ask_together(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I24: however many there are, Temporal is asked at intervals, and once for each result."""
    await clinic.run(MINE, "first")
    monkeypatch.setattr(staleness, "MAX_AGE", 60.0)
    await restored(clinic)
    users = [SessionKey("app", f"user-{number}", "s") for number in range(20)]
    for _ in range(3):
        outcomes = await asyncio.gather(*map(clinic.check, users), return_exceptions=True)
        assert {type(one) for one in outcomes} == {SessionRegressedError}
    assert clinic.temporal.listings == 1
    monkeypatch.setattr(staleness, "MAX_AGE", -1.0)
    with pytest.raises(SessionRegressedError):
        await clinic.check(MINE)
    assert clinic.temporal.listings == 2
    assert {one.read for one in clinic.temporal.listed} == {1}
