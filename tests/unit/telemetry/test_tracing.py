"""Spans under derived ids."""

from opentelemetry import trace
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

from durable_adk.sessions import SessionKey
from durable_adk.telemetry.identity import TraceIdentity
from durable_adk.telemetry.names import OTHER
from durable_adk.telemetry.tracing import emit, error_type_of, span, tracer, within
from tests.support.telemetry import watched

WHOSE = TraceIdentity.of(SessionKey("app", "u", "s"), "e-1")


def _end(whose: TraceIdentity = WHOSE) -> None:
    emit("end", whose, whose.root, above=whose.parent, started=1.0, ended=2.0, attributes={})


def test_without_a_provider_nothing_is_done():
    """D17: a library traces only for an application that wants it."""
    assert tracer() is None
    with within(WHOSE), span("a", {}) as running, running.current():
        assert not running.recording
        assert not trace.get_current_span().get_span_context().is_valid


def test_a_span_may_be_exported_after_those_below_it():
    """D17: its id is known before; once it comes, the tree is whole."""
    with watched() as seen:
        with within(WHOSE), span("step", {}):
            pass
        _end()
        step, end = seen.spans()
    assert (step.parent, step.trace) == (end.id, end.trace)
    assert end.parent is None
    assert (end.start, end.end) == ("1970-01-01T00:00:01.000000Z", "1970-01-01T00:00:02.000000Z")


def test_what_is_told_again_is_not_sent_again():
    """D17: in one process; another one would send the same span, under the same id."""
    whose = TraceIdentity.of(SessionKey("app", "u", "s"), "e-twice")
    with watched() as seen:
        _end(whose)
        _end(whose)
    assert len(seen.spans()) == 1


def test_spans_of_others_keep_their_own_ids():
    """D17: ids are derived for our scope alone, while the application draws its own."""
    with watched() as seen:
        application = seen.provider.get_tracer("application")
        before = application.id_generator
        with within(WHOSE), span("ours", {}) as running, running.current():
            application.start_span("theirs").end()
        ours, theirs = sorted(seen.spans(), key=lambda one: one.name)
    assert application.id_generator is before is seen.provider.id_generator
    assert theirs.parent == ours.id
    assert theirs.id not in (ours.id, f"0x{WHOSE.root:016x}")


def test_all_spans_of_a_trace_are_sampled_or_none():
    """D17: the steps, which come first, and the end, which comes last, see one decision."""
    counts: set[int] = set()
    for number in range(40):
        whose = TraceIdentity.of(SessionKey("app", "u", "s"), f"e-sampled-{number}")
        with watched(ParentBased(TraceIdRatioBased(0.5))) as seen:
            with within(whose), span("step", {}):
                pass
            _end(whose)
        counts.add(len(seen.spans()))
    assert counts == {0, 2}


def test_an_error_type_is_a_name():
    """S8: it is a label, and whoever names exceptions may name them after anything."""
    assert error_type_of(ValueError("secret")) == "ValueError"
    assert error_type_of("no name: secret") == OTHER
    assert error_type_of("x" * 100) == OTHER
