"""Selects the agent that receives a message of the user, or a hand-over."""

from collections.abc import Sequence

from google.genai import types

from durable_adk.agents.base_agent import BaseAgent
from durable_adk.agents.llm_agent import LlmAgent
from durable_adk.conversation.nodes.events import is_of_call
from durable_adk.events.event import Event
from durable_adk.wire.manifest import HandOver


def agent_for(root: BaseAgent, events: Sequence[Event], message: types.Content) -> BaseAgent | None:
    """Return the agent that the end of the history determines; None: read further back.

    Args:
        root: The app's root agent.
        events: The end of the session's history, without the message itself.
        message: The user's message. An answer to a call goes to the agent that made the call,
            whatever happened since (AGT-40, TRAP-18).
    """
    answered = {r.id for part in message.parts or [] if (r := part.function_response)}
    if answered:
        return _caller(root, events, answered)
    return next((agent for event in reversed(events) if (agent := _pointed_to(root, event))), None)


def _caller(root: BaseAgent, events: Sequence[Event], ids: set[str | None]) -> BaseAgent | None:
    for event in reversed(events):
        if any(call.id in ids for call in event.get_function_calls()):
            path = event.node_info.path
            called = path.partition("@")[0] if is_of_call(path) else ""
            return root.find_agent(called or event.author)
    return None


def _pointed_to(root: BaseAgent, event: Event) -> BaseAgent | None:
    """Return the agent that continues after the event: transfer target or author (AGT-41, 17.1).

    An event without content is not a reply of its author: the error event of a failed run is by the
    agent that began it, and an agent that handed over may write one after the other agent's reply.
    """
    if is_of_call(event.node_info.path):
        return None
    author = root.find_agent(event.author)
    name = event.actions.transfer_to_agent
    if name and isinstance(author, LlmAgent):
        target = author.transfer_target(name)
        if target is not None and is_transferable(target):
            return target
    return author if event.parts and author is not None and is_transferable(author) else None


def hand_over(agent: BaseAgent, name: str | None) -> HandOver | None:
    """Return the target of a `transfer_to_agent` that a tool call of an agent set (AGT-50)."""
    if not name:
        return None
    node = next((target.node() for target in _targets(agent) if target.name == name), None)
    return HandOver(name=name, node=node)


def hand_over_by_event(agent: BaseAgent, event: Event) -> HandOver | None:
    """Return the target of a hand-over by an event of a callback, a model or a custom body.

    As in ADK, it has no effect below a workflow agent, nor for a root that is one.
    """
    above = agent
    while above.parent_agent is not None:
        above = above.parent_agent
        if not isinstance(above, LlmAgent):
            return None
    driven = isinstance(above, LlmAgent)
    return hand_over(agent, event.actions.transfer_to_agent) if driven else None


def _targets(agent: BaseAgent) -> list[BaseAgent]:
    if isinstance(agent, LlmAgent):
        return agent.transfer_targets
    parent = agent.parent_agent
    above = [] if parent is None else [parent, *parent.sub_agents]
    return [target for target in (*agent.sub_agents, *above) if target is not agent]


def is_transferable(agent: BaseAgent) -> bool:
    """Return whether messages may go directly to an agent (AGT-42).

    Below a workflow agent they may not, because the workflow would be bypassed.
    """
    above = agent
    while above.parent_agent is not None:
        if not isinstance(above, LlmAgent) or above.disallow_transfer_to_parent:
            return False
        above = above.parent_agent
    return above is agent or isinstance(above, LlmAgent)
