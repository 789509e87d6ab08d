"""ADK's routes that describe an app: its agents and tools, as JSON and as a graph."""

from collections.abc import Collection, Iterator
from typing import Any

from fastapi import APIRouter

from durable_adk.apps.app_declaration import AgentDescription, AppDescription
from durable_adk.errors import InvalidRequestError, UnknownAppError
from durable_adk.events.event import Event
from durable_adk.server.caller import CurrentCaller
from durable_adk.server.routes.body import InSession
from durable_adk.server.services import CurrentServices, ServerServices

router = APIRouter(tags=["apps"])
_DARK = {"background": "#333537", "line": "#cccccc", "text": "#cccccc"}
_LIGHT = {"background": "#ffffff", "line": "#64748b", "text": "#0f172a"}
_CHOSEN = {"fill": "#0f5223", "line": "#69cb87"}


@router.get("/apps/{app_name}/app-info")
async def app_info(
    services: CurrentServices, caller: CurrentCaller, app_name: str
) -> dict[str, Any]:
    """Return an app's agents with their tools, and for operators with their instructions."""
    app = _described(services, app_name)
    if app.root_agent.kind != "LlmAgent":
        raise InvalidRequestError("Root agent is not an LlmAgent")
    return {
        **listed(app.name, app.root_agent.name, app.root_agent.description),
        "language": "python",
        "agents": {
            agent.name: _shown(agent, prompts=caller.is_operator)
            for agent in _llm_agents(app.root_agent)
        },
    }


@router.get("/dev/apps/{app_name}/build_graph")
async def build_graph(
    services: CurrentServices, caller: CurrentCaller, app_name: str
) -> dict[str, Any]:
    """Return the tree of an app's agents, for operators with their instructions."""
    app = _described(services, app_name)
    plugins = {"plugins": [{"name": name} for name in app.plugins]} if app.plugins else {}
    tree = _tree(app.root_agent, prompts=caller.is_operator)
    return {"name": app.name, "root_agent": tree, **plugins}


@router.get("/dev/apps/{app_name}/build_graph_image")
async def build_graph_image(
    services: CurrentServices, app_name: str, *, dark_mode: bool = False, node: str | None = None
) -> dict[str, Any]:
    """Return the graph of an app's agents, or of those below a node, in Graphviz's DOT language."""
    root = _described(services, app_name).root_agent
    for part in [name for name in (node or "").split("/") if name and name != root.name]:
        found = next((one for one in root.sub_agents if one.name == part), None)
        if found is None:
            raise UnknownAppError(f"Node not found: {node}")
        root = found
    return {node or "": {"dotSrc": _dot(root, (), dark=dark_mode)}}


@router.get("/dev/apps/{app_name}/graph")
async def graph(
    services: CurrentServices, app_name: str, *, dark_mode: bool = False
) -> dict[str, str]:
    """Return the graph of an app's agents in Graphviz's DOT language."""
    return {"dotSrc": _dot(_described(services, app_name).root_agent, (), dark=dark_mode)}


@router.get("/dev/apps/{app_name}/users/{user_id}/sessions/{session_id}/events/{event_id}/graph")
async def event_graph(services: CurrentServices, key: InSession, event_id: str) -> dict[str, str]:
    """Return the graph with an event's agent and tools highlighted; empty without the event."""
    app = services.apps.get(key.app_name)
    stored = await services.session_service.find_event(key, event_id)
    if stored is None or app is None:
        return {}
    return {"dotSrc": _dot(app.root_agent, _about(stored.event), dark=True)}


def listed(name: str, root_agent: str, description: str) -> dict[str, Any]:
    """Return an app's entry in the list of apps."""
    return {
        "name": name,
        "rootAgentName": root_agent,
        "description": description,
        "language": "python",
        "isComputerUse": False,
    }


def _described(services: ServerServices, app_name: str) -> AppDescription:
    found = services.apps.get(app_name)
    if found is None:
        raise UnknownAppError(f"This server does not have the code of app {app_name!r}.")
    return found


def _llm_agents(agent: AgentDescription) -> Iterator[AgentDescription]:
    if agent.kind == "LlmAgent":
        yield agent
        for one in agent.sub_agents:
            yield from _llm_agents(one)


def _shown(agent: AgentDescription, *, prompts: bool) -> dict[str, Any]:
    return {
        "name": agent.name,
        "description": agent.description,
        "instruction": agent.instruction if prompts else "",
        "tools": [{"functionDeclarations": [t.declaration]} for t in agent.tools if t.declaration],
        "subAgents": [one.name for one in agent.sub_agents if one.kind == "LlmAgent"],
    }


def _tree(agent: AgentDescription, *, prompts: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": agent.name,
        "type": agent.kind,
        "description": agent.description,
        "instruction": agent.instruction if prompts else "",
        "model": agent.model,
        "tools": [
            {"name": tool.name, "type": "agent" if tool.is_agent else "tool"}
            for tool in agent.tools
        ],
        "sub_agents": [_tree(one, prompts=prompts) for one in agent.sub_agents],
    }
    return {name: value for name, value in found.items() if value not in (None, "")}


def _about(event: Event) -> set[str]:
    """Return the names of an event's agent and tools."""
    calls = {call.name or "" for call in event.get_function_calls()}
    responses = {response.name or "" for response in event.get_function_responses()}
    return {event.author, *calls, *responses}


def _dot(root: AgentDescription, chosen: Collection[str], *, dark: bool) -> str:
    colors = _DARK if dark else _LIGHT
    line, text = colors["line"], colors["text"]
    lines = [
        f'graph [rankdir=LR bgcolor="{colors["background"]}"]',
        f'node [style=rounded color="{line}" fontcolor="{text}"]',
        f'edge [arrowhead=none color="{line}"]',
        *_lines(root, chosen),
    ]
    return "\n\t".join(["strict digraph {", *lines]) + "\n}\n"


def _lines(agent: AgentDescription, chosen: Collection[str]) -> Iterator[str]:
    yield _node(agent.name, "🤖", "ellipse", chosen)
    for tool in agent.tools:
        yield _node(tool.name, "🤖" if tool.is_agent else "🔧", "box", chosen)
        yield _edge(agent.name, tool.name, chosen)
    for one in agent.sub_agents:
        yield from _lines(one, chosen)
        yield _edge(agent.name, one.name, chosen)


def _node(name: str, sign: str, shape: str, chosen: Collection[str]) -> str:
    fill = _CHOSEN["fill"]
    more = f' style="filled,rounded" fillcolor="{fill}"' if name in chosen else ""
    return f"{_quoted(name)} [label={_quoted(f'{sign} {name}')} shape={shape}{more}]"


def _edge(start: str, end: str, chosen: Collection[str]) -> str:
    marked = start in chosen and end in chosen
    more = f' [color="{_CHOSEN["line"]}"]' if marked else ""
    return f"{_quoted(start)} -> {_quoted(end)}{more}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
