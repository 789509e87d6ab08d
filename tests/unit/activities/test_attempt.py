"""One attempt of a step, and what its end tells the next one."""

import asyncio
import json
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import pytest
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from durable_adk.activities.attempt import MAX_LOST, MAX_UNREGISTERED, step_attempt
from durable_adk.activities.dependencies import Dependencies
from durable_adk.apps import AppRegistry
from durable_adk.attempt_history import AttemptHistory
from durable_adk.errors import (
    AgentNotFoundError,
    ModelUnavailableError,
    SessionRegressedError,
    StoreUnavailableError,
    WorkerStuckError,
)
from durable_adk.sessions import InMemorySessionService, SessionKey
from tests.support.waiting import until

KEY = SessionKey("app", "u", "s")
DEPS = Dependencies(registry=AppRegistry([]), sessions=InMemorySessionService())


class Step:
    """A step whose attempts are made one after another, as the engine makes them."""

    def __init__(self) -> None:
        self.number = 0
        self.details: tuple = ()

    async def attempt(
        self, error: BaseException | None, *, max_attempts: int | None = None
    ) -> bool:
        """Whether the engine makes another one."""
        self.number += 1
        environment = ActivityEnvironment()
        environment.info = replace(
            environment.info, attempt=self.number, heartbeat_details=self.details
        )
        environment.on_heartbeat = self._beat

        async def body() -> None:
            async with step_attempt("Tool 'x'", DEPS, KEY, max_attempts=max_attempts):
                if error is not None:
                    raise error

        try:
            await environment.run(body)
        except ApplicationError as raised:
            self.error = raised
            return not raised.non_retryable
        return False

    def lose(self) -> None:
        """An attempt whose worker dies."""
        self.number += 1

    def _beat(self, *details: RawValue) -> None:
        self.details = tuple(json.loads(raw.payload.data) for raw in details)


async def test_a_step_that_keeps_losing_its_worker_is_given_up() -> None:
    """F12, I22: the attempt after the last one allowed ends the run, and names the step."""
    step = Step()
    for _ in range(MAX_LOST - 1):
        step.lose()
    assert await step.attempt(StoreUnavailableError())
    step.lose()
    assert not await step.attempt(StoreUnavailableError())
    assert f"Tool 'x' was given up: its worker was lost, or did not report back, {MAX_LOST}" in str(
        step.error
    )


async def test_a_process_without_memory_does_not_end_its_steps() -> None:
    """F44: others may have used it up; a step that never gets enough is given up all the same."""
    step = Step()
    for _ in range(MAX_LOST):
        assert await step.attempt(MemoryError())
    assert not await step.attempt(MemoryError())


async def test_a_step_that_blocks_one_worker_after_the_other_is_given_up() -> None:
    """F41, I22: it counts as one that loses them; those that only wait for it never end so."""
    stuck, suspected = WorkerStuckError("blocked"), WorkerStuckError("blocked")
    suspected.suspected = True
    innocent, guilty = Step(), Step()
    for _ in range(MAX_LOST):
        assert await innocent.attempt(stuck)
        assert await guilty.attempt(suspected)
    assert await innocent.attempt(stuck)
    assert not await guilty.attempt(suspected)
    assert "was given up: its worker was lost" in str(guilty.error)
    assert innocent.error.next_retry_delay.total_seconds() < 1


async def test_a_step_that_other_code_cancels_ends_once() -> None:
    """F12, I8: neither the engine nor the shutdown has asked, so no worker was lost."""
    step = Step()
    assert not await step.attempt(asyncio.CancelledError())
    assert "was cancelled by code of its own process" in str(step.error)


@pytest.mark.parametrize("kind", [StoreUnavailableError, SessionRegressedError])
async def test_a_store_that_does_not_answer_never_ends_a_step(kind: type[Exception]) -> None:
    """F16, I11, I21: however long; and the model may then be asked as often as always."""
    step = Step()
    for _ in range(500):
        assert await step.attempt(kind())
    assert step.error.next_retry_delay.total_seconds() <= 2
    assert await step.attempt(ModelUnavailableError(), max_attempts=2)
    assert step.error.next_retry_delay.total_seconds() == 1
    assert await step.attempt(kind(), max_attempts=2)
    assert not await step.attempt(ModelUnavailableError(), max_attempts=2)


async def test_a_model_that_refuses_often_is_no_lost_worker() -> None:
    """D11: as often as the limits allow, which may be more than workers may be lost."""
    step = Step()
    for _ in range(MAX_LOST + 5):
        assert await step.attempt(ModelUnavailableError(), max_attempts=50)


async def test_a_step_whose_agent_is_nowhere_ends() -> None:
    """D6: it is returned so often, outages not counted, and then the run gets the error."""
    step = Step()
    for _ in range(MAX_UNREGISTERED - 1):
        assert await step.attempt(StoreUnavailableError())
        assert await step.attempt(AgentNotFoundError("gone"))
    assert not await step.attempt(AgentNotFoundError("gone"))


async def test_a_lost_attempt_leaves_what_those_before_it_told() -> None:
    """F12: its heartbeats carry it on, while it lives."""
    environment, beats = ActivityEnvironment(), []
    told = AttemptHistory(reported=((1, 3),), excused=((1, 3),))
    environment.on_heartbeat = lambda raw: beats.append(
        AttemptHistory.of([json.loads(raw.payload.data)])
    )
    environment.info = replace(
        environment.info,
        attempt=4,
        heartbeat_timeout=timedelta(seconds=0.04),
        heartbeat_details=[told.model_dump(mode="json")],
    )

    async def body() -> None:
        async with step_attempt("Tool 'x'", DEPS, KEY):
            await until(lambda: len(beats) >= 2)

    await environment.run(body)
    assert set(beats) == {told}


async def test_an_attempt_keeps_what_those_before_it_told() -> None:
    """I7: its own heartbeats carry it on, as each replaces the details of the last."""
    step = Step()
    assert await step.attempt(StoreUnavailableError())
    assert await step.attempt(StoreUnavailableError())
    assert AttemptHistory.of(step.details) == AttemptHistory(reported=((1, 2),), excused=((1, 2),))


@pytest.mark.parametrize("obeys", [True, False])
async def test_a_worker_that_is_told_to_end_says_nothing_of_its_steps(obeys: bool) -> None:
    """F12, I20: but that it ended, whether or not the code lets itself be cancelled."""
    environment, beats = ActivityEnvironment(), []
    environment.on_heartbeat = lambda raw: beats.append(
        AttemptHistory.of([json.loads(raw.payload.data)])
    )
    told = AttemptHistory(reported=((1, 40),), excused=((1, 40),))
    environment.info = replace(
        environment.info,
        attempt=41,
        heartbeat_timeout=timedelta(seconds=1000),
        heartbeat_details=[told.model_dump(mode="json")],
    )
    leaving = AttemptHistory(reported=((1, 41),), excused=((1, 41),), exits=1)

    async def body() -> None:
        async with step_attempt("Tool 'x'", DEPS, KEY):
            environment.worker_shutdown()
            if obeys:
                environment.cancel()
            await until(lambda: leaving in beats)

    with suppress(asyncio.CancelledError):
        await environment.run(body)
    assert beats[-1] == leaving
