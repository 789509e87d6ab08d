"""What the events of a graph's nodes have beyond those of an agent (GR-77 to GR-82)."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from google.genai import types

from durable_adk.code_executors.code_execution_utils import pending_code
from durable_adk.conversation.history import USER
from durable_adk.events.event import Event, NodeInfo
from durable_adk.tools.output_schema import parse_output
from durable_adk.wire.agent_stack import NodeEnd, NodeRef, NodeSite
from durable_adk.wire.manifest import Wait


def mark(event: Event, site: NodeSite) -> None:
    """Set the path of an event of a node's run."""
    event.node_info = event.node_info.model_copy(update={"path": site.path})
    event.isolation_scope = site.scope


def mark_output(event: Event, site: NodeSite, *, message: bool) -> None:
    """Mark an event as the output of a node's run.

    Args:
        event: The event.
        site: The run.
        message: Whether the output is the event's text.
    """
    event.node_info = NodeInfo(
        path=site.path, output_for=site.output_for, message_as_output=True if message else None
    )


def mark_agent_events(events: Iterable[Event], site: NodeSite, schema: Any) -> None:
    """Mark the events of a step of an agent that is a node (GR-80).

    Args:
        events: The events.
        site: The run of the node.
        schema: The agent's `output_schema`, or None.

    Raises:
        OutputSchemaError: The agent's final text does not match the schema.
    """
    for event in events:
        mark(event, site)
        if (
            site.output_for
            and event.is_final_response()
            and event.text
            and pending_code(event.content) is None
        ):
            if schema is not None and event.output is None:
                event.output = parse_output(schema, event.text)
            mark_output(event, site, message=event.output is None)


def end_of(events: Sequence[Event]) -> NodeEnd:
    """Return how a run of a node's code ended by its events, of which there is at least one."""
    told = next((event for event in events if event.output is not None), events[-1])
    routes = [event.actions.route for event in events if event.actions.route is not None]
    return NodeEnd(
        output=None if told.output is None else NodeRef(event=told.id),
        route=routes[-1] if routes else None,
        branch=told.branch,
    )


def event_before(event_id: str, index: int) -> str:
    """Return the id of an event of a node's code before its last one, whose id is given."""
    return f"{event_id}.{index}"


def questions(events: Iterable[Event]) -> dict[str, Wait]:
    """Return the calls of a node's events that wait for an answer."""
    return {name: Wait() for event in events for name in event.long_running_tool_ids or ()}


def as_content(value: Any) -> types.Content | None:
    """Return a node's input as the first content of an agent's prompt (GR-62); None for None."""
    if value is None or isinstance(value, types.Content):
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return types.Content(role="user", parts=[types.Part(text=text)])


def prompt_events(events: Sequence[Event], given: Event, prefix: str) -> list[Event]:
    """Return the events of a run of an agent, behind one with its input (B-7).

    Args:
        events: The session's events.
        given: The event with the input.
        prefix: The prefix of the ids of the run's events.
    """
    shown = [given]
    calls = set[str | None]()
    for event in events:
        if event.id.startswith(f"{prefix}."):
            calls.update(call.id for call in event.get_function_calls())
            shown.append(event)
        elif event.author == USER and any(
            response.id in calls for response in event.get_function_responses()
        ):
            shown.append(event)
    return shown


def result_text(event: Event) -> str:
    """Return an event's text as the result of its invocation; empty if it has none.

    It is the text of a final event, or the output of the app's graph, as JSON unless it is a text.
    """
    if event.is_final_response() and event.text:
        return event.text
    if event.output is None or not is_root_output(event.node_info.output_for or []):
        return ""
    if isinstance(event.output, str):
        return event.output
    return json.dumps(event.output, ensure_ascii=False)


def is_root_output(output_for: Iterable[str]) -> bool:
    """Return whether an output of nodes with these paths is the output of the app's graph."""
    return any("/" not in path for path in output_for)
