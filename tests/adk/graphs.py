"""Conversations with graphs that are made of a description, which is JSON: for both sides."""

import json
import zlib
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from typing import Any

from google.genai import types

from durable_adk.agents import LlmAgent
from durable_adk.events import Event, RequestInput
from durable_adk.models import LlmRequest, ScriptedModel
from durable_adk.tools import FunctionTool
from durable_adk.workflow import START, BaseNode, Edge, JoinNode, RetryConfig, Workflow, node
from tests.scenarios.scenario import Message, Scenario, Turn, scenario

Described = dict[str, Any]
"""A graph, a node, or all of a conversation."""
ASKS = "adk_request_input"


def graph_conversation(described: Described) -> Scenario:
    """The conversation that is described."""
    turns = [Turn(message=_message(each), gets=()) for each in described["turns"]]

    def generated() -> Any:
        return _graph(described["root"])

    return scenario("", *turns, side_by_side=True)(generated)


def _message(said: Described) -> Message:
    """A text, or answers to open questions, if there are any: to all, to the first or the last."""

    def message(events: Sequence[Event]) -> types.Content:
        waiting = sorted(_open(events))
        asked = {"all": waiting, "first": waiting[:1], "last": waiting[-1:]}[said["answers"]]
        parts = [
            types.Part(
                function_response=types.FunctionResponse(
                    id=name, name=ASKS, response={"result": said["value"]}
                )
            )
            for name in asked
        ]
        return types.Content(role="user", parts=parts or [types.Part(text=said["text"])])

    return message


def _open(events: Sequence[Event]) -> set[str]:
    waiting = set[str]()
    for event in events:
        waiting |= {call.id or "" for call in event.get_function_calls() if call.name == ASKS}
        if event.author == "user":
            waiting -= {one.id or "" for one in event.get_function_responses()}
    return waiting


def _graph(described: Described) -> Workflow:
    made = {"START": START} | {one["name"]: _node(one) for one in described["nodes"]}
    edges = [
        Edge(from_node=made[source], to_node=made[target], route=route)
        for source, target, route in described["edges"]
    ]
    return Workflow(name=described["name"], edges=edges, max_concurrency=described.get("at_once"))


def _node(described: Described) -> BaseNode:
    name = described["name"]
    match described["kind"]:
        case "join":
            return JoinNode(name=name)
        case "graph":
            return _graph(described)
        case "agent":
            agent = LlmAgent(name=name, model=ScriptedModel(replies=_reply(name)))
            return node(agent)
        case "tool":
            return node(FunctionTool(_tool(name)))
        case "own":
            return Own(name=name, described=described, rerun_on_resume=True)
        case kind:
            return node(
                _function(described),
                rerun_on_resume=described["does"].startswith("ask_again"),
                retry_config=RetryConfig(max_attempts=3, initial_delay=0, jitter=0),
                parallel_worker=kind == "worker",
                max_parallel_workers=1 if kind == "worker" else None,
            )


class Own(BaseNode):
    """A node with code of its own."""

    described: Any

    async def _run_impl(self, *, ctx: Any, node_input: Any) -> AsyncGenerator[Any, None]:
        for item in _items(self.described, ctx, node_input):
            yield item


def _function(described: Described) -> Callable[..., Any]:
    """The function of a node, of one of the kinds that there are."""
    how = described.get("how", "returns")

    def returns(ctx: Any, node_input: Any) -> Any:
        (item,) = _items(described, ctx, node_input)
        return item

    async def awaits(ctx: Any, node_input: Any) -> Any:
        (item,) = _items(described, ctx, node_input)
        return item

    def yields(ctx: Any, node_input: Any) -> Iterator[Any]:
        yield from _items(described, ctx, node_input)

    async def generates(ctx: Any, node_input: Any) -> AsyncGenerator[Any, None]:
        for item in _items(described, ctx, node_input):
            yield item

    single = described["does"] not in ("message", "ask_again_both")
    functions: list[Any] = [returns, awaits, yields, generates]
    made = next(one for one in functions if one.__name__ == (how if single else "generates"))
    made.__name__ = described["name"]
    return made


def _items(described: Described, ctx: Any, node_input: Any) -> Iterator[Any]:
    """What a node yields; it depends on its input, its run and its attempt only."""
    name, does = described["name"], described["does"]
    if ctx.attempt_count <= described.get("fails", 0):
        ctx.state[f"{name}_failed"] = ctx.attempt_count
        raise LookupError(f"{name} fails")
    value = f"{name}.{_digest(node_input)}"
    routes = described.get("routes") or []
    route = routes[min(int(ctx.run_id), len(routes)) - 1] if routes else None
    if does.startswith("ask"):
        yield from _asked(described, ctx, value)
        return
    match does:
        case "none":
            ctx.route = route
            yield None
        case "message":
            yield Event(message=f"{name} works")
            yield Event(output=value, route=route)
        case "delta":
            yield Event(output=value, route=route, state={name: value})
        case "state":
            ctx.state[name] = [*ctx.state.get(name, []), value]
            yield Event(output=value, route=route)
        case "context":
            ctx.route, ctx.output = route, value
            yield None
        case "content":
            yield types.Content(role="model", parts=[types.Part(text=value)])
        case "list":
            yield [value, f"{value}!", node_input if isinstance(node_input, int | str) else 3]
        case _:
            yield {"value": value, "of": [1, None]}


def _asked(described: Described, ctx: Any, value: str) -> Iterator[Any]:
    """The questions that a node still has to ask; or what it makes of the answers."""
    name, does = described["name"], described["does"]
    if described["kind"] == "worker" and not described.get("alike"):
        name = f"{name}_{ctx.run_id}"
    if does == "ask":
        yield RequestInput(interrupt_id=f"q_{name}", message=value)
        return
    missing = [one for one in (f"q_{name}_1", f"q_{name}_2") if one not in ctx.resume_inputs]
    for question in missing if does == "ask_again_both" else missing[:1]:
        yield RequestInput(interrupt_id=question, message=value)
    if not missing:
        yield [value, dict(sorted(ctx.resume_inputs.items()))]


def _digest(value: Any) -> int:
    if isinstance(value, types.Content):
        value = [part.text for part in value.parts or ()]
    return zlib.crc32(json.dumps(value, sort_keys=True).encode()) % 1000


def _tool(name: str) -> Callable[..., Any]:
    def tool(value: Any = None) -> dict[str, Any]:
        """Take a value."""
        return {"tool": name, "of": _digest(value)}

    tool.__name__ = name
    return tool


def _reply(name: str) -> Callable[[LlmRequest], str]:
    def reply(request: LlmRequest) -> str:
        said = [part.text for content in request.contents for part in content.parts or ()]
        # A join's outputs are in any order in google-adk.
        return f"{name} says {_digest(sorted(str(said)))}"

    return reply
