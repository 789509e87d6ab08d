"""The trace of an invocation on its way through Temporal: in headers, never in a payload of ours.

A client writes the header that the tracing interceptors of all Temporal's SDKs write, so one in
another language that has such an interceptor needs nothing else. The workflow hands on what came
with its start, unread, to its activities, its children and its next run. It exports nothing, so a
replay has nothing to repeat; and headers take no part in whether a history fits the code.
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

from durable_adk.errors import SessionRegressedError, StoreUnavailableError
from durable_adk.log import get_logger
from durable_adk.sessions.session import SessionKey
from durable_adk.telemetry.identity import TraceIdentity
from durable_adk.telemetry.steps import for_invocation
from durable_adk.telemetry.tracing import error_type_of
from durable_adk.wire.messages import InvocationRequest, workflow_id

FROM_CLIENT = "_tracer-data"
"""Temporal's own; an interceptor of the application may write its own spans into it on the way."""
HANDED_ON = "durable-adk-trace"
"""Ours, so that all activities see what came with the start, whoever else writes headers."""

_STORE = {StoreUnavailableError.__name__, SessionRegressedError.__name__}

Headers = Mapping[str, Payload]

logger = get_logger(__name__)


def carrier_in(headers: Headers) -> Mapping[str, Any] | None:
    """What came with the start of an invocation; None: nothing that can be read."""
    payload = headers.get(HANDED_ON) or headers.get(FROM_CLIENT)
    if payload is None:
        return None
    try:
        carrier = PayloadConverter.default.from_payload(payload)
    except Exception:  # noqa: BLE001 - others write it too; without it the trace is derived
        return None
    return carrier if isinstance(carrier, dict) else None  # pyright: ignore[reportUnknownVariableType]: `TraceIdentity` checks what is in it


def _payload(carrier: Mapping[str, str]) -> Payload:
    return PayloadConverter.default.to_payload(dict(carrier))


# ----- the client's side


def sending(client: Client) -> Client:
    """The client, which tells whatever it starts of the span that is current."""
    if not get_current_span().get_span_context().is_valid:
        return client
    config = client.config()
    config["interceptors"] = [*config["interceptors"], _Sending()]
    return Client(**config)


class _Sending(ClientInterceptor):
    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:  # noqa: A002 - the SDK's name
        return _SendingOutbound(next)


class _SendingOutbound(OutboundInterceptor):
    async def start_workflow(self, input: StartWorkflowInput) -> WorkflowHandle[Any, Any]:  # noqa: A002 - the SDK's name
        if FROM_CLIENT not in input.headers:  # the application's interceptor has sent its own
            carrier: dict[str, str] = {}
            TraceContextTextMapPropagator().inject(carrier)
            input.headers = {**input.headers, FROM_CLIENT: _payload(carrier)}
        return await super().start_workflow(input)


# ----- the workflow


class HandsOn(Interceptor):
    """For a worker: activities, children and next runs get what came with the start."""

    def workflow_interceptor_class(
        self,
        input: WorkflowInterceptorClassInput,  # noqa: A002 - the SDK's name
    ) -> type[WorkflowInboundInterceptor]:
        """See the SDK."""
        del input
        return _Inbound


class _Inbound(WorkflowInboundInterceptor):
    """Deterministic: it copies what is in the history, and hashes names."""

    def init(self, outbound: WorkflowOutboundInterceptor) -> None:
        self._outbound = _Outbound(outbound)
        super().init(self._outbound)

    async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:  # noqa: A002 - the SDK's name
        self._outbound.came = input.headers.get(HANDED_ON) or input.headers.get(FROM_CLIENT)
        return await super().execute_workflow(input)


class _Outbound(WorkflowOutboundInterceptor):
    came: Payload | None = None

    def _with(self, headers: Headers) -> Headers:
        return headers if self.came is None else {**headers, HANDED_ON: self.came}

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
                came = carrier_in(self._with({}))
                ours = TraceIdentity.of(tool_run.caller, request.invocation_id or "", came)
                carrier = ours.carrier(child_name(request))
                input.headers = {**input.headers, HANDED_ON: _payload(carrier)}
            case _:
                pass
        return await super().start_child_workflow(input)


def child_name(request: InvocationRequest) -> str:
    """Name of the invocation that an agent's run as a tool is."""
    key = SessionKey(request.app, request.user, request.session or "")
    return workflow_id(key, request.invocation_id or "")


# ----- the activities


class BindsTrace(Interceptor):
    """For a worker: what its activities tell is of the invocation that they are of."""

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
                _tell_failed(error)
                raise


def _tell_failed(error: ApplicationError) -> None:
    """Log that an attempt failed: not each time while a store is away, and not a busy session."""
    info = activity.info()
    if error.category is ApplicationErrorCategory.BENIGN or info.attempt & (info.attempt - 1):
        return  # attempt 1, 2, 4, 8, ... of what may be repeated without end
    # A command's user is told by its own error; a store that is away is nobody's error.
    level, what = INFO, "attempt.failed"
    if error.type in _STORE:
        level, what = WARNING, "store.unavailable"
    logger.log(
        level,
        what,
        activity=info.activity_type,
        attempt=info.attempt,
        error_type=error_type_of(error.type or "RunError"),
        final=error.non_retryable,
    )
