"""Calls of tools: one, several at once, failing, unknown, misused."""

import asyncio
import threading
from contextlib import suppress
from enum import Enum
from typing import Any, Literal

from google.genai import types
from pydantic import BaseModel
from temporalio import activity

from durable_adk.agents import BaseAgent
from durable_adk.models import LlmRequest
from durable_adk.tools import FunctionTool, ToolContext
from durable_adk.tools.base_tool import BaseTool
from durable_adk.tools.base_toolset import BaseToolset
from tests.scenarios.parts import last, speaker, thinker
from tests.scenarios.scenario import says, scenario
from tests.support.scripts import call, calls
from tests.support.waiting import QUIET, until

TURNS = 100
"""Of the event loop: what a tool that has finished returns has arrived by then."""


async def _is_last_step() -> bool:
    """Whether Temporal knows the results of all other calls of the turn."""
    workflow = activity.client().get_workflow_handle(activity.info().workflow_id)
    return len((await workflow.describe()).raw_description.pending_activities) == 1


@scenario(
    "FLW-1 RUN-18",
    says(
        "find capital of France",
        *("geographer call get_capital", "geographer response get_capital"),
        "geographer text It is Paris.",
    ),
    state={"last_country": "France"},
)
def the_capital_of_france() -> BaseAgent:
    """The seeds' twenty steps."""

    def get_capital(country: str, tool_context: ToolContext) -> str:
        """Return the capital of a country."""
        tool_context.state["last_country"] = country
        return "Paris"

    return speaker(
        "geographer", call("get_capital", country="France"), "It is Paris.", tools=[get_capital]
    )


@scenario(
    "FLW-43 FLW-44 FLW-45 TRAP-25",
    says("go", "a call slow,quick,slow", "a response slow,quick,slow", "a text done"),
    state={"shared": "slow", "cart": {"slow": 1, "quick": 1}},
)
def several_calls_are_answered_in_their_order() -> BaseAgent:
    """Parts and state come in the order of the calls, not of their completion."""
    finished = threading.Event()

    async def slow(tool_context: ToolContext) -> str:
        """Finish last."""
        with suppress(TimeoutError):  # on a worker that takes over, the other is not run again
            await until(finished.is_set, patience=QUIET)
        tool_context.state.update({"shared": "slow", "cart": {"slow": 1}})
        return "slow"

    def quick(tool_context: ToolContext) -> str:
        """Finish first."""
        tool_context.state.update({"shared": "quick", "cart": {"quick": 1}})
        finished.set()
        return "quick"

    turn = calls(("slow", {}), ("quick", {}), ("slow", {}))
    return speaker("a", turn, "done", tools=[slow, quick])


def sometimes(fine: bool, tool_context: ToolContext) -> str:
    """Raise, unless all is fine."""
    tool_context.state["tried"] = True
    if not fine:
        raise RuntimeError("not fine")
    return "fine"


@scenario(
    "TOL-18 FLW-46 TRAP-25",
    says(
        "go",
        *("a call sometimes,sometimes,sometimes", "a response sometimes,sometimes,sometimes"),
        "a text fine, not fine, fine",
    ),
    state={"tried": True},
)
def one_of_several_calls_fails_and_is_recovered() -> BaseAgent:
    def reply(request: LlmRequest) -> Any:
        turn = calls(*(("sometimes", {"fine": fine}) for fine in (True, False, True)))
        answers = [part.function_response for part in request.contents[-1].parts]
        told = ", ".join(text for answer in answers if answer for text in answer.response.values())
        return told or turn

    def recover(tool: Any, args: Any, tool_context: Any, error: Exception) -> dict[str, str]:
        return {"error": str(error)}

    return thinker("a", reply, tools=[sometimes], on_tool_error_callback=recover)


@scenario(
    "FLW-46 TOL-18 TRAP-47",
    says(
        "go",
        "a call quick,failing",
        "a response quick,failing",
        "a error OSError",
        raises="OSError",
    ),
    says("go on", "a text the prompt is whole"),
    state={"quick": True},
)
def one_of_several_calls_fails_the_run() -> BaseAgent:
    """What the others have done is stored, every call is answered, the next message runs."""
    finished = threading.Event()

    async def quick(tool_context: ToolContext) -> str:
        """Finish first."""
        tool_context.state["quick"] = True
        finished.set()
        return "quick"

    async def failing() -> None:
        """Fail when the other has finished."""
        if activity.in_activity():
            await until(_is_last_step)
        else:
            await until(finished.is_set)
            finished.clear()
            for _ in range(TURNS):
                await asyncio.sleep(0)
        raise OSError("broken")

    def reply(request: LlmRequest) -> Any:
        parts = [part for content in request.contents for part in content.parts or []]
        if not any(part.function_call for part in parts):
            return calls(("quick", {}), ("failing", {}))
        asked = sum(part.function_call is not None for part in parts)
        answered = sum(part.function_response is not None for part in parts)
        return "the prompt is whole" if asked == answered == 2 else "the prompt has holes"

    return thinker("a", reply, tools=[quick, failing])


@scenario(
    "FLW-47 TRAP-25",
    says(
        "go",
        "a call guess,known",
        "a response guess,known",
        "a call known",
        "a response known",
        "a text done",
    ),
)
def an_unknown_tool_is_told_to_the_model() -> BaseAgent:
    def known() -> str:
        """Be there."""
        return "here"

    turn = calls(("guess", {}), ("known", {}))
    return speaker("a", turn, call("known"), "done", tools=[known])


@scenario(
    "TOL-14 TOL-15 17.1",
    says("go", *("a call order", "a response order") * 4, "a text done"),
    state={"orders": [["tea", 2, "s"], ["tea", 3, "m"]]},
)
def unfit_arguments_are_told_to_the_model() -> BaseAgent:
    """Missing and unfit ones do not reach the tool; unknown ones are left out."""

    def order(
        item: str, count: int, tool_context: ToolContext, size: Literal["s", "m"] = "s"
    ) -> str:
        """Order something."""
        orders = tool_context.state.get("orders", [])
        tool_context.state["orders"] = [*orders, [item, count, size]]
        return "ordered"

    return speaker(
        "a",
        call("order", item="tea"),
        call("order", item="tea", count="many"),
        call("order", item="tea", count=2, colour="red"),
        call("order", item="tea", count="3", size="m"),
        "done",
        tools=[order],
    )


class Place(BaseModel):
    """A place."""

    name: str
    people: int | None = None


@scenario(
    "FLW-49 TRAP-24",
    says(
        "go",
        *("a call give,give,give,give,give,give", "a response give,give,give,give,give,give"),
        "a text done",
    ),
)
def results_of_every_kind() -> BaseAgent:
    def give(kind: str) -> Any:
        """Give something of a kind."""
        kinds: dict[str, Any] = {
            "none": None,
            "text": "text",
            "list": [1, "two", None, {"three": 3.5}],
            "dict": {"status": "fine", "deep": {"er": []}},
            "model": Place(name="Paris"),
            "false": False,
        }
        return kinds[kind]

    turn = calls(
        *(("give", {"kind": kind}) for kind in ("none", "text", "list", "dict", "model", "false"))
    )
    return speaker("a", turn, "done", tools=[give])


class Adder:
    """A callable object."""

    def __call__(self, more: int, tool_context: ToolContext) -> int:
        """Add to the sum."""
        tool_context.state["sum"] = tool_context.state.get("sum", 0) + more
        return tool_context.state["sum"]


async def times(by: int, tool_context: ToolContext) -> int:
    """Multiply the sum."""
    tool_context.state["sum"] = tool_context.state.get("sum", 0) * by
    return tool_context.state["sum"]


@scenario(
    "TOL-10 TOL-11 OPEN-7 CTX-7",
    says(
        "go",
        *("a call Adder", "a response Adder"),
        *("a call times", "a response times", "a call times", "a response times", "a text done"),
    ),
    says("again", "a call Adder", "a response Adder", "a text 19"),
    state={"sum": 19},
)
def tools_of_every_kind() -> BaseAgent:
    tools = [
        Adder(),
        FunctionTool(times),
    ]
    script = (call("Adder", more=3), call("times", by=2), call("times", by=3), "done")
    return speaker("a", *script, call("Adder", more=1), "19", tools=tools)


@scenario(
    "FLW-1 STA-13",
    says("go", *("a call count", "a response count") * 6, "a text counted"),
    state={"count": 6},
)
def many_turns_in_one_run() -> BaseAgent:
    def count(tool_context: ToolContext) -> int:
        """Count."""
        tool_context.state["count"] = tool_context.state.get("count", 0) + 1
        return tool_context.state["count"]

    return speaker("a", *[call("count")] * 6, "counted", tools=[count])


@scenario(
    "FLW-52 EVT-10",
    says("raw", "a call report", "a response report"),
    says("told", "a call report", "a response report", "a text summary"),
)
def a_result_is_not_summarised() -> BaseAgent:
    def report(raw: bool, tool_context: ToolContext) -> dict[str, str]:
        """Report."""
        tool_context.actions.skip_summarization = raw
        return {"report": "all is well"}

    def reply(request: LlmRequest) -> Any:
        said = last(request)
        return "summary" if "=>" in said else call("report", raw=said == "raw")

    return thinker("a", reply, tools=[report])


@scenario(
    "CTX-11",
    says("go", "a call leave,stay", "a response leave,stay"),
    says("go on", "a text back"),
    state={"left": True, "stayed": True},
)
def a_tool_ends_the_agent() -> BaseAgent:
    def leave(tool_context: ToolContext) -> str:
        """Leave."""
        tool_context.state["left"] = True
        tool_context.end_invocation()
        return "left"

    def stay(tool_context: ToolContext) -> str:
        """Stay."""
        tool_context.state["stayed"] = True
        return "stayed"

    turn = calls(("leave", {}), ("stay", {}))
    return speaker("a", turn, "back", tools=[leave, stay])


@scenario(
    "TRAP-21 STA-8",
    says(
        "result",
        "a call spoil",
        "a response spoil",
        "a error ToolResultError",
        raises="ToolResultError",
    ),
    says(
        "state",
        "a call spoil",
        "a response spoil",
        "a error StateValueError",
        raises="StateValueError",
    ),
    says("fine", "a call spoil", "a response spoil", "a text good"),
)
def what_is_not_json_fails_the_run() -> BaseAgent:
    def spoil(what: str, tool_context: ToolContext) -> Any:
        """Give or keep what cannot be stored."""
        if what == "state":
            tool_context.state["x"] = {1, 2}
        return object() if what == "result" else what

    def reply(request: LlmRequest) -> Any:
        said = last(request)
        return "good" if "=>" in said else call("spoil", what=said)

    return thinker("a", reply, tools=[spoil])


@scenario(
    "FLW-24 FLW-40 TRAP-19",
    says(
        "go", "a call echo,echo,echo", "a response echo,echo,echo", "a text own own- and 1 of ours"
    ),
)
def ids_of_the_provider_are_kept() -> BaseAgent:
    """Those it repeats or leaves out are ours, and are not shown to it."""

    def echo(word: str) -> str:
        """Return the word."""
        return word

    def one(word: str, call_id: str | None) -> types.Part:
        function = types.FunctionCall(name="echo", args={"word": word}, id=call_id)
        return types.Part(function_call=function)

    def reply(request: LlmRequest) -> Any:
        if len(request.contents) == 1:
            return [one("a", "own"), one("b", "own-"), one("c", None)]
        ids = [part.function_response.id for part in request.contents[-1].parts]
        return f"{ids[0]} {ids[1]} and {ids.count(None)} of ours"

    return thinker("a", reply, tools=[echo])


class _Color(str, Enum):  # noqa: UP042  # as its tools wrote it before 3.11
    RED = "red"


class _Item(BaseModel):
    """Something to buy."""

    name: str
    price: float | None = None


@scenario(
    "TOL-10 TOL-11 TOL-15",
    says(
        "go",
        *("a call pick", "a response pick") * 2,
        "a text pick=>{'color': 'red', 'size': 'm', 'names': ['x'], 'data': {'k': 1}, 'more': '2'}",
    ),
)
def parameters_of_every_kind() -> BaseAgent:
    def pick(
        color: _Color,
        size: Literal["s", "m"],
        items: list[_Item] | None = None,
        data: dict[str, int] | None = None,
        *,
        more: int | str = 1,
    ) -> dict[str, Any]:
        """Pick."""
        names = [item.name for item in items or []]
        return {
            "color": _Color(color).value,
            "size": size,
            "names": names,
            "data": data,
            "more": more,
        }

    def reply(request: LlmRequest) -> Any:
        asked = sum(content.role == "model" for content in request.contents)
        whole = {"items": [{"name": "x"}], "data": {"k": 1}, "more": "2"}
        calls = [call("pick", color="red", size="s"), call("pick", color="red", size="m", **whole)]
        return calls[asked] if asked < 2 else last(request)

    return thinker("a", reply, tools=[pick])


class _Shop(BaseToolset):
    """Is closed when the state says so."""

    async def get_tools(self, readonly_context: Any = None) -> list[BaseTool]:
        """See base class."""

        def buy(context: ToolContext) -> str:
            """Buy."""
            context.state["bought"] = context.state.get("bought", 0) + 1
            return context.agent_name

        closed = readonly_context is not None and readonly_context.state.get("closed")
        return [] if closed else [FunctionTool(buy)]

    async def close(self) -> None:
        """See base class."""


@scenario(
    "TOL-28",
    says("go", "a call shop_buy", "a response shop_buy", "a text ['shop_buy']"),
    says("go", "a text []", state_delta={"closed": True}),
    state={"bought": 1, "closed": True},
)
def tools_of_a_set_come_and_go() -> BaseAgent:
    """The context is found by its type, whatever its parameter is called."""

    def reply(request: LlmRequest) -> Any:
        known = sorted(request.tools_dict)
        return str(known) if "=>" in last(request) or not known else call("shop_buy")

    return thinker("a", reply, tools=[_Shop(tool_name_prefix="shop")])
