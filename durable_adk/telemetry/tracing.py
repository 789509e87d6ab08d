"""Spans, through the tracer provider of the application; without a provider, nothing."""

import time
from collections import OrderedDict
from collections.abc import Generator, Mapping, Sequence
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

from durable_adk.errors import frames_of_error
from durable_adk.telemetry.identity import TraceIdentity
from durable_adk.telemetry.names import ERROR_TYPE, STACKTRACE, bounded

SCOPE = "durable_adk"
Attributes = Mapping[str, Any]

_ids: ContextVar[tuple[int | None, int | None]] = ContextVar("_ids", default=(None, None))
"""Trace and span id for the span that is being started; None for a random id."""
_identity: ContextVar[TraceIdentity | None] = ContextVar("_identity", default=None)


class DerivedIds:
    """An id generator that returns requested ids, and otherwise those of another generator.

    It belongs to the tracer of our scope only, so it does not affect the application's spans.
    """

    def __init__(self, random: Any) -> None:
        self._random = random

    def generate_trace_id(self) -> int:
        """The id of a new trace."""
        return _ids.get()[0] or self._random.generate_trace_id()

    def generate_span_id(self) -> int:
        """The id of a new span."""
        return _ids.get()[1] or self._random.generate_span_id()

    def is_trace_id_random(self) -> bool:
        """Whether W3C's random flag may be set; a derived id is not random."""
        return not _ids.get()[0] and bool(self._random.is_trace_id_random())


class _EmittedSpans:
    """The spans that this process has recently emitted, which are not sent again."""

    def __init__(self, size: int = 4096) -> None:
        self._size = size
        self._ids: OrderedDict[tuple[int, int], None] = OrderedDict()
        self._lock = Lock()  # steps and commits run on two event loops

    def is_new(self, trace_id: int, span_id: int) -> bool:
        """Whether a span has not been emitted yet; it then counts as emitted."""
        with self._lock:
            if (trace_id, span_id) in self._ids:
                return False
            self._ids[trace_id, span_id] = None
            if len(self._ids) > self._size:
                self._ids.popitem(last=False)
            return True


_emitted = _EmittedSpans()


class _TracerCache:
    """The most recent tracer provider, and this package's tracer from it."""

    provider: object = None
    tracer: Tracer | None = None


def tracer() -> Tracer | None:
    """This package's tracer; None if the application has no tracer provider."""
    provider = trace.get_tracer_provider()
    if provider is not _TracerCache.provider:
        _TracerCache.tracer = _tracer_of(provider)
        _TracerCache.provider = provider
    return _TracerCache.tracer


def _tracer_of(provider: Any) -> Tracer | None:
    if isinstance(provider, (trace.ProxyTracerProvider, trace.NoOpTracerProvider)):
        return None
    ours: Any = provider.get_tracer(SCOPE)
    random = getattr(ours, "id_generator", None)
    # A provider other than the SDK's may have no generator. Its spans then have random ids, and
    # the steps of an invocation have a parent that is never exported.
    if random is not None and not isinstance(random, DerivedIds):
        ours.id_generator = DerivedIds(random)
    return ours


def identity() -> TraceIdentity | None:
    """The trace of the invocation that this code runs for; None without one, or without tracing."""
    return _identity.get()


@contextmanager
def within(trace_of: TraceIdentity) -> Generator[None]:
    """Make all spans that the body starts, also the application's, part of the invocation."""
    if tracer() is None:
        yield
        return
    token = _identity.set(trace_of)
    attached = otel_context.attach(parent(trace_of, trace_of.root))
    try:
        yield
    finally:
        otel_context.detach(attached)
        _identity.reset(token)


def current_identity(trace_of: TraceIdentity) -> TraceIdentity:
    """The same trace identity below the current span, if there is one."""
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
    """A context whose parent is a span of the trace that may not be exported yet."""
    flags = TraceFlags(TraceFlags.SAMPLED if _is_sampled(trace_of) else TraceFlags.DEFAULT)
    above = SpanContext(trace_of.trace_id, span_id, is_remote=True, trace_flags=flags)
    return trace.set_span_in_context(NonRecordingSpan(above), Context())


def _is_sampled(trace_of: TraceIdentity) -> bool:
    """Whether the trace is sampled, according to its first span, or to the sampler for its id.

    The SDK's samplers decide by the id alone, so all processes reach the same decision.
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
    events: Sequence[tuple[str, Attributes]] = (),
) -> None:
    """Export a span at its end, under an id that other processes already use as a parent.

    Args:
        name: Name of the span.
        trace_of: Its trace.
        span_id: Its id. If another process emits it again after a crash, it is the same span.
        above: Id of its parent; None if it has none.
        started: Start in seconds since the epoch.
        ended: End in seconds since the epoch.
        attributes: Its attributes.
        error_type: Name of the error it ended with.
        events: Its span events, at its end: names and attributes.
    """
    if (ours := tracer()) is None or not _emitted.is_new(trace_of.trace_id, span_id):
        return
    # Without a parent the sampler decides as it did for the steps: by the trace's id.
    context = Context() if above is None else parent(trace_of, above)
    token = _ids.set((trace_of.trace_id, span_id))
    try:
        span = ours.start_span(
            name, context=context, attributes=dict(attributes), start_time=_nanoseconds(started)
        )
    finally:
        _ids.reset(token)
    if error_type is not None:
        _mark(span, error_type)
    end = _nanoseconds(max(started, ended))
    for event, about in events:
        span.add_event(event, about, timestamp=end)
    span.end(end)


class RunningSpan:
    """A span that has started; without a tracer it does nothing."""

    def __init__(self, span: Span | None) -> None:
        self._span = span
        self._began = time.monotonic()
        self.error_type: str | None = None
        self.seconds: float | None = None
        """The duration, after the end."""

    @property
    def recording(self) -> bool:
        """Whether the span is recorded."""
        return self._span is not None and self._span.is_recording()

    def set_attributes(self, attributes: Attributes) -> None:
        """Add attributes, without those that are None."""
        if self._span is not None and self.recording:
            self._span.set_attributes({k: v for k, v in attributes.items() if v is not None})

    def failed(self, error: BaseException | str) -> None:
        """Record the error's type; its message is omitted, because it may quote users' data."""
        if self.error_type is None and self.seconds is None:
            self.error_type = error_type_of(error)
            if self._span is not None:
                _mark(self._span, self.error_type)
            if isinstance(error, BaseException) and (frames := frames_of_error(error)):
                self.set_attributes({STACKTRACE: "\n".join(frames)})

    def end(self) -> None:
        """End the span, once."""
        if self.seconds is None:
            self.seconds = time.monotonic() - self._began
            if self._span is not None:
                self._span.end()

    @contextmanager
    def current(self) -> Generator[None]:
        """Make the span current in the body. Do not hold it across a generator's yield."""
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
) -> Generator[RunningSpan]:
    """A span over the body; it does not become current, see `RunningSpan.current`.

    Args:
        name: Name of the span.
        attributes: Its attributes at the start.
        kind: Its kind.
        context: The context of its parent; None for the current span.
        trace_id: Id of the trace that it starts, if it has no parent.
    """
    ours = tracer()
    started: Span | None = None
    if ours is not None:
        token = _ids.set((trace_id, None))
        try:
            started = ours.start_span(name, context=context, kind=kind, attributes=dict(attributes))
        finally:
            _ids.reset(token)
    running = RunningSpan(started)
    try:
        yield running
    except GeneratorExit:
        raise  # the caller has stopped following, which is no error
    except BaseException as error:
        running.failed(error)
        raise
    finally:
        running.end()


def error_type_of(error: BaseException | str) -> str:
    """The name of an error's class, which is safe as a label, unlike its message."""
    if isinstance(error, str):
        return bounded(error)
    return bounded(getattr(error, "error_type", None) or type(error).__name__)


def _mark(span: Span, error_type: str) -> None:
    span.set_attribute(ERROR_TYPE, error_type)
    span.set_status(Status(StatusCode.ERROR))


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1_000_000_000)
