"""The calls of one model event, from the first that runs to the last that is answered."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from google.genai import types

from durable_adk.calling.closing import closing
from durable_adk.conversation.client_requests import confirmation_request, credential_request
from durable_adk.conversation.pending_calls import with_deadlines
from durable_adk.conversation.tool_responses import (
    calls_needing_user,
    error_response,
    failure_text,
    merge_responses,
)
from durable_adk.errors import (
    DurableAdkError,
    PayloadLostError,
    PayloadTooLargeError,
    StateConflictError,
    as_detail,
    from_detail,
)
from durable_adk.events.event import Event
from durable_adk.events.event_actions import EventActions
from durable_adk.flows.agent_scope import AgentScope, CommitBy
from durable_adk.flows.delegated_call import MAX_TASK_BYTES, finished
from durable_adk.flows.graph.attempt import RunAgent
from durable_adk.flows.graph.calls import CalledNodes, begun_run, leave, next_calls
from durable_adk.flows.invocation import Invocation
from durable_adk.flows.pending_calls import require_answerable
from durable_adk.flows.state import LoopState
from durable_adk.json_values import canonical
from durable_adk.sessions.state_merge import Base, together
from durable_adk.wire.agent_stack import TurnPosition
from durable_adk.wire.graph.node_run import CalledRun
from durable_adk.wire.manifest import AgentNode, Wait
from durable_adk.wire.messages import check_size
from durable_adk.wire.steps import StepResult, ToolStep

MAX_TURN_BYTES = 8_000_000
"""Limit for the merged results of a turn; they are in no payload, and each has its own limit."""


class ToolTurn:
    """Runs the calls of one event side by side, and again those that needed an approval first."""

    def __init__(
        self,
        invocation: Invocation,
        node: AgentNode,
        scope: AgentScope,
        turn: TurnPosition,
        *,
        run_agent: RunAgent,
        single_turns: dict[str, int],
    ) -> None:
        self._run_agent = run_agent
        self._single_turns = single_turns
        self._invocation = invocation
        self._state = invocation.state
        self._pending = invocation.pending
        self._node = node
        self._scope = scope
        self._turn = turn
        self._calls = {call.id or "": call for call in turn.event.get_function_calls()}

    async def run(self) -> AsyncGenerator[Event, None]:
        """Yield the turn's responses and requests.

        Raises:
            DurableAdkError: A tool failed; the responses of the others have been yielded.
        """
        turn = self._turn
        if turn.waiting is None:
            async with closing(self._begin()) as events:
                async for event in events:
                    yield event
        async with closing(self._called()) as events:
            async for event in events:
                yield event
        waiting = turn.waiting = turn.waiting or []
        while waiting and not self._scope.end_invocation:
            given = [await self._pending.answer_to(waiting, self._scope.branch)]
            given += self._pending.consume(waiting)  # others may have come in the same message
            waiting[:] = [name for name in waiting if name not in given]
            async for event in self._approved(given, waiting):
                yield event
            async with closing(self._called()) as events:
                async for event in events:
                    yield event
            if not self._state.checkpoint.opened.resumable:
                if waiting:  # the model is called at once, and the others are settled later
                    turn.final = False
                    turn.interim.update(waiting)
                    self._scope.position.closes = False
                return
        for call_id in waiting:
            self._pending.forget(call_id)

    async def _approved(
        self, answered: Sequence[str], waiting: list[str]
    ) -> AsyncGenerator[Event, None]:
        """Run again the calls whose requests to the user are answered; yield their responses.

        Ids that they still wait for are added to `waiting`.
        """
        turn = self._turn
        about = {turn.requests.pop(name): name for name in answered if name in turn.requests}
        calls = [call for call_id, call in self._calls.items() if call_id in about]
        if calls:
            results = await self._call_all(calls, requests=about)
            async for event in self._responses(results):
                yield event
            waiting += self._outstanding(calls, results)
        else:
            turn.final = False

    async def _called(self) -> AsyncGenerator[Event, None]:
        """Run the nodes that the calls ask for, and yield their events and the responses."""
        turn, scope = self._turn, self._scope
        while turn.called and not scope.end_invocation:
            runs = {name: turn.called[name] for name in next_calls(turn)}
            nodes = CalledNodes(self._invocation, scope, self._run_agent, runs)
            async with closing(nodes.run()) as events:
                async for event in events:
                    yield event
            leave(scope, list(runs.values()))
            calls = [self._calls[name] for name in runs]
            results = await self._call_all(calls, runs=runs)
            turn.called = {name: one for name, one in turn.called.items() if name not in runs}
            async for event in self._responses(results):
                yield event

    async def _begin(self) -> AsyncGenerator[Event, None]:
        """Run the calls, and record which of them still have no response."""
        calls = self._turn.event.get_function_calls()
        for call in calls:
            if call.id in self._turn.waits and self._state.can_wait:
                # Its answer may arrive before the tool that requests it has returned.
                self._pending.expect(call, self._turn.waits[call.id], self._scope)
                self._scope.position.closes = False
                require_answerable(self._state)
        results = await self._call_all(calls)
        async for event in self._responses(results):
            yield event
        self._turn.waiting = self._outstanding(calls, results)
        if self._turn.waiting:
            require_answerable(self._state)

    def _outstanding(
        self, calls: Sequence[types.FunctionCall], results: Sequence[StepResult]
    ) -> list[str]:
        """Return the ids to wait for before the model is called again.

        By default the model is called as soon as there is any response, interim or of another call
        of the turn; in a resumable app once there are all of them (TRAP-27, TOL-42).
        """
        pending, turn = self._pending, self._turn
        waiting: list[str] = []
        for call, result in zip(calls, results, strict=True):
            requests = [name for name, about in turn.requests.items() if about == call.id]
            if requests or call.id not in turn.waits:
                waiting += requests
            elif pending.is_answered(call.id):
                pending.consume([call.id])  # the answer came before its tool returned
            elif result.pending or result.waits:
                speaks = turn.responded and not self._state.checkpoint.opened.resumable
                (turn.interim.add if speaks else waiting.append)(call.id)
            else:
                pending.forget(call.id)
                continue
            known = not self._state.can_wait or pending.is_expected(call.id or "")
            if call.id in (*waiting, *turn.interim) and not known:
                pending.expect(call, turn.waits[call.id], self._scope)  # its approval came first
        return waiting

    async def _responses(self, results: Sequence[StepResult]) -> AsyncGenerator[Event, None]:
        """Yield the event of the results, and requests to the user, in ADK's order (FLW-51, 17.1).

        The agent that the calls hand over to is in `RunPosition.transfer` afterwards.
        """
        turn = self._turn
        turn.final = False
        response = self._merged(results)
        if response is not None:
            requests = self._user_requests(response, results)
            ids = {answer.id for answer in response.get_function_responses()}
            if requests and not ids <= calls_needing_user(response):
                response.actions.skip_summarization = _settled_skip(results)
                order = [response, *requests]
            else:
                order = [*requests, response]
            for event in order:
                yield event
            self._expect(requests, results)
            turn.responded = turn.responded or bool(ids - calls_needing_user(response))
            turn.final = bool(ids) and response.is_final_response()
            turn.finished = turn.finished or response.output is not None
            if response.actions.set_model_response is not None:
                turn.answer = response.actions.set_model_response
        failed = next((result.error for result in results if result.error), None)
        if failed:
            raise from_detail(failed)
        named = [result.transfer for result in results if result.transfer]
        self._scope.position.transfer = named[-1] if named else None

    def _merged(self, results: Sequence[StepResult]) -> Event | None:
        """Return the event of all responses: the only one, which may be stored, or a merged one."""
        events = [event for result in results if (event := result.event)]
        if not events or results[0].seq:
            return events[0] if events else None
        event = merge_responses(events, event_id=events[0].id)
        check_size(event.to_json(), "The results of one turn's tools", MAX_TURN_BYTES)
        return event

    def _user_requests(self, response: Event, results: Sequence[StepResult]) -> list[Event]:
        """Return requests to the user for confirmations and credentials."""
        requests: list[Event | None] = []
        if response.actions.requested_tool_confirmations:
            event_id = self._scope.branch.next_id()
            requests.append(confirmation_request(self._turn.event, response, event_id=event_id))
        if response.actions.requested_auth_configs:
            event_id = self._scope.branch.next_id()
            requests.append(credential_request(self._turn.event, response, event_id=event_id))
        made = [request for request in requests if request is not None]
        waits = _waits(results)
        for request in made:
            calls = {call.id or "": about(call) for call in request.get_function_calls()}
            asked = {name: waits.get(call, Wait()) for name, call in calls.items()}
            with_deadlines(request, asked)
        return made

    def _expect(self, requests: Sequence[Event], results: Sequence[StepResult]) -> None:
        """Accept answers to requests, which are committed now."""
        waits = _waits(results)
        if requests:
            require_answerable(self._state)
        for call in (call for event in requests for call in event.get_function_calls()):
            original = about(call)
            self._turn.requests[call.id or ""] = original
            self._pending.forget(original)  # neither it nor its deadline has begun
            wait = waits.get(original, Wait())
            self._pending.expect(call, wait, self._scope)

    async def _call_all(
        self,
        calls: Sequence[types.FunctionCall],
        *,
        requests: Mapping[str, str] | None = None,
        runs: Mapping[str, CalledRun] | None = None,
    ) -> list[StepResult]:
        """Run calls side by side; the results are in the order of the calls.

        When one fails, those still running are cancelled, and every call still gets a response
        (FLW-46). Nothing here depends on which call finishes first, so a replay takes the same
        path.

        Args:
            calls: The calls.
            requests: By call id, the answered request to the user that a call runs again for.
            runs: By call id, the run of its node, which has ended; None: the calls begin.
        """
        state, scope = self._state, self._scope
        alone = len(calls) == 1
        _check_together(state, len(calls))
        if any(map(self._is_apart, calls)):
            await state.runtime.leave_batch()  # else it would run only after the others
        if runs is None:
            state.budget.tool_calls(len(calls), state.runtime.now())
        fields = self._fields(calls, requests or {}, runs or {})
        tasks: list[asyncio.Task[StepResult]] = []

        async def guarded(index: int, call: types.FunctionCall) -> StepResult:
            result = await self._call(fields[index], call, together=len(calls))
            if result.error:
                for other in tasks[:index] + tasks[index + 1 :]:
                    other.cancel()  # no effect on those that have finished
            return result

        tasks.extend(asyncio.ensure_future(guarded(*item)) for item in enumerate(calls))
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        state.checkpoint.counters.tool_calls += len(calls) if runs is None else 0
        results = [
            self._settled(call, outcome, fields[0]["event_id"])
            for call, outcome in zip(calls, outcomes, strict=True)
        ]
        if alone:
            self._invocation.take(results[0])
        else:
            self._refuse_conflicts(calls, results)
        self._begin_called(calls, results)
        scope.end_invocation |= any(item.end_invocation for item in results)
        return results

    def _fields(
        self,
        calls: Sequence[types.FunctionCall],
        requests: Mapping[str, str],
        runs: Mapping[str, CalledRun],
    ) -> list[dict[str, Any]]:
        """Return the fields of the calls' steps; see `_call_all`."""
        scope = self._scope
        # Responses of several calls are merged into one event. An interim result must not be stored
        # after an answer that arrived before it.
        early = len(calls) == 1 and calls[0].id not in self._turn.waits
        commit_by = None if early else CommitBy.LOOP
        shared = self._invocation.step_fields(scope, scope.branch.next_id(), commit_by=commit_by)
        found: list[dict[str, Any]] = []
        for call in calls:
            asked, ran = requests.get(call.id or ""), runs.get(call.id or "")
            found.append(shared | {"request_id": asked, "called": ran and ran.end})
            shared = shared | {"ended": None}  # one step reports the agents' runs that have ended
        return found

    def _begin_called(
        self, calls: Sequence[types.FunctionCall], results: Sequence[StepResult]
    ) -> None:
        """Note the nodes that the calls ask for; see `_called`."""
        for call, result in zip(calls, results, strict=True):
            if result.called is not None:
                run = begun_run(result.called, call.id or "", self._scope, self._single_turns)
                self._turn.called[call.id or ""] = run

    def _refuse_conflicts(
        self, calls: Sequence[types.FunctionCall], results: Sequence[StepResult]
    ) -> None:
        """Fail those calls whose state changes cannot be merged with those of earlier calls.

        Nothing of these calls is stored. They do not run again: a tool may have acted already.
        """
        delta: dict[str, Any] = {}
        read: dict[str, Base] = {}
        for at, (call, result) in enumerate(zip(calls, results, strict=True)):
            if result.event is None:
                continue
            mine = result.event.actions
            try:
                delta, read = together(delta, read, mine.state_delta, mine.state_read)
            except StateConflictError as error:
                before = zip(calls[:at], results[:at], strict=True)
                writers = [one for one, done in before if _writes(done, error.key)]
                names = " and ".join(f"{one.name!r} (call {one.id})" for one in [*writers, call])
                result.error = as_detail(StateConflictError(f"Tools {names}: {error.message}"))
                event_id, result.event = result.event.id, None
                self._settled(call, result, event_id)

    def _is_apart(self, call: types.FunctionCall) -> bool:
        """Return whether a call is never performed in a batch, or may be answered meanwhile."""
        spec = self._node.tools.get(call.name or "")
        return call.id in self._turn.waits or (spec is not None and spec.apart)

    async def _call(
        self, fields: dict[str, Any], call: types.FunctionCall, *, together: int
    ) -> StepResult:
        name = call.name or ""
        limits = self._state.checkpoint.opened.limits
        spec = self._node.tools.get(name)
        timeout = (spec and spec.timeout) or limits.tool_timeout
        step = ToolStep(
            **fields, attempt_timeout=timeout, call_id=call.id or "", tool=name, spec=spec
        )
        try:
            first = await self._state.runtime.perform(step)
            return await finished(self._state, self._scope, step, first, together=together)
        except PayloadLostError:
            raise  # its response may be stored, but the loop cannot know
        except DurableAdkError as error:
            return StepResult(error=as_detail(error))

    def _settled(
        self, call: types.FunctionCall, outcome: StepResult | BaseException, event_id: str
    ) -> StepResult:
        """Return the outcome of one call, with a response event unless the response comes later."""
        if isinstance(outcome, asyncio.CancelledError):
            outcome = StepResult()
            message = "Cancelled because another call of its turn failed; it may have run in part."
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            message = failure_text(call.name or "", outcome.error or {})
        if self._pending.is_answered(call.id or ""):
            # The answer came before the tool returned; the tool's changes are kept.
            outcome.event, outcome.transfer = _changes(outcome.event), None
        elif outcome.event is None and not (outcome.pending or outcome.called):
            author, branch = self._scope.ctx.agent_name, self._scope.ctx.branch
            outcome.event = error_response(
                call.id or "", call.name or "", message, author=author, branch=branch
            )
        if outcome.event is not None:
            outcome.event.id = event_id
        return outcome


def _changes(event: Event | None) -> Event | None:
    """Return the event with its changes and without its content; None if it changes nothing."""
    if event is None or not (event.actions.state_delta or event.actions.artifact_delta):
        return None
    actions = EventActions(
        state_delta=event.actions.state_delta,
        state_read=event.actions.state_read,
        artifact_delta=event.actions.artifact_delta,
    )
    return event.model_copy(update={"content": None, "actions": actions})


def about(request: types.FunctionCall) -> str:
    """Return the id of the tool call that a request to the user is about."""
    args = request.args or {}
    original: Any = args.get("originalFunctionCall") or {"id": args.get("functionCallId")}
    return str(original["id"])


def _waits(results: Sequence[StepResult]) -> dict[str, Wait]:
    """Return how long each call may wait for an answer, by call id."""
    return {call_id: wait for result in results for call_id, wait in result.waits.items()}


def _writes(result: StepResult, key: str) -> bool:
    return result.event is not None and key in result.event.actions.state_delta


def _settled_skip(results: Sequence[StepResult]) -> bool | None:
    """Return whether a response that needs no request to the user skips summarization."""
    settled = [r.event for r in results if r.event is not None and not calls_needing_user(r.event)]
    return any(event.actions.skip_summarization for event in settled) or None


def _check_together(state: LoopState, calls: int) -> None:
    """Reject steps that are each small enough, but together exceed one gRPC message (1c)."""
    local = len(canonical(state.local_state()).encode()) * calls
    if local > MAX_TASK_BYTES:
        raise PayloadTooLargeError(
            f"{calls} calls at once with the temp: state of each are {local:,} bytes; at most "
            f"{MAX_TASK_BYTES:,} can be sent together. Keep less in temp: keys."
        )
