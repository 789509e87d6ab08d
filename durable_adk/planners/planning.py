"""Applies a planner to a request and to its response."""

from typing import Any

from google.genai import types

from durable_adk.calling import call, contained
from durable_adk.context.activity import CallbackContext, ReadonlyContext
from durable_adk.errors import (
    CallbackError,
    reported_as,
)
from durable_adk.models.llm_request import LlmRequest
from durable_adk.models.llm_response import LlmResponse
from durable_adk.planners.base_planner import BasePlanner
from durable_adk.planners.built_in_planner import BuiltInPlanner


async def apply_planner(
    planner: BasePlanner, readonly_context: ReadonlyContext, llm_request: LlmRequest
) -> None:
    """Add the planner's instruction to a request, after its contents (FLW-2, FLW-95).

    Raises:
        CallbackError: The planner raised.
    """
    if isinstance(planner, BuiltInPlanner):
        planner.apply_thinking_config(llm_request)
        return
    instruction = await _call_planner(
        planner, "build_planning_instruction", readonly_context, llm_request
    )
    if instruction:
        llm_request.append_instructions([str(instruction)])
    # Parts that the planner marked as thoughts are the model's own earlier text, from which it must
    # continue; providers drop thoughts that they have not marked themselves.
    llm_request.contents = [_without_marks(content) for content in llm_request.contents]


async def planned(
    planner: BasePlanner, callback_context: CallbackContext, response: LlmResponse
) -> LlmResponse:
    """Return the response as processed by the planner; chunks, errors and empty ones unchanged.

    State that the planner writes is in `callback_context`, to be stored with the event. ADK stores
    it as an event of its own (FLW-96), which could be lost or seen without the answer.

    Raises:
        CallbackError: The planner raised.
    """
    parts = response.content.parts if response.content else None
    if not response.content or not parts or response.partial or isinstance(planner, BuiltInPlanner):
        return response
    # Copies: a planner may change parts in place, and a retry must begin from the model's own.
    copies = [part.model_copy(deep=True) for part in parts]
    processed = await _call_planner(planner, "process_planning_response", callback_context, copies)
    if not processed:
        return response
    content = types.Content(role=response.content.role, parts=list(processed))
    return response.model_copy(update={"content": content})


async def _call_planner(planner: BasePlanner, method: str, *args: Any) -> Any:
    with reported_as(CallbackError):
        return await contained(call(getattr(planner, method), *args))


def _without_marks(content: types.Content) -> types.Content:
    parts = content.parts or []
    if not any(part.thought for part in parts):
        return content
    plain = [part.model_copy(update={"thought": None}) if part.thought else part for part in parts]
    return content.model_copy(update={"parts": plain})
