"""One tool call with its callbacks."""

import asyncio
import copy
from dataclasses import dataclass
from typing import Any

from google.genai import types

from durable_adk.activities.agent_answer import ChildAnswer, child_answer
from durable_adk.activities.callbacks import answer_of
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
from durable_adk.events.event_actions import EventActions
from durable_adk.events.tool_confirmation import ToolConfirmation
from durable_adk.failpoints import failpoint
from durable_adk.flows.requests import REQUEST_CONFIRMATION, SETTLED
from durable_adk.messages import check_size
from durable_adk.payloads import AgentNode, ChildRun, StepResult, ToolStep, Wait
from durable_adk.plugins.plugin_manager import PluginManager
from durable_adk.tools._confirmation import refusal
from durable_adk.tools.agent_tool import AgentTool
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
    if step.child is not None:
        # The callbacks before the call have run; what they changed goes on with it.
        scope.session.state.update(step.child.actions.state_delta)
    given = _given(scope, step.request_id)
    context = ToolContext(
        scope,
        function_call_id=step.call_id,
        actions=step.child.actions if step.child else None,
        tool_confirmation=_confirmation(given),
    )
    try:
        async with asyncio.timeout(step.attempt_timeout):
            answered, plugins = await _answered(world, step), world.plugins(step)
            outcome = await _respond(agent, call, context, given, answered, plugins=plugins)
        if outcome.child is not None:
            context.state.collect_delta()
            outcome.child.actions = context.actions
            return StepResult(child=outcome.child, end_invocation=scope.end_invocation)
        if outcome.pending and not _asked(context):
            return _pending(context, step)
        event = _event(outcome.response, call, context, step)
    except TimeoutError:
        timeout = ToolTimeoutError(
            f"Tool {call.name!r} did not finish in {step.attempt_timeout:g} s; it may still run. "
            "Give the tool a longer timeout."
        )
        return StepResult(error=as_detail(timeout))
    except DurableAdkError as error:
        return StepResult(error=as_detail(error))
    waits = _waits(outcome, call, context)
    if outcome.long_running and not waits:
        event.custom_metadata = {SETTLED: [step.call_id]}
    return StepResult(
        event=event,
        end_invocation=scope.end_invocation,
        transfer=_transfer(agent, event.actions.transfer_to_agent),
        waits=waits,
    )


@dataclass(kw_only=True)
class _Outcome:
    """What a call came to."""

    response: Any
    child: ChildRun | None = None
    """The agent to ask first."""
    tool: BaseTool | None = None
    ran: bool = False
    """Whether the tool itself gave the response, and no callback."""

    @property
    def long_running(self) -> bool:
        return self.tool is not None and self.tool.is_long_running

    @property
    def pending(self) -> bool:
        """Whether the response comes later, and nothing stands for it yet (FLW-50)."""
        return self.long_running and self.ran and not self.response

    @property
    def is_interim(self) -> bool:
        """Whether another response is to follow; an error is the last one."""
        response: Any = self.response
        failed = isinstance(response, dict) and "error" in response
        return self.long_running and self.ran and not failed


def _waits(outcome: _Outcome, call: types.FunctionCall, context: ToolContext) -> dict[str, Wait]:
    if outcome.tool is None or not (_asked(context) or outcome.is_interim):
        return {}
    wait = Wait(deadline=outcome.tool.deadline, on_deadline=outcome.tool.on_deadline)
    return {call.id or "": wait}


def _asked(context: ToolContext) -> bool:
    """Whether the tool wants an approval or a credential first."""
    actions = context.actions
    return bool(actions.requested_tool_confirmations or actions.requested_auth_configs)


def _pending(context: ToolContext, step: ToolStep) -> StepResult:
    """A long-running call that has begun; what it changed rides on an event of its own (TRAP-9)."""
    delta = context.state.collect_delta()
    check_json(delta, "state_delta")
    actions = EventActions(state_delta=delta, artifact_delta=context.actions.artifact_delta)
    event = Event(
        id=step.event_id,
        invocation_id=step.invocation_id,
        author=step.agent,
        branch=step.branch,
        actions=actions,
    )
    check_size(event.to_json(), f"What tool {step.tool!r} changed")
    changed = delta or actions.artifact_delta
    return StepResult(pending=True, event=event if changed else None)


def _given(scope: StepScope, request_id: str | None) -> types.FunctionResponse | None:
    """The user's answer to the request that made this call wait."""
    if request_id is None:
        return None
    responses = (r for event in scope.session.events for r in event.get_function_responses())
    return next((response for response in responses if response.id == request_id), None)


def _confirmation(given: types.FunctionResponse | None) -> ToolConfirmation | None:
    if given is None or given.name != REQUEST_CONFIRMATION:
        return None
    return ToolConfirmation.model_validate(given.response)


async def _answered(world: World, step: ToolStep) -> ChildAnswer | None:
    return await child_answer(world, step.child, step.invocation_id) if step.child else None


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


async def _respond(
    agent: LlmAgent,
    call: types.FunctionCall,
    context: ToolContext,
    given: types.FunctionResponse | None,
    answered: ChildAnswer | None,
    *,
    plugins: PluginManager,
) -> _Outcome:
    """The call's response: of the tool, or of a callback that stands for it."""
    tools = await tools_of(agent, context)
    tool = tools.get(call.name or "")
    if tool is None:
        response = await _unknown(agent, call, context, list(tools), plugins=plugins)
        return _Outcome(response=response)
    if given is not None and "error" in (given.response or {}):
        return _Outcome(response=given.response, tool=tool)  # nobody gave what it waits for
    # A copy: callbacks may change the arguments, never the committed event (TRAP-23, FLW-48).
    args = copy.deepcopy(call.args or {})
    response = None
    if answered is None:
        response = await answer_of(
            plugins,
            "before_tool_callback",
            agent.before_tool_callback,
            tool=tool,
            args=args,
            tool_context=context,
        )
    ran = response is None
    if ran and answered is None and isinstance(tool, AgentTool):
        asked = await _asked_first(tool, args, context)
        if isinstance(asked, ChildRun):
            return _Outcome(response=None, child=asked)
        response, ran = {"error": asked}, False
    if ran:
        response = await _run_or_recover(agent, tool, args, context, answered, plugins=plugins)
    changed = await answer_of(
        plugins,
        "after_tool_callback",
        agent.after_tool_callback,
        tool=tool,
        args=args,
        tool_context=context,
        tool_response=response,
    )
    return _Outcome(response=response if changed is None else changed, tool=tool, ran=ran)


async def _asked_first(
    tool: AgentTool, args: dict[str, Any], context: ToolContext
) -> ChildRun | str:
    """What to ask the agent that the tool is; or why it is not asked."""
    message, unfit = tool.question(args)
    problem = unfit or await _unconfirmed(tool, args, context)
    if problem is not None:
        return problem
    return ChildRun(agent=tool.agent.name, message=message, include_plugins=tool.include_plugins)


async def _unconfirmed(tool: BaseTool, args: dict[str, Any], context: ToolContext) -> str | None:
    """Why the call may not run; of tools that have no rule of their own there is none (TOL-60).

    Such a tool may ask for itself, and then reads the decision itself.
    """
    if tool.confirms_itself or type(tool).needs_confirmation is BaseTool.needs_confirmation:
        return None
    return await contained(refusal(tool, args, context))


async def _run_or_recover(
    agent: LlmAgent,
    tool: BaseTool,
    args: dict[str, Any],
    context: ToolContext,
    answered: ChildAnswer | None,
    *,
    plugins: PluginManager,
) -> Any:
    failpoint("tool.before_run")
    try:
        if answered is not None:
            response = answered.taken(tool, context)
        elif problem := await _unconfirmed(tool, args, context):
            response = {"error": problem}
        else:
            response = await contained(tool.run_async(args=args, tool_context=context))
    except Exception as error:
        recovered = await answer_of(
            plugins,
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


async def _unknown(
    agent: LlmAgent,
    call: types.FunctionCall,
    context: ToolContext,
    known: list[str],
    *,
    plugins: PluginManager,
) -> Any:
    """The response to a call of a tool that does not exist; the hooks for errors may give one."""
    response = unknown_tool(call.name or "", known)
    recovered = await answer_of(
        plugins,
        "on_tool_error_callback",
        agent.on_tool_error_callback,
        tool=BaseTool(name=call.name or "", description="This tool does not exist."),
        args=copy.deepcopy(call.args or {}),
        tool_context=context,
        error=raised(ToolError, "ValueError", response["error"]),
    )
    return response if recovered is None else recovered


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
    parts: list[types.Part] = []
    if step.child is not None and context.actions.skip_summarization:
        # The agent's words end the caller's turn, so they stand there as text too (17.1, TOL-21).
        parts.append(types.Part(text=str(response.get("result", ""))))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]: checked JSON
    answer = types.FunctionResponse(id=call.id, name=call.name, response=response)  # pyright: ignore[reportUnknownArgumentType]: checked JSON
    event = Event(
        id=step.event_id,
        invocation_id=step.invocation_id,
        author=step.agent,
        branch=step.branch,
        content=types.Content(role="user", parts=[types.Part(function_response=answer), *parts]),
        actions=context.actions,
    )
    try:
        check_size(event.to_json(), f"The result of tool {call.name!r}")
    except PayloadTooLargeError as error:
        raise ToolResultError(error.message) from None
    return event
