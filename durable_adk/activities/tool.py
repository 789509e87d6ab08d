"""One tool call with its callbacks."""

import asyncio
import copy
from typing import Any

from google.genai import types

from durable_adk.activities.callbacks import first_answer
from durable_adk.activities.toolbox import tools_of
from durable_adk.activities.world import World
from durable_adk.agents.llm_agent import LlmAgent
from durable_adk.calling import contained
from durable_adk.context import StepScope, ToolContext
from durable_adk.errors import (
    AgentDefinitionError,
    AgentError,
    DurableAdkError,
    PayloadTooLargeError,
    StateValueError,
    ToolError,
    ToolResultError,
    ToolTimeoutError,
    as_detail,
    raised,
)
from durable_adk.events.event import Event
from durable_adk.failpoints import failpoint
from durable_adk.messages import check_size
from durable_adk.payloads import AgentNode, StepResult, ToolStep
from durable_adk.tools.base_tool import BaseTool
from durable_adk.values import check_json, to_json_value


async def call_tool(world: World, step: ToolStep) -> StepResult:
    """Run one call; its response as an event, or what it raised as the result's `error`.

    The tool runs at least once: when a worker dies in the middle, another runs it again with the
    same `ToolContext.idempotency_key` (design D11).
    """
    agent, scope = await world.scope(step)
    if not isinstance(agent, LlmAgent):
        raise AgentDefinitionError(f"Agent {agent.name!r} is no LlmAgent any more.")
    call = _find_call(scope, step.call_id)
    context = ToolContext(scope, function_call_id=step.call_id)
    try:
        async with asyncio.timeout(step.attempt_timeout):
            response = await _respond(agent, call, context)
        event = _event(response, call, context, step)
    except TimeoutError:
        timeout = ToolTimeoutError(
            f"Tool {call.name!r} did not finish in {step.attempt_timeout:g} s; it may still run. "
            "Give the tool a longer timeout."
        )
        return StepResult(error=as_detail(timeout))
    except DurableAdkError as error:
        return StepResult(error=as_detail(error))
    return StepResult(
        event=event,
        end_invocation=scope.end_invocation,
        transfer=_transfer(agent, event.actions.transfer_to_agent),
    )


def _transfer(agent: LlmAgent, name: str | None) -> AgentNode | None:
    target = agent.transfer_target(name) if name else None
    return target.node() if target else None


def _find_call(scope: StepScope, call_id: str) -> types.FunctionCall:
    for event in reversed(scope.session.events):
        for call in event.get_function_calls():
            if call.id == call_id:
                return call
    raise AgentError(
        f"The call {call_id!r} is not in the session. A custom agent must yield every event its "
        "sub-agents yield, before it asks for the next."
    )


async def _respond(agent: LlmAgent, call: types.FunctionCall, context: ToolContext) -> Any:
    """The call's response: of the tool, or of a callback that stands for it."""
    tools = await tools_of(agent, context)
    tool = tools.get(call.name or "")
    if tool is None:
        return unknown_tool(call.name or "", list(tools))
    # A copy: callbacks may change the arguments, never the committed event (TRAP-23, FLW-48).
    args = copy.deepcopy(call.args or {})
    response = await first_answer(
        "before_tool_callback",
        agent.before_tool_callback,
        tool=tool,
        args=args,
        tool_context=context,
    )
    if response is None:
        response = await _run_or_recover(agent, tool, args, context)
    changed = await first_answer(
        "after_tool_callback",
        agent.after_tool_callback,
        tool=tool,
        args=args,
        tool_context=context,
        tool_response=response,
    )
    return response if changed is None else changed


async def _run_or_recover(
    agent: LlmAgent, tool: BaseTool, args: dict[str, Any], context: ToolContext
) -> Any:
    failpoint("tool.before_run")
    try:
        response = await contained(tool.run_async(args=args, tool_context=context))
    except Exception as error:
        recovered = await first_answer(
            "on_tool_error_callback",
            agent.on_tool_error_callback,
            tool=tool,
            args=args,
            tool_context=context,
            error=error,
        )
        if recovered is not None:
            return recovered
        if isinstance(error, DurableAdkError):
            raise
        kind = type(error).__name__
        raise raised(ToolError, kind, f"Tool {tool.name!r} raised {kind}: {error}") from error
    failpoint("tool.after_run")
    return response


def unknown_tool(name: str, known: list[str]) -> dict[str, str]:
    """What the model is told when it calls a tool that does not exist (FLW-47)."""
    tools = ", ".join(known) or "none"
    return {"error": f"Tool {name!r} not found. The available tools are: {tools}."}


def _event(response: Any, call: types.FunctionCall, context: ToolContext, step: ToolStep) -> Event:
    """The response as an event, checked here: what passes can be stored (reliability 1c, 1j).

    Raises:
        ToolResultError: The result is not JSON or too large.
        StateValueError: A state value was changed in place into something that is not JSON.
    """
    response = to_json_value(response)
    if not isinstance(response, dict):
        response = {"result": response}  # FLW-49
    try:
        check_json(response, f"the result of tool {call.name!r}")
    except StateValueError as error:
        raise ToolResultError(error.message) from None
    check_json(context.state.collect_delta(), "state_delta")
    answer = types.FunctionResponse(id=call.id, name=call.name, response=response)  # pyright: ignore[reportUnknownArgumentType]: checked JSON
    event = Event(
        id=step.event_id,
        invocation_id=step.invocation_id,
        author=step.agent,
        branch=step.branch,
        content=types.Content(role="user", parts=[types.Part(function_response=answer)]),
        actions=context.actions,
    )
    try:
        check_size(event.to_json(), f"The result of tool {call.name!r}")
    except PayloadTooLargeError as error:
        raise ToolResultError(error.message) from None
    return event
