"""One model call with its callbacks."""

import asyncio

from durable_adk.activities.callbacks import first_answer
from durable_adk.activities.request import build_request
from durable_adk.activities.world import World
from durable_adk.agents.llm_agent import LlmAgent
from durable_adk.calling import contained
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
from durable_adk.flows.response import save_output, to_event
from durable_adk.messages import check_size
from durable_adk.models.llm_request import LlmRequest
from durable_adk.models.llm_response import LlmResponse
from durable_adk.payloads import ModelStep, StepResult, Wait
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
    final = attempt >= world.limits.model_attempts
    limit = step.attempt_timeout + world.limits.callback_timeout
    try:
        async with asyncio.timeout(limit):
            request = await build_request(agent, scope)
            response, called = await _answer(agent, request, scope, context, step, final=final)
    except TimeoutError:
        raise CallbackError(
            f"The callbacks round a model call of {step.agent} did not finish in {limit:g} s."
        ) from None
    context.state.collect_delta()
    if response is None:
        response = LlmResponse()
    event = to_event(response, step=step, actions=context.actions)
    if not (event.content or event.error_code or context.actions.state_delta):
        return StepResult(model_called=called, end_invocation=scope.end_invocation)
    save_output(
        event,
        output_key=agent.output_key,
        schema=agent.output_schema,
        before=_text_before(scope, step),
    )
    waits = _long_running(event, request)
    _check(event, step)
    return StepResult(
        event=event, model_called=called, end_invocation=scope.end_invocation, waits=waits
    )


def _long_running(event: Event, request: LlmRequest) -> dict[str, Wait]:
    """Mark the calls of long-running tools (FLW-41); how long each waits for its answer."""
    waits: dict[str, Wait] = {}
    for call in event.get_function_calls():
        tool: BaseTool | None = request.tools_dict.get(call.name or "")
        if tool is not None and tool.is_long_running:
            waits[call.id or ""] = Wait(deadline=tool.deadline, on_deadline=tool.on_deadline)
    event.long_running_tool_ids = set(waits) or None
    return waits


async def _answer(
    agent: LlmAgent,
    request: LlmRequest,
    scope: StepScope,
    context: CallbackContext,
    step: ModelStep,
    *,
    final: bool,
) -> tuple[LlmResponse | None, bool]:
    """The response, and whether a model was asked for it (CB-7)."""
    response = await first_answer(
        "before_model_callback",
        agent.before_model_callback,
        callback_context=context,
        llm_request=request,
    )
    if response is not None or scope.end_invocation:
        return response, False
    if step.calls_left is not None and step.calls_left <= 0:
        raise LlmCallsLimitExceededError(
            f"Max number of llm calls limit of `{step.max_llm_calls}` exceeded"
        )
    response = await _ask_or_recover(agent, request, context, step, final=final)
    changed = await first_answer(
        "after_model_callback",
        agent.after_model_callback,
        callback_context=context,
        llm_response=response,
    )
    return changed or response, True


async def _ask_or_recover(
    agent: LlmAgent,
    request: LlmRequest,
    context: CallbackContext,
    step: ModelStep,
    *,
    final: bool,
) -> LlmResponse:
    try:
        return await _ask(agent, request, step.attempt_timeout)
    except DurableAdkError as error:
        if isinstance(error, ModelUnavailableError) and not final:
            raise  # the engine asks again; the error hooks are for what stays
        recovered = await first_answer(
            "on_model_error_callback",
            agent.on_model_error_callback,
            callback_context=context,
            llm_request=request,
            error=error.__cause__ if isinstance(error.__cause__, Exception) else error,
        )
        if recovered is None:
            raise
        return recovered


async def _ask(agent: LlmAgent, request: LlmRequest, limit: float) -> LlmResponse:
    failpoint("model.before_call")
    try:
        async with asyncio.timeout(limit):
            whole = await contained(_whole(agent, request))
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
    return whole


async def _whole(agent: LlmAgent, request: LlmRequest) -> LlmResponse | None:
    """The model's last response that is not a chunk."""
    whole: LlmResponse | None = None
    async for response in agent.canonical_model.generate_content_async(request):
        if not response.partial:
            whole = response
    return whole


def _text_before(scope: StepScope, step: ModelStep) -> str:
    """The text of the agent's events since its run began, for `save_output`."""
    return "".join(
        event.text
        for event in scope.session.events[step.run_start :]
        if event.author == step.agent and event.invocation_id == step.invocation_id
    )


def _check(event: Event, step: ModelStep) -> None:
    """Refuse what could not be stored, here where asking again still costs nothing."""
    check_json(event.model_dump(mode="json", include={"content"}), f"the answer to {step.agent}")
    check_json(event.actions.state_delta, "state_delta")
    check_json(event.custom_metadata, "custom_metadata")
    check_size(event.to_json(), f"The answer to {step.agent}")
