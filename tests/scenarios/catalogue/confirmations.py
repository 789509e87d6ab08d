"""Calls that somebody has to approve first."""

from typing import Any

from durable_adk.agents import BaseAgent, LlmAgent, ParallelAgent, SequentialAgent
from durable_adk.models import LlmRequest
from durable_adk.tools import FunctionTool, ToolContext
from tests.scenarios.parts import last, speaker, thinker
from tests.scenarios.scenario import Reply, answers, says, scenario
from tests.support.scripts import call, calls

REJECTED = "{'error': 'This tool call is rejected.'}"
ASKED = ("desk call refund", "desk call adk_request_confirmation", "desk response refund")


def refund(amount: int, tool_context: ToolContext) -> dict[str, int]:
    """Pay money back."""
    tool_context.state["refunded"] = [*tool_context.state.get("refunded", []), amount]
    return {"refunded": amount}


def yes(tool: str = "refund", **more: Any) -> Reply:
    """The request is approved."""
    return Reply(tool, {"confirmed": True, **more})


def no(tool: str = "refund") -> Reply:
    """The request is rejected."""
    return Reply(tool, {"confirmed": False})


def desk(name: str = "desk", confirm: Any = True, **fields: Any) -> LlmAgent:
    """Pays back what the user says, and tells what came of it."""

    def reply(request: LlmRequest) -> Any:
        said = last(request)
        return said if "=>" in said else call("refund", amount=int(said))

    tool = FunctionTool(refund, require_confirmation=confirm)
    return thinker(name, reply, tools=[tool], **fields)


@scenario(
    "TOL-60 TOL-61 TOL-63 FLW-51",
    says("5", *ASKED),
    answers(yes(), "desk response refund", "desk text refund=>{'refunded': 5}"),
    says("6", *ASKED),
    answers(yes(), "desk response refund", "desk text refund=>{'refunded': 6}"),
    state={"refunded": [5, 6]},
)
def a_refund_is_approved() -> BaseAgent:
    return desk()


@scenario(
    "TOL-63",
    says("5", *ASKED),
    answers(no(), "desk response refund", f"desk text refund=>{REJECTED}"),
)
def a_refund_is_rejected() -> BaseAgent:
    return desk()


@scenario("TOL-61 D9", says("5", *ASKED), waiting=["refund"])
def a_refund_is_never_decided() -> BaseAgent:
    return desk()


@scenario(
    "TOL-60",
    says("5", "desk call refund", "desk response refund", "desk text refund=>{'refunded': 5}"),
    says("500", *ASKED),
    answers(yes(), "desk response refund", "desk text refund=>{'refunded': 500}"),
    state={"refunded": [5, 500]},
)
def a_large_refund_is_approved() -> BaseAgent:
    def is_large(amount: int, tool_context: Any) -> bool:
        return amount > 100

    return desk(confirm=is_large)


@scenario(
    "TOL-60 TOL-62 17.1",
    says("go", "a call book", "a call adk_request_confirmation", "a response book"),
    answers(yes("book", payload={"seats": 3}), "a response book", "a text book=>{'seats': 3}"),
    state={"asked": 1, "booked": 3},
)
def a_tool_asks_with_a_payload() -> BaseAgent:
    def book(tool_context: ToolContext) -> dict[str, Any]:
        """Book seats."""
        decision = tool_context.tool_confirmation
        if decision is None:
            tool_context.state["asked"] = tool_context.state.get("asked", 0) + 1
            tool_context.request_confirmation(hint="how many?", payload={"seats": 0})
            return {"status": "asked"}
        tool_context.state["booked"] = decision.payload["seats"]
        return {"seats": decision.payload["seats"]}

    def reply(request: LlmRequest) -> Any:
        return last(request) if "=>" in last(request) else call("book")

    return thinker("a", reply, tools=[book])


def _two() -> LlmAgent:
    def cancel(tool_context: ToolContext) -> str:
        """Cancel the order."""
        tool_context.state["cancelled"] = True
        return "cancelled"

    def reply(request: LlmRequest) -> Any:
        turn = calls(("refund", {"amount": 1}), ("cancel", {}))
        return "done" if "=>" in last(request) else turn

    tools = [FunctionTool(tool, require_confirmation=True) for tool in (refund, cancel)]
    return thinker("desk", reply, tools=tools)


_ASKED_TWICE = (
    "desk call refund,cancel",
    "desk call adk_request_confirmation,adk_request_confirmation",
    "desk response refund,cancel",
)


@scenario(
    "TOL-63 D9",
    says("go", *_ASKED_TWICE),
    answers(
        [yes(), no("cancel")],
        *("desk response refund,cancel", "desk text done"),
    ),
    state={"refunded": [1]},
)
def two_requests_are_decided_in_one_message() -> BaseAgent:
    return _two()


@scenario(
    "TOL-63 D9",
    says("go", *_ASKED_TWICE),
    answers(yes("cancel"), "desk response cancel", "desk text done"),
    answers(no(), "desk response refund", "desk text done"),
    state={"cancelled": True},
)
def two_requests_are_decided_one_after_the_other() -> BaseAgent:
    return _two()


@scenario(
    "FLW-51 TRAP-27",
    says(
        "go",
        "desk call refund,look",
        "desk response refund,look",
        "desk call adk_request_confirmation",
    ),
    answers(yes(), "desk response refund", "desk text done"),
    state={"refunded": [1]},
)
def a_request_beside_a_settled_call() -> BaseAgent:
    def look() -> str:
        """Look."""
        return "seen"

    turn = calls(("refund", {"amount": 1}), ("look", {}))
    tools = [FunctionTool(refund, require_confirmation=True), look]
    return speaker("desk", turn, "done", tools=tools)


@scenario(
    "TOL-61 AGT-30",
    says("5", "first text first", *ASKED),
    answers(
        yes(),
        *("desk response refund", "desk text refund=>{'refunded': 5}", "last text last"),
    ),
    state={"refunded": [5]},
)
def a_request_in_a_sequence() -> BaseAgent:
    def reply(request: LlmRequest) -> Any:
        return last(request) if "=>" in last(request) else call("refund", amount=5)

    middle = thinker("desk", reply, tools=[FunctionTool(refund, require_confirmation=True)])
    return SequentialAgent(name="seq", sub_agents=[speaker("first"), middle, speaker("last")])


def _asked(name: str) -> list[str]:
    return [
        f"{name} call refund",
        f"{name} call adk_request_confirmation",
        f"{name} response refund",
    ]


@scenario(
    "TOL-61 AGT-33 D9",
    says("5", *_asked("a"), *_asked("b"), "c text c"),
    answers(
        Reply("refund", {"confirmed": False}, author="b"),
        "b response refund",
        f"b text refund=>{REJECTED}",
    ),
    answers(
        Reply("refund", {"confirmed": True}, author="a"),
        "a response refund",
        "a text refund=>{'refunded': 5}",
    ),
    state={"refunded": [5]},
    side_by_side=True,
)
def requests_side_by_side() -> BaseAgent:
    return ParallelAgent(name="par", sub_agents=[desk("a"), desk("b"), speaker("c")])


@scenario(
    "TOL-64 TRAP-28",
    says("5", *ASKED),
    answers(Reply("refund", {"confirmed": "yes"}), raises="ValueError"),
    answers(Reply("refund", {}), raises="ValueError"),
    answers(Reply("refund", {"confirmed": True}, name="refund"), raises="ValueError"),
    answers(yes(), "desk response refund", "desk text refund=>{'refunded': 5}"),
    answers(yes(), raises="ValueError"),
    state={"refunded": [5]},
)
def unfit_decisions_change_nothing() -> BaseAgent:
    return desk()


@scenario(
    "TOL-63 CB-8 STA-6",
    says("5", "desk delta", *ASKED),
    answers(yes(), "desk response refund", "desk text refund=>{'refunded': 5}", "desk delta"),
    state={"refunded": [5], "trail": ["refund", "refund"], "end": "calm"},
)
def callbacks_around_a_request() -> BaseAgent:
    """They run at each run of the tool; `temp:` keys live through the pause."""

    def begin(callback_context: Any) -> None:
        callback_context.state["temp:mood"] = "calm"

    def trail(tool: Any, args: Any, tool_context: ToolContext) -> None:
        tool_context.state["trail"] = [*tool_context.state.get("trail", []), tool.name]

    def end(callback_context: Any) -> None:
        callback_context.state["end"] = callback_context.state["temp:mood"]

    return desk(before_agent_callback=begin, before_tool_callback=trail, after_agent_callback=end)
