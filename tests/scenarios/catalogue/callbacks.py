"""Callbacks on every hook: noting, answering, replacing, changing, raising."""

from collections.abc import Callable
from typing import Any

from google.genai import types

from durable_adk.agents import BaseAgent, LlmAgent, LoopAgent
from durable_adk.errors import ModelError
from durable_adk.models import LlmRequest, LlmResponse, ScriptedModel
from durable_adk.tools import ToolContext
from tests.scenarios.parts import instruction, last, speaker, text, thinker, user_said
from tests.scenarios.scenario import says, scenario
from tests.support.scripts import call

HOOKS = ("before_agent", "before_model", "after_model", "before_tool", "after_tool", "after_agent")


def echo(word: str, tool_context: ToolContext) -> str:
    """Return the word."""
    tool_context.state["echoed"] = word
    return word


def _context(given: dict[str, Any]) -> Any:
    return given.get("callback_context") or given["tool_context"]


def _noting(hook: str) -> Callable[..., None]:
    """Count the hook's calls in the state, and keep the order of all hooks."""

    def note(**given: Any) -> None:
        state = _context(given).state
        state[hook] = state.get(hook, 0) + 1
        state["order"] = [*state.get("order", []), hook]

    return note


def _async(callback: Callable[..., Any]) -> Callable[..., Any]:
    async def wrapped(**given: Any) -> Any:
        return callback(**given)

    return wrapped


_NOTED = {
    "order": [
        *("before_agent", "before_model", "after_model", "before_tool", "after_tool"),
        *("before_model", "after_model", "after_agent"),
    ],
    **dict.fromkeys(("before_agent", "after_agent", "before_tool", "after_tool"), 1),
    **dict.fromkeys(("before_model", "after_model"), 2),
    "echoed": "hi",
    "answer": "done",
}
_NOTES = ("a delta", "a call echo", "a response echo", "a text done", "a delta")


@scenario("STA-16 CB-3", says("go", *_NOTES), state=_NOTED)
def all_hooks_note() -> BaseAgent:
    hooks = {f"{hook}_callback": _noting(hook) for hook in HOOKS}
    return speaker("a", call("echo", word="hi"), "done", tools=[echo], output_key="answer", **hooks)


@scenario("STA-16 CB-3", says("go", *_NOTES), state=_NOTED)
def all_hooks_note_asynchronously() -> BaseAgent:
    hooks = {f"{hook}_callback": [_async(_noting(hook))] for hook in HOOKS}
    return speaker("a", call("echo", word="hi"), "done", tools=[echo], output_key="answer", **hooks)


@scenario(
    "AGT-6",
    says("stop", "a text instead of stop"),
    says("go", "a text said", "a text more"),
    state={"answer": "said"},
)
def an_answer_before_the_agent_stands_for_it() -> BaseAgent:
    def before(callback_context: Any) -> types.Content | None:
        word = user_said(callback_context)
        return text(f"instead of {word}") if word == "stop" else None

    return thinker(
        "a",
        lambda _: "said",
        output_key="answer",
        before_agent_callback=before,
        after_agent_callback=lambda callback_context: text("more"),
    )


@scenario(
    "AGT-7 STA-6",
    says("go", "a delta", "a text calm"),
    says("go on", "a delta", "a text calm"),
)
def a_note_for_this_run_only_has_an_event() -> BaseAgent:
    def before(callback_context: Any) -> None:
        assert "temp:mood" not in callback_context.state
        callback_context.state["temp:mood"] = "calm"

    return thinker("a", instruction, instruction="{temp:mood}", before_agent_callback=before)


@scenario(
    "AGT-8 CB-2",
    says("go", "a text said", "a text more"),
    says("go on", "a text said", "a text more"),
    state={"first": 2},
)
def an_answer_after_the_agent_is_one_more() -> BaseAgent:
    def first(callback_context: Any) -> None:
        callback_context.state["first"] = callback_context.state.get("first", 0) + 1

    return thinker(
        "a",
        lambda _: "said",
        after_agent_callback=[
            first,
            lambda callback_context: text("more"),
            lambda callback_context: text("never"),
        ],
    )


@scenario(
    "CB-7 TRAP-35 CTX-3",
    says("cached", "a text canned"),
    says("fresh", "a text said (seen)"),
    state={"asked": 2},
)
def a_response_before_the_model_stands_for_it() -> BaseAgent:
    def before(callback_context: Any, llm_request: LlmRequest) -> LlmResponse | None:
        callback_context.state["asked"] = callback_context.state.get("asked", 0) + 1
        known = user_said(callback_context) == "cached"
        return LlmResponse(content=text("canned")) if known else None

    def after(callback_context: Any, llm_response: LlmResponse) -> LlmResponse:
        return LlmResponse(content=text(f"{llm_response.content.parts[0].text} (seen)"))

    return thinker("a", lambda _: "said", before_model_callback=before, after_model_callback=after)


@scenario("CB-6", says("go", "a text ANSWER. BE POLITE."))
def a_request_is_changed_and_a_response_replaced() -> BaseAgent:
    def polite(callback_context: Any, llm_request: LlmRequest) -> None:
        config: Any = llm_request.config
        config.system_instruction = f"{instruction(llm_request)} Be polite."

    def shout(callback_context: Any, llm_response: LlmResponse) -> LlmResponse:
        return LlmResponse(content=text(llm_response.content.parts[0].text.upper()))

    return thinker(
        "a",
        lambda request: request.config.system_instruction,
        instruction="Answer.",
        before_model_callback=polite,
        after_model_callback=shout,
    )


@scenario(
    "CB-5 CB-8 TRAP-24",
    says("go", "a call echo", "a response echo", "a text done"),
    state={"seen": {}},
    unrun=["echo"],
)
def an_empty_answer_before_the_tool_stands_for_it() -> BaseAgent:
    def after(tool: Any, args: Any, tool_context: ToolContext, tool_response: Any) -> None:
        tool_context.state["seen"] = tool_response

    return speaker(
        "a",
        *(call("echo", word="hi"), "done"),
        tools=[echo],
        before_tool_callback=lambda tool, args, tool_context: {},
        after_tool_callback=after,
    )


@scenario(
    "FLW-48 TRAP-23 CB-9",
    says("go", "a call echo", "a response echo", "a text done"),
    state={"echoed": "changed", "raw": "changed"},
)
def arguments_are_changed_and_a_result_replaced() -> BaseAgent:
    def before(tool: Any, args: dict[str, Any], tool_context: ToolContext) -> None:
        args["word"] = "changed"

    def after(
        tool: Any, args: Any, tool_context: ToolContext, tool_response: Any
    ) -> dict[str, Any]:
        tool_context.state["raw"] = tool_response
        return {"wrapped": tool_response, "by": tool.name}

    return speaker(
        "a",
        *(call("echo", word="hi"), "done"),
        tools=[echo],
        before_tool_callback=before,
        after_tool_callback=after,
    )


@scenario(
    "TOL-18 CB-2",
    says(
        "go", "a call broken", "a response broken", "a text told: {'error': 'no', 'tool': 'broken'}"
    ),
    state={"noticed": "no"},
)
def a_tool_error_is_answered() -> BaseAgent:
    def broken() -> None:
        """Raise."""
        raise ValueError("no")

    def notice(tool: Any, args: Any, tool_context: ToolContext, error: Exception) -> None:
        tool_context.state["noticed"] = str(error)

    def recover(tool: Any, args: Any, tool_context: ToolContext, error: Exception) -> Any:
        return {"error": str(error), "tool": tool.name}

    def reply(request: LlmRequest) -> Any:
        answer = request.contents[-1].parts[0].function_response
        return f"told: {answer.response}" if answer else call("broken")

    return thinker("a", reply, tools=[broken], on_tool_error_callback=[notice, recover])


@scenario(
    "FLW-61",
    says("go", "a text sorry: refused"),
    says("again", "a text sorry: 'gone'"),
    state={"errors": ["ModelError", "KeyError"]},
)
def a_model_error_is_answered() -> BaseAgent:
    def fail(request: LlmRequest) -> Exception:
        return KeyError("gone") if len(request.contents) > 1 else ModelError("refused")

    def recover(callback_context: Any, llm_request: Any, error: Exception) -> LlmResponse:
        errors = callback_context.state.get("errors", [])
        callback_context.state["errors"] = [*errors, type(error).__name__]
        return LlmResponse(content=text(f"sorry: {error}"))

    return thinker("a", fail, on_model_error_callback=recover)


@scenario(
    "CB-12 CB-13 TRAP-49 RUN-8",
    says("before_agent", "a error ZeroDivisionError", raises="ZeroDivisionError"),
    says("before_model", "a error ZeroDivisionError", raises="ZeroDivisionError"),
    says("after_model", "a error ZeroDivisionError", raises="ZeroDivisionError"),
    *(
        says(
            hook,
            *("a call echo", "a response echo", "a error ZeroDivisionError"),
            raises="ZeroDivisionError",
        )
        for hook in ("before_tool", "after_tool")
    ),
    says(
        "after_agent",
        *("a call echo", "a response echo", "a text done", "a error ZeroDivisionError"),
        raises="ZeroDivisionError",
    ),
    says("nobody", "a call echo", "a response echo", "a text done"),
    state={"echoed": "hi"},
    unrun=["echo"],
)
def every_hook_raises_in_its_turn() -> BaseAgent:
    """What a failing tool hook leaves open is answered, and the next message runs."""

    def raising(hook: str) -> Callable[..., None]:
        def callback(**given: Any) -> None:
            if user_said(_context(given)) == hook:
                raise ZeroDivisionError(hook)

        return callback

    def reply(request: LlmRequest) -> Any:
        answered = request.contents[-1].parts[0].function_response
        return "done" if answered else call("echo", word="hi")

    hooks = {f"{hook}_callback": raising(hook) for hook in HOOKS}
    return thinker("a", reply, tools=[echo], **hooks)


@scenario(
    "CTX-11 CTX-4",
    says("before_agent", "a delta"),
    says("before_model", "a delta"),
    says("after_model", "a text said"),
    says("nobody", "a text said", "a delta"),
    state={"ended": "after_model", "after": 1},
)
def callbacks_end_the_agent() -> BaseAgent:
    def ending(hook: str) -> Callable[..., None]:
        def callback(**given: Any) -> None:
            context = _context(given)
            if user_said(context) == hook:
                context.state["ended"] = hook
                context.end_invocation()

        return callback

    def after(callback_context: Any) -> None:
        callback_context.state["after"] = callback_context.state.get("after", 0) + 1

    hooks = {f"{hook}_callback": ending(hook) for hook in HOOKS[:3]}
    return thinker("a", lambda _: "said", after_agent_callback=after, **hooks)


@scenario(
    "STA-14 CB-10",
    says("go", "a delta", "a text before_agent,before_model", "a delta"),
    state={"trail": "before_agent,before_model,after_model,after_agent"},
)
def a_hook_reads_what_the_hook_before_it_wrote() -> BaseAgent:
    def adding(hook: str) -> Callable[..., None]:
        def callback(callback_context: Any, **_: Any) -> None:
            trail = callback_context.state.get("trail")
            callback_context.state["trail"] = f"{trail},{hook}" if trail else hook

        return callback

    def show(callback_context: Any, llm_request: LlmRequest) -> None:
        config: Any = llm_request.config
        config.system_instruction = callback_context.state["trail"]

    return LlmAgent(
        name="a",
        model=ScriptedModel(replies=lambda request: request.config.system_instruction),
        before_agent_callback=adding("before_agent"),
        before_model_callback=[adding("before_model"), show],
        after_model_callback=adding("after_model"),
        after_agent_callback=adding("after_agent"),
    )


@scenario(
    "CB-7 FLW-40",
    says("go", "a call echo", "a response echo", "a text said in its place"),
    state={"answer": "said in its place", "echoed": "hi"},
)
def a_response_before_the_model_calls_a_tool() -> BaseAgent:
    def before(callback_context: Any, llm_request: LlmRequest) -> LlmResponse:
        answered = "=>" in last(llm_request)
        content = text("said in its place") if answered else call("echo", word="hi")
        return LlmResponse(content=content)

    return speaker("a", "never", tools=[echo], before_model_callback=before, output_key="answer")


@scenario(
    "AGT-8 AGT-31",
    says("go", "a text round", "a delta", "a text round", "a delta"),
    state={"rounds": 2},
)
def a_callback_leaves_the_loop() -> BaseAgent:
    def count(callback_context: Any) -> None:
        rounds = callback_context.state.get("rounds", 0) + 1
        callback_context.state["rounds"] = rounds
        callback_context.actions.escalate = rounds == 2 or None

    agent = thinker("a", lambda _: "round", after_agent_callback=count)
    return LoopAgent(name="loop", max_iterations=4, sub_agents=[agent])
