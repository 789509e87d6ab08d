"""ADK's routes that describe an app: its agents, graphs and tools, as JSON and drawn."""

from collections.abc import Iterator
from typing import Any

from fastapi import APIRouter

from durable_adk.apps.app_declaration import AgentDescription, AppDescription
from durable_adk.errors import InvalidRequestError, UnknownAppError
from durable_adk.events.event import Event
from durable_adk.server.adk.dot import dot_source, levels, node_kind
from durable_adk.server.caller import CurrentCaller
from durable_adk.server.routes.body import InSession
from durable_adk.server.services import CurrentServices, ServerServices

router = APIRouter(tags=["apps"])


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
    """Return the tree of an app's agents and graphs, for operators with their instructions."""
    app = _described(services, app_name)
    plugins = {"plugins": [{"name": name} for name in app.plugins]} if app.plugins else {}
    tree = _tree(app.root_agent, prompts=caller.is_operator)
    return {"name": app.name, "root_agent": tree, **plugins}


@router.get("/dev/apps/{app_name}/build_graph_image")
async def build_graph_image(
    services: CurrentServices, app_name: str, *, dark_mode: bool = False, node: str | None = None
) -> dict[str, Any]:
    """Return the graph of an app, or of what is below a node, in Graphviz's DOT language.

    Each graph in the graph is a drawing of its own, under its path.
    """
    root = _described(services, app_name).root_agent
    for part in [name for name in (node or "").split("/") if name and name != root.name]:
        found = next((one for one in root.sub_agents if one.name == part), None)
        if found is None:
            raise UnknownAppError(f"Node not found: {node}")
        root = found
    drawn = {path: dot_source(one, (), dark=dark_mode) for path, one in levels(root, node or "")}
    return {path: {"dotSrc": source} for path, source in drawn.items()}


@router.get("/dev/apps/{app_name}/graph")
async def graph(
    services: CurrentServices, app_name: str, *, dark_mode: bool = False
) -> dict[str, str]:
    """Return the graph of an app's agents in Graphviz's DOT language."""
    return {"dotSrc": dot_source(_described(services, app_name).root_agent, (), dark=dark_mode)}


@router.get("/dev/apps/{app_name}/users/{user_id}/sessions/{session_id}/events/{event_id}/graph")
async def event_graph(services: CurrentServices, key: InSession, event_id: str) -> dict[str, str]:
    """Return the graph with an event's agent and tools highlighted; empty without the event."""
    app = services.apps.get(key.app_name)
    stored = await services.session_service.find_event(key, event_id)
    if stored is None or app is None:
        return {}
    return {"dotSrc": dot_source(app.root_agent, _about(stored.event), dark=True)}


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
        **_nodes(agent),
        "sub_agents": [_tree(one, prompts=prompts) for one in agent.sub_agents],
    }
    return {name: value for name, value in found.items() if value not in (None, "")}


def _nodes(agent: AgentDescription) -> dict[str, Any]:
    """Return the nodes and edges of a graph, as ADK names them (GR-210)."""
    if agent.graph is None:
        return {}
    nodes = [{"name": one.name, "type": node_kind(agent, one)} for one in agent.graph.nodes]
    edges = [
        {"from_node": edge.source, "to_node": edge.target, "route": edge.route}
        for edge in agent.graph.edges
    ]
    return {"nodes": [{"name": "__START__", "type": "start"}, *nodes], "edges": edges}


def _about(event: Event) -> set[str]:
    """Return the names of an event's agent, tools and nodes."""
    calls = {call.name or "" for call in event.get_function_calls()}
    responses = {response.name or "" for response in event.get_function_responses()}
    nodes = {part.partition("@")[0] for part in event.node_info.path.split("/") if part}
    return {event.author, *calls, *responses, *nodes}
