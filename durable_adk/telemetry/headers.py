"""Propagation of an invocation's trace through Temporal, in headers and never in payloads.

A client writes the header that the tracing interceptors of all Temporal SDKs write, so a client in
another language needs only such an interceptor. The workflow propagates the header of its start,
unread, to its activities, its children and its next run. It exports nothing, so a replay repeats
nothing; and headers are not part of the comparison of history and code.
"""

from collections.abc import Mapping
from logging import INFO, WARNING
from typing import Any, NoReturn

from opentelemetry.trace import get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from temporalio import activity
from temporalio.api.common.v1 import Payload
from temporalio.client import (
    Client,
    Interceptor as ClientInterceptor,
    OutboundInterceptor,
    StartWorkflowInput,
    WorkflowHandle,
)
from temporalio.converter import PayloadConverter
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.worker import (
    ActivityInboundInterceptor,
    ContinueAsNewInput,
    ExecuteActivityInput,
    ExecuteWorkflowInput,
    Interceptor,
    StartActivityInput,
    StartChildWorkflowInput,
    StartLocalActivityInput,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
    WorkflowOutboundInterceptor,
)
from temporalio.workflow import ActivityHandle, ChildWorkflowHandle

from durable_adk.errors import SessionRegressedError, StoreUnavailableError, frames_of_error
from durable_adk.log import get_logger
from durable_adk.sessions.session import SessionKey
from durable_adk.telemetry.identity import TraceIdentity
from durable_adk.telemetry.steps import for_invocation
from durable_adk.telemetry.tracing import error_type_of
from durable_adk.wire.messages import InvocationRequest, workflow_id

FROM_CLIENT = "_tracer-data"
"""Temporal's header; an interceptor of the application may replace its content on the way."""
PROPAGATED = "durable-adk-trace"
"""Our header, so that all activities see the start's trace in spite of other interceptors."""

_STORE = {StoreUnavailableError.__name__, SessionRegressedError.__name__}

Headers = Mapping[str, Payload]

logger = get_logger(__name__)


def carrier_in(headers: Headers) -> Mapping[str, Any] | None:
    """The trace carrier of an invocation's start; None if there is none, or it is unreadable."""
    payload = headers.get(PROPAGATED) or headers.get(FROM_CLIENT)
    if payload is None:
        return None
    try:
        carrier = PayloadConverter.default.from_payload(payload)
    except Exception:  # noqa: BLE001 - other programs write it too; without it the trace is derived
        return None
    return carrier if isinstance(carrier, dict) else None  # pyright: ignore[reportUnknownVariableType]: `TraceIdentity` validates it


def _payload(carrier: Mapping[str, str]) -> Payload:
    return PayloadConverter.default.to_payload(dict(carrier))


# ----- the client's side


def traced(client: Client) -> Client:
    """Return a client that propagates the current span in the headers of started workflows."""
    if not get_current_span().get_span_context().is_valid:
        return client
    config = client.config()
    config["interceptors"] = [*config["interceptors"], _PropagatingClient()]
    return Client(**config)


class _PropagatingClient(ClientInterceptor):
    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:  # noqa: A002 - the SDK's name
        return _PropagatingOutbound(next)


class _PropagatingOutbound(OutboundInterceptor):
    async def start_workflow(self, input: StartWorkflowInput) -> WorkflowHandle[Any, Any]:  # noqa: A002 - the SDK's name
        if FROM_CLIENT not in input.headers:  # unless the application's interceptor has set it
            carrier: dict[str, str] = {}
            TraceContextTextMapPropagator().inject(carrier)
            input.headers = {**input.headers, FROM_CLIENT: _payload(carrier)}
        return await super().start_workflow(input)


# ----- the workflow


class PropagatesTrace(Interceptor):
    """Worker interceptor: activities, children and next runs get the header of the start."""

    def workflow_interceptor_class(
        self,
        input: WorkflowInterceptorClassInput,  # noqa: A002 - the SDK's name
    ) -> type[WorkflowInboundInterceptor]:
        """See the SDK."""
        del input
        return _Inbound


class _Inbound(WorkflowInboundInterceptor):
    """Deterministic: it copies a header from the history, and hashes names."""

    def init(self, outbound: WorkflowOutboundInterceptor) -> None:
        self._outbound = _Outbound(outbound)
        super().init(self._outbound)

    async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:  # noqa: A002 - the SDK's name
        self._outbound.carrier = input.headers.get(PROPAGATED) or input.headers.get(FROM_CLIENT)
        return await super().execute_workflow(input)


class _Outbound(WorkflowOutboundInterceptor):
    carrier: Payload | None = None

    def _with(self, headers: Headers) -> Headers:
        return headers if self.carrier is None else {**headers, PROPAGATED: self.carrier}

    def start_activity(self, input: StartActivityInput) -> ActivityHandle[Any]:  # noqa: A002 - the SDK's name
        input.headers = self._with(input.headers)
        return super().start_activity(input)

    def start_local_activity(self, input: StartLocalActivityInput) -> ActivityHandle[Any]:  # noqa: A002 - the SDK's name
        input.headers = self._with(input.headers)
        return super().start_local_activity(input)

    def continue_as_new(self, input: ContinueAsNewInput) -> NoReturn:  # noqa: A002 - the SDK's name
        input.headers = self._with(input.headers)
        super().continue_as_new(input)

    async def start_child_workflow(
        self,
        input: StartChildWorkflowInput,  # noqa: A002 - the SDK's name
    ) -> ChildWorkflowHandle[Any, Any]:
        match input.args:
            case [InvocationRequest(tool_run=tool_run) as request] if tool_run is not None:
                carrier = carrier_in(self._with({}))
                ours = TraceIdentity.of(tool_run.root, request.invocation_id or "", carrier)
                child = ours.carrier(child_name(request))
                input.headers = {**input.headers, PROPAGATED: _payload(child)}
            case _:
                pass
        return await super().start_child_workflow(input)


def child_name(request: InvocationRequest) -> str:
    """The name of the invocation of an agent that is used as a tool."""
    return workflow_id(request.key, request.invocation_id or "")


# ----- the activities


class BindsTrace(Interceptor):
    """Worker interceptor: telemetry of an activity belongs to the activity's invocation."""

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002 - the SDK's name
        """See the SDK."""
        return _Binding(next)


class _Binding(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 - the SDK's name
        step = input.args[0] if input.args else None
        source = getattr(step, "cursor", step)
        key, name = getattr(source, "key", None), getattr(source, "invocation_id", None)
        if not (isinstance(key, tuple) and isinstance(name, str)):
            return await super().execute_activity(input)
        trace_of = TraceIdentity.of(SessionKey(*key), name, carrier_in(input.headers))
        with for_invocation(SessionKey(*key), name, trace_of):
            try:
                return await super().execute_activity(input)
            except ApplicationError as error:
                _log_failure(error, getattr(step, "agent", None))
                raise


def _log_failure(error: ApplicationError, agent: str | None) -> None:
    """Log a failed attempt, less often while a store is unavailable, and not for a busy session."""
    info = activity.info()
    if error.category is ApplicationErrorCategory.BENIGN or info.attempt & (info.attempt - 1):
        return  # log only attempts 1, 2, 4, 8, ... of an activity that may repeat for long
    # A command shows its own error to its user; an unavailable store is no caller's error.
    level, event = INFO, "attempt.failed"
    if error.type in _STORE:
        level, event = WARNING, "store.unavailable"
    frames = frames_of_error(error.__cause__ or error)
    logger.log(
        level,
        event,
        activity=info.activity_type,
        **({"agent": agent} if agent else {}),
        **({"error_at": frames} if frames else {}),
        attempt=info.attempt,
        error_type=error_type_of(error.type or "RunError"),
        final=error.non_retryable,
    )
