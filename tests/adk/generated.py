"""Conversations that are made of a description, which is JSON: both sides make the same of it."""

from collections.abc import Sequence
from typing import Any

from google.genai import types
from pydantic import BaseModel

from durable_adk.agents import (
    BaseAgent,
    LlmAgent,
    LoopAgent,
    ParallelAgent,
    RunConfig,
    SequentialAgent,
)
from durable_adk.agents.run_config import StreamingMode
from durable_adk.events import Event
from durable_adk.models import LlmRequest, LlmResponse, ScriptedModel
from durable_adk.tools import AgentTool, FunctionTool, ToolContext
from durable_adk.tools.long_running_tool import LongRunningFunctionTool
from tests.scenarios.parts import text
from tests.scenarios.scenario import CONFIRMATION, Message, Scenario, Turn, scenario

Described = dict[str, Any]
"""An agent, a reply, what a callback does, or all of a conversation."""

RAISED = {each.__name__: each for each in (ValueError, KeyError, ConnectionError)}


class Answer(BaseModel):
    """What an agent with a schema answers."""

    word: str
    number: int = 0


def write(key: str, value: int, tool_context: ToolContext) -> str:
    """Set a key."""
    tool_context.state[key] = value
    return f"{key} is {value}"


async def add(key: str, item: int, tool_context: ToolContext) -> str:
    """Append to a list."""
    tool_context.state[key] = [*tool_context.state.get(key, []), item]
    return "added"


def give(kind: str) -> Any:
    """Give something of a kind."""
    kinds: dict[str, Any] = {"none": None, "dict": {"a": [1]}, "list": [1, None], "number": 1.5}
    return kinds[kind]


def fail(kind: str) -> None:
    """Fail."""
    raise RAISED[kind](kind)


async def save(name: str, number: int, tool_context: ToolContext) -> dict[str, Any]:
    """Save a file, and list those that there are."""
    version = await tool_context.save_artifact(name, types.Part(text=f"{number}"))
    return {"version": version, "files": await tool_context.list_artifacts()}


async def read(name: str, tool_context: ToolContext) -> str | None:
    """Read a file."""
    part = await tool_context.load_artifact(name)
    return part and part.text


def leave(tool_context: ToolContext) -> None:
    """Escalate."""
    tool_context.actions.escalate = True


def finish(tool_context: ToolContext) -> dict[str, str]:
    """Give what is not summarised."""
    tool_context.actions.skip_summarization = True
    return {"report": "done"}


def order(item: int) -> dict[str, str]:
    """Order something, which takes a while."""
    return {"status": f"pending {item}"}


def refund(amount: int) -> dict[str, int]:
    """Pay money back."""
    return {"refunded": amount}


def tools() -> list[Any]:
    """The tools that every agent has, made anew."""
    plain = [write, add, give, save, read, fail, leave, finish]
    waiting = [LongRunningFunctionTool(order), FunctionTool(refund, require_confirmation=True)]
    return [*plain, *waiting]


MOST_CALLS = 30
"""Model calls of a run: agents that hand over in a circle would make 500."""


def conversation(described: Described) -> Scenario:
    """The conversation that is described."""
    mode = StreamingMode.SSE if described["stream"] else StreamingMode.NONE
    config = RunConfig(streaming_mode=mode, max_llm_calls=MOST_CALLS)
    turns = [
        Turn(message=_message(each), gets=(), run_config=config) for each in described["turns"]
    ]

    side_by_side = "parallel" in _kinds(described["root"])

    def generated() -> BaseAgent:
        return _agent(described["root"], alone=side_by_side)

    return scenario("", *turns, side_by_side=side_by_side)(generated)


def _kinds(agent: Described) -> set[str]:
    return {agent["kind"]}.union(*(_kinds(child) for child in agent["children"]))


def _message(said: str) -> Message:
    """What the user says; ``yes`` and ``no`` answer what waits, if something does."""
    if said not in ("yes", "no"):
        return said

    def message(events: Sequence[Event]) -> types.Content:
        calls = [call for event in events for call in event.get_function_calls()]
        by_user = [event for event in events if event.author == "user"]
        answered = {one.id for event in by_user for one in event.get_function_responses()}
        names = {CONFIRMATION: {"confirmed": said == "yes"}, "order": {"status": said}}
        waiting = [one for one in calls if one.name in names and one.id not in answered]
        parts = [
            types.Part(
                function_response=types.FunctionResponse(
                    id=call.id, name=call.name, response=names[call.name or ""]
                )
            )
            for call in waiting[-1:]
        ]
        return types.Content(role="user", parts=parts or [types.Part(text=said)])

    return message


def _agent(described: Described, *, alone: bool) -> BaseAgent:
    """The agent; `alone`: its keys are its own, for what runs beside it writes too."""
    name = described["name"]
    own = f"{name}_" if alone else ""
    children = [_agent(child, alone=alone) for child in described["children"]]
    hooks = {
        f"{hook}_callback": _hook(hook, does, own) for hook, does in described["hooks"].items()
    }
    if described["kind"] == "loop":
        return LoopAgent(name=name, sub_agents=children, max_iterations=2, **hooks)
    if described["kind"] in {"sequential", "parallel"}:
        made = SequentialAgent if described["kind"] == "sequential" else ParallelAgent
        return made(name=name, sub_agents=children, **hooks)
    expert = [AgentTool(_agent(each, alone=alone)) for each in described["experts"]]
    replies = [_reply(each, own, described["experts"]) for each in described["replies"]]
    end = '{"word": "red", "number": 2}' if described["schema"] else f"{name} has done"

    def reply(request: LlmRequest) -> Any:
        turn = sum(content.role == "model" for content in request.contents)
        return replies[turn] if turn < len(replies) else end

    return LlmAgent(
        name=name,
        description=f"does {name}",
        model=ScriptedModel(replies=reply),
        instruction=described["instruction"],
        tools=[] if described["schema"] else [*tools(), *expert],
        output_schema=Answer if described["schema"] else None,
        output_key=described["output_key"] and f"{own}{described['output_key']}",
        include_contents=described["contents"],
        sub_agents=children,
        **hooks,
    )


def _reply(described: Described, own: str, experts: Sequence[Described]) -> Any:
    if "raise" in described:
        return RAISED[described["raise"]]("the model is away")
    asked = experts if described.get("asks") else ()  # alone: what is called beside ends first
    parts = [types.Part(text=said, thought=True) for said in described.get("thinks", ())]
    parts += [types.Part(text=said) for said in described.get("says", ())]
    parts += [
        types.Part(function_call=types.FunctionCall(name=name, args=_with_own_key(args, own)))
        for name, args in (() if asked else described.get("calls", ()))
        if not (own and name in ("leave", "save"))  # which branch is ahead then is up to chance
    ]
    parts += [
        types.Part(function_call=types.FunctionCall(name=one["name"], args={"request": "why?"}))
        for one in asked
    ]
    return types.Content(role="model", parts=parts or [types.Part(text="nothing")])


def _with_own_key(args: Described, own: str) -> Described:
    if "key" not in args:
        return args
    scope, colon, key = args["key"].rpartition(":")
    return args | {"key": f"{scope}{colon}{own}{key}"}


def _hook(hook: str, does: Described, own: str) -> Any:
    """A callback that writes to the state, and may answer or raise."""
    key = f"user:{own}{hook}" if does.get("user") else f"{own}{hook}"
    takes_agent = hook.endswith("_agent")

    def called(**given: Any) -> Any:
        context = given.get("callback_context") or given["tool_context"]
        context.state[key] = context.state.get(key, 0) + 1
        if "raise" in does:
            raise RAISED[does["raise"]](hook)
        if "answer" not in does:
            return None
        if takes_agent:
            return text(does["answer"])
        if hook.endswith("_model"):
            return LlmResponse(content=text(does["answer"]))
        return {"hook": does["answer"]}

    return _by_name(hook, called)


def _by_name(hook: str, called: Any) -> Any:
    """The callback with the parameters of its hook, which both give by name or by place."""
    if hook.endswith("_agent"):
        return lambda callback_context: called(callback_context=callback_context)
    if hook == "before_model":
        return lambda callback_context, llm_request: called(callback_context=callback_context)
    if hook == "after_model":
        return lambda callback_context, llm_response: called(callback_context=callback_context)
    if hook == "before_tool":
        return lambda tool, args, tool_context: called(tool_context=tool_context)
    return lambda tool, args, tool_context, tool_response: called(tool_context=tool_context)
