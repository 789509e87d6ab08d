"""One model call with its callbacks."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from durable_adk.activities.callbacks import answer_of
from durable_adk.activities.chunks import Chunks, after_model
from durable_adk.activities.request import build_request
from durable_adk.activities.world import World
from durable_adk.agents.llm_agent import LlmAgent
from durable_adk.calling import contained
from durable_adk.code_executors.flow import cut_off
from durable_adk.context import CallbackContext, StepScope
from durable_adk.errors import (
    AgentDefinitionError,
    CallbackError,
    DurableAdkError,
    LlmCallsLimitExceededError,
    ModelError,
    ModelUnavailableError,
    raised,
)
from durable_adk.events.event import Event
from durable_adk.failpoints import failpoint
from durable_adk.flows.response import call_ids, save_output, to_event
from durable_adk.messages import check_size
from durable_adk.models.llm_request import LlmRequest
from durable_adk.models.llm_response import LlmResponse
from durable_adk.payloads import ModelStep, StepResult, Wait
from durable_adk.planners.planning import planned
from durable_adk.plugins.plugin_manager import PluginManager
from durable_adk.run_config import StreamingMode
from durable_adk.tools.base_tool import BaseTool
from durable_adk.values import check_json


async def call_model(world: World, step: ModelStep, *, attempt: int = 1) -> StepResult:
    """Build the request, run the callbacks, ask the model; the answer as an event.

    Args:
        world: The stores.
        step: Which agent at which revision.
        attempt: 1, 2, ...; a transient failure of the last one is final.

    Raises:
        ModelUnavailableError: Ask again, unless this was attempt `Limits.model_attempts`.
        DurableAdkError: The run has failed.
    """
    agent, scope = await world.scope(step)
    if not isinstance(agent, LlmAgent):
        raise AgentDefinitionError(f"Agent {agent.name!r} is no LlmAgent any more.")
    context = CallbackContext(scope)
    limit = step.attempt_timeout + world.limits.callback_timeout
    try:
        async with asyncio.timeout(limit):
            request = await build_request(agent, scope)
            call = _Call(
                agent=agent,
                request=request,
                scope=scope,
                context=context,
                step=step,
                plugins=world.plugins(step),
                chunks=Chunks(
                    world, step, agent=agent, scope=scope, context=context, attempt=attempt
                ),
                final=attempt >= world.limits.model_attempts,
            )
            response, called = await call.answer()
            response = await _processed(agent, response, context)
    except TimeoutError:
        raise CallbackError(
            f"The callbacks round a model call of {step.agent} did not finish in {limit:g} s."
        ) from None
    context.state.collect_delta()
    ids = call_ids(step, scope.session.events)
    event = to_event(response, step=step, actions=context.actions, ids=ids)
    changed = context.actions.state_delta or context.actions.artifact_delta
    if not (event.content or event.error_code or changed):
        return StepResult(model_called=called, end_invocation=scope.end_invocation)
    before = _text_before(scope, step)
    save_output(event, output_key=agent.output_key, schema=agent.output_schema, before=before)
    result = StepResult(event=event, model_called=called, end_invocation=scope.end_invocation)
    result.waits = _long_running(event, request)
    _check(event, step)
    return result


async def _processed(
    agent: LlmAgent, response: LlmResponse | None, context: CallbackContext
) -> LlmResponse:
    """The response as the agent's code executor and planner leave it, a callback's as well."""
    if response is None:
        return LlmResponse()
    response = response.or_silence()
    if agent.code_executor is not None:
        response = cut_off(agent.code_executor, response, context=context)
    if agent.planner is not None:
        response = await planned(agent.planner, context, response)
    return response


def _long_running(event: Event, request: LlmRequest) -> dict[str, Wait]:
    """Mark the calls of long-running tools (FLW-41); how long each waits for its answer."""
    waits: dict[str, Wait] = {}
    for call in event.get_function_calls():
        tool: BaseTool | None = request.tools_dict.get(call.name or "")
        if tool is not None and tool.is_long_running:
            waits[call.id or ""] = Wait(deadline=tool.deadline, on_deadline=tool.on_deadline)
    event.long_running_tool_ids = set(waits) or None
    return waits


@dataclass(frozen=True, kw_only=True)
class _Call:
    """One call of a model, with the hooks round it."""

    agent: LlmAgent
    request: LlmRequest
    scope: StepScope
    context: CallbackContext
    step: ModelStep
    plugins: PluginManager
    chunks: Chunks
    final: bool
    """Whether nobody will ask again."""

    async def answer(self) -> tuple[LlmResponse | None, bool]:
        """The response, and whether a model was asked for it (CB-7)."""
        response = await answer_of(
            self.plugins,
            "before_model_callback",
            self.agent.before_model_callback,
            callback_context=self.context,
            llm_request=self.request,
        )
        if response is not None or self.scope.end_invocation:
            return response, False
        if self.step.calls_left is not None and self.step.calls_left <= 0:
            raise LlmCallsLimitExceededError(
                f"Max number of llm calls limit of `{self.step.max_llm_calls}` exceeded"
            )
        response = await self._ask()
        return await after_model(self.agent, self.plugins, self.context, response), True

    async def _ask(self) -> LlmResponse:
        """The model's whole answer, or what an error hook has in its place."""
        async with aclosing(self._responses()) as responses:
            while True:
                try:
                    response = await anext(responses)
                except DurableAdkError as error:  # the model's: those of hooks are not for hooks
                    return await self._recovered(error)
                if not response.partial:
                    return response
                await self.chunks.show(response)

    async def _recovered(self, error: DurableAdkError) -> LlmResponse:
        if isinstance(error, ModelUnavailableError) and not self.final:
            raise error  # the engine asks again; the error hooks are for what stays
        recovered = await answer_of(
            self.plugins,
            "on_model_error_callback",
            self.agent.on_model_error_callback,
            callback_context=self.context,
            llm_request=self.request,
            error=error.__cause__ if isinstance(error.__cause__, Exception) else error,
        )
        if recovered is None:
            raise error
        return recovered

    async def _responses(self) -> AsyncGenerator[LlmResponse]:
        """What the model says: its chunks, if they are wanted, and the whole.

        Raises:
            DurableAdkError: It failed, or has said nothing in its time.
        """
        failpoint("model.before_call")
        limit = self.step.attempt_timeout
        whole: LlmResponse | None = None
        try:
            async with aclosing(self._timed(limit)) as responses:
                async for response in responses:
                    if not response.partial:
                        whole = response
                    elif self.streaming:
                        yield response
        except DurableAdkError:
            raise
        except TimeoutError as error:
            raise ModelUnavailableError(f"The model gave no answer in {limit:g} s.") from error
        except Exception as error:
            kind = type(error).__name__
            raise raised(ModelError, kind, f"The model raised {kind}: {error}") from error
        failpoint("model.after_call")
        if whole is None:
            raise ModelError("The model gave no response at all.", error_type="UNKNOWN_ERROR")
        yield whole

    async def _timed(self, left: float) -> AsyncGenerator[LlmResponse]:
        """The model's responses; its time stands still while hooks look at one."""
        loop = asyncio.get_running_loop()
        model = self.agent.canonical_model
        async with aclosing(
            model.generate_content_async(self.request, stream=self.streaming)
        ) as responses:
            while True:
                until = loop.time() + left
                async with asyncio.timeout_at(until):
                    response = await contained(anext(responses, None))
                if response is None:
                    return
                left = until - loop.time()
                yield response

    @property
    def streaming(self) -> bool:
        """Whether chunks are wanted (FLW-70)."""
        return self.scope.run_config.streaming_mode is StreamingMode.SSE


def _text_before(scope: StepScope, step: ModelStep) -> str:
    """The text of the agent's events since its run began, for `save_output`."""
    events = scope.session.events
    # Counted from the end: of the beginning the step may not see all (SSN-6).
    start = len(events) - (step.revision - step.run_start)
    return "".join(
        event.text
        for event in events[max(start, 0) :]
        if event.author == step.agent and event.invocation_id == step.invocation_id
    )


def _check(event: Event, step: ModelStep) -> None:
    """Refuse what could not be stored, here where asking again still costs nothing."""
    check_json(event.model_dump(mode="json", include={"content"}), f"the answer to {step.agent}")
    check_json(event.actions.state_delta, "state_delta")
    check_json(event.custom_metadata, "custom_metadata")
    check_size(event.to_json(), f"The answer to {step.agent}")
