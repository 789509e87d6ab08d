"""Spans, through whatever tracer provider the application has set up; without one, nothing."""

import time
from collections import OrderedDict
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import Any

from opentelemetry import context as otel_context, trace
from opentelemetry.context import Context
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
)

from durable_adk.telemetry.identity import TraceIdentity
from durable_adk.telemetry.names import ERROR_TYPE, bounded

SCOPE = "durable_adk"
Attributes = Mapping[str, Any]

_ids: ContextVar[tuple[int | None, int | None]] = ContextVar("_ids", default=(None, None))
"""Trace and span id of the span that is being started; None: drawn, as always."""
_identity: ContextVar[TraceIdentity | None] = ContextVar("_identity", default=None)


class DerivedIds:
    """An id generator that gives the ids that are asked for, and else those of another one.

    It belongs to the tracer of our scope alone, so nobody else's spans are touched by it.
    """

    def __init__(self, drawn: Any) -> None:
        self._drawn = drawn

    def generate_trace_id(self) -> int:
        """The id of a trace that begins."""
        return _ids.get()[0] or self._drawn.generate_trace_id()

    def generate_span_id(self) -> int:
        """The id of a span."""
        return _ids.get()[1] or self._drawn.generate_span_id()

    def is_trace_id_random(self) -> bool:
        """Whether W3C's random flag may be set: a hash is as good as drawn, but is not."""
        return not _ids.get()[0] and bool(self._drawn.is_trace_id_random())


class _Emitted:
    """The spans that this process has lately emitted: what is told again is not sent again."""

    def __init__(self, size: int = 4096) -> None:
        self._size = size
        self._ids: OrderedDict[tuple[int, int], None] = OrderedDict()
        self._lock = Lock()  # steps and commits come from two event loops

    def is_new(self, trace_id: int, span_id: int) -> bool:
        """Whether this one was not, until now."""
        with self._lock:
            if (trace_id, span_id) in self._ids:
                return False
            self._ids[trace_id, span_id] = None
            if len(self._ids) > self._size:
                self._ids.popitem(last=False)
            return True


_emitted = _Emitted()


class _Known:
    """The provider that was last seen, and our tracer of it."""

    provider: object = None
    tracer: Tracer | None = None


def tracer() -> Tracer | None:
    """Our tracer; None if the application has set up no provider: then nothing is to be done."""
    provider = trace.get_tracer_provider()
    if provider is not _Known.provider:
        _Known.tracer = _tracer_of(provider)
        _Known.provider = provider
    return _Known.tracer


def _tracer_of(provider: Any) -> Tracer | None:
    if isinstance(provider, (trace.ProxyTracerProvider, trace.NoOpTracerProvider)):
        return None
    ours: Any = provider.get_tracer(SCOPE)
    drawn = getattr(ours, "id_generator", None)
    # A provider that is not the SDK's may have none: its spans then have drawn ids, and the steps
    # of an invocation hang under a span that is never seen.
    if drawn is not None and not isinstance(drawn, DerivedIds):
        ours.id_generator = DerivedIds(drawn)
    return ours


def identity() -> TraceIdentity | None:
    """The trace of the invocation that this code runs for; None: of none, or nobody traces."""
    return _identity.get()


@contextmanager
def within(trace_of: TraceIdentity) -> Generator[None]:
    """Let the spans that the body starts, ours and other people's, be the invocation's."""
    if tracer() is None:
        yield
        return
    known = _identity.set(trace_of)
    attached = otel_context.attach(parent(trace_of, trace_of.root))
    try:
        yield
    finally:
        otel_context.detach(attached)
        _identity.reset(known)


def current_identity(trace_of: TraceIdentity) -> TraceIdentity:
    """The same, under the span that is current here, if there is one."""
    span = trace.get_current_span().get_span_context()
    if not span.is_valid:
        return trace_of
    return TraceIdentity(
        name=trace_of.name,
        trace_id=span.trace_id,
        parent=span.span_id,
        sampled=span.trace_flags.sampled,
    )


def parent(trace_of: TraceIdentity, span_id: int) -> Context:
    """A context in which spans hang under one of the trace that may not be exported yet."""
    flags = TraceFlags(TraceFlags.SAMPLED if _is_sampled(trace_of) else TraceFlags.DEFAULT)
    above = SpanContext(trace_of.trace_id, span_id, is_remote=True, trace_flags=flags)
    return trace.set_span_in_context(NonRecordingSpan(above), Context())


def _is_sampled(trace_of: TraceIdentity) -> bool:
    """Whether the trace is wanted: as who began it says, or as the sampler does for its id.

    The SDK's samplers decide by the id alone, so all processes come to the same.
    """
    if trace_of.sampled is not None:
        return trace_of.sampled
    sampler: Any = getattr(trace.get_tracer_provider(), "sampler", None)
    if sampler is None:
        return True
    decision = sampler.should_sample(Context(), trace_of.trace_id, "invoke_agent").decision
    return bool(decision.is_sampled())


def emit(
    name: str,
    trace_of: TraceIdentity,
    span_id: int,
    *,
    above: int | None,
    started: float,
    ended: float,
    attributes: Attributes,
    error_type: str | None = None,
) -> None:
    """Export a span of which only the end is seen here, under an id that others know already.

    Args:
        name: Its name.
        trace_of: Its trace.
        span_id: Its id. Emitted again, by another process after a crash, it is the same span.
        above: Id of the span it hangs under; None: none.
        started: Seconds since the epoch.
        ended: The same.
        attributes: What it says.
        error_type: Name of the error it ended with.
    """
    if (ours := tracer()) is None or not _emitted.is_new(trace_of.trace_id, span_id):
        return
    # Without a parent the sampler is asked as it was for the steps: by the trace's id.
    context = Context() if above is None else parent(trace_of, above)
    wanted = _ids.set((trace_of.trace_id, span_id))
    try:
        span = ours.start_span(
            name, context=context, attributes=dict(attributes), start_time=_nanoseconds(started)
        )
    finally:
        _ids.reset(wanted)
    if error_type is not None:
        _mark(span, error_type)
    span.end(_nanoseconds(max(started, ended)))


class Running:
    """A span that is under way; one that nobody wants does nothing."""

    def __init__(self, span: Span | None) -> None:
        self._span = span
        self._began = time.monotonic()
        self.error_type: str | None = None
        self.seconds: float | None = None
        """How long it took, once it has ended."""

    @property
    def recording(self) -> bool:
        """Whether anybody wants to know."""
        return self._span is not None and self._span.is_recording()

    def tell(self, attributes: Attributes) -> None:
        """Add what has become known."""
        if self._span is not None and self.recording:
            self._span.set_attributes({k: v for k, v in attributes.items() if v is not None})

    def failed(self, error: BaseException | str) -> None:
        """It ended with this; what the error says is not told, as that quotes users' data."""
        if self.error_type is None and self.seconds is None:
            self.error_type = error_type_of(error)
            if self._span is not None:
                _mark(self._span, self.error_type)

    def end(self) -> None:
        """It has ended; told again, it had before."""
        if self.seconds is None:
            self.seconds = time.monotonic() - self._began
            if self._span is not None:
                self._span.end()

    @contextmanager
    def current(self) -> Generator[None]:
        """What the body starts hangs under it. Not to be held across a generator's yield."""
        if self._span is None:
            yield
            return
        with trace.use_span(
            self._span, end_on_exit=False, record_exception=False, set_status_on_exception=False
        ):
            yield


@contextmanager
def span(
    name: str,
    attributes: Attributes,
    *,
    kind: SpanKind = SpanKind.INTERNAL,
    context: Context | None = None,
    trace_id: int | None = None,
) -> Generator[Running]:
    """A span over the body; it is not made current, see `Running.current`.

    Args:
        name: Its name.
        attributes: What it says from the beginning.
        kind: OpenTelemetry's.
        context: Where it hangs; None: under the current span.
        trace_id: Of the trace that it begins, if it has no parent.
    """
    ours = tracer()
    started: Span | None = None
    if ours is not None:
        wanted = _ids.set((trace_id, None))
        try:
            started = ours.start_span(name, context=context, kind=kind, attributes=dict(attributes))
        finally:
            _ids.reset(wanted)
    running = Running(started)
    try:
        yield running
    except GeneratorExit:
        raise  # whoever followed has left, which is no error
    except BaseException as error:
        running.failed(error)
        raise
    finally:
        running.end()


def error_type_of(error: BaseException | str) -> str:
    """The name of an error's class, for people and as a label: never what it says."""
    if isinstance(error, str):
        return bounded(error)
    return bounded(getattr(error, "error_type", None) or type(error).__name__)


def _mark(span: Span, error_type: str) -> None:
    span.set_attribute(ERROR_TYPE, error_type)
    span.set_status(Status(StatusCode.ERROR))


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1_000_000_000)
