"""Single steps of an open invocation, over a store in memory."""

from collections import Counter
from typing import Any

from google.genai import types

from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.effects import EffectPerformer
from durable_adk.agents import LlmAgent
from durable_adk.apps import App, AppRegistry
from durable_adk.models import ScriptedModel
from durable_adk.sessions import InMemorySessionService, SessionKey
from durable_adk.wire.messages import user_content
from durable_adk.wire.steps import EarlyCommit, ModelStep, OpenStep, StepResult, ToolStep
from tests.support.scripts import call

KEY = SessionKey("app", "u", "s")
INVOCATION = "e-1"


class CountingSessions(InMemorySessionService):
    """Counts how often each call of the port is made."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()

    async def note(self, *args: Any, **kwargs: Any) -> str:
        """See the base class."""
        self.calls["note"] += 1
        return await super().note(*args, **kwargs)

    async def read_notes(self, *args: Any, **kwargs: Any) -> Any:
        """See the base class."""
        self.calls["read_notes"] += 1
        return await super().read_notes(*args, **kwargs)


class Steps:
    """One agent, one open invocation, and its model's and tools' steps."""

    def __init__(
        self, replies: Any, *, tools: list[Any] | None = None, app: Any = None, **fields: Any
    ) -> None:
        self.model = ScriptedModel(replies=replies)
        self.agent = LlmAgent(name="a", model=self.model, tools=tools or [], **fields)
        self.sessions = CountingSessions()
        registry = AppRegistry([App(name="app", root_agent=self.agent, **(app or {}))])
        self.effects = EffectPerformer(Dependencies(registry=registry, sessions=self.sessions))

    async def open(self) -> EarlyCommit:
        """Open the invocation; the grant for its steps."""
        step = OpenStep(
            key=KEY, invocation_id=INVOCATION, lease_owner="h", event_id="e-1.0", timestamp=1.0,
            message=user_content("hi"), create_session=True,
        )  # fmt: skip
        opened = await self.effects.perform(step)
        assert opened.record is not None
        return EarlyCommit(epoch=opened.record.epoch, closes=True)

    def place(
        self, event_id: str, revision: int, early_commit: EarlyCommit | None
    ) -> dict[str, Any]:
        """The fields of a step."""
        return {
            "key": KEY, "invocation_id": INVOCATION, "revision": revision, "run_start": 1,
            "agent": "a", "event_id": event_id, "attempt_timeout": 10, "early_commit": early_commit,
        }  # fmt: skip

    async def model_step(self, *, granted: bool = True, **fields: Any) -> ModelStep:
        """The first model step."""
        early_commit = await self.open()
        return ModelStep(**self.place("e-1.1", 1, early_commit if granted else None) | fields)

    async def tool_step(self, *, granted: bool = True, **fields: Any) -> ToolStep:
        """The step of the tool that the model's first reply calls."""
        early_commit = await self.open()
        asked = await self.effects.perform(ModelStep(**self.place("e-1.1", 1, early_commit)))
        assert asked.event is not None
        called = asked.event.get_function_calls()[0]
        place = self.place("e-1.2", 2, early_commit if granted else None)
        spec = self.agent.node().tools.get(called.name or "")
        rest = {"call_id": called.id, "tool": called.name, "spec": spec} | fields
        return ToolStep(**place | rest)

    async def notes(self, kind: str) -> dict[str, str]:
        """The invocation's notes of a kind."""
        notes = await self.sessions.read_notes(KEY, invocation_id=INVOCATION, kind=kind)
        return {note.name: note.body for note in notes}


def called(name: str, **args: Any) -> list[types.Content | str]:
    """Replies: one call, and then a text."""
    return [call(name, **args), "done"]


def said(result: StepResult) -> Any:
    """The response that a tool's step history."""
    assert result.event is not None, result.error
    return result.event.get_function_responses()[0].response
