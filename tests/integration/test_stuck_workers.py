"""A worker that user code keeps from its work says so, and leaves."""

import asyncio
import os
import signal
import uuid
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.worker import Worker

from durable_adk.apps import App
from durable_adk.embedded import TemporalServer
from durable_adk.embedded.process import Process
from durable_adk.errors import ToolTimeoutError, WorkerStuckError
from durable_adk.plugin import DurableAdkPlugin
from durable_adk.runners import Runner
from durable_adk.sessions import SqliteSessionService
from durable_adk.settings import Limits
from durable_adk.worker import WorkerOptions, worker
from durable_adk.worker_status import stuck_reason
from tests.support import stuck_app, stuck_body
from tests.support.commands import PROGRAM, Terminal
from tests.support.waiting import PATIENCE, forever, until

pytestmark = pytest.mark.thorough

HUNG = 70
"""More than the threads that all steps of a worker once had together."""


@dataclass(kw_only=True)
class Place:
    """A task queue, its workers in processes of their own, and a client."""

    terminal: Terminal
    client: Client
    address: str
    sessions: SqliteSessionService
    stack: AsyncExitStack
    queue: str = field(default_factory=lambda: f"stuck-{uuid.uuid4().hex}")

    @property
    def options(self) -> list[str]:
        """The command line's."""
        return ["--address", self.address, "--store", "sessions.db", "--task-queue", self.queue]

    async def worker(self, target: str = stuck_app.__file__, **limits: float) -> Process:
        """A worker that polls."""
        command = [*PROGRAM, "worker", target, *self.options]
        process = await Process.start(
            command,
            log=self.terminal.folder / f"{uuid.uuid4().hex}.log",
            env=self.terminal.env | {"DURABLE_ADK_LIMITS": Limits(**limits).model_dump_json()},
            cwd=self.terminal.folder,
        )
        self.stack.push_async_callback(process.kill)
        await until(lambda: self._polls(process.pid))
        return process

    async def _polls(self, pid: int) -> bool:
        answer = await self.client.workflow_service.describe_task_queue(
            DescribeTaskQueueRequest(
                namespace=self.client.namespace,
                task_queue=TaskQueue(name=self.queue),
                task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
            )
        )
        return any(one.identity.startswith(f"{pid}@") for one in answer.pollers)

    async def health(self) -> tuple[int, str]:
        """What a probe on this machine gets: the exit code, and the text."""
        done = await asyncio.to_thread(self.terminal.run, "health", "--here", *self.options)
        return done.returncode, done.stdout

    async def answer(self, text: str, app: App = stuck_app.app) -> str:
        """The answer to the message of a user."""
        runner = Runner(
            app=app,
            client=self.client,
            session_service=self.sessions,
            task_queue=self.queue,
            auto_create_session=True,
        )
        async with runner, asyncio.timeout(PATIENCE):
            user = uuid.uuid4().hex
            events = runner.run_async(user_id=user, session_id="s", new_message=text)
            return [event async for event in events][-1].text

    async def hang(self, threads: int) -> None:
        """Let so many threads hang in all; a call may time out before its thread has begun."""
        while len([*self.terminal.folder.glob(f"{stuck_app.HANGS}*")]) < threads:
            with pytest.raises(ToolTimeoutError):
                await self.answer("hangs")

    async def timed_out(self) -> int:
        """How many attempts of activities timed out, instead of being returned."""
        found = 0
        async for one in self.client.list_workflows(f"TaskQueue = '{self.queue}'"):
            history = await self.client.get_workflow_handle(one.id).fetch_history()
            started = [event.activity_task_started_event_attributes for event in history.events]
            found += sum(one.last_failure.HasField("timeout_failure_info") for one in started)
        return found

    async def begun(self, name: str) -> int:
        """The id of the process in which a tool has begun that does something once."""
        note = self.terminal.folder / name
        await until(lambda: note.exists() and note.read_text())
        return int(note.read_text())


@pytest.fixture
async def place(
    tmp_path: Path, client: Client, server: TemporalServer, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Place]:
    """A place in a folder of its own."""
    monkeypatch.setenv(stuck_app.FOLDER, str(tmp_path))
    terminal = Terminal(tmp_path)
    sessions = SqliteSessionService(tmp_path / "sessions.db")
    async with AsyncExitStack() as stack:
        stack.callback(terminal.close)
        stack.push_async_callback(sessions.close)
        yield Place(
            terminal=terminal,
            client=client,
            address=server.address,
            sessions=sessions,
            stack=stack,
        )


async def ended(process: Process) -> tuple[int, str]:
    """The exit code of a worker that ends by itself, and what it has logged."""
    return await asyncio.wait_for(process.wait(), PATIENCE), process.log.read_text()


@pytest.mark.thorough
@pytest.mark.sampled(3)
async def test_hung_threads_stop_nobody_until_the_worker_leaves(place: Place) -> None:
    """F11, I22: those of steps that have ended are replaced; with too many the process ends."""
    process = await place.worker(max_stuck_threads=HUNG)
    hung = [place.answer(f"hangs {HUNG // 7}") for _ in range(7)]
    outcomes = await asyncio.gather(*hung, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {ToolTimeoutError}
    await place.hang(HUNG)
    assert await place.answer("fine") == "fine"
    assert process.returncode is None

    running = asyncio.create_task(place.answer("works"))
    assert await place.begun("works") == process.pid
    hanging = asyncio.create_task(place.hang(HUNG + 1))
    await until(lambda: stuck_reason(process.pid, place.queue))
    code, text = await place.health()  # it has the time that the worker takes to end
    assert code == 1
    reason = f"{HUNG + 1} threads still run user code of steps that have ended"
    assert f"failed  worker: process {process.pid} on this machine is stuck: {reason}" in text
    assert process.returncode is None  # it gives what runs the time that it has at any end

    await place.worker()
    await hanging
    assert await running == "worked"
    code, log = await ended(process)
    assert code == 1
    line = stuck_app.hangs.__code__.co_firstlineno + 3
    assert f'"{stuck_app.__file__}:{line} in hangs"' in log
    assert f"Error: WorkerStuckError: {reason}" in log.splitlines()[-1]


@pytest.mark.thorough
@pytest.mark.sampled(3)
async def test_a_hung_thread_keeps_no_worker_from_ending(place: Place) -> None:
    """F11: when it is stopped; the thread ends with the process."""
    process = await place.worker()
    with pytest.raises(ToolTimeoutError):
        await place.answer("hangs")
    process.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(process.wait(), PATIENCE) == 0


@pytest.mark.thorough
@pytest.mark.sampled(3)
async def test_a_blocked_loop_gives_its_steps_to_another_worker(place: Place) -> None:
    """F41, I22: the one that blocks it, and those that have come after; the process ends."""
    process = await place.worker(blocked_timeout=4.0)
    blocking = asyncio.create_task(place.answer("blocks"))
    assert await place.begun("blocks") == process.pid
    other = await place.worker()
    answers = await asyncio.gather(*(place.answer("fine") for _ in range(4)))
    assert set(answers) == {"fine"}
    assert await blocking == "not blocked"
    assert await place.timed_out() == 0

    code, log = await ended(process)
    assert code == 1
    line = stuck_app.blocks.__code__.co_firstlineno + 3
    reason = f"blocked the event loop for 4 s (blocked_timeout) at {stuck_app.__file__}:{line} in"
    assert reason in log.splitlines()[-1]
    assert (await place.health())[0] == 0  # the other one is well
    await other.kill()
    assert (await place.health())[0] == 1  # though Temporal still names both


@pytest.mark.thorough
@pytest.mark.sampled(3)
async def test_a_process_that_is_kept_from_running_at_all_ends(place: Place) -> None:
    """F41: by what holds the interpreter's lock, and for good: nobody's Python code runs then."""
    process = await place.worker(blocked_timeout=4.0)
    freezing = asyncio.create_task(place.answer("freezes"))
    assert await place.begun("freezes") == process.pid
    await place.worker()
    assert await freezing == "not frozen"
    code, log = await ended(process)
    assert code == 1
    line = stuck_app.freezes.__code__.co_firstlineno + 3
    assert f'File "{stuck_app.__file__}", line {line} in freezes' in log


@pytest.mark.thorough
async def test_a_worker_of_a_program_raises_and_ends_no_process(place: Place) -> None:
    """F41: the body is cancelled, and whoever has opened the worker gets the reason."""
    options = WorkerOptions(task_queue=place.queue, limits=Limits(blocked_timeout=5.0))

    def served() -> AbstractAsyncContextManager[Worker]:
        apps = [stuck_app.app]
        return worker(place.client, apps=apps, session_service=place.sessions, options=options)

    async def program() -> None:
        async with asyncio.timeout(PATIENCE), served():
            await forever()

    waiting = asyncio.create_task(place.answer("blocks"))
    with pytest.raises(WorkerStuckError, match=r"at .*stuck_app.py:\d+ in blocks"):
        await program()
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()
    assert stuck_reason(os.getpid(), place.queue)
    stuck_app.LET_GO.set()
    async with served():
        assert not stuck_reason(os.getpid(), place.queue)
        assert await waiting == "not blocked"
    stuck_app.LET_GO.clear()


@pytest.mark.thorough
async def test_a_worker_with_the_plugin_fails(place: Place) -> None:
    """F41, D18: as the SDK's own does when it cannot continue."""
    plugin = DurableAdkPlugin(
        apps=[stuck_app.app],
        session_service=place.sessions,
        limits=Limits(blocked_timeout=5.0),
    )
    theirs = Worker(place.client, task_queue=place.queue, plugins=[plugin])
    waiting = asyncio.create_task(place.answer("blocks"))
    with pytest.raises(WorkerStuckError, match="in blocks"):
        await asyncio.wait_for(theirs.run(), PATIENCE)
    stuck_app.LET_GO.set()
    async with Worker(place.client, task_queue=place.queue, plugins=[plugin]):
        assert await waiting == "not blocked"
    stuck_app.LET_GO.clear()


@pytest.mark.thorough
@pytest.mark.sampled(3)
async def test_bodies_that_block_are_counted_and_keep_no_process(place: Place) -> None:
    """F41: each has a thread for itself for good, for which the SDK's shutdown would wait."""
    process = await place.worker(stuck_body.__file__, max_stuck_threads=1)
    waiting = [asyncio.create_task(place.answer("go", stuck_body.app)) for _ in range(2)]
    code, log = await ended(process)
    assert code == 1
    line = stuck_body.Blocking._run_async_impl.__code__.co_firstlineno + 1
    assert f'"{stuck_body.__file__}:{line} in _run_async_impl"' in log
    options = WorkerOptions(task_queue=place.queue)
    apps = [stuck_body.app]
    async with worker(place.client, apps=apps, session_service=place.sessions, options=options):
        assert await asyncio.gather(*waiting) == ["not blocked"] * 2
