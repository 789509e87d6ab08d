"""Tools whose work runs outside the tool step: agents as tools, and external activities."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from google.genai import types

from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.tool.agent_tools import AgentTools, agent_tools
from durable_adk.agents.llm_agent import LlmAgent
from durable_adk.calling import contained
from durable_adk.context.activity import ToolContext
from durable_adk.errors import (
    AgentDefinitionError,
    AgentError,
    AgentWaitsError,
    DurableAdkError,
    as_raised,
    from_detail,
    text_of,
)
from durable_adk.events.event import Event
from durable_adk.failpoints import failpoint
from durable_adk.json_values import canonical, to_json_value
from durable_adk.sessions.state import SHARED_PREFIXES, without_temp
from durable_adk.sessions.state_merge import Base, base_of
from durable_adk.tools.activity_tool import ActivityTool
from durable_adk.tools.agent_tool import AgentTool
from durable_adk.tools.base_tool import BaseTool
from durable_adk.tools.output_schema import parse_output
from durable_adk.wire.activity_call import ActivityCall, failed, overdue
from durable_adk.wire.steps import ChildEnd, ChildRun, ToolStep


@dataclass(frozen=True)
class AgentResult:
    """The events of the agent's run, and the error it failed with."""

    events: list[Event]
    error: dict[str, Any] | None

    def taken(self, tool: BaseTool, context: ToolContext) -> Any:
        """Return the tool's result and apply the agent's state and artifact changes (TOL-21).

        Raises:
            DurableAdkError: The agent's run failed; its error becomes the tool's error.
        """
        error = from_detail(self.error) if self.error is not None else None
        if error is not None and not isinstance(error, AgentWaitsError):
            raise error
        delta, read = _changes(self.events)
        context.state.merge(delta, read)
        for event in self.events:
            context.actions.artifact_delta |= event.actions.artifact_delta
        if error is not None:  # as in ADK, it goes to the caller's model, which continues
            return f"Error: agent {tool.name!r} stopped: {error.message}"
        if isinstance(tool, AgentTool) and tool.skip_summarization:
            context.actions.skip_summarization = True
        return self._result(tool)

    def _result(self, tool: BaseTool) -> Any:
        last = next((event for event in reversed(self.events) if event.content), None)
        failed = next((event for event in reversed(self.events) if event.error_message), None)
        if failed is not None and failed is self.events[-1]:
            return failed.error_message
        if last is None:
            return ""
        text = "\n".join(filter(None, map(_part_text, last.parts)))
        text = text or "\n".join(map(_result_text, last.get_function_responses()))
        schema = tool.output_schema if isinstance(tool, AgentTool) else None
        if schema is None:
            return text
        return parse_output(schema, text)


def _part_text(part: types.Part) -> str | None:
    """Return the part as text for the caller: text, or code that a model wrote, or its output."""
    if part.text or part.thought:
        return None if part.thought else part.text
    if part.code_execution_result and part.code_execution_result.output:
        return part.code_execution_result.output.rstrip("\n")
    return part.executable_code and part.executable_code.code


def _result_text(response: types.FunctionResponse) -> str:
    """Return a tool's result as text for the caller, if the agent ended with it."""
    result = response.response or {}
    value = result["result"] if result.keys() == {"result"} else result
    return value if isinstance(value, str) else canonical(value)


def _changes(events: Sequence[Event]) -> tuple[dict[str, Any], dict[str, Base]]:
    """Return the state changes of a run, with their bases: the values that its first reads found.

    State that sessions share is already stored. If it was merged there, its base is its value, so
    that it is not changed again.
    """
    delta: dict[str, Any] = {}
    read: dict[str, Base] = {}
    for event in events:
        for key, value in without_temp(event.actions.state_delta).items():
            base = event.actions.state_read.get(key)
            if base is None:
                read.pop(key, None)
            elif key.startswith(SHARED_PREFIXES):
                read[key] = base_of(value, value)
            elif key not in delta:
                read[key] = base
            delta[key] = value
    return delta, read


class AgentToolRuns:
    """The runs of agents that a tool's own code requests: first the finished ones, then the next.

    Args:
        results: The results so far, in order.
        context: The tool's context, which receives the changes that the agents made.
    """

    def __init__(self, results: Iterable[AgentResult], context: ToolContext) -> None:
        self._results = iter(results)
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._waiting: list[asyncio.Future[AgentResult]] = []
        self._has_ended = False
        self.needed: asyncio.Future[ChildRun] = self._loop.create_future()
        """The first unfinished run, which the loop has to run next. It ends the tool's code by a
        cancellation. The code may catch that, but its result does not count."""

    async def __call__(self, tool: AgentTool, message: str) -> Any:
        """Return the result of the next run; if it has not run yet, wait until the code is ended.

        Raises:
            AgentError: The tool has ended, or the code runs in an event loop of its own.
            Exception: The error of the run, as its own code raised it.
        """
        if self._has_ended:
            if self.needed.done():  # the code may catch its end and retry in a loop
                await asyncio.sleep(1.0)
            raise AgentError("AgentTool.run_async runs only within a tool call.")
        result = next(self._results, None)
        if result is None:
            child = child_run(tool, message, self._context)
            if asyncio.get_running_loop() is not self._loop:
                self._loop.call_soon_threadsafe(self._need, child)
                raise AgentError("AgentTool.run_async was awaited in another event loop.")
            self._need(child)
            self._waiting.append(self._loop.create_future())
            result = await self._waiting[-1]
        try:
            return result.taken(tool, self._context)
        except DurableAdkError as error:
            raise as_raised(error) from error

    def end(self) -> None:
        """End everything that still waits, such as tasks that the code left behind."""
        self._has_ended = True
        for waiting in self._waiting:
            waiting.cancel()

    def _need(self, child: ChildRun) -> None:
        if not self.needed.done():
            self.needed.set_result(child)


def child_run(tool: AgentTool, message: str, context: ToolContext) -> ChildRun:
    """Describe the run of a tool's agent, with the call's changes to its session's state."""
    delta = without_temp(context.state.collect_delta())
    return ChildRun(
        agent=tool.agent.name,
        message=message,
        include_plugins=tool.include_plugins,
        state_delta={k: v for k, v in delta.items() if not k.startswith(SHARED_PREFIXES)},
    )


async def read_agent_result(deps: Dependencies, end: ChildEnd, invocation_id: str) -> AgentResult:
    """Read the child agent's events, without the question, by reference to its session (D3)."""
    record = await deps.sessions.get_invocation(end.key, invocation_id)
    if record is None:
        return AgentResult([], end.error)
    stored = await deps.sessions.read_events(end.key, after=record.start_seq)
    failpoint("child.read")
    return AgentResult([item.event for item in stored], end.error)


def activity_call(
    tool: ActivityTool, args: dict[str, Any], sent: dict[str, Any], context: ToolContext
) -> ActivityCall:
    """Describe the activity that the loop has to run.

    Args:
        tool: The tool, which has accepted the arguments.
        args: The arguments after the callbacks.
        sent: The arguments as the model sent them.
        context: The context of the call.
    """
    return ActivityCall(
        activity=tool.activity,
        activity_id=context.idempotency_key,
        args=tool.arguments(args),
        options=tool.options,
        changed=args if args != sent else None,
    )


async def run_activity(deps: Dependencies, step: ToolStep, call: ActivityCall) -> Any:
    """Call the activity's function in this process, for a runtime without Temporal.

    Raises:
        AgentDefinitionError: The tool is missing from the agent or is no longer an activity.
        ToolsetUnavailableError: The toolset that may contain the tool is unavailable.
        ToolError: The function raised.
        ToolTimeoutError: The function exceeded `start_to_close_timeout` or
            `schedule_to_close_timeout`.
        ToolResultError: The function returned a value that is not JSON.
    """
    agent, scope = await deps.scope(step)
    context = ToolContext(scope, function_call_id=step.call_id)
    toolbox = await agent_tools(agent, context) if isinstance(agent, LlmAgent) else AgentTools()
    tool = toolbox.tools.get(step.tool)
    if tool is None and toolbox.missed:
        raise toolbox.missed[0]
    if not isinstance(tool, ActivityTool):
        raise AgentDefinitionError(f"Tool {step.tool!r} of {agent.name!r} is no activity any more.")
    limits = (call.options.start_to_close_timeout, call.options.schedule_to_close_timeout)
    limit = min(time for time in limits if time is not None)
    timer = asyncio.timeout(limit.total_seconds())
    try:
        async with timer:
            return to_json_value(await contained(tool.call_here(call.args)))
    except DurableAdkError:
        raise
    except Exception as error:
        if timer.expired():
            raise overdue(call.activity, f"after {limit.total_seconds():g} s") from error
        raise failed(call.activity, type(error).__name__, text_of(error)) from error
