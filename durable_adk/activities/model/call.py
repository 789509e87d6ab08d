"""Calls the model for one step, with the callbacks before and after it."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import dataclass

from durable_adk.activities.attempt_record import AttemptRecorder
from durable_adk.activities.commit.notes import ReceivedResponse, find_received, keep_received
from durable_adk.activities.model.chunks import Chunks, after_model
from durable_adk.activities.model.model_events import ModelEvents
from durable_adk.activities.model.request import build_request, label
from durable_adk.activities.step import ActiveStep
from durable_adk.activities.user_code.callbacks import answer_of, as_list
from durable_adk.agents.llm_agent import LlmAgent
from durable_adk.calling import contained_items, time_limit
from durable_adk.code_executors.flow import cut_off
from durable_adk.context.activity import CallbackContext
from durable_adk.errors import (
    CallbackError,
    DurableAdkError,
    LlmCallsLimitExceededError,
    ModelError,
    ModelUnavailableError,
    StoreUnavailableError,
    as_detail,
    as_raised,
    reported_as,
)
from durable_adk.failpoints import failpoint
from durable_adk.json_values import check_json
from durable_adk.log import get_logger
from durable_adk.models.llm_request import LlmRequest
from durable_adk.models.llm_response import LlmResponse
from durable_adk.planners.planning import planned
from durable_adk.sessions.call_attempt import AttemptEnd
from durable_adk.telemetry.genai import chat
from durable_adk.tools.base_tool import BaseTool
from durable_adk.tools.base_toolset import missed_toolsets
from durable_adk.wire.manifest import Wait
from durable_adk.wire.messages import check_event, check_size
from durable_adk.wire.run_config import StreamingMode
from durable_adk.wire.steps import ModelStep, StepResult

_HINT = (
    "the call is repeated; if it keeps failing, raise the quota or choose another model "
    "(`durable-adk show` prints the provider's words)"
)

logger = get_logger(__name__)


async def call_model(active: ActiveStep[ModelStep]) -> StepResult:
    """Build the request, run the callbacks, call the model and return its response as an event.

    A response that an earlier attempt stored is not requested again (I10). A transient failure of
    the last attempt is final.

    Raises:
        ModelUnavailableError: Retry, unless this was attempt `Limits.model_attempts`.
        DurableAdkError: The run has failed.
    """
    await active.load()
    recorder = AttemptRecorder(active)
    async with recorder.recorded():
        again = active.attempt.number > 1 or active.scope.ahead
        received = await find_received(active, ReceivedResponse) if again else None
        if received is None:
            await recorder.record_lost()
        await active.attempt.begins()
        return await _answered(active, recorder, received)


async def _answered(
    active: ActiveStep[ModelStep],
    recorder: AttemptRecorder,
    received: ReceivedResponse | None,
) -> StepResult:
    step, agent, scope = active.step, active.llm_agent, active.scope
    if received is not None:
        # The callbacks before the model have run; their changes are committed with the response.
        scope.session.state.update(received.actions.state_delta)
        scope.end_invocation = received.end_invocation
    context = CallbackContext(scope, event_actions=received.actions if received else None)
    limit = step.attempt_timeout + active.deps.limits.callback_timeout
    try:
        async with time_limit(limit):
            answer, called = received, True
            if answer is None:
                call = await _ModelCall.of(active, context, recorder)
                answer, called = await call.answer()
            events = ModelEvents(active, context, answer.long_running)
            for response in (answer.response, *answer.more):
                changed = response
                if called:
                    changed = await after_model(active, context, response)
                events.add(await _processed(agent, changed, context))
    except TimeoutError:
        raise CallbackError(
            f"The callbacks round a model call of {step.agent} did not finish in {limit:g} s."
        ) from None
    result, *result.more = events.results or [StepResult()]
    result.model_called, result.end_invocation = called, scope.end_invocation
    result.error = answer.error
    _check(result, step)
    return result


async def _processed(
    agent: LlmAgent, response: LlmResponse, context: CallbackContext
) -> LlmResponse:
    """Apply the agent's code executor and planner, to a callback's response as well."""
    response = response.or_silence()
    if agent.code_executor is not None:
        response = cut_off(agent.code_executor, response, context=context)
    if agent.planner is not None:
        response = await planned(agent.planner, context, response)
    return response


@dataclass(frozen=True, kw_only=True)
class _ModelCall:
    """One model call with the hooks before it."""

    active: ActiveStep[ModelStep]
    agent: LlmAgent
    request: LlmRequest
    context: CallbackContext
    chunks: Chunks
    recorder: AttemptRecorder

    @classmethod
    async def of(
        cls,
        active: ActiveStep[ModelStep],
        context: CallbackContext,
        recorder: AttemptRecorder,
    ) -> "_ModelCall":
        """Build the request and the call for one attempt of the step."""
        agent, scope = active.llm_agent, active.scope
        with missed_toolsets(waits=False) as missed:
            request = await build_request(agent, scope)
        scope.missing_toolsets = [error.message for error in missed]
        return cls(
            active=active,
            agent=agent,
            request=request,
            context=context,
            chunks=Chunks(active, context),
            recorder=recorder,
        )

    @property
    def final(self) -> bool:
        """Whether this is the last attempt."""
        return self.active.attempt.counted >= self.active.deps.limits.model_attempts

    async def answer(self) -> tuple[ReceivedResponse, bool]:
        """Return the response, and whether a model was called for it (CB-7)."""
        response = await answer_of(
            self.active.plugins,
            "before_model_callback",
            self.agent.before_model_callback,
            callback_context=self.context,
            llm_request=self.request,
        )
        if response is not None or self.active.scope.end_invocation:
            return self._as_arrived(response or LlmResponse()), False
        if self.active.step.calls_left is not None and self.active.step.calls_left <= 0:
            raise LlmCallsLimitExceededError(
                f"Max number of llm calls limit of `{self.active.step.max_llm_calls}` exceeded"
            )
        self.recorder.begin(self.agent.canonical_model.model)
        return await self._call_model(), True

    async def _call_model(self) -> ReceivedResponse:
        """Return the model's complete responses; an error hook may replace its error."""
        model = self.agent.canonical_model
        label(self.request, self.agent)
        with chat(model, self.request, streaming=self.streaming) as asked:
            responses, error = await self._whole()
            if error is None:
                asked.answered(responses[-1])
            else:
                asked.failed(error)
        if error is not None:
            recovered = await self._recovered(error)
            if recovered is not None:
                responses.append(recovered)
                error = None
            elif not responses:
                raise error
        return await self._keep_response(self._as_arrived(*responses, error=error))

    async def _whole(self) -> tuple[list[LlmResponse], DurableAdkError | None]:
        """Publish all chunks; return the model's complete responses, and its error if it failed."""
        whole: list[LlmResponse] = []
        async with aclosing(self._responses()) as responses, self.chunks.repeated():
            while True:
                try:
                    response = await anext(responses, None)
                except StoreUnavailableError:
                    raise  # not the model's error: the whole step is retried
                except DurableAdkError as error:  # the model's; hooks do not handle errors of hooks
                    return whole, error
                if response is None:
                    return whole, None
                if response.partial:
                    await self.chunks.show(response)
                else:
                    whole.append(response)

    def _as_arrived(
        self, *responses: LlmResponse, error: DurableAdkError | None = None
    ) -> ReceivedResponse:
        self.context.state.collect_delta()
        tools: Iterable[BaseTool] = self.request.tools_dict.values()
        return ReceivedResponse(
            response=responses[0],
            more=list(responses[1:]),
            error=as_detail(error) if error else None,
            actions=self.context.actions,
            end_invocation=self.active.scope.end_invocation,
            long_running={
                tool.name: Wait(deadline=tool.deadline, on_deadline=tool.on_deadline)
                for tool in tools
                if tool.is_long_running
            },
        )

    async def _keep_response(self, answer: ReceivedResponse) -> ReceivedResponse:
        """Note the response if code of the step follows it; see `CommitPlan.notes_received`."""
        agent = self.agent
        code_follows = (
            bool(as_list(agent.after_model_callback))
            or "after_model_callback" in self.active.plugins.hooks()
            or agent.planner is not None
            or agent.code_executor is not None
        )
        if not self.active.plan.notes_received(code_follows=code_follows):
            return answer
        check_json(answer.actions.state_delta, "state_delta")
        try:
            first = await keep_received(self.active, answer)
        except ValueError:
            return answer  # not storable; `_check` will report why
        self.recorder.kept = True
        changes = {"response": first.response, "more": first.more, "error": first.error}
        return answer if first is answer else answer.model_copy(update=changes)

    async def _recovered(self, error: DurableAdkError) -> LlmResponse | None:
        """Return an error hook's replacement, or None.

        Raises:
            ModelUnavailableError: The call is to be retried.
        """
        if isinstance(error, ModelUnavailableError) and not self.final:
            logger.warning(
                "model.unavailable",
                model=self.agent.canonical_model.model,
                error_type=error.error_type,
                again_in=error.delay(self.active.attempt.counted),
                hint=_HINT,
            )
            raise error  # Temporal retries; error hooks run only for the final error
        await self.recorder.ended(AttemptEnd.FAILED, error)
        return await answer_of(
            self.active.plugins,
            "on_model_error_callback",
            self.agent.on_model_error_callback,
            callback_context=self.context,
            llm_request=self.request,
            error=as_raised(error),
        )

    async def _responses(self) -> AsyncGenerator[LlmResponse]:
        """Yield the model's chunks, if the run streams them, and its complete responses.

        Raises:
            DurableAdkError: The model failed or timed out.
        """
        failpoint("model.before_call")
        limit = self.active.step.attempt_timeout
        whole = False
        with reported_as(ModelError):
            async with aclosing(self._timed(limit)) as responses:
                async for response in responses:
                    whole = whole or not response.partial
                    if self.streaming or not response.partial:
                        yield response
        failpoint("model.after_call")
        if not whole:
            raise ModelError("The model gave no response at all.", error_type="UNKNOWN_ERROR")

    async def _timed(self, left: float) -> AsyncGenerator[LlmResponse]:
        """Yield the model's responses; the timer is paused while hooks process one."""
        loop = asyncio.get_running_loop()
        model = self.agent.canonical_model
        items = model.generate_content_async(self.request, stream=self.streaming)
        async with aclosing(contained_items(items)) as responses:
            while True:
                until = loop.time() + left
                timer = asyncio.timeout_at(until)
                try:
                    async with timer:
                        response = await anext(responses, None)
                except TimeoutError as error:
                    if not timer.expired():
                        raise
                    text = f"The model gave no answer in {self.active.step.attempt_timeout:g} s."
                    raise ModelUnavailableError(text) from error
                if response is None:
                    return
                self.recorder.saw(response)
                left = until - loop.time()
                yield response

    @property
    def streaming(self) -> bool:
        """Whether the run streams chunks (FLW-70)."""
        return self.active.scope.run_config.streaming_mode is StreamingMode.SSE


def _check(result: StepResult, step: ModelStep) -> None:
    """Reject events that cannot be stored while a retry still costs nothing."""
    for event in (item.event for item in (result, *result.more) if item.event):
        content = event.model_dump(mode="json", include={"content"})
        check_json(content, f"the answer to {step.agent}")
        check_json(event.actions.state_delta, "state_delta")
        check_json(event.custom_metadata, "custom_metadata")
        check_event(event, f"The answer to {step.agent}")
    if result.more:
        check_size(result.to_json(), f"The answers to {step.agent}")
