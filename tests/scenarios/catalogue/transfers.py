"""Conversations that are handed over, back, on, and to nobody."""

from typing import Any

from google.genai import types

from durable_adk.agents import BaseAgent, RunConfig, SequentialAgent
from durable_adk.models import LlmRequest
from durable_adk.tools import ToolContext
from tests.scenarios.parts import instruction, speaker, text, thinker
from tests.scenarios.scenario import says, scenario
from tests.support.scripts import call, calls


def to(name: str) -> Any:
    """A model turn that hands over."""
    return call("transfer_to_agent", agent_name=name)


def over(name: str) -> tuple[str, str]:
    """What an agent yields that hands over."""
    return f"{name} call transfer_to_agent", f"{name} response transfer_to_agent"


@scenario(
    "AGT-50 AGT-41 TRAP-18",
    says("my bill?", *over("desk"), "billing text your invoice"),
    says("paid?", "billing text and paid"),
    says("thanks", "billing text bye"),
)
def the_next_message_goes_to_who_has_it() -> BaseAgent:
    billing = speaker("billing", "your invoice", "and paid", "bye")
    return speaker("desk", to("billing"), sub_agents=[billing])


def _noting_after(callback_context: Any) -> None:
    seen = callback_context.state.get("after", [])
    callback_context.state["after"] = [*seen, callback_context.agent_name]


@scenario(
    "TRAP-29 17.1 AGT-54",
    says(
        "go",
        *(*over("desk"), *over("child"), "desk text done"),
        *("desk delta", "child delta", "desk delta"),
    ),
    says("again", "desk text more", "desk delta"),
    state={"after": ["desk", "child", "desk", "desk"]},
)
def there_and_back_in_one_run() -> BaseAgent:
    """The after callbacks come after all events, the last agent's first."""
    child = speaker("child", to("desk"), after_agent_callback=_noting_after)
    return speaker(
        "desk", to("child"), "done", "more", sub_agents=[child], after_agent_callback=_noting_after
    )


@scenario(
    "AGT-51 AGT-41",
    says("down", *over("root"), *over("middle"), "leaf text at the leaf"),
    says("up", *over("leaf"), *over("middle"), "root text at the root"),
    says("stay", "root text still here"),
)
def down_and_up_a_tree() -> BaseAgent:
    leaf = speaker("leaf", "at the leaf", to("middle"))
    middle = speaker("middle", to("leaf"), to("root"), sub_agents=[leaf])
    return speaker("root", to("middle"), "at the root", "still here", sub_agents=[middle])


@scenario(
    "AGT-51 AGT-52",
    says("go", *over("root"), *over("left"), "right text from my peer"),
    says("on", *over("right"), "left text back with me"),
)
def peers_hand_over_to_each_other() -> BaseAgent:
    left = speaker("left", to("right"), "back with me")
    right = speaker("right", "from my peer", to("left"))
    return speaker("root", to("left"), sub_agents=[left, right])


@scenario(
    "AGT-42 AGT-52",
    says("go", *over("root"), "child text mine"),
    says("on", "root text root again"),
)
def who_may_not_go_back_keeps_no_conversation() -> BaseAgent:
    child = speaker(
        "child", "mine", disallow_transfer_to_parent=True, disallow_transfer_to_peers=True
    )
    return speaker("root", to("child"), "root again", sub_agents=[child])


@scenario(
    "AGT-53 17.1 RUN-8",
    says("go", *over("root"), "root error ValueError", raises="ValueError"),
    says("on", "root text here"),
)
def handing_over_to_nobody_fails_the_run() -> BaseAgent:
    a = speaker("a", "never", sub_agents=[speaker("grandchild")])
    return speaker("root", to("grandchild"), "here", sub_agents=[a])


@scenario(
    "AGT-50 AGT-42",
    says("go", *over("root"), "one text one", "two text two"),
    says("on", "root text root"),
)
def a_conversation_is_handed_over_to_a_sequence() -> BaseAgent:
    """Which gets no messages of its own."""
    team = SequentialAgent(name="team", sub_agents=[speaker("one"), speaker("two")])
    return speaker("root", to("team"), "root", sub_agents=[team])


@scenario(
    "AGT-30 AGT-50",
    says("go", *over("first"), "helper text helped", "last text last"),
    says("on", "first text alone", "last text last"),
)
def a_member_of_a_sequence_hands_over() -> BaseAgent:
    """The sequence continues when whoever it was handed over to is done."""
    first = speaker("first", to("helper"), "alone", sub_agents=[speaker("helper", "helped")])
    return SequentialAgent(name="seq", sub_agents=[first, speaker("last")])


@scenario(
    "TRAP-29 CTX-3",
    says(
        "go",
        *(over("ping") + over("pong")) * 2,
        "ping error LlmCallsLimitExceededError",
        raises="LlmCallsLimitExceededError",
        run_config=RunConfig(max_llm_calls=4),
    ),
)
def two_hand_over_to_each_other_up_to_the_limit() -> BaseAgent:
    pong = thinker("pong", lambda _: to("ping"))
    return thinker("ping", lambda _: to("pong"), sub_agents=[pong])


@scenario(
    "FLW-51 FLW-45 STA-6",
    says(
        "go",
        *("desk call note,transfer_to_agent", "desk response note,transfer_to_agent"),
        "child text noted Ada, calm",
    ),
    state={"name": "Ada"},
)
def a_hand_over_beside_another_call_takes_the_state_along() -> BaseAgent:
    def note(tool_context: ToolContext) -> None:
        """Write it down."""
        tool_context.state["name"] = "Ada"
        tool_context.state["temp:mood"] = "calm"

    child = thinker("child", instruction, instruction="noted {name}, {temp:mood}")
    turn = calls(("note", {}), ("transfer_to_agent", {"agent_name": "child"}))
    return speaker("desk", turn, tools=[note], sub_agents=[child])


@scenario(
    "AGT-40 AGT-41",
    says("sales", *over("desk"), "sales text sales: sales"),
    says("tea", "sales text sales: tea"),
    says("support", *over("sales"), *over("desk"), "support text support: support"),
    says("broken", "support text support: broken"),
    says("sales", *over("support"), *over("desk"), "sales text sales: sales"),
    says("coffee", "sales text sales: coffee"),
)
def a_help_desk_over_many_messages() -> BaseAgent:
    """Each desk answers what is its own and hands the rest back."""

    def spoken(request: LlmRequest) -> str:
        texts = [content.parts[0].text or "" for content in request.contents]
        return [one for one in texts if one and not one.startswith("For") and ":" not in one][-1]

    def answering(own: str, other: str) -> Any:
        def reply(request: LlmRequest) -> Any:
            return to("desk") if spoken(request) == other else f"{own}: {spoken(request)}"

        return reply

    sales = thinker("sales", answering("sales", "support"), disallow_transfer_to_peers=True)
    support = thinker("support", answering("support", "sales"), disallow_transfer_to_peers=True)
    return thinker("desk", lambda r: to(spoken(r)), sub_agents=[sales, support])


@scenario(
    "AGT-6 AGT-50",
    says("go", *over("root"), "closed text we are closed"),
    says("on", "closed text we are closed"),
)
def who_gets_the_conversation_answers_by_a_callback() -> BaseAgent:
    closed = speaker(
        "closed", "never", before_agent_callback=lambda callback_context: text("we are closed")
    )
    return speaker("root", to("closed"), sub_agents=[closed])


@scenario(
    "AGT-50 ACT-1",
    says("go", "root call hand", "root response hand", "other text other"),
    says("go", "other text other"),
)
def a_tool_hands_over() -> BaseAgent:
    def hand(tool_context: ToolContext) -> str:
        """Hand over."""
        tool_context.actions.transfer_to_agent = "other"
        return "handed"

    return speaker("root", call("hand"), "never", tools=[hand], sub_agents=[speaker("other")])


_HANDED = ("root call transfer_to_agent", "root response transfer_to_agent")


def _told(request: LlmRequest) -> str:
    """What the model is shown, without what is quoted."""
    contents = [(one.role, (one.parts or [types.Part()])[0].text or "") for one in request.contents]
    return " ".join(f"{role}:{'quoted' if 'ontext' in said else said}" for role, said in contents)


@scenario(
    "AGT-17 AGT-50",
    says("first", *_HANDED, "other text user:first user:quoted user:quoted"),
    says("second", "other text user:second"),
)
def who_has_no_history_gets_the_message_with_the_conversation() -> BaseAgent:
    other = thinker("other", _told, include_contents="none")
    return speaker("root", call("transfer_to_agent", agent_name="other"), sub_agents=[other])
