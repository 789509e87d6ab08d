"""What hooks set in the actions of their events: hand-overs, escalation, an end without summary."""

from collections.abc import AsyncGenerator, Callable
from typing import Any

from google.genai import types

from durable_adk.agents import BaseAgent, InvocationContext, LlmAgent, LoopAgent, SequentialAgent
from durable_adk.apps import App
from durable_adk.events import Event, EventActions
from durable_adk.models import LlmRequest, LlmResponse
from durable_adk.plugins import BasePlugin
from tests.scenarios.parts import speaker, text, thinker, told_by, user_said
from tests.scenarios.scenario import Turn, says, scenario
from tests.support.scripts import call

HOOKS = (
    *("before_agent", "after_agent", "before_model", "after_model", "on_model_error"),
    *("before_tool", "after_tool", "on_tool_error"),
)


def _reply(request: LlmRequest) -> Any:
    """A call or an error where a hook needs one, else a text."""
    last = (request.contents[-1].parts or [types.Part()])[0]
    if last.function_response:
        return "again"
    said = last.text or ""
    if "tool" in said:
        return call("fail" if "error" in said else "work")
    if "model_error" in said:
        raise ValueError("out of order")
    return call("work") if "and call" in said else "said"


def work() -> str:
    """Work."""
    return "worked"


def fail() -> str:
    """Fail."""
    raise ValueError("broken")


Act = Callable[[EventActions], None]


def _to_child(actions: EventActions) -> None:
    actions.transfer_to_agent = "child"


def _to_nobody(actions: EventActions) -> None:
    actions.transfer_to_agent = "nobody"


def _escalating(actions: EventActions) -> None:
    actions.escalate = True


def _skipping(actions: EventActions) -> None:
    actions.skip_summarization = True


def _acting(hook: str, act: Act, *, answers: bool) -> Callable[..., Any]:
    """A callback that acts if the message names its hook, and answers if it is asked to."""

    def callback(**given: Any) -> Any:
        context = given.get("callback_context") or given["tool_context"]
        said = user_said(context)
        if not said.startswith(hook):
            return None
        act(context.actions)
        if "note" in said:
            context.state["noted"] = hook
        if not answers or "note" in said or "only" in said:
            return None
        if "tool" in hook:
            return {"by": hook}
        return text(f"by {hook}") if "agent" in hook else LlmResponse(content=text(f"by {hook}"))

    return callback


def _hooks(act: Act) -> dict[str, Any]:
    return {f"{hook}_callback": _acting(hook, act, answers=True) for hook in HOOKS}


def _actor(name: str, act: Act, **fields: Any) -> LlmAgent:
    return thinker(name, _reply, tools=[work, fail], **_hooks(act), **fields)


def _by_hook(*lines: tuple[str, str]) -> list[Turn]:
    """For each hook a session of its own: the message that names it, and what comes of the next."""
    turns: list[Turn] = []
    for number, (message, gets) in enumerate(lines):
        place = f"u/{number or 's'}"
        first, _, then = gets.partition(" || ")
        turns.append(says(message, *first.split(" | "), place=place))
        if then:
            turns.append(says("and then?", *then.split(" | "), place=place))
    return turns


_GIST = {
    "before_agent": "desk text by before_agent",
    "before_agent note": "desk delta",
    "before_model": "desk text by before_model",
    "before_model only": "desk text said",
    "after_model": "desk text by after_model",
    "after_model note": "desk text said",
    "on_model_error": "desk text by on_model_error",
    "after_agent": "desk text said | desk text by after_agent",
    "after_agent note": "desk text said | desk delta",
    "before_tool": "desk call work | desk response work",
    "after_tool only": "desk call work | desk response work",
    "on_tool_error": "desk call fail | desk response fail",
}
"""By message, what the desk says before it hands over."""

_NOT_OVER = {
    said: f"{gist} | desk text said" if said == "before_agent note" else gist
    for said, gist in _GIST.items()
    if "tool" not in said
}
"""By message of a hook that is no tool's, what it says if it does not hand over."""


@scenario(
    "AGT-50 AGT-41",
    *_by_hook(
        *((said, f"{gist} | child text child || child text child") for said, gist in _GIST.items()),
        ("before_agent only", "desk text said || desk text said"),
    ),
    unrun=["work", "fail"],
)
def every_callback_hands_over() -> BaseAgent:
    """If it has an event; the next message goes to the agent that has spoken last."""
    return _actor("desk", _to_child, sub_agents=[speaker("child")])


@scenario(
    "AGT-50 I9",
    *_by_hook(
        *(
            (f"{hook} only and call", "desk call work | desk response work | child text child")
            for hook in ("before_model", "after_model")
        ),
    ),
    unrun=["work", "fail"],
)
def calls_of_a_model_that_is_handed_over_for_do_not_run() -> BaseAgent:
    return _actor("desk", _to_child, sub_agents=[speaker("child")])


@scenario(
    "AGT-53 RUN-8",
    says("before_model", _GIST["before_model"], "desk error ValueError", raises="ValueError"),
    says(
        "after_agent note",
        "desk text said",
        "desk delta",
        "desk error ValueError",
        raises="ValueError",
    ),
    state={"noted": "after_agent"},
)
def a_callback_hands_over_to_nobody() -> BaseAgent:
    return _actor("desk", _to_nobody, sub_agents=[speaker("child")])


class Hooking(BasePlugin):
    """Acts for the desk as its callbacks do."""

    def __init__(self, act: Act) -> None:
        super().__init__(name="hooking")
        self.act = act

    def _acting(self, hook: str, name: str, context: Any) -> Any:
        act = _acting(hook, self.act, answers=True)
        return act(callback_context=context) if name == "desk" else None

    async def before_agent_callback(self, *, agent: Any, callback_context: Any) -> Any:
        return self._acting("before_agent", agent.name, callback_context)

    async def after_agent_callback(self, *, agent: Any, callback_context: Any) -> Any:
        return self._acting("after_agent", agent.name, callback_context)

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> Any:
        return self._acting("before_model", callback_context.agent_name, callback_context)

    async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> Any:
        return self._acting("after_model", callback_context.agent_name, callback_context)

    async def on_model_error_callback(
        self, *, callback_context: Any, llm_request: Any, error: Exception
    ) -> Any:
        return self._acting("on_model_error", callback_context.agent_name, callback_context)

    async def on_event_callback(self, *, invocation_context: Any, event: Event) -> Event | None:
        said = user_said(invocation_context)
        if event.author == "desk" and "new" in said:
            return Event(author="desk", content=text("new"))
        if event.author == "desk" and said.startswith("on_event"):
            self.act(event.actions)
        return None


@scenario(
    "AGT-50 PLG-3",
    *_by_hook(
        *(
            (said, f"{gist} | child text child || child text child")
            for said, gist in _GIST.items()
            if "tool" not in said
        ),
        ("on_event", "desk text said || child text child"),
        ("before_model then new", "desk text new | child text child || child text child"),
    ),
    unrun=["work", "fail"],
)
def a_plugin_hands_over() -> BaseAgent | App:
    """Not by an event that it changes; the next message goes by what is stored."""
    desk = thinker("desk", _reply, tools=[work, fail], sub_agents=[speaker("child")])
    return App(name="a_plugin_hands_over", root_agent=desk, plugins=[Hooking(_to_child)])


@scenario(
    "AGT-50 AGT-42",
    *_by_hook(*((said, f"{gist} | last text last") for said, gist in _NOT_OVER.items())),
    unrun=["work", "fail"],
)
def below_a_workflow_agent_callbacks_do_not_hand_over() -> BaseAgent:
    desk = _actor("desk", _to_child, sub_agents=[speaker("child")])
    return SequentialAgent(name="seq", sub_agents=[desk, speaker("last")])


class _Body(BaseAgent):
    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        actions = EventActions()
        if user_said(ctx) == "body":
            _to_child(actions)
        yield told_by(ctx, content=text("first"), actions=actions)
        yield told_by(ctx, content=text("last"))


@scenario(
    "AGT-50",
    *_by_hook(
        *(
            (said, f"desk call transfer_to_agent | desk response transfer_to_agent | {gets}")
            for said, gets in {
                "before_agent": "team text by before_agent | child text child",
                "before_agent note": "team delta | one text one | child text child",
                "after_agent": "one text one | team text by after_agent | child text child",
                "body": "body text first | body text last | child text child",
            }.items()
        ),
    ),
)
def other_agents_hand_over_at_their_end() -> BaseAgent:
    """A workflow agent by a callback, a custom agent by an event of its own."""
    hooks = {
        f"{hook}_callback": _acting(hook, _to_child, answers=True)
        for hook in ("before_agent", "after_agent")
    }
    team = SequentialAgent(name="team", sub_agents=[speaker("one")], **hooks)

    def to(request: LlmRequest) -> Any:
        said = (request.contents[0].parts or [types.Part()])[0].text
        return call("transfer_to_agent", agent_name="body" if said == "body" else "team")

    return thinker("desk", to, sub_agents=[team, _Body(name="body"), speaker("child")])


@scenario(
    "AGT-32 FLW-53",
    *_by_hook(
        *_NOT_OVER.items(),
        ("before_tool", f"{_GIST['before_tool']} | desk text again"),
        ("on_tool_error", f"{_GIST['on_tool_error']} | desk text again"),
        ("before_agent only", "desk text said | last text last | desk text said | last text last"),
    ),
    unrun=["work", "fail"],
)
def every_callback_ends_a_loop() -> BaseAgent:
    sub_agents = [_actor("desk", _escalating), speaker("last")]
    return LoopAgent(name="loop", max_iterations=2, sub_agents=sub_agents)


@scenario(
    "FLW-52",
    *_by_hook(
        ("before_tool", _GIST["before_tool"]),
        ("after_tool", _GIST["before_tool"]),
        ("on_tool_error", _GIST["on_tool_error"]),
        ("before_model only and call", "desk call work | desk response work | desk text again"),
    ),
    unrun=["work", "fail"],
)
def callbacks_round_a_tool_end_the_agent() -> BaseAgent:
    return _actor("desk", _skipping)


class Ending(BasePlugin):
    """Ends the invocation before its agents begin, if the message says so."""

    async def on_user_message_callback(self, *, invocation_context: Any, user_message: Any) -> None:
        invocation_context.end_invocation = user_message.parts[0].text == "at once"

    async def before_run_callback(self, *, invocation_context: Any) -> None:
        if user_said(invocation_context) == "before":
            invocation_context.end_invocation = True


def _noting(callback_context: Any) -> None:
    callback_context.state["begun"] = True


@scenario(
    "CTX-4 CTX-11 PLG-5",
    says("at once", "desk delta"),
    says("before", "desk delta"),
    says("go", "desk delta", "desk text desk"),
    state={"begun": True},
)
def a_plugin_ends_the_invocation() -> BaseAgent | App:
    """Only the callbacks before the first agent run."""
    desk = speaker("desk", before_agent_callback=_noting)
    return App(
        name="a_plugin_ends_the_invocation", root_agent=desk, plugins=[Ending(name="ending")]
    )


@scenario(
    "PLG-6 AGT-32",
    says("go", "desk text said", "last text last", "desk text said", "last text last"),
    says("on_event", "desk text said"),
    says("before_model then new", "desk text new"),
    says("on_event new", "desk text new", "last text last", "desk text new", "last text last"),
)
def a_plugin_ends_a_loop() -> BaseAgent | App:
    """By an event that it changes; one that it answers with keeps what it does not set."""
    loop = LoopAgent(
        name="loop", max_iterations=2, sub_agents=[thinker("desk", _reply), speaker("last")]
    )
    return App(name="a_plugin_ends_a_loop", root_agent=loop, plugins=[Hooking(_escalating)])


def _after(callback_context: Any) -> None:
    callback_context.state["after"] = user_said(callback_context)


@scenario(
    "TRAP-29 AGT-41",
    says(
        *("go", "desk call transfer_to_agent", "desk response transfer_to_agent"),
        *("child text child", "desk delta"),
    ),
    says("and then?", "child text child"),
    state={"after": "go"},
)
def a_note_after_a_hand_over_takes_no_message() -> BaseAgent:
    to = call("transfer_to_agent", agent_name="child")
    return speaker("desk", to, sub_agents=[speaker("child")], after_agent_callback=_after)
