"""Runs one tool call, with the callbacks before and after it."""

import copy
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from google.genai import types

from durable_adk.activities.commit.early_commit import (
    prefer_stored,
    require_new,
    require_not_stored,
)
from durable_adk.activities.commit.notes import ReceivedResult
from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.lifecycle import others_have_answered
from durable_adk.activities.model.model_events import text_before
from durable_adk.activities.tool.agent_tools import AgentTools, agent_tools
from durable_adk.activities.tool.delegated import (
    ActivityResult,
    AgentNeeded,
    AgentResult,
    AgentToolRuns,
    activity_call,
    child_run,
    read_agent_result,
)
from durable_adk.activities.tool.response_event import (
    pending_result,
    record_requester,
    request_metadata,
    response_event,
    unknown_tool,
    waits_for_user,
)
from durable_adk.activities.tool.run import (
    RetryLater,
    ToolAttempt,
    ToolNotStartedError,
    unconfirmed,
)
from durable_adk.activities.user_code.callbacks import answer_of
from durable_adk.agents.llm_agent import LlmAgent
from durable_adk.auth.auth_credential import AuthCredential
from durable_adk.calling import contained, time_limit
from durable_adk.context.activity import Context, StepScope, ToolContext
from durable_adk.conversation.client_requests import decision, is_denied, response_to
from durable_adk.conversation.model_event import save_output
from durable_adk.conversation.pending_calls import FINAL_RESPONSES
from durable_adk.errors import (
    AgentDefinitionError,
    AgentError,
    DurableAdkError,
    ToolError,
    ToolsetUnavailableError,
    ToolTimeoutError,
    as_detail,
    as_raised,
    reported_as,
    text_of,
    wrapped,
)
from durable_adk.events.event_actions import EventActions
from durable_adk.failpoints import failpoint
from durable_adk.json_values import check_json
from durable_adk.plugins.base_plugin import HookName
from durable_adk.plugins.plugin_manager import PluginManager
from durable_adk.sessions.state import APP_PREFIX, USER_PREFIX, without_temp
from durable_adk.tools.activity_tool import ActivityTool
from durable_adk.tools.agent_tool import AgentTool
from durable_adk.tools.base_tool import BaseTool
from durable_adk.tools.require_confirmation import REJECTED
from durable_adk.wire.activity_call import ActivityCall
from durable_adk.wire.effect import EffectAttempt
from durable_adk.wire.manifest import AgentNode, Wait
from durable_adk.wire.messages import check_size
from durable_adk.wire.steps import ChildRun, StepResult, ToolStep


async def call_tool(deps: Dependencies, step: ToolStep, attempt: EffectAttempt) -> StepResult:
    """Run one tool call and return its response as an event, or its exception as `error`.

    If the worker dies during the call, another worker runs the tool again with the same
    `ToolContext.idempotency_key`, unless its result was already stored or its contract forbids
    a second run (D11).

    Raises:
        RetryLater: The tool raised and its retry policy wants another run, or its toolset is
            unavailable.
        StoreUnavailableError: A store was unavailable; the call is to be retried.
    """
    agent, scope = await deps.scope(step)
    if not isinstance(agent, LlmAgent):
        raise AgentDefinitionError(f"Agent {agent.name!r} is no LlmAgent any more.")
    await require_new(deps, step, scope)
    number, history = attempt.number, attempt.history
    run = ToolAttempt(deps=deps, step=step, attempt=number, agent=agent, history=history)
    call = await _ToolCall.of(run, scope)
    await attempt.begins()
    try:
        await call.find_tool()  # outside the time limit: the tool has not started
        async with time_limit(step.attempt_timeout):
            outcome = await call.outcome()
        result = _result(call, outcome)
        return await prefer_stored(deps, step, scope, result) if call.arrived else result
    except TimeoutError:
        unknown = run.overdue(call.name)
        if unknown is not None:
            return _result(call, _Outcome(response=unknown))
        timeout = ToolTimeoutError(
            f"Tool {call.name!r} did not finish in {step.attempt_timeout:g} s; it may still run. "
            "Give the tool a longer timeout."
        )
        return StepResult(error=as_detail(timeout))
    except ToolNotStartedError as error:
        raise error.error from error
    except DurableAdkError as error:
        if run.waits_for_store(error):
            raise
        return StepResult(error=as_detail(error))


def _result(call: "_ToolCall", outcome: "_Outcome") -> StepResult:
    """Build the step's result from the outcome of the call.

    Raises:
        DurableAdkError: The response cannot be stored.
    """
    context, step, scope = call.context, call.run.step, call.scope
    if outcome.asks is not None:
        check_json(context.state.collect_delta(), "state_delta")
        outcome.asks.actions = context.actions
        return _asking(outcome.asks, scope)
    if outcome.pending and not waits_for_user(context):
        return pending_result(context, step)
    arrived = call.arrived
    noted = arrived.media if arrived and outcome.response is arrived.response else []
    event = response_event(
        outcome.response, call.call, context, step, tool=outcome.tool, noted=noted
    )
    agent = call.run.agent
    # An agent's output may be its caller's, as text beside the response.
    before = partial(text_before, scope, step)
    save_output(event, output_key=agent.output_key, schema=agent.output_schema, before=before)
    event.custom_metadata = request_metadata(context)
    waits = _waits(outcome, call.call, context)
    if outcome.long_running and not waits:
        event.custom_metadata = {FINAL_RESPONSES: [step.call_id]}
    return StepResult(
        event=event,
        end_invocation=scope.end_invocation,
        transfer=_transfer(call.run.agent, event.actions.transfer_to_agent),
        waits=waits,
    )


def _asking(asks: ChildRun | ActivityCall, scope: StepScope) -> StepResult:
    """Build the result of a step whose tool needs a child agent or an activity to run first.

    Raises:
        PayloadTooLargeError: The activity call is larger than one message may be.
    """
    if isinstance(asks, ChildRun):
        return StepResult(child=asks, end_invocation=scope.end_invocation)
    asks.end_invocation = scope.end_invocation
    check_size(asks.to_json(), f"The call of activity {asks.activity!r}")
    return StepResult(activity=asks)


@dataclass(kw_only=True)
class _Outcome:
    """The outcome of one call."""

    response: Any
    asks: ChildRun | ActivityCall | None = None
    """The agent or activity that the loop has to run first."""
    tool: BaseTool | None = None
    ran: bool = False
    """Whether the response comes from the tool itself and not from a callback."""

    @property
    def long_running(self) -> bool:
        return self.tool is not None and self.tool.is_long_running

    @property
    def pending(self) -> bool:
        """Whether the response comes later and there is no interim response yet (FLW-50)."""
        return self.long_running and self.ran and not self.response

    @property
    def is_interim(self) -> bool:
        """Whether another response will follow. An error response is always the last one."""
        response: Any = self.response
        failed = isinstance(response, dict) and "error" in response
        return self.long_running and self.ran and not failed


def _waits(outcome: _Outcome, call: types.FunctionCall, context: ToolContext) -> dict[str, Wait]:
    if outcome.tool is None or not (waits_for_user(context) or outcome.is_interim):
        return {}
    wait = Wait(deadline=outcome.tool.deadline, on_deadline=outcome.tool.on_deadline)
    return {call.id or "": wait}


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


@dataclass(kw_only=True)
class _ToolCall:
    """One tool call with the hooks around it."""

    run: ToolAttempt
    scope: StepScope
    call: types.FunctionCall
    context: ToolContext
    given: types.FunctionResponse | None
    """The user's answer to the request that the call waited for."""
    answered: AgentResult | ActivityResult | None
    """The result of the child agent or activity that backs the tool."""
    earlier: list[AgentResult]
    """The results of the runs of agents before it, for a tool whose own code asks for several."""
    arrived: ReceivedResult | None
    """The stored result, if an earlier attempt ran the tool."""
    plugins: PluginManager
    toolbox: AgentTools = field(default_factory=AgentTools)

    @classmethod
    async def of(cls, run: ToolAttempt, scope: StepScope) -> "_ToolCall":
        """Load the call of a step, with the progress that earlier attempts recorded."""
        deps, step = run.deps, run.step
        call = _find_call(scope, step.call_id)
        arrived = await run.arrived(again=scope.ahead)
        before = arrived or step.child or step.activity
        if before is None:
            await require_not_stored(deps, step, scope)
        if before is not None:
            # The callbacks before the tool have run; their changes are committed with the response.
            scope.session.state.update(before.actions.state_delta)
        ended = arrived or step.activity
        scope.end_invocation = ended is not None and ended.end_invocation
        given = response_to(scope.session.events, step.request_id)
        context = _context(scope, step, given, before.actions if before else None)
        context.given_credentials = await _given_credentials(scope, context)
        context.asked_by = arrived.asked_by if arrived else None
        record_requester(context, "callback")  # requested by a callback before the tool
        return cls(
            run=run,
            scope=scope,
            call=call,
            context=context,
            given=given,
            answered=await _answered(deps, step),
            earlier=[
                await read_agent_result(deps, end, step.invocation_id) for end in step.children
            ],
            arrived=arrived,
            plugins=deps.plugins(step),
        )

    @property
    def name(self) -> str:
        """The tool's name as the model wrote it."""
        return self.call.name or ""

    async def find_tool(self) -> None:
        """Ask the agent and its toolsets for the tool.

        Raises:
            ToolsetUnavailable: A toolset that may contain the tool could not be asked.
        """
        self.toolbox = await agent_tools(self.run.agent, self.context)
        if self.name not in self.toolbox.tools:
            self.run.require_asked(self.name, self.toolbox.missed)

    async def outcome(self) -> "_Outcome":
        """Return the call's outcome, from the tool or from a callback that replaces it."""
        tool = self.toolbox.tools.get(self.name)
        if self.given is not None and "error" in (self.given.response or {}):
            # The pending call ended without an answer, for example at its deadline.
            return _Outcome(response=self.given.response, tool=tool)
        if tool is None and (self.run.step.activity or self.arrived) is not None:
            # The tool is gone or unavailable, but its recorded result must still be reported.
            tool = BaseTool(name=self.name, description="This tool does not exist any more.")
        if tool is None:
            return _Outcome(response=await self._unknown())
        # A copy: callbacks may change the arguments, never the committed event (TRAP-23, FLW-48).
        args = self._args()
        response = None
        if self.answered is None and self.arrived is None:
            response = await self._hook("before_tool_callback", tool, args)
        ran = response is None
        delegated = tool if isinstance(tool, ActivityTool) else _plain_agent(tool)
        if ran and self.answered is None and delegated is not None:
            asks = await self._asks(delegated, args)
            if isinstance(asks, (ChildRun, ActivityCall)):
                return _Outcome(response=None, asks=asks)
            response, ran = asks, False
        if ran:
            before = self.context.actions.model_copy(deep=True)
            response = await self._run_or_recover(tool, args)
            if isinstance(response, AgentNeeded):
                return self._needed(response.child, before, args)
        changed = await self._hook("after_tool_callback", tool, args, tool_response=response)
        return _Outcome(response=response if changed is None else changed, tool=tool, ran=ran)

    def _needed(self, child: ChildRun, before: EventActions, args: dict[str, Any]) -> "_Outcome":
        """Return a request of the tool's own code for a run of an agent.

        The code runs again from its first line, so what it has changed is for the agent only.
        """
        child.state_delta = _own_state(self.context)
        child.changed = args if args != (self.call.args or {}) else None
        self.context.actions = before
        return _Outcome(response=None, asks=child)

    def _denied(self, tool: BaseTool) -> bool:
        events, step, reads = self.scope.session.events, self.run.step, tool.reads_confirmation
        return is_denied(events, step.request_id, step.call_id, can_read=reads)

    def _args(self) -> dict[str, Any]:
        before = self.arrived.args if self.arrived else None
        ended = self.run.step.activity or self.run.step.child
        if ended is not None and before is None:
            before = ended.changed
        return copy.deepcopy(self.call.args or {} if before is None else before)

    async def _asks(
        self, tool: AgentTool | ActivityTool, args: dict[str, Any]
    ) -> ChildRun | ActivityCall | dict[str, Any]:
        """Return the child run or activity call to start, or a response if it is refused."""
        if self._denied(tool):
            return {"error": REJECTED}
        if isinstance(tool, AgentTool):
            question = await _asked_first(tool, args, self.context)
            if not isinstance(question, ChildRun):
                return {"error": question}
            question.state_delta = _own_state(self.context)
            return question
        refused = await contained(tool.refused(args=args, tool_context=self.context))
        return refused or activity_call(tool, args, self.call.args or {}, self.context)

    async def _run_or_recover(self, tool: BaseTool, args: dict[str, Any]) -> Any:
        if self.arrived is not None:
            return self.arrived.response
        failpoint("tool.before_run")
        try:
            response = await self._response(tool, args)
        except ToolNotStartedError:
            raise
        except Exception as error:
            if self.run.waits_for_store(error):
                raise
            delay = self.run.again(tool, error)
            if delay is not None:  # error hooks run only for the final error
                raise RetryLater(wrapped(ToolError, error), delay) from error
            given = as_raised(error) if isinstance(error, DurableAdkError) else error
            recovered = await self._hook("on_tool_error_callback", tool, args, error=given)
            if recovered is not None:
                return recovered
            if isinstance(self.answered, ActivityResult) and self.answered.is_told(error):
                return {"error": text_of(error)}
            with reported_as(ToolError):
                raise
        failpoint("tool.after_run")
        if isinstance(response, AgentNeeded):
            return response
        result = ReceivedResult(
            response=response,
            args=args,
            actions=self.context.actions,
            end_invocation=self.scope.end_invocation,
            asked_by=record_requester(self.context, "tool"),
        )
        stands = await self.run.noted(tool, result, self.context)
        if stands is not result:  # another attempt stored its result first
            step, actions = self.run.step, stands.actions
            self.context = _context(self.scope, step, self.given, actions)
            self.context.asked_by = stands.asked_by
        return stands.response

    async def _response(self, tool: BaseTool, args: dict[str, Any]) -> Any:
        if self.answered is not None:
            others_have_answered(self.run.step, tool)
            if isinstance(self.answered, ActivityResult) or _plain_agent(tool) is not None:
                return self.answered.taken(tool, self.context)
            results = [*self.earlier, self.answered]
            self.context.run_agent = AgentToolRuns(results, self.context)
            return await self.run.response(tool, args, self.context)
        self.context.run_agent = AgentToolRuns([], self.context)
        if self._denied(tool):
            return {"error": REJECTED}
        if problem := await unconfirmed(tool, args, self.context):
            return {"error": problem}
        return await self.run.response(tool, args, self.context)

    async def _hook(
        self, hook: HookName, tool: BaseTool, args: dict[str, Any], **given: Any
    ) -> Any:
        callbacks = getattr(self.run.agent, hook)
        given = {"tool": tool, "args": args, "tool_context": self.context} | given
        record_requester(self.context, "tool")
        answer = await answer_of(self.plugins, hook, callbacks, **given)
        record_requester(self.context, "callback")
        return answer

    async def _unknown(self) -> Any:
        """Return the response for an unknown tool; the hooks round a tool may replace it.

        As in ADK, the hooks before it may answer, and those after it see only such an answer.
        """
        known, missed = list(self.toolbox.tools), self.toolbox.missed
        tool = BaseTool(name=self.name, description="This tool does not exist.")
        args = self._args()
        answer = await self._hook("before_tool_callback", tool, args)
        if answer is not None:
            changed = await self._hook("after_tool_callback", tool, args, tool_response=answer)
            return answer if changed is None else changed
        if missed:
            response = self.run.unlisted(self.name, missed, known)
            error: Exception = ToolsetUnavailableError(response["error"])
        else:
            response = unknown_tool(self.name, known)
            error = ValueError(response["error"])
        recovered = await self._hook("on_tool_error_callback", tool, args, error=error)
        return response if recovered is None else recovered


async def _answered(deps: Dependencies, step: ToolStep) -> AgentResult | ActivityResult | None:
    if step.child is not None:
        return await read_agent_result(deps, step.child, step.invocation_id)
    return ActivityResult(step.activity) if step.activity is not None else None


async def _given_credentials(scope: StepScope, context: Context) -> dict[str, AuthCredential]:
    """Load what was asked for in this invocation, because `get_auth_response` cannot wait."""
    wanted = {
        config.key: config
        for event in scope.session.events
        if event.invocation_id == scope.invocation_id
        for config in event.actions.requested_auth_configs.values()
    }
    loaded = {key: await context.load_credential(config) for key, config in wanted.items()}
    return {key: credential for key, credential in loaded.items() if credential is not None}


def _context(
    scope: StepScope,
    step: ToolStep,
    given: types.FunctionResponse | None,
    actions: EventActions | None,
) -> ToolContext:
    return ToolContext(
        scope,
        function_call_id=step.call_id,
        event_actions=actions,
        tool_confirmation=decision(given),
    )


async def _asked_first(
    tool: AgentTool, args: dict[str, Any], context: ToolContext
) -> ChildRun | str:
    """Return the question for the agent behind the tool, or the reason not to ask it."""
    message, unfit = tool.question(args)
    problem = unfit or await unconfirmed(tool, args, context)
    if problem is not None:
        return problem
    return child_run(tool, message)


def _plain_agent(tool: BaseTool) -> AgentTool | None:
    """Return the tool if it is an agent without code of its own around it."""
    return tool if isinstance(tool, AgentTool) and not tool.has_own_code else None


def _own_state(context: ToolContext) -> dict[str, Any]:
    """Return what a call has changed so far of its session's own state, which is not stored yet."""
    delta = without_temp(context.state.collect_delta())
    return {k: v for k, v in delta.items() if not k.startswith((APP_PREFIX, USER_PREFIX))}
