"""Confirmation: no call runs without the yes it needs."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from durable_adk.errors import AgentDefinitionError
from durable_adk.tools import BaseTool, FunctionTool
from durable_adk.tools.tool_confirmation import ToolConfirmation
from durable_adk.tools.tool_context import ToolContext

ASKED = {"error": "This tool call requires confirmation, please approve or reject."}
REJECTED = {"error": "This tool call is rejected."}
YES, NO = ToolConfirmation(confirmed=True), ToolConfirmation()


@dataclass
class Context:
    """What a tool context has to do with confirmation."""

    tool_confirmation: ToolConfirmation | None = None
    hints: list[str] = field(default_factory=list)

    def request_confirmation(self, *, hint: str = "", payload: Any = None) -> None:
        """Note that it was asked."""
        self.hints.append(hint)


class Pay:
    """A payment that notes what it paid."""

    def __init__(self) -> None:
        self.paid: list[int] = []

    def __call__(self, amount: int, to: str = "me") -> str:
        """Pay."""
        self.paid.append(amount)
        return f"{amount} to {to}"


async def large(amount: int) -> bool:
    """Whether it is much."""
    return amount > 100


@pytest.mark.parametrize("rule", [True, large, lambda amount, to: to == "me" and amount == 500])
@pytest.mark.parametrize(("given", "response"), [(None, ASKED), (NO, REJECTED)])
async def test_without_a_yes_the_function_is_not_called(rule, given, response):
    """TOL-61, TOL-63: an open or rejected call gets ADK's error text, and nothing runs."""
    pay, context = Pay(), Context(given)
    tool = FunctionTool(pay, require_confirmation=rule)
    assert await tool.run_async(args={"amount": "500"}, tool_context=context) == response
    assert pay.paid == []
    assert len(context.hints) == (given is None)
    assert all("Pay()" in hint for hint in context.hints)


@pytest.mark.parametrize("rule", [True, large])
async def test_with_a_yes_it_is_called(rule):
    """TOL-63: a confirmed call runs, and asks for nothing more."""
    pay, context = Pay(), Context(YES)
    tool = FunctionTool(pay, require_confirmation=rule)
    assert await tool.run_async(args={"amount": 500}, tool_context=context) == "500 to me"
    assert (pay.paid, context.hints) == ([500], [])


@pytest.mark.parametrize("rule", [False, large, lambda **args: args["to"] != "me"])
async def test_what_needs_none_runs(rule):
    """A call that the rule does not mean runs at once; missing arguments have their defaults."""
    tool, context = FunctionTool(Pay(), require_confirmation=rule), Context()
    assert await tool.run_async(args={"amount": 5}, tool_context=context) == "5 to me"
    assert context.hints == []


async def test_a_no_stands_though_the_rule_changes_its_mind():
    """A rule that would not ask any more does not let a rejected call run."""
    answers = iter([True, False])
    pay = Pay()
    tool = FunctionTool(pay, require_confirmation=lambda: next(answers))
    assert await tool.run_async(args={"amount": 1}, tool_context=Context()) == ASKED
    assert await tool.run_async(args={"amount": 1}, tool_context=Context(NO)) == REJECTED
    assert pay.paid == []


async def test_a_rule_that_raises_lets_nothing_run():
    """What the rule raises ends the call."""
    pay = Pay()
    tool = FunctionTool(pay, require_confirmation=lambda amount: amount / 0)
    with pytest.raises(ZeroDivisionError):
        await tool.run_async(args={"amount": 1}, tool_context=Context())
    assert pay.paid == []


@pytest.mark.parametrize("args", [{}, {"amount": "many"}])
async def test_nobody_is_asked_about_a_call_that_cannot_run(args):
    """TOL-14, TOL-15: the model learns what is wrong with its arguments, and no person is asked."""
    context = Context()
    tool = FunctionTool(Pay(), require_confirmation=True)
    response = await tool.run_async(args=args, tool_context=context)
    assert "failed as" in response["error"]
    assert context.hints == []


async def test_the_rule_cannot_change_what_is_called():
    """The rule and the function get arguments of their own (TRAP-23)."""

    def clear(names) -> bool:
        names.clear()
        return False

    tool = FunctionTool(lambda names: names, name="same", require_confirmation=clear)
    sent = {"names": ["a"]}
    assert await tool.run_async(args=sent, tool_context=Context()) == ["a"]
    assert sent == {"names": ["a"]}


async def test_the_rule_may_have_the_context():
    """A rule takes the context under the name the function has for it, or as tool_context."""

    def work(ctx: ToolContext) -> str:
        return "done"

    context = Context()
    for rule in (lambda ctx: ctx is not context, lambda tool_context: tool_context is not context):
        tool = FunctionTool(work, require_confirmation=rule)
        assert await tool.run_async(args={}, tool_context=context) == "done"


@pytest.mark.parametrize("rule", [lambda price: True, lambda a, /: True, "yes", None, 1])
def test_a_rule_that_cannot_be_asked_is_refused(rule):
    """A rule is a bool or takes the tool's own parameters by name; else the definition fails."""
    with pytest.raises(AgentDefinitionError, match="require_confirmation"):
        FunctionTool(Pay(), require_confirmation=rule)


async def test_other_tools_need_none_unless_they_say_so():
    """BaseTool asks for nobody's yes by itself."""
    tool = BaseTool(name="t", description="")
    assert not await tool.check_require_confirmation({}, Context())


def test_deadlines_are_seconds():
    """Seconds and timedeltas are the same; none is the default, with a no when it passes."""
    tool = FunctionTool(Pay(), deadline=timedelta(minutes=1), on_deadline="approve")
    assert (tool.deadline, tool.on_deadline) == (60.0, "approve")
    assert BaseTool(name="t", description="", deadline=2).deadline == 2
    tool = FunctionTool(Pay())
    assert (tool.deadline, tool.on_deadline) == (None, "reject")


@pytest.mark.parametrize(
    "bad",
    [
        {"deadline": 0},
        {"deadline": -1.0},
        {"deadline": float("nan")},
        {"deadline": timedelta()},
        {"on_deadline": "guess"},
        {"on_deadline": "approve", "is_long_running": True},
    ],
)
def test_a_deadline_that_makes_no_sense_is_refused(bad):
    """No time, an unknown policy, and approving what is no confirmation are definition errors."""
    with pytest.raises(AgentDefinitionError, match="deadline"):
        BaseTool(name="t", description="", **bad)


@pytest.mark.parametrize("bad", ["yes", "true", 1, 0, None])
def test_only_true_is_a_yes(bad):
    """What looks like a yes is none."""
    with pytest.raises(ValueError, match="valid boolean"):
        ToolConfirmation(confirmed=bad)
