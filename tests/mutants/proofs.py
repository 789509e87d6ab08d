"""Tests that stand as checks: each is run by itself, and what it fails with is what is wrong."""

import asyncio
import inspect
import uuid
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from temporalio.client import WorkflowExecutionStatus

from durable_adk import worker as worker_module
from durable_adk.activities.commit import staleness
from durable_adk.apps import App
from durable_adk.client import connect
from durable_adk.embedded import TemporalServer
from durable_adk.runners import InMemoryRunner, Runner
from durable_adk.sessions import InMemorySessionService, SessionKey, SqliteSessionService, Status
from durable_adk.wire.checkpoint import Checkpoint
from durable_adk.worker import WorkerOptions, worker
from durable_adk.workflows.runner import workflow_runner
from tests.integration import (
    test_agent_tool,
    test_bad_input,
    test_custom_steps,
    test_holders,
    test_pausing,
    test_reset,
    test_when_busy,
)
from tests.server import test_requests
from tests.unit import test_versions
from tests.unit.activities import test_dependencies
from tests.unit.activities.commit import test_early_commit, test_session_cache, test_staleness
from tests.unit.activities.invocation import test_open, test_pause, test_queue
from tests.unit.activities.user_code import test_event_loop
from tests.unit.context import test_activity
from tests.unit.conversation import test_denied
from tests.unit.events import test_copies
from tests.unit.flows import test_runtime
from tests.unit.sessions import (
    test_contract_creation,
    test_contract_listing,
    test_contract_people,
    test_contract_queue,
    test_contract_repair,
    test_database_session_service,
)
from tests.unit.workflows import test_lost_tasks

Check = Callable[[], str]
PATIENCE = 100.0
"""Seconds for one test."""


class Given:
    """What a test asks for by the names of its arguments."""

    def __init__(self, stack: AsyncExitStack, patch: pytest.MonkeyPatch, folder: Path) -> None:
        self._stack = stack
        self.monkeypatch = patch
        self.tmp_path = folder
        self.task_queue = uuid.uuid4().hex
        self.key = SessionKey("app", "user", "session")
        self.service = InMemorySessionService()

    @property
    def clinic(self) -> test_staleness.Clinic:
        """A store, and what Temporal knows of it."""
        self.monkeypatch.setattr(staleness, "MAX_AGE", -1.0)
        self.monkeypatch.setattr(staleness, "RETRY_AGE", -1.0)
        return test_staleness.Clinic()

    async def waiting(self) -> test_pause.Waiting:
        """An invocation that waits for two answers."""
        made = test_pause.Waiting()
        await made.open()
        return made

    async def client(self) -> Any:
        """Of a server that ends with the test; its workflows run the code that is broken here."""
        runner = workflow_runner(sandboxed=False)  # the sandbox imports the workflow again
        self.monkeypatch.setattr(worker_module, "workflow_runner", lambda **_: runner)
        started = TemporalServer.start(data_dir=self.tmp_path / "server", headless=True)
        return await connect((await self._stack.enter_async_context(started)).address)

    def make_runner(self) -> Any:
        """In process."""

        async def make(agent: Any) -> Runner:
            return await self._stack.enter_async_context(InMemoryRunner(agent))

        return make

    def make_runner_on_temporal(self) -> Any:
        """With a worker and a server that end with the test."""

        async def make(agent: Any) -> Runner:
            client, app = await self.client(), App(name="app", root_agent=agent)
            store = SqliteSessionService(self.tmp_path / "sessions.db")
            options = WorkerOptions(task_queue=self.task_queue)
            working = worker(client, apps=[app], session_service=store, options=options)
            await self._stack.enter_async_context(working)
            return await self._stack.enter_async_context(
                Runner(app=app, session_service=store, client=client, task_queue=self.task_queue)
            )

        return make


def proven(test: Callable[..., Any], *, on_temporal: bool = False, **arguments: Any) -> Check:
    """A test as a check.

    Args:
        test: It has no fixtures but those of `Given`.
        on_temporal: Whether its `make_runner` is for Temporal, and not in process.
        **arguments: Of its parameters, one case.
    """

    def check() -> str:
        try:
            with TemporaryDirectory() as folder:
                asyncio.run(_run(test, arguments, Path(folder), on_temporal=on_temporal))
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - whatever it is, it is wrong
            return f"{type(error).__name__}: {error}"
        return ""

    return check


async def _run(
    test: Callable[..., Any], arguments: dict[str, Any], folder: Path, *, on_temporal: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        async with asyncio.timeout(PATIENCE), AsyncExitStack() as stack:
            given, values = Given(stack, patch, folder), dict(arguments)
            for name in inspect.signature(test).parameters:
                if name in values:
                    continue
                runner = on_temporal and name == "make_runner"
                value = getattr(given, f"{name}_on_temporal" if runner else name)
                value = value() if callable(value) else value
                values[name] = await value if inspect.isawaitable(value) else value
            done = test(**values)
            if inspect.isawaitable(done):
                await done


PROOFS: dict[str, Check] = {
    # ----- who waits
    "bounded queues": proven(test_contract_queue.test_queues_have_bounds),
    "rare attempts": proven(
        test_queue.test_all_who_wait_for_one_session_ask_some_times_a_second_together,
        running=60.0,
    ),
    "few attempts in place": proven(test_queue.test_who_is_not_next_waits_elsewhere),
    "room for work": proven(test_queue.test_a_worker_has_only_so_many_attempts_that_wait),
    "lease first": proven(test_pause.test_an_answer_to_a_busy_session_reads_no_events),
    "withdrawn for a while": proven(test_contract_queue.test_withdrawn_notes_go_after_a_while),
    # ----- ends of what is paused
    "paused ends at once": proven(
        test_contract_queue.test_a_paused_invocation_ends_at_once_and_is_sealed_when_the_session_is_free
    ),
    "paused is sealed": proven(
        test_pause.test_what_is_paused_is_sealed_however_it_ends, status=Status.ABANDONED
    ),
    "sealed for who is gone": proven(
        test_pause.test_the_next_message_seals_what_a_gone_owner_has_ended,
        lease_owner="temporal:n:r:w",
    ),
    "sealed for a process": proven(
        test_pause.test_the_next_message_seals_what_a_gone_owner_has_ended,
        lease_owner="local:gone",
    ),
    "seals first": proven(
        test_contract_queue.test_nobody_opens_between_an_end_and_its_seals, answered=True
    ),
    "ended by who waits": proven(test_pause.test_an_answer_ends_a_owner_that_is_gone),
    "apps that are served": proven(
        test_contract_repair.test_apps_are_served_for_a_day_after_each_announcement
    ),
    # ----- which session it is
    "sessions of one name apart": proven(
        test_contract_creation.test_a_run_of_a_deleted_session_is_fenced_off
    ),
    "epochs over a deletion": proven(test_contract_creation.test_epochs_go_on_over_a_deletion),
    "session made anew in the cache": proven(
        test_session_cache.test_a_session_that_was_written_anew_is_read_anew
    ),
    "one session stops itself": proven(
        test_staleness.test_what_one_session_lacks_stops_that_session
    ),
    "session made anew stops nobody": proven(
        test_staleness.test_a_session_that_was_written_anew_stops_nobody
    ),
    "unreadable says nothing": proven(
        test_staleness.test_a_result_that_cannot_be_read_says_nothing
    ),
    "older store stays older": proven(
        test_staleness.test_what_is_lacking_is_not_forgotten_for_what_completes,
        worker="a new one",
    ),
    "each invocation testifies": proven(
        test_staleness.test_each_kind_of_invocation_testifies,
        status=WorkflowExecutionStatus.RUNNING,
    ),
    # ----- what is done already
    "results of the loop are noted": proven(
        test_early_commit.test_a_callback_that_hands_over_has_the_answer_found_again, closes=True
    ),
    "stored beats noted": proven(
        test_early_commit.test_a_failure_counts_for_nothing_once_a_success_is_stored
    ),
    "nothing after the end": proven(
        test_early_commit.test_a_first_attempt_does_nothing_that_is_stored
    ),
    # ----- which run it is
    "lease owners by their runs": proven(
        test_holders.test_a_owner_whose_workflow_id_another_one_has_taken_is_gone
    ),
    "interrupts by their runs": proven(
        test_holders.test_an_interrupt_ends_only_the_run_that_is_meant
    ),
    "started once": proven(test_holders.test_an_invocation_that_has_ended_is_not_started_again),
    "interrupted and over": proven(
        test_when_busy.test_an_interrupted_tool_has_ended_when_the_next_message_begins,
        on_temporal=True,
    ),
    "no waiting for itself": proven(
        test_open.test_a_run_does_not_wait_for_what_it_began_under_another_id
    ),
    "reset": proven(test_reset.test_a_reset_run_goes_on_with_its_invocation),
    # ----- which answer it is
    "denied": proven(
        test_denied.test_a_call_that_was_denied_does_not_run,
        after="another class",
        confirmed=False,
    ),
    "denied to a plugin": proven(
        test_denied.test_a_no_stands_whoever_asked, before="a plugin", after="another class"
    ),
    "denied through another tool": proven(
        test_denied.test_a_no_stands_whoever_asked, before="a wrapped function", after="wrapped"
    ),
    "approved as shown": proven(test_denied.test_an_approval_is_for_the_arguments_that_were_shown),
    "own events": proven(
        test_copies.test_a_change_is_the_copys_only, change=test_copies.CHANGES[0]
    ),
    "same answer over a roll": proven(
        test_runtime.test_what_a_taken_answer_said_is_known_in_the_next_run
    ),
    "answers sent again": proven(test_pausing.test_an_approval_can_be_sent_again_under_its_id),
    # ----- what one sender may cost others
    "values are counted": proven(
        test_requests.test_a_body_with_too_many_values_is_refused_before_it_is_read,
        inside=b"1",
        most=100,
        size=7,
    ),
    "unread answers": proven(test_requests.test_answers_that_nobody_reads_are_few),
    "true tokens apart": proven(test_requests.test_the_page_and_answers_cost_others_nothing),
    "stored bytes": proven(test_contract_listing.test_what_a_user_has_stored_is_known),
    "children of a deleted session": proven(
        test_contract_people.test_child_sessions_go_with_their_session
    ),
    "saves are fenced": proven(
        test_dependencies.test_what_comes_after_the_end_is_not_saved,
        key=test_dependencies.KEY,
        how="abandoned",
    ),
    "keys of sessions apart": proven(
        test_activity.test_calls_of_the_same_ids_have_keys_of_their_own
    ),
    # ----- which file it is
    "file at its path": proven(
        test_database_session_service.test_a_file_that_is_not_at_its_path_is_unavailable,
        deleted=("",),
        replaced=False,
    ),
    # ----- what ends workers
    "steps beside cancelled ones": proven(
        test_event_loop.test_code_that_cancels_all_tasks_fails_no_other_step,
        cancels=test_event_loop.cancels_all,
    ),
    "lost tasks": proven(test_lost_tasks.test_a_task_that_loses_too_many_workers_is_given_up),
    "failed tasks": proven(test_lost_tasks.test_only_lost_workers_in_a_row_count),
    # ----- whose cancellation it is
    "code cancels itself": proven(
        test_bad_input.test_code_that_cancels_its_task_ends_its_run_once, where="tool"
    ),
    "code hides a run": proven(
        test_agent_tool.test_code_round_an_agent_cannot_keep_it_from_running, guard="a bare except"
    ),
    "a body catches": proven(test_custom_steps.test_a_body_reaches_no_service, catches=True),
    "options of answers": proven(test_pausing.test_options_of_an_answer_hold_from_there_on),
    # ----- which release it is
    "newer fields": proven(test_versions.test_what_a_newer_release_adds_is_ignored, cls=Checkpoint),
    "newer places": proven(
        test_versions.test_a_place_that_cannot_be_read_fails_the_task_and_not_the_workflow
    ),
}
"""By name."""
