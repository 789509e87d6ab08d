"""Executions of code, as steps that may be repeated."""

from typing import Any

import pytest

from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.effects import EffectPerformer
from durable_adk.activities.step import ActiveStep
from durable_adk.activities.user_code.code import execute_code
from durable_adk.agents import LlmAgent
from durable_adk.apps import App, AppRegistry
from durable_adk.artifacts import InMemoryArtifactService
from durable_adk.code_executors import BaseCodeExecutor
from durable_adk.code_executors.code_execution_utils import CodeExecutionResult, File
from durable_adk.context.step_scope import Services
from durable_adk.errors import AgentDefinitionError, AgentError
from durable_adk.models import ScriptedModel
from durable_adk.sessions import InMemorySessionService, SessionKey
from durable_adk.wire.effect import Attempt
from durable_adk.wire.messages import user_content
from durable_adk.wire.steps import CodeStep, EarlyCommit, ModelStep, OpenStep

KEY = SessionKey("app", "u", "s")
FILE = {"app_name": "app", "user_id": "u", "session_id": "s", "filename": "a.txt"}


class Executor(BaseCodeExecutor):
    """Leaves a file behind; notes the ids of its runs."""

    ids: list[str] = []  # noqa: RUF012 # pydantic copies it

    async def execute_code(self, invocation_context: Any, code_execution_input: Any) -> Any:
        self.ids.append(code_execution_input.execution_id)
        return CodeExecutionResult(stdout="ok", output_files=[File("a.txt", b"x")])


class Place:
    """An open invocation whose agent has written code, which is committed."""

    def __init__(self, **fields: Any) -> None:
        self.executor = Executor()
        self.artifacts = InMemoryArtifactService()
        model = ScriptedModel(replies=["```python\nx\n```"])
        self.agent = LlmAgent(name="a", model=model, code_executor=self.executor, **fields)
        registry = AppRegistry([App(name="app", root_agent=self.agent)])
        deps = Dependencies(
            registry=registry,
            sessions=InMemorySessionService(),
            services=Services(artifacts=self.artifacts),
        )
        self.effects = EffectPerformer(deps)

    async def open(self) -> EarlyCommit:
        """Open the invocation."""
        step = OpenStep(
            key=KEY, invocation_id="e-1", lease_owner="h", event_id="e-1.0", timestamp=1.0,
            message=user_content("hi"), create_session=True,
        )  # fmt: skip
        opened = await self.effects.perform(step)
        assert opened.record is not None
        return EarlyCommit(epoch=opened.record.epoch, closes=True)

    async def written(self) -> EarlyCommit:
        """Have the model write code, and commit that."""
        early_commit = await self.open()
        result = await self.effects.perform(ModelStep(**step("e-1.1", 1, early_commit)))
        assert (result.seq, result.closed) == (2, False)
        return early_commit


def step(event_id: str, revision: int, early_commit: EarlyCommit | None) -> dict[str, Any]:
    """The fields of a step."""
    return {
        "key": KEY, "invocation_id": "e-1", "revision": revision, "run_start": 1, "agent": "a",
        "event_id": event_id, "attempt_timeout": 10, "early_commit": early_commit,
    }  # fmt: skip


async def test_a_result_that_was_committed_is_not_made_again() -> None:
    """I10: the attempt after a crash finds the event and the code is not run."""
    place = Place()
    code = CodeStep(**step("e-1.2", 2, await place.written()))
    first = await place.effects.perform(code)
    second = await place.effects.perform(code, Attempt(number=2))
    assert first.event == second.event
    assert place.executor.ids == ["e-1.2"]
    assert not second.closed


async def test_an_attempt_that_was_lost_leaves_one_version_of_a_file() -> None:
    """TRAP-41, DUR-9: the code is run again, under the same id, and its file saved once."""
    place = Place()
    await place.written()
    code = CodeStep(**step("e-1.2", 2, None))
    first = Attempt(number=1)
    await execute_code(
        ActiveStep(deps=place.effects.deps, step=code, attempt=first)
    )  # its worker is lost with the result
    result = await place.effects.perform(code, Attempt(number=2))
    assert place.executor.ids == ["e-1.2", "e-1.2"]
    assert result.event
    assert result.event.actions.artifact_delta == {"a.txt": 0}
    assert await place.artifacts.list_versions(**FILE) == [0]


async def test_there_must_be_code_and_somebody_to_run_it() -> None:
    """RUN-8: an event that a custom agent kept back, or a deploy without executor, is reported."""
    place = Place()
    early_commit = await place.open()
    with pytest.raises(AgentError, match="must yield every event"):
        await place.effects.perform(CodeStep(**step("e-1.1", 1, early_commit)))
    place.agent.code_executor = None
    with pytest.raises(AgentDefinitionError, match="no code executor any more"):
        await place.effects.perform(CodeStep(**step("e-1.1", 1, early_commit)))


def test_the_manifest_says_whether_code_is_run_here() -> None:
    """D6: with the seconds it may take, its start included."""
    agent = Place().agent
    assert (agent.node().runs_code, agent.node().code_timeout) == (True, None)
    agent.code_executor = Executor(timeout_seconds=5)
    assert agent.node().code_timeout == 35
    agent.code_executor = None
    assert not agent.node().runs_code
