"""Which lost attempts count."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from google.genai.types import UserContent
from temporalio.testing import ActivityEnvironment

from durable_adk.activities.attempt import MAX_LOST, ActivityAttempt
from durable_adk.activities.commit.session_cache import SessionCache
from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.effect_rows import CodeEffect
from durable_adk.activities.effects import row_of
from durable_adk.attempt_history import NO_ATTEMPTS, AttemptHistory
from durable_adk.code_executors import BaseCodeExecutor
from durable_adk.code_executors.code_execution_utils import CodeExecutionResult
from durable_adk.errors import RunError, StoreUnavailableError
from durable_adk.events import Event
from durable_adk.plugins import BasePlugin
from durable_adk.plugins.plugin_manager import PluginManager
from durable_adk.sessions import SessionKey
from durable_adk.wire.effect import Attempt
from durable_adk.wire.steps import CallbackStep, CodeStep, Hook, HookStep, ModelStep, Step
from tests.support.steps import INVOCATION, KEY, Steps, called


@dataclass
class Attempts:
    """Attempts at a step."""

    deps: Dependencies
    step: Step

    async def begin(
        self, number: int, history: AttemptHistory = NO_ATTEMPTS, activity: str = "7"
    ) -> int:
        """How many were lost, as attempt `number` of an activity finds."""
        environment = ActivityEnvironment()
        environment.info = replace(environment.info, attempt=number, activity_id=activity)
        this = ActivityAttempt(what="Tool 'x'", deps=self.deps, number=number, history=history)
        return await environment.run(this.lost_in, self.step)


async def of_a_tool() -> Attempts:
    """Of a tool's step in an open invocation."""
    steps = Steps(called("f"), tools=[])
    return Attempts(steps.effects.deps, await steps.tool_step())


async def test_workers_that_die_before_the_code_runs_say_nothing_of_it() -> None:
    """I11, F16: however many; only the first attempt, of which nothing is known, is counted."""
    assert await (await of_a_tool()).begin(10 * MAX_LOST) == 1


async def test_workers_that_die_while_the_code_runs_are_counted() -> None:
    """F12: each that had come so far, and of this activity alone."""
    made = await of_a_tool()
    assert [await made.begin(number) for number in range(2, 8)] == [1, 2, 3, 4, 5, 6]
    assert await made.begin(9, activity="8") == 1
    # Attempt 3 came back with an error, so it was not lost.
    assert await made.begin(8, AttemptHistory(reported=((3, 3),))) == 6


async def test_an_attempt_that_is_made_twice_counts_once() -> None:
    """I7: the note is named after it."""
    made = await of_a_tool()
    assert [await made.begin(2), await made.begin(2), await made.begin(3)] == [1, 1, 2]


async def test_a_worker_that_dies_while_it_waits_for_the_store_is_not_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """F16: nothing is noted before the step has all that it needs."""
    made = await of_a_tool()

    async def away(_: SessionKey, **_options: object) -> None:
        raise StoreUnavailableError

    monkeypatch.setattr("durable_adk.activities.dependencies.STORE_TIMEOUT", 0)
    with monkeypatch.context() as patched:
        patched.setattr(made.deps.sessions, "read_state", away)
        for number in range(2, 9):
            with pytest.raises(StoreUnavailableError):
                await made.begin(number)
    assert await made.begin(9) == 1


async def test_lost_attempts_at_a_hook_of_an_answer_are_counted() -> None:
    """F12: as of any step, also while another invocation has the session."""
    steps = Steps([], tools=[])
    early_commit = await steps.open()
    await steps.sessions.pause_invocation(KEY, invocation_id=INVOCATION, epoch=early_commit.epoch)
    other = Event(id="other.0", invocation_id="other", author="user", timestamp=1.0)
    await steps.sessions.open_invocation(
        KEY, invocation_id="other", lease_owner="h", user_event=other
    )
    place = steps.place("e-1.a", 1, None) | {"hook": "on_user_message_callback"}
    answers = HookStep(**place, epoch=early_commit.epoch)
    row = row_of(answers)
    assert isinstance(row, CodeEffect)
    assert row.notes_attempts(answers)
    assert not row.notes_attempts(HookStep(**place))
    made = Attempts(steps.effects.deps, answers)
    assert [await made.begin(number) for number in range(2, 5)] == [1, 2, 3]


async def test_workers_that_shut_down_while_the_code_runs_are_counted() -> None:
    """F12: as long as they are of one build, and no attempt ends in another way."""
    made, history = await of_a_tool(), NO_ATTEMPTS
    most = made.deps.limits.max_worker_exits

    async def begins(history: AttemptHistory) -> None:
        this = ActivityAttempt(
            what="Tool 'x'", deps=made.deps, noted_in=made.step, number=99, history=history
        )
        await ActivityEnvironment().run(this.check_lost)

    for number in range(1, most):
        history = history.leaving(number, "b1")
        await begins(history)
    with pytest.raises(RunError, match="10 workers of one build in a row were shut down"):
        await begins(history.leaving(most, "b1"))
    await begins(history.leaving(most, "b2"))
    await begins(history.after(most, excused=True).leaving(most + 1, "b1"))


class Executor(BaseCodeExecutor):
    """Says that it runs."""

    ran: Any

    async def execute_code(self, invocation_context: Any, code_execution_input: Any) -> Any:
        """See the base class."""
        self.ran()
        return CodeExecutionResult(stdout="4")


class Plugin(BasePlugin):
    """Says that its hook runs."""

    def __init__(self, ran: Callable[[], object]) -> None:
        super().__init__("plugin")
        self._ran = ran

    async def on_user_message_callback(self, **_: Any) -> None:
        """See the base class."""
        self._ran()


@dataclass(frozen=True, kw_only=True)
class Watched(Attempt):
    """One that writes down when the code begins."""

    trace: list[str]

    async def begins(self) -> None:
        """See the base class."""
        self.trace.append("begins")


class Traced:
    """Steps of an agent that write down in what order the store is asked and the agent's code runs.

    All are second attempts: such a one looks for what the first has left.
    """

    def __init__(self, replies: list[Any]) -> None:
        self.trace: list[str] = []
        self._steps = Steps(
            replies,
            tools=[called_tool],
            code_executor=Executor(ran=self._ran),
            instruction=self._ran,
            before_agent_callback=self._ran,
            before_tool_callback=self._ran,
        )
        self._effects = self._steps.effects

    def _ran(self, *_: Any, **__: Any) -> Any:
        self.trace.append("code")

    async def _place(self) -> dict[str, Any]:
        early_commit = await self._steps.open()
        await self._effects.perform(ModelStep(**self._steps.place("e-1.1", 1, early_commit)))
        return self._steps.place("e-1.2", 2, early_commit)

    def _watch(self) -> Attempt:
        """Begin with the trace; how a second attempt is made."""
        sessions = self._steps.sessions
        for name in ("read_state", "read_events", "read_notes", "note"):
            setattr(sessions, name, self._told(getattr(sessions, name)))
        self._effects.deps.cache = SessionCache()
        self.trace.clear()
        return Watched(number=2, trace=self.trace)

    def _told(self, method: Any) -> Any:
        async def told(*args: Any, **kwargs: Any) -> Any:
            self.trace.append("store")
            return await method(*args, **kwargs)

        return told

    async def model(self) -> None:
        """A model call."""
        step = await self._steps.model_step()
        await self._effects.perform(step, self._watch())

    async def tool(self) -> None:
        """A tool call."""
        step = await self._steps.tool_step()
        await self._effects.perform(step, self._watch())

    async def callback(self) -> None:
        """The callbacks before an agent."""
        step = CallbackStep(**await self._place(), hook=Hook.BEFORE_AGENT)
        await self._effects.perform(step, self._watch())

    async def code(self) -> None:
        """An execution of the model's code."""
        step = CodeStep(**await self._place())
        await self._effects.perform(step, self._watch())

    async def answer(self) -> None:
        """The plugins' hook of an answer."""
        step = HookStep(
            **await self._place(),
            epoch=1,
            hook="on_user_message_callback",
            event=Event(author="user", content=UserContent("yes")),
        )
        plugins = PluginManager([Plugin(self._ran)])
        self._effects.deps.plugins = lambda _: plugins  # type: ignore[method-assign] # after the opening
        await self._effects.perform(step, self._watch())


def called_tool() -> None:
    """A tool."""


@pytest.mark.parametrize("kind", ["model", "tool", "callback", "code", "answer"])
async def test_between_its_beginning_and_its_code_a_step_does_not_ask_the_store(kind: str) -> None:
    """F12, F16: while machines fail one after another, that may take as long as a worker lives."""
    first = "```python\nx\n```" if kind == "code" else called("called_tool")[0]
    traced = Traced([first, "done"])
    await getattr(traced, kind)()
    at = traced.trace.index("begins")
    assert set(traced.trace[:at]) == {"store"}
    assert traced.trace[at + 1] == "code"
