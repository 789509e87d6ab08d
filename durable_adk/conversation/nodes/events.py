"""What the events of a graph's nodes have beyond those of an agent (GR-77 to GR-82)."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from google.genai import types
from pydantic import ValidationError

from durable_adk.code_executors.code_execution_utils import pending_code
from durable_adk.conversation.history import USER
from durable_adk.errors import AgentError, wrapped
from durable_adk.events.event import Event, NodeInfo
from durable_adk.tools.output_schema import parse_output
from durable_adk.wire.graph.node_run import NodeEnd, NodeRef, NodeSite
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


def mark_agent_events(
    events: Sequence[Event], site: NodeSite, schema: Any, *, is_task: bool
) -> None:
    """Mark the events of a step of an agent that is a node (GR-80).

    Args:
        events: The events.
        site: The run of the node.
        schema: The agent's `output_schema`, or None.
        is_task: Whether the agent has a task, so that its texts are no output.

    Raises:
        OutputSchemaError: The agent's final text does not match the schema.
    """
    for event in events:
        mark(event, site)
        if event.output is not None and site.output_for:
            mark_output(event, site, message=False)
    last = events[-1] if events else None
    if last is None or is_task or not site.output_for or not is_answer_text(last):
        return
    if schema is not None and last.output is None:
        last.output = parse_output(schema, last.text)
    if site.ends and not any(event.long_running_tool_ids for event in events):
        mark_output(last, site, message=last.output is None)


def convert_output(event: Event, convert: Callable[[Any, Sequence[str]], Any]) -> None:
    """Convert the output of an agent that is a node for the graphs that end with it (GR-190).

    Args:
        event: An event of the agent.
        convert: Returns an output as the graphs have it whose paths are given.

    Raises:
        AgentError: It does not fit the `output_schema` of one of them.
    """
    info = event.node_info
    told = event.text if info.message_as_output else event.output
    if not info.output_for or told is None:
        return
    try:
        output = convert(told, info.output_for)
    except ValidationError as unfit:
        raise wrapped(AgentError, unfit) from unfit
    if type(output) is not type(told) or output != told:  # 1 is not True
        event.output = output
        event.node_info = info.model_copy(update={"message_as_output": None})


def is_answer_text(event: Event) -> bool:
    """Return whether an event is a final text of an agent, without code, calls and hand-over."""
    return bool(
        event.is_final_response()
        and event.text
        and not event.get_function_calls()
        and event.actions.transfer_to_agent is None
        and pending_code(event.content) is None
    )


def end_of(events: Sequence[Event]) -> NodeEnd:
    """Return how a run of a node's code ended by its events, of which there is at least one."""
    first = next((event for event in events if event.output is not None), events[-1])
    routes = [event.actions.route for event in events if event.actions.route is not None]
    return NodeEnd(
        output=None if first.output is None else NodeRef(event=first.id),
        route=routes[-1] if routes else None,
        branch=first.branch,
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


def shows(event: Event, path: str, scope: str | None) -> bool:
    """Return whether an agent sees an event: not what its calls have run, nor another task (GR-82).

    Args:
        event: An event of the session.
        path: The path of the agent's run; empty for an agent outside of graphs.
        scope: The scope of its events.
    """
    own = event.node_info.path
    below = own.startswith(f"{path}/") if path else is_of_call(own)
    return event.isolation_scope == scope and not below


def is_of_call(path: str) -> bool:
    """Return whether a node with this path, or one around it, was run by a call of an agent.

    Run ids of calls are the calls' ids. Those in graphs are numbers, as are those that google-adk
    gives agents to which others transfer: these are not below the others in any other sense.
    """
    return any(not part.rpartition("@")[2].isdecimal() for part in path.split("/")[1:])


def prompt_events(
    events: Sequence[Event], given: Event, site: NodeSite, invocation_id: str
) -> list[Event]:
    """Return the events of a run of an agent, behind one with its input (B-7).

    Args:
        events: The session's events.
        given: The event with the input.
        site: The run. A scope of its own makes the user's messages in it the agent's.
        invocation_id: The invocation.
    """
    shown = [given]
    calls = set[str | None]()
    for event in events:
        answers = any(response.id in calls for response in event.get_function_responses())
        if event.author != USER:
            below = event.node_info.path.startswith(f"{site.path}/")
            mine = event.id.startswith(f"{site.prefix}.") and not below
            calls.update(call.id for call in event.get_function_calls() if mine)
            mine = mine or answers  # what a deadline has decided
        else:
            mine = answers or (len(shown) > 1 and _is_reply(event, site, invocation_id))
        if mine:
            shown.append(event)
    return shown


def _is_reply(event: Event, site: NodeSite, invocation_id: str) -> bool:
    """Return whether an event is a message of the user to the task of a run (GR-173)."""
    of_user = event.author == USER and event.invocation_id == invocation_id
    return of_user and site.scope is not None and event.isolation_scope == site.scope


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
