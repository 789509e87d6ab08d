"""The context of a node's code."""

from durable_adk.context.activity import Context
from durable_adk.context.step_scope import StepScope
from durable_adk.sessions import Session
from durable_adk.wire.graph.node_run import NodeRef, NodeSite


def key(prefix: str) -> str:
    """The idempotency key of a run whose events have ids with this prefix."""
    site = NodeSite(path="wf@1/a@1", prefix=prefix, input=NodeRef())
    session = Session(id="s", app_name="app", user_id="u")
    scope = StepScope(
        session=session,
        invocation_id="i",
        agent_name="wf",
        branch=None,
        user_content=None,
        site=site,
    )
    return Context(scope).idempotency_key


def test_the_attempts_of_a_run_have_one_key_and_other_runs_another() -> None:
    """DUR-9, GR-110: also the items of a worker that is tried again."""
    assert key("i.1.a@1") == key("i.1.a@1~2")
    assert key("i.1.w@1.items.3") == key("i.1.w@1~2.items.3~4")
    assert key("i.1.w@1~2.items.3") != key("i.1.w@1~2.items.4")
    assert key("i.1.a@1") != key("i.1.a@2")
