"""Spans and metrics of model calls and tool runs, by OpenTelemetry's GenAI conventions."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from google.genai import types
from opentelemetry.trace import SpanKind

from durable_adk.errors import text_of
from durable_adk.models.llm_request import LlmRequest
from durable_adk.models.llm_response import LlmResponse
from durable_adk.telemetry import metrics, names
from durable_adk.telemetry.content import captured, capturing, messages
from durable_adk.telemetry.names import bounded
from durable_adk.telemetry.steps import current_step
from durable_adk.telemetry.tracing import RunningSpan, emit, error_type_of, identity, span, tracer

_PROVIDERS = {"Gemini": "gcp.gemini"}
"""Provider names by model class; for other classes, the class name."""


class ModelCallSpan:
    """The span of a model call."""

    def __init__(self, running: RunningSpan, labels: dict[str, str]) -> None:
        self._running = running
        self._labels = labels

    def answered(self, response: LlmResponse) -> None:
        """Record that the response is complete and the call has ended."""
        usage = response.usage_metadata
        model = response.model_version or self._labels[names.REQUEST_MODEL]
        self._labels[names.RESPONSE_MODEL] = model
        if response.error_code:
            self._running.failed(response.error_code)
        if self._running.recording:
            self._running.set_attributes(
                {
                    names.RESPONSE_MODEL: model,
                    names.FINISH_REASONS: [_finish(response)],
                    **_tokens(usage),
                    **_response_content(response),
                }
            )
        self._end()
        for kind, number in (("input", _input(usage)), ("output", _output(usage))):
            if number is not None:
                metrics.token_usage.record(number, {**self._labels, names.TOKEN_TYPE: kind})

    def failed(self, error: BaseException) -> None:
        """Record that the call has ended without a response."""
        self._running.failed(error)
        self._running.set_attributes(captured(names.EXCEPTION, text_of(error)))
        self._end()

    def _end(self) -> None:
        if self._running.seconds is None:
            self._running.end()
            _record(self._running, self._labels)


@contextmanager
def chat(model: Any, request: LlmRequest, *, streaming: bool) -> Generator[ModelCallSpan]:
    """A model call over the body: span ``chat {model}``, made current, and its metrics.

    Args:
        model: The `BaseLlm`.
        request: The request.
        streaming: Whether the response is streamed.
    """
    labels = {
        names.OPERATION: names.CHAT,
        names.PROVIDER: _PROVIDERS.get(type(model).__name__, type(model).__name__),
        names.REQUEST_MODEL: request.model or model.model,
    }
    attributes = {
        **labels,
        names.STREAMING: streaming,
        **current_step().attributes,
        **_request_content(request),
    }
    name = f"{names.CHAT} {labels[names.REQUEST_MODEL]}"
    with span(name, attributes, kind=SpanKind.CLIENT) as running, running.current():
        call = ModelCallSpan(running, labels)
        try:
            yield call
        except BaseException as error:
            call.failed(error)
            raise


@contextmanager
def execute_tool(
    tool: str, kind: str, call_id: str, args: dict[str, Any]
) -> Generator[RunningSpan]:
    """One run of a tool over the body: span ``execute_tool {tool}``, made current, and its time.

    Args:
        tool: Name of an existing tool, not one that a model invented.
        kind: ``function`` or ``extension``.
        call_id: Id of the call.
        args: The arguments of the call.
    """
    labels = {names.OPERATION: names.EXECUTE_TOOL, names.TOOL: tool, names.TOOL_TYPE: kind}
    attributes = {
        **labels,
        names.CALL_ID: call_id,
        **current_step().attributes,
        **captured(names.ARGUMENTS, args),
    }
    with span(f"{names.EXECUTE_TOOL} {tool}", attributes) as running, running.current():
        try:
            yield running
        except BaseException as error:
            running.failed(error)
            running.set_attributes(captured(names.EXCEPTION, text_of(error)))
            raise
        finally:
            running.end()
            _record(running, labels)


def agent_tool_ended(
    tool: str, call_id: str, span_id: int, *, started: float, ended: float, error: str | None
) -> None:
    """Export the span of an agent that is used as a tool, the parent of the agent's invocation.

    Args:
        tool: Name of the tool.
        call_id: Id of the call.
        span_id: See `identity.tool_span`.
        started: Start of the agent, in seconds since the epoch.
        ended: Its end, in seconds since the epoch.
        error: Name of the error it ended with.
    """
    trace_of = identity()
    if trace_of is None:
        return
    attributes = {
        names.OPERATION: names.EXECUTE_TOOL,
        names.TOOL: tool,
        names.TOOL_TYPE: "extension",
        names.CALL_ID: call_id,
        **current_step().attributes,
    }
    emit(
        f"{names.EXECUTE_TOOL} {tool}",
        trace_of,
        span_id,
        above=trace_of.agent_run(current_step().run),
        started=started,
        ended=ended,
        attributes=attributes,
        error_type=error and error_type_of(error),
    )


def _record(running: RunningSpan, labels: dict[str, str]) -> None:
    failed = {names.ERROR_TYPE: running.error_type} if running.error_type else {}
    metrics.operation_duration.record(running.seconds or 0.0, {**labels, **failed})


def _request_content(request: LlmRequest) -> dict[str, str]:
    if tracer() is None or not capturing():
        return {}
    # google-genai's union type refers to libraries that are not installed.
    config: Any = request.config
    return captured(names.INPUT_MESSAGES, messages(request.contents)) | captured(
        names.SYSTEM_INSTRUCTIONS, config.system_instruction
    )


def _response_content(response: LlmResponse) -> dict[str, str]:
    if response.content is None or not capturing():
        return {}
    return captured(names.OUTPUT_MESSAGES, messages([response.content]))


def _finish(response: LlmResponse) -> str:
    reason = response.finish_reason
    if reason is None:
        return "error" if response.error_code else "stop"
    return bounded(reason.value.lower())


def _tokens(usage: types.GenerateContentResponseUsageMetadata | None) -> dict[str, int | None]:
    return {
        names.INPUT_TOKENS: _input(usage),
        names.OUTPUT_TOKENS: _output(usage),
        names.CACHED_TOKENS: usage.cached_content_token_count if usage else None,
    }


def _input(usage: types.GenerateContentResponseUsageMetadata | None) -> int | None:
    return usage.prompt_token_count if usage else None


def _output(usage: types.GenerateContentResponseUsageMetadata | None) -> int | None:
    """The model's output tokens including thoughts, as they are billed."""
    if usage is None or usage.candidates_token_count is None:
        return None
    return usage.candidates_token_count + (usage.thoughts_token_count or 0)
