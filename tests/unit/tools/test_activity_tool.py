"""What a model and Temporal get of an activity that is a tool (D18)."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel, Field
from temporalio import activity
from temporalio.common import Priority, RawValue, RetryPolicy

from durable_adk.errors import AgentDefinitionError, ToolError
from durable_adk.tools import ActivityTool, FunctionTool, ToolContext
from durable_adk.wire.activity_call import ActivityOptions

SOON: dict[str, Any] = {"start_to_close_timeout": timedelta(seconds=5)}
SCHEMA = {
    "type": "object",
    "properties": {"order": {"type": "string"}, "fast": {"type": "boolean"}},
    "required": ["order"],
}


SHORT = timedelta(milliseconds=500)
_ODD = object()


class Item(BaseModel):
    """What is bought."""

    article: str = Field(alias="art")
    when: timedelta | None = None


@activity.defn(name="BuyItem")
async def buy(item: Item, count: int, note: str | None, gift: bool = False) -> str:
    """Buy something.

    Several, if need be.
    """
    return f"{count} {item.article} {note} {gift} {item.when}"


@activity.defn
def sync_buy(count: int = 2) -> int:
    """Buy, blocking."""
    return count


class Till:
    """Activities with an object."""

    @activity.defn
    async def pay(self, amount: float) -> float:
        """Pay."""
        return amount


@activity.defn(dynamic=True)
async def anything(args: Sequence[RawValue]) -> None:
    """Take what comes."""


@activity.defn
async def nosy(tool_context: ToolContext) -> None:
    """Want what only tools have."""


@activity.defn
async def odd_default(what: Any = _ODD) -> None:
    """Have a default that is no JSON."""


@pytest.mark.parametrize("of", [buy, sync_buy, Till().pay])
def test_the_model_is_told_what_it_is_told_of_a_function(of: Any) -> None:
    """D18: name, description and parameters, by the same code; the type is Temporal's name."""
    tool = ActivityTool(of, **SOON)
    assert tool.get_declaration() == FunctionTool(of).get_declaration()
    assert ActivityTool(of, name="other", **SOON).name == "other"
    assert ActivityTool(buy, **SOON).activity == "BuyItem"


def test_a_method_needs_no_object() -> None:
    """D18: that is where its worker is; `self` is nobody's argument."""
    bound, unbound = (ActivityTool(of, **SOON) for of in (Till().pay, Till.pay))
    assert unbound.get_declaration() == bound.get_declaration()
    assert unbound.arguments({"amount": 1}) == [1.0]


def test_a_name_comes_with_its_schema() -> None:
    """D18: as it is passed; a request that changes it does not change the next one."""
    tool = ActivityTool("ShipOrder", description="Ships.", parameters=SCHEMA, **SOON)
    declaration = tool.get_declaration()
    assert declaration is not None
    assert (declaration.name, declaration.description) == ("ShipOrder", "Ships.")
    assert declaration.parameters_json_schema == SCHEMA
    declaration.parameters_json_schema["properties"].clear()
    again = tool.get_declaration()
    assert again is not None
    assert again.parameters_json_schema == SCHEMA
    given = {"order": "o", "unknown": 1}
    assert tool.arguments(given) == [given]
    closed = SCHEMA | {"additionalProperties": False}
    tool = ActivityTool("Ship", name="ship", parameters=closed, **SOON)
    assert tool.arguments(given) == [{"order": "o"}]


def test_arguments_go_by_position_and_all_of_them() -> None:
    """D18: converted, as JSON, with the aliases that their converter would write."""
    tool = ActivityTool(buy, **SOON)
    sent = tool.arguments({"count": "3", "item": {"art": "a", "when": "PT1M"}})
    assert sent == [{"art": "a", "when": "PT1M"}, 3, None, False]
    assert ActivityTool(sync_buy, **SOON).arguments({}) == [2]


async def test_the_function_gets_what_it_expects_here_too() -> None:
    """D14: what went out as JSON comes in as the annotation says; a sync one may block."""
    tool = ActivityTool(buy, **SOON)
    sent = tool.arguments({"item": {"art": "a", "when": "PT1M"}, "count": 1, "gift": True})
    assert await tool.call_here(sent) == "1 a None True 0:01:00"
    context: Any = None
    assert await ActivityTool(sync_buy, **SOON).run_async(args={}, tool_context=context) == 2
    refused = await tool.run_async(args={}, tool_context=context)
    assert "mandatory" in refused["error"]


async def test_what_only_has_a_name_cannot_be_called_here() -> None:
    """D18: a typed error says what would help."""
    for of, options in ((Till.pay, {}), ("Ship", {"parameters": SCHEMA})):
        with pytest.raises(AgentDefinitionError, match="has only its name"):
            await ActivityTool(of, **options, **SOON).call_here([])


def test_an_argument_that_is_no_json_is_named() -> None:
    """1j: Temporal would carry it, but no event could."""
    with pytest.raises(ToolError, match="what"):
        ActivityTool(_any, **SOON).arguments({"what": _ODD})


@activity.defn(name="any")
async def _any(what: Any) -> None:
    """Take anything."""


@pytest.mark.parametrize(
    ("of", "options", "message"),
    [
        (lambda: None, SOON, "@activity.defn"),
        (anything, SOON, "dynamic"),
        (nosy, SOON, "tool_context"),
        (odd_default, SOON, "cannot be sent"),
        (buy, SOON | {"description": "x"}, "docstring"),
        (buy, SOON | {"parameters": SCHEMA}, "docstring"),
        ("Ship", SOON, "JSON schema"),
        ("Ship", SOON | {"parameters": {"type": "string"}}, "JSON schema"),
        (" ", SOON | {"parameters": SCHEMA}, "name one"),
        ("Ship it", SOON | {"parameters": SCHEMA}, "name="),
        (buy, {}, "start_to_close_timeout"),
        (buy, {"start_to_close_timeout": timedelta(0)}, "start_to_close_timeout of tool 'buy'"),
        (buy, SOON | {"activity_id": "x"}, "activity_id of tool 'buy'"),
        (buy, SOON | {"task_queue": " "}, "task_queue of tool 'buy'"),
        (buy, SOON | {"retry_policy": RetryPolicy(backoff_coefficient=0)}, "backoff_coefficient"),
        (buy, SOON | {"retry_policy": RetryPolicy(maximum_attempts=-1)}, "maximum_attempts"),
        (buy, SOON | {"retry_policy": RetryPolicy(maximum_attempts=2**31)}, "of tool 'buy'"),
        (buy, SOON | {"retry_policy": RetryPolicy(maximum_interval=SHORT)}, "of tool 'buy'"),
        (buy, SOON | {"task_queue": "q" * 1_001}, "1000 bytes"),
        ("S" * 1_001, SOON | {"name": "ship", "parameters": SCHEMA}, "1000 bytes"),
    ],
)
def test_what_cannot_be_is_refused_by_name(of: Any, options: Any, message: str) -> None:
    """Where the tool is made: in the workflow it would fail its task, for ever."""
    with pytest.raises(AgentDefinitionError, match=message):
        ActivityTool(of, **options)


def test_the_options_survive_the_history() -> None:
    """D6: what the first step says is what a replay schedules."""
    tool = ActivityTool(
        buy,
        task_queue="q",
        schedule_to_close_timeout=timedelta(hours=2),
        retry_policy=RetryPolicy(maximum_attempts=3, maximum_interval=timedelta(seconds=7)),
        priority=Priority(priority_key=1, fairness_key="f"),
    )
    assert ActivityOptions.from_json(tool.options.to_json()) == tool.options
    assert tool.options.retry_policy.maximum_interval == timedelta(seconds=7)
    assert tool.task_queue is None  # that of our own steps
