"""One tool call with the hooks around it."""

from dataclasses import dataclass, field
from typing import Any

from google.genai import types

from durable_adk.activities.commit.notes import ReceivedResult
from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.lifecycle import others_have_answered
from durable_adk.activities.tool.agent_tools import AgentTools, agent_tools
from durable_adk.activities.tool.contract import ToolNotStartedError
from durable_adk.activities.tool.delegated import (
    AgentResult,
    AgentToolRuns,
    activity_call,
    child_run,
    read_agent_result,
)
from durable_adk.activities.tool.response_event import (
    record_requester,
    unknown_tool,
)
from durable_adk.activities.tool.run import (
    RetryLater,
    ToolAttempt,
    unconfirmed,
)
from durable_adk.activities.user_code.callbacks import answer_of
from durable_adk.apps.graph_record import manifest_of
from durable_adk.auth.auth_credential import AuthCredential
from durable_adk.calling import contained
from durable_adk.calling.copies import own_copy
from durable_adk.context.activity import Context, ToolContext
from durable_adk.context.step_scope import StepScope
from durable_adk.conversation.client_requests import (
    decision,
    is_as_shown,
    is_denied,
    response_to,
)
from durable_adk.errors import (
    AgentDefinitionError,
    AgentError,
    DurableAdkError,
    ToolError,
    ToolsetUnavailableError,
    as_raised,
    from_detail,
    reported_as,
    text_of,
    wrapped,
)
from durable_adk.events.event import Event
from durable_adk.events.event_actions import EventActions
from durable_adk.failpoints import failpoint
from durable_adk.graph.node_tool import NodeTool
from durable_adk.log import get_logger
from durable_adk.plugins.base_plugin import HookName
from durable_adk.tools.activity_tool import ActivityTool
from durable_adk.tools.agent_tool import AgentTool
from durable_adk.tools.base_tool import BaseTool
from durable_adk.tools.finish_task_tool import IGNORED, FinishTaskTool
from durable_adk.tools.require_confirmation import NOT_AS_SHOWN, REJECTED
from durable_adk.wire.activity_call import ActivityCall, ActivityEnd
from durable_adk.wire.graph.node_run import CalledEnd, CalledNode, NodeRef
from durable_adk.wire.steps import ChildRun, ToolStep

_LOG = get_logger(__name__)


@dataclass(kw_only=True)
class CallOutcome:
    """The outcome of one call."""

    response: Any
    asks: ChildRun | ActivityCall | CalledNode | None = None
    """The agent, activity or node that the loop has to run first."""
    tool: BaseTool | None = None
    ran: bool = False
    """Whether the response comes from the tool itself and not from a callback."""

    @property
    def long_running(self) -> bool:
        """Whether another response may come later."""
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


def _find_call(scope: StepScope, call_id: str) -> types.FunctionCall:
    for event in reversed(scope.events):
        for call in event.get_function_calls():
            if call.id == call_id:
                return call
    raise AgentError(
        f"The call {call_id!r} is not in the session. A custom agent must yield every event its "
        "sub-agents yield, before it asks for the next."
    )


def _call_event(scope: StepScope, call: types.FunctionCall) -> Event:
    """Return the event with a call."""
    events = reversed(scope.events)
    return next(one for one in events if any(c is call for c in one.get_function_calls()))


@dataclass(kw_only=True)
class ToolCall:
    """One tool call with the hooks around it."""

    run: ToolAttempt
    call: types.FunctionCall
    context: ToolContext
    given: types.FunctionResponse | None
    """The user's answer to the request that the call waited for."""
    answered: AgentResult | ActivityEnd | CalledEnd | None
    """The result of the child agent, activity or node that backs the tool."""
    earlier: list[AgentResult]
    """The results of earlier agent runs, for a tool whose own code requests several."""
    received: ReceivedResult | None
    """The stored result, if an earlier attempt ran the tool."""
    toolbox: AgentTools = field(default_factory=AgentTools)

    @classmethod
    async def of(cls, run: ToolAttempt) -> "ToolCall":
        """Load the call of a step, with the progress that earlier attempts recorded."""
        deps, step, scope = run.active.deps, run.step, run.active.scope
        call = _find_call(scope, step.call_id)
        received = await run.received()
        before = received or step.child or step.activity or step.called
        if before is not None:
            # The callbacks before the tool have run; their changes are committed with the response.
            scope.session.state.update(before.actions.state_delta)
        ended = received or step.activity
        scope.end_invocation = ended is not None and ended.end_invocation
        given = own_copy(response_to(scope.events, step.request_id))
        context = _context(scope, step, given, before.actions if before else None)
        context.provided_credentials = await _provided_credentials(scope, context)
        context.requested_by = received.requested_by if received else None
        record_requester(context, "callback")  # requested by a callback before the tool
        return cls(
            run=run,
            call=call,
            context=context,
            given=given,
            answered=await _answered(deps, step),
            earlier=[
                await read_agent_result(deps, end, step.invocation_id) for end in step.children
            ],
            received=received,
        )

    @property
    def name(self) -> str:
        """The tool's name as the model wrote it."""
        return self.call.name or ""

    async def find_tool(self) -> None:
        """Find the tool among the agent's tools and toolsets.

        Raises:
            ToolsetUnavailable: A toolset that may contain the tool was unavailable.
        """
        self.toolbox = await agent_tools(self.run.active.llm_agent, self.context)
        if self.name not in self.toolbox.tools:
            self.run.require_asked(self.name, self.toolbox.missed)

    async def outcome(self) -> "CallOutcome":
        """Return the call's outcome, from the tool or from a callback that replaces it."""
        tool = self.toolbox.tools.get(self.name)
        if self.given is not None and "error" in (self.given.response or {}):
            # The pending call ended without an answer, for example at its deadline.
            return CallOutcome(response=self.given.response, tool=tool)
        if refusal := self._refusal(tool):
            return CallOutcome(response={"error": refusal}, tool=tool)
        step = self.run.step
        if tool is None and (step.activity or step.called or self.received) is not None:
            # The tool is gone or unavailable, but its recorded result must still be reported.
            tool = BaseTool(name=self.name, description="This tool does not exist any more.")
        if tool is None:
            return CallOutcome(response=await self._unknown())
        # A copy: callbacks may change the arguments, never the committed event (TRAP-23, FLW-48).
        args = self._args()
        response = None
        if self.answered is None and self.received is None:
            response = await self._hook("before_tool_callback", tool, args)
        ran = response is None
        delegated = tool if isinstance(tool, ActivityTool | NodeTool) else _plain_agent(tool)
        if ran and self.answered is None and delegated is not None:
            asks = await self._asks(delegated, args)
            if isinstance(asks, (ChildRun, ActivityCall, CalledNode)):
                return CallOutcome(response=None, asks=asks)
            response, ran = asks, False
        if ran:
            before = own_copy(self.context.actions)
            response = await self._run_or_recover(tool, args)
            if isinstance(response, ChildRun):
                return self._needed(response, before, args)
        changed = await self._hook("after_tool_callback", tool, args, tool_response=response)
        return CallOutcome(response=response if changed is None else changed, tool=tool, ran=ran)

    def _needed(self, child: ChildRun, before: EventActions, args: dict[str, Any]) -> "CallOutcome":
        """Return a request of the tool's own code for an agent run.

        The code runs again from its start, so its changes so far are only visible to that agent.
        """
        child.changed = args if args != (self.call.args or {}) else None
        self.context.actions = before
        return CallOutcome(response=None, asks=child)

    def _refusal(self, tool: BaseTool | None) -> str | None:
        """Return why the call is not run, or None."""
        scope = self.run.active.scope
        if not is_as_shown(scope.events, self.run.step.request_id, self.call):
            return NOT_AS_SHOWN
        if not isinstance(tool, FinishTaskTool):
            return None
        calls = _call_event(scope, self.call).get_function_calls()
        others = [self.toolbox.tools.get(call.name or "") for call in calls]
        hands_out = any(isinstance(one, NodeTool) and one.mode == "task" for one in others)
        return IGNORED if hands_out else None

    def _denied(self, tool: BaseTool) -> bool:
        events, step, reads = self.run.active.scope.events, self.run.step, tool.reads_confirmation
        return is_denied(events, step.request_id, step.call_id, can_read=reads)

    def _args(self) -> dict[str, Any]:
        before = self.received.args if self.received else None
        ended = self.run.step.activity or self.run.step.child or self.run.step.called
        if ended is not None and before is None:
            before = ended.changed
        return own_copy(self.call.args or {} if before is None else before)

    async def _asks(
        self, tool: AgentTool | ActivityTool | NodeTool, args: dict[str, Any]
    ) -> ChildRun | ActivityCall | CalledNode | dict[str, Any]:
        """Return what the loop has to run, or the response of a rejected call."""
        if self._denied(tool):
            return {"error": REJECTED}
        if isinstance(tool, NodeTool):
            return self._called(tool, args)
        if isinstance(tool, AgentTool):
            question = await _asked_first(tool, args, self.context)
            if not isinstance(question, ChildRun):
                return {"error": question}
            question.changed = args if args != (self.call.args or {}) else None
            return question
        refused = await contained(tool.refused(args=args, tool_context=self.context))
        return refused or activity_call(tool, args, self.call.args or {}, self.context)

    def _called(self, tool: NodeTool, args: dict[str, Any]) -> CalledNode | dict[str, Any]:
        """Return the node to run, or the response of a call whose arguments do not fit."""
        try:
            read = tool.read(args)
        except ValueError as error:
            return {"error": str(error)}
        changed = None if read == (self.call.args or {}) else read
        given = NodeRef(
            event=_call_event(self.run.active.scope, self.call).id,
            take="arguments",
            call=self.call.id,
            key=None if tool.mode == "task" else tool.key,
            changed=changed,
        )
        return CalledNode(mode=tool.mode, node=manifest_of(tool.node), input=given, changed=changed)

    async def _run_or_recover(self, tool: BaseTool, args: dict[str, Any]) -> Any:
        if self.received is not None:
            return self.received.response
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
            misconfigured = isinstance(error, AgentDefinitionError)
            if isinstance(self.answered, ActivityEnd | CalledEnd) and not misconfigured:
                return {"error": text_of(error)}
            with reported_as(ToolError):
                raise
        failpoint("tool.after_run")
        if isinstance(response, ChildRun):
            return response
        result = ReceivedResult(
            response=response,
            args=args,
            actions=self.context.actions,
            end_invocation=self.run.active.scope.end_invocation,
            requested_by=record_requester(self.context, "tool"),
        )
        first = await self.run.keep(tool, result, self.context)
        if first is not result:  # another attempt stored its result first
            step, actions = self.run.step, first.actions
            self.context = _context(self.run.active.scope, step, self.given, actions)
            self.context.requested_by = first.requested_by
        return first.response

    async def _response(self, tool: BaseTool, args: dict[str, Any]) -> Any:
        if self.answered is not None:
            others_have_answered(self.run.step, tool)
            return await self._answer(tool, args, self.answered)
        if self._denied(tool):
            return {"error": REJECTED}
        if problem := await unconfirmed(tool, args, self.context):
            return {"error": problem}
        try:
            return await self._run(tool, args, [])
        finally:
            await self._save_tokens()

    async def _answer(
        self, tool: BaseTool, args: dict[str, Any], answered: AgentResult | ActivityEnd | CalledEnd
    ) -> Any:
        """Return the result of what the loop has run for the tool.

        Raises:
            DurableAdkError: It has failed.
        """
        match answered:
            case CalledEnd():
                return self._output(answered)
            case ActivityEnd():
                if answered.error is not None:
                    raise from_detail(answered.error)
                return answered.result
            case AgentResult():
                if _plain_agent(tool) is not None:
                    return answered.taken(tool, self.context)
                return await self._run(tool, args, [*self.earlier, answered])

    def _output(self, end: CalledEnd) -> Any:
        """Return the output of the node that the call has run.

        Raises:
            DurableAdkError: It has failed.
        """
        if end.error is not None:
            raise from_detail(end.error)
        active = self.run.active
        return active.deps.node_values(self.run.step, active.scope).of(end.output or NodeRef())

    async def _run(self, tool: BaseTool, args: dict[str, Any], results: list[AgentResult]) -> Any:
        self.context.run_agent = runs = AgentToolRuns(results, self.context)
        return await self.run.response(tool, args, self.context, runs)

    async def _save_tokens(self) -> None:
        """Save the tokens that OAuth2 codes were exchanged for: each code can be used only once."""
        for config in self.context.exchanged_credentials:
            try:
                await self.context.save_credential(config)
            except Exception:  # noqa: BLE001 - the tool has run; its next call must request again
                _LOG.warning("credential.not_saved", key=config.key, exc_info=True)

    async def _hook(
        self, hook: HookName, tool: BaseTool, args: dict[str, Any], **given: Any
    ) -> Any:
        callbacks = getattr(self.run.active.llm_agent, hook)
        given = {"tool": tool, "args": args, "tool_context": self.context} | given
        record_requester(self.context, "tool")
        answer = await answer_of(self.run.active.plugins, hook, callbacks, **given)
        record_requester(self.context, "callback")
        return answer

    async def _unknown(self) -> Any:
        """Return the response for an unknown tool; the hooks around a tool may replace it.

        As in ADK, the before-hooks may answer, and the after-hooks see only such an answer.
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


async def _answered(
    deps: Dependencies, step: ToolStep
) -> AgentResult | ActivityEnd | CalledEnd | None:
    if step.child is not None:
        return await read_agent_result(deps, step.child, step.invocation_id)
    return step.activity or step.called


async def _provided_credentials(scope: StepScope, context: Context) -> dict[str, AuthCredential]:
    """Load the credentials requested in this invocation: `get_auth_response` cannot await."""
    wanted = {
        config.key: config
        for event in scope.events
        if event.actions.requested_auth_configs and event.invocation_id == scope.invocation_id
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
    """Return the agent run that the tool requests, or the reason not to start it."""
    message, unfit = tool.question(args)
    problem = unfit or await unconfirmed(tool, args, context)
    if problem is not None:
        return problem
    return child_run(tool, message, context)


def _plain_agent(tool: BaseTool) -> AgentTool | None:
    """Return the tool if it is an agent without code of its own around it."""
    return tool if isinstance(tool, AgentTool) and not tool.has_own_code else None
