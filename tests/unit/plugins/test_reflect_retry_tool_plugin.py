"""Failing tools, returned to the model to try again."""

import pytest

from durable_adk.context.activity import ToolContext
from durable_adk.errors import AgentDefinitionError, ToolError, as_raised, raised
from durable_adk.json_values import check_json
from durable_adk.plugins import PluginManager, ReflectAndRetryToolPlugin
from durable_adk.plugins.reflect_retry_tool_plugin import (
    REFLECT_AND_RETRY_RESPONSE_TYPE,
    TrackingScope,
)
from durable_adk.tools import BaseTool

FETCH = BaseTool(name="fetch", description="")
SEND = BaseTool(name="send", description="")


class Session:
    """Tool calls of an invocation, each handled by a plugin that knows nothing of the others."""

    def __init__(self, make_scope, plugin=ReflectAndRetryToolPlugin, **options):
        self.make_scope, self.make_plugin = make_scope, lambda: plugin(**options)
        self.state = {}

    async def call(self, outcome, tool=FETCH, args=None):
        """The response to a call whose tool returned or raised `outcome`, committed."""
        context = ToolContext(self.make_scope(self.state), function_call_id="c")
        plugins = PluginManager([self.make_plugin()])
        about = {"tool": tool, "tool_args": args or {"x": 1}, "tool_context": context}
        if isinstance(outcome, Exception):
            outcome = await plugins.run("on_tool_error_callback", **about, error=outcome)
        changed = await plugins.run("after_tool_callback", **about, result=outcome)
        self.delta = context.state.collect_delta()
        self.state |= self.delta
        return outcome if changed is None else changed


async def test_a_failure_is_answered_with_guidance(make_scope):
    """PLG-7: the model learns what failed and with what, as JSON that every store keeps."""
    error = raised(ToolError, "KeyError", "no\x00such")
    answer = await Session(make_scope).call(error, args={"city": "Zürich"})
    assert answer["response_type"] == REFLECT_AND_RETRY_RESPONSE_TYPE
    assert (answer["error_type"], answer["retry_count"]) == ("KeyError", 1)
    for word in ("fetch", "no\N{REPLACEMENT CHARACTER}such", "Zürich", "1 of at most 3"):
        assert word in answer["reflection_guidance"]
    check_json(answer)
    nul = await Session(make_scope).call(ValueError("\x00\ud800"))
    check_json(nul)


async def test_the_count_survives_the_process(make_scope):
    """A new instance for each call counts on: the memory is the session's, under `temp:`."""
    session = Session(make_scope, max_retries=3)
    counts = [(await session.call(ValueError("no")))["retry_count"] for _ in range(3)]
    assert counts == [1, 2, 3]
    assert all(key.startswith("temp:") for key in session.state)


async def test_a_step_that_runs_again_counts_once(make_scope):
    """What was not committed was not counted: the second attempt answers as the first."""
    session = Session(make_scope)
    first = await session.call(ValueError("no"))
    session.state = {}
    assert await session.call(ValueError("no")) == first


async def test_too_many_failures_end_the_run(make_scope):
    """PLG-4: the failure after the last retry is raised, naming plugin and hook."""
    session = Session(make_scope, max_retries=1)
    await session.call(ValueError("no"))
    with pytest.raises(RuntimeError, match=r"'on_tool_error_callback'.*no") as ended:
        await session.call(ValueError("no"))
    assert isinstance(as_raised(ended.value).__cause__, ValueError)


async def test_too_many_failures_may_be_told_instead(make_scope):
    """Then the model is to give up the tool, and the count grows no further."""
    session = Session(make_scope, max_retries=1, throw_exception_if_retry_exceeded=False)
    again, stop, still = [await session.call(ValueError("no")) for _ in range(3)]
    assert [again["retry_count"], stop["retry_count"], still["retry_count"]] == [1, 1, 1]
    assert "Do not call it again" not in again["reflection_guidance"]
    assert "Do not call it again" in stop["reflection_guidance"]
    assert still == stop


async def test_no_retries_means_none(make_scope):
    """The first failure is one too many."""
    with pytest.raises(RuntimeError):
        await Session(make_scope, max_retries=0).call(ValueError("no"))
    with pytest.raises(AgentDefinitionError):
        ReflectAndRetryToolPlugin(max_retries=-1)


async def test_a_success_forgets_its_own_tools_failures(make_scope):
    """Only failures in a row count, each tool for itself."""
    session = Session(make_scope, max_retries=2)
    await session.call(ValueError("no"))
    assert (await session.call(ValueError("no"), tool=SEND))["retry_count"] == 1
    assert await session.call({"ok": True}) == {"ok": True}
    assert (await session.call(ValueError("no"), tool=SEND))["retry_count"] == 2
    assert (await session.call(ValueError("no")))["retry_count"] == 1


@pytest.mark.parametrize("result", [{"ok": True}, "text", None, ["list"]])
async def test_a_success_without_failures_writes_nothing(make_scope, result):
    """A step that writes no `temp:` key may commit its own event."""
    session = Session(make_scope)
    assert await session.call(result) == result
    assert session.delta == {}


async def test_the_scopes_differ_in_what_is_counted_together(make_scope):
    """Globally, failures count over all sessions of the app, and so are kept beyond them."""
    session = Session(make_scope, tracking_scope=TrackingScope.GLOBAL)
    await session.call(ValueError("no"))
    assert [key.partition(":")[0] for key in session.state] == ["app"]


class Statuses(ReflectAndRetryToolPlugin):
    """Takes a result with a status for a failure."""

    async def extract_error_from_result(self, *, tool, tool_args, tool_context, result):
        """The result itself if it says so."""
        return result if isinstance(result, dict) and result.get("status") == "error" else None


async def test_a_result_may_be_a_failure(make_scope):
    """A subclass says which; it is counted and answered as if it had been raised."""
    session = Session(make_scope, Statuses, max_retries=1)
    answer = await session.call({"status": "error", "why": "w"})
    assert (answer["error_type"], answer["retry_count"]) == ("ToolError", 1)
    with pytest.raises(RuntimeError, match="'after_tool_callback'"):
        await session.call({"status": "error", "why": "w"})
