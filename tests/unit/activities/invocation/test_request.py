"""Who may say that an opening is an agent's run as a tool."""

import pytest

from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.effects import EffectPerformer
from durable_adk.agents import LlmAgent
from durable_adk.apps import App, AppRegistry
from durable_adk.errors import InvalidRequestError
from durable_adk.models import ScriptedModel
from durable_adk.sessions import InMemorySessionService, SessionKey
from durable_adk.sessions.lease_owner import TemporalLeaseOwner
from durable_adk.sessions.session import CHILD_PREFIX
from durable_adk.wire.messages import ToolRun, child_key, user_content
from durable_adk.wire.steps import OpenStep

ALICE = SessionKey("app", "alice", "hers")
CHILD = child_key(ALICE, "i", "call")


def opening(key: SessionKey, workflow: str, **more: object) -> OpenStep:
    """An opening by a workflow."""
    lease_owner = TemporalLeaseOwner(namespace="n", workflow_id=workflow, first_run_id="r")
    return OpenStep(
        key=key,
        invocation_id="i",
        lease_owner=str(lease_owner),
        event_id="i.0",
        timestamp=1.0,
        message=user_content("hi"),
        create_session=True,
        **more,  # type: ignore[arg-type] # fields of the step
    )


def asked(
    key: SessionKey = CHILD,
    *,
    parent: str | None = "hers",
    workflow: str = "child",
    caller: SessionKey = ALICE,
    root: SessionKey = ALICE,
) -> OpenStep:
    """One that claims to be a run as a tool of alice's invocation."""
    run = ToolRun(agent="a", caller=caller, root=root)
    return opening(key, workflow, parent=parent, tool_run=run)


@pytest.fixture
async def effects() -> EffectPerformer:
    """Dependencies with which alice's invocation runs."""
    agent = LlmAgent(name="a", model=ScriptedModel(replies=["one"]))
    registry = AppRegistry([App(name="app", root_agent=agent)])
    made = EffectPerformer(Dependencies(registry=registry, sessions=InMemorySessionService()))
    await made.perform(opening(ALICE, "hers").model_copy(update={"state_delta": {"secret": 1}}))
    return made


@pytest.mark.parametrize(
    "step",
    [
        asked(parent=None),
        asked(parent=""),
        asked(parent="another"),
        asked(SessionKey("app", "mallory", CHILD.session_id)),
        asked(SessionKey("app", "alice", "not a child's")),
        asked(root=SessionKey("app", "mallory", "s")),
        asked().model_copy(update={"invocation_id": "j"}),
    ],
    ids=[
        "of unknown parents",
        "nobody's child",
        "another's child",
        "another user",
        "another session",
        "another user's files",
        "no such call",
    ],
)
async def test_a_run_as_a_tool_is_asked_for_by_its_parent_only(
    effects: EffectPerformer, step: OpenStep
) -> None:
    """S3, I18: whoever else writes `toolRun` into a request gets no state of another session."""
    with pytest.raises(InvalidRequestError, match="toolRun"):
        await effects.perform(step)
    assert await effects.deps.sessions.get_invocation(step.key, step.invocation_id) is None


async def test_a_childs_run_as_a_tool_is_opened(effects: EffectPerformer) -> None:
    """TOL-21: also that of a tool's tool."""
    opened = await effects.perform(asked())
    assert opened.record is not None
    assert (await effects.deps.sessions.read_state(CHILD))[1] == {"secret": 1}
    grandchild = child_key(CHILD, "i", "call")
    below = asked(grandchild, parent="child", workflow="below", caller=CHILD)
    opened = await effects.perform(below)
    assert opened.record is not None


async def test_a_run_as_a_tool_that_is_open_goes_on(effects: EffectPerformer) -> None:
    """OPEN-6: one that was opened before is not asked again whose child it is."""
    first = await effects.perform(asked())
    again = await effects.perform(asked(parent=None))
    assert first.record is not None
    assert again.record == first.record


async def test_the_sessions_of_runs_as_tools_are_nobodys_to_name(effects: EffectPerformer) -> None:
    """S2: a message cannot be put where an agent's run as a tool will be."""
    with pytest.raises(InvalidRequestError, match=CHILD_PREFIX):
        await effects.perform(opening(CHILD, "any"))
