"""The calls of one model event, from the first that runs to the last that is answered."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from typing import Any, Self

from google.genai import types

from durable_adk.closing import closing
from durable_adk.context.loop import InvocationContext
from durable_adk.conversation.client_requests import confirmation_request, credential_request
from durable_adk.conversation.tool_responses import (
    calls_needing_user,
    error_response,
    merge_responses,
)
from durable_adk.errors import (
    AgentError,
    DurableAdkError,
    PayloadLostError,
    PayloadTooLargeError,
    as_detail,
    from_detail,
    raised,
)
from durable_adk.events.event import Event
from durable_adk.events.event_actions import EventActions
from durable_adk.flows.delegated_call import MAX_TASK_BYTES, finished
from durable_adk.flows.invocation import Invocation
from durable_adk.json_values import canonical
from durable_adk.wire.manifest import AgentNode, Wait
from durable_adk.wire.messages import check_size
from durable_adk.wire.steps import StepResult, ToolStep

MAX_TURN_BYTES = 8_000_000
"""The merged results of a turn; each alone has the limit of an event. They are in no payload."""


class ToolTurn:
    """Runs the calls of one event side by side, and those again that had to be approved first."""

    def __init__(
        self, invocation: Invocation, node: AgentNode, ctx: InvocationContext, asked: StepResult
    ) -> None:
        self._invocation = invocation
        self._node = node
        self._ctx = ctx
        self._event = asked.event or Event()
        self._waits = asked.waits
        self._requests: dict[str, types.FunctionCall] = {}
        """By the id of the request to the user, the call it is about."""
        self.interim: set[str] = set()
        """Long-running calls that have given a first result, but not their last."""
        self._responded = False
        self.final = False
        """Whether the last response ends the agent's run."""
        self.answer: Any = None
        """What the model has given as its final answer, by `set_model_response`."""
        self._waiting: list[str] | None = None
        """What the turn still waits for; None: its calls have not run yet."""

    @classmethod
    def resumed(
        cls, invocation: Invocation, node: AgentNode, ctx: InvocationContext, told: dict[str, Any]
    ) -> Self:
        """A turn that was waiting when the run of the workflow before this one ended."""
        event = Event.read(told["event"])
        waits = {name: Wait.read(wait) for name, wait in told["waits"].items()}
        turn = cls(invocation, node, ctx, StepResult(event=event, waits=waits))
        calls = {call.id: call for call in event.get_function_calls()}
        turn._requests = {name: calls[about] for name, about in told["requests"].items()}
        turn.interim = set(told["interim"])
        turn._waiting = list(told["waiting"])
        turn._responded, turn.final = told["responded"], told["final"]
        turn.answer = told["answer"]
        return turn

    def told(self) -> dict[str, Any]:
        """Where a turn is that waits; what `resumed` takes."""
        return {
            "event": self._event.model_dump(mode="json", exclude_none=True),
            "waits": {name: wait.model_dump() for name, wait in self._waits.items()},
            "requests": {name: call.id for name, call in self._requests.items()},
            "interim": sorted(self.interim),
            "waiting": self._waiting,
            "responded": self._responded,
            "final": self.final,
            "answer": self.answer,
        }

    async def run(self) -> AsyncGenerator[Event, None]:
        """Yield the turn's responses and requests; what it hands over to is in `ctx.transfer`.

        Raises:
            DurableAdkError: A tool failed; the responses of the others have been yielded.
        """
        ctx, pauses = self._ctx, self._invocation.pauses
        if self._waiting is None:
            async with closing(self._begin()) as events:
                async for event in events:
                    yield event
        waiting = self._waiting or []
        while waiting and not ctx.end_invocation:
            answered = await pauses.answer_to(waiting)
            waiting.remove(answered)
            call = self._requests.pop(answered, None)
            if call is not None:
                results = await self._call_all([call], request_id=answered)
                async for event in self._told(results):
                    yield event
                waiting += self._outstanding([call], results)
        for call_id in waiting:
            pauses.forget(call_id)

    async def _begin(self) -> AsyncGenerator[Event, None]:
        """Run the calls; what has no response yet is waited for afterwards."""
        ctx, pauses = self._ctx, self._invocation.pauses
        calls = self._event.get_function_calls()
        for call in calls:
            if call.id in self._waits:
                # Its answer may be faster than the tool that asks for it.
                pauses.expect(call, self._waits[call.id], ctx)
                ctx.closes = False
                invocation_must_wait(self._invocation)
        results = await self._call_all(calls)
        async for event in self._told(results):
            yield event
        self._waiting = self._outstanding(calls, results)

    def _outstanding(
        self, calls: Sequence[types.FunctionCall], results: Sequence[StepResult]
    ) -> list[str]:
        """What to wait for before the model is asked again.

        By default it speaks as soon as there is any response, interim or of another call of the
        turn; in a resumable app when there are all (TRAP-27, TOL-42).
        """
        pauses = self._invocation.pauses
        waiting: list[str] = []
        for call, result in zip(calls, results, strict=True):
            requests = [name for name, about in self._requests.items() if about is call]
            if requests or call.id not in self._waits:
                waiting += requests
            elif pauses.is_answered(call.id):
                pauses.consume([call.id])  # it was faster than its tool
            elif result.pending or result.waits:
                speaks = self._responded and not self._invocation.opened.resumable
                (self.interim.add if speaks else waiting.append)(call.id)
            else:
                pauses.forget(call.id)
                continue
            if call.id in (*waiting, *self.interim) and not pauses.is_expected(call.id):
                pauses.expect(call, self._waits[call.id], self._ctx)  # its approval came first
        return waiting

    async def _told(self, results: Sequence[StepResult]) -> AsyncGenerator[Event, None]:
        """Yield the results' event and the requests they make, in ADK's order (17.1, FLW-51)."""
        self.final = False
        response = self._merged(results)
        if response is not None:
            requests = self._asked_for(response)
            ids = {answer.id for answer in response.get_function_responses()}
            if requests and not ids <= calls_needing_user(response):
                response.actions.skip_summarization = _settled_skip(results)
                order = [response, *requests]
            else:
                order = [*requests, response]
            for event in order:
                yield event
            self._expect(requests, results)
            self._responded = self._responded or bool(ids - calls_needing_user(response))
            self.final = bool(ids) and response.is_final_response()
            if response.actions.set_model_response is not None:
                self.answer = response.actions.set_model_response
        failed = next((result.error for result in results if result.error), None)
        if failed:
            raise from_detail(failed)
        if response is not None and response.actions.transfer_to_agent:
            self._ctx.transfer = _target(response.actions.transfer_to_agent, results)

    def _merged(self, results: Sequence[StepResult]) -> Event | None:
        """The event of all responses: the only one's own, which may be stored, or a merged one."""
        events = [event for result in results if (event := result.event)]
        if not events or results[0].seq:
            return events[0] if events else None
        event = merge_responses(events, event_id=events[0].id)
        check_size(event.to_json(), "The results of one turn's tools", MAX_TURN_BYTES)
        return event

    def _asked_for(self, response: Event) -> list[Event]:
        requests: list[Event | None] = []
        if response.actions.requested_tool_confirmations:
            event_id = self._ctx.lane.next_id()
            requests.append(confirmation_request(self._event, response, event_id=event_id))
        if response.actions.requested_auth_configs:
            event_id = self._ctx.lane.next_id()
            requests.append(credential_request(self._event, response, event_id=event_id))
        return [request for request in requests if request is not None]

    def _expect(self, requests: Sequence[Event], results: Sequence[StepResult]) -> None:
        """Accept answers to requests, which are committed now."""
        waits = {name: wait for result in results for name, wait in result.waits.items()}
        calls = {call.id: call for call in self._event.get_function_calls()}
        if requests:
            invocation_must_wait(self._invocation)
        for call in (call for event in requests for call in event.get_function_calls()):
            original = about(call)
            self._requests[call.id or ""] = calls[original]
            self._invocation.pauses.forget(original)  # it has not begun; nor has its deadline
            wait = waits.get(original, Wait())
            self._invocation.pauses.expect(call, wait, self._ctx)

    async def _call_all(
        self, calls: Sequence[types.FunctionCall], *, request_id: str | None = None
    ) -> list[StepResult]:
        """Run calls side by side; the results are in the order of the calls.

        When one fails, those still running are cancelled, and every call still has a response
        (FLW-46). Nothing here depends on which call finishes first, so replay takes the same way.
        """
        ctx, invocation = self._ctx, self._invocation
        alone = len(calls) == 1
        _check_together(invocation, len(calls))
        invocation.spending.tool_calls(len(calls), invocation.runtime.now())
        # An interim result must not be stored behind an answer that was faster.
        direct = ctx.direct and alone and calls[0].id not in self._waits
        place = invocation.place(replace(ctx, direct=direct), ctx.lane.next_id())
        place["request_id"] = request_id
        tasks: list[asyncio.Task[StepResult]] = []

        async def guarded(index: int, call: types.FunctionCall) -> StepResult:
            # What has ended before is told by one of them.
            mine = place if index == 0 else place | {"ended": None}
            result = await self._call(mine, call, together=len(calls))
            if result.error:
                for other in tasks[:index] + tasks[index + 1 :]:
                    other.cancel()  # those that have finished take no notice
            return result

        tasks.extend(asyncio.ensure_future(guarded(*item)) for item in enumerate(calls))
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        invocation.tool_calls += len(calls)
        results = [
            self._settled(call, outcome, place["event_id"])
            for call, outcome in zip(calls, outcomes, strict=True)
        ]
        if alone:
            invocation.take(results[0])
        ctx.end_invocation = ctx.end_invocation or any(item.end_invocation for item in results)
        return results

    async def _call(
        self, place: dict[str, Any], call: types.FunctionCall, *, together: int
    ) -> StepResult:
        name = call.name or ""
        limits = self._invocation.opened.limits
        spec = self._node.tools.get(name)
        timeout = (spec and spec.timeout) or limits.tool_timeout
        step = ToolStep(
            **place, attempt_timeout=timeout, call_id=call.id or "", tool=name, spec=spec
        )
        try:
            first = await self._invocation.runtime.perform(step)
            return await finished(self._invocation, self._ctx, step, first, together=together)
        except PayloadLostError:
            raise  # its response may be stored, though nobody can say so
        except DurableAdkError as error:
            return StepResult(error=as_detail(error))

    def _settled(
        self, call: types.FunctionCall, outcome: StepResult | BaseException, event_id: str
    ) -> StepResult:
        """The outcome of one call, with a response event unless the response comes later."""
        if isinstance(outcome, asyncio.CancelledError):
            outcome = StepResult()
            message = "Cancelled because another call of its turn failed; it may have run in part."
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            message = str((outcome.error or {}).get("message", "The tool gave no result."))
        if self._invocation.pauses.is_answered(call.id or ""):
            # The answer was faster than its question; what the tool changed stays.
            outcome.event = _changes(outcome.event)
        elif outcome.event is None and not outcome.pending:
            author, branch = self._ctx.agent_name, self._ctx.branch
            outcome.event = error_response(
                call.id or "", call.name or "", message, author=author, branch=branch
            )
        if outcome.event is not None:
            outcome.event.id = event_id
        return outcome


def invocation_must_wait(invocation: Invocation) -> None:
    """Refuse to wait where nobody could answer (TOL-21).

    Raises:
        AgentError: The invocation is an agent's run as a tool.
    """
    if invocation.request.tool_run is not None:
        raise AgentError(
            "An agent that is used as a tool cannot wait for an approval, a credential or a "
            "long-running tool: nobody sees its conversation. Make it a sub-agent."
        )


def _changes(event: Event | None) -> Event | None:
    """The event with what it changes and without what it says; None if it changes nothing."""
    if event is None or not (event.actions.state_delta or event.actions.artifact_delta):
        return None
    actions = EventActions(
        state_delta=event.actions.state_delta, artifact_delta=event.actions.artifact_delta
    )
    return event.model_copy(update={"content": None, "actions": actions})


def about(request: types.FunctionCall) -> str:
    """The id of the tool call that a request to the user is about."""
    args = request.args or {}
    original: Any = args.get("originalFunctionCall") or {"id": args.get("functionCallId")}
    return str(original["id"])


def _settled_skip(results: Sequence[StepResult]) -> bool | None:
    """Whether one of the responses that wait for nobody is not to be summarised."""
    settled = [r.event for r in results if r.event is not None and not calls_needing_user(r.event)]
    return any(event.actions.skip_summarization for event in settled) or None


def _check_together(invocation: Invocation, calls: int) -> None:
    """Refuse steps that are each small enough, but together more than one message may be (1c)."""
    local = len(canonical(invocation.local_state()).encode()) * calls
    if local > MAX_TASK_BYTES:
        raise PayloadTooLargeError(
            f"{calls} calls at once with the temp: state of each are {local:,} bytes; at most "
            f"{MAX_TASK_BYTES:,} can be sent together. Keep less in temp: keys."
        )


def _target(name: str, results: Sequence[StepResult]) -> AgentNode:
    """The agent to hand over to; the response that says so is committed already (AGT-50).

    Raises:
        AgentError: The model may not hand over to it, or it does not exist (AGT-53, 17.1).
    """
    for result in results:
        if result.transfer is not None and result.transfer.name == name:
            return result.transfer
    raise raised(AgentError, "ValueError", f"There is no agent {name!r} to transfer to.")
