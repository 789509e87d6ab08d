"""Which trace an invocation is."""

import pytest
from hypothesis import given, strategies as st

from durable_adk.sessions import SessionKey
from durable_adk.telemetry.identity import TraceIdentity, tool_span

KEY = SessionKey("app", "user", "session")
PARENT = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}


def test_ids_are_the_same_in_every_process():
    """D17: what is derived must not change between versions either: invocations are open then."""
    trace = TraceIdentity.of(KEY, "e-1")
    assert (trace.parent, trace.sampled) == (None, None)
    assert f"{trace.trace_id:032x}" == "67b9a134dd85c985047f3ee633f7e6b6"
    assert f"{trace.root:016x}" == "bcd0a03fd5680090"


def test_ids_differ_where_names_do():
    """D17: of sessions, invocations, agents' runs and pauses."""
    first, second = TraceIdentity.of(KEY, "e-1"), TraceIdentity.of(KEY, "e-2")
    other = TraceIdentity.of(SessionKey("app", "other", "session"), "e-1")
    ids = {t.trace_id for t in (first, second, other)} | {t.root for t in (first, second, other)}
    assert len(ids) == 6
    runs = {first.agent_run(n) for n in range(3)} | {first.pause(n) for n in range(1, 3)}
    assert len(runs) == 5
    assert first.agent_run(0) == first.root


def test_the_trace_that_came_goes_on():
    """D17: with its ids and its decision; the invocation's own span is derived all the same."""
    trace = TraceIdentity.of(KEY, "e-1", PARENT)
    assert (f"{trace.trace_id:x}", f"{trace.parent:x}") == ("a" * 32, "b" * 16)
    assert trace.sampled is True
    assert trace.root == TraceIdentity.of(KEY, "e-1").root
    unwanted = {"traceparent": PARENT["traceparent"][:-2] + "00"}
    assert TraceIdentity.of(KEY, "e-1", unwanted).sampled is False


@pytest.mark.parametrize("carrier", [None, PARENT])
def test_a_child_is_in_its_callers_trace(carrier):
    """OPEN-6: under the span of the tool that it is; an open decision stays open."""
    caller = TraceIdentity.of(KEY, "e-1", carrier)
    child = TraceIdentity.of(KEY._replace(session_id="c"), "e-1", caller.carrier("child"))
    assert child.trace_id == caller.trace_id
    assert child.parent == tool_span("child")
    assert child.sampled is caller.sampled


@given(st.dictionaries(st.sampled_from(["traceparent", "x"]), st.text() | st.integers()))
def test_what_cannot_be_read_counts_as_nothing(carrier):
    """D18: anybody may write the header; no invocation fails for it."""
    assert TraceIdentity.of(KEY, "e-1", carrier) == TraceIdentity.of(KEY, "e-1")


@pytest.mark.parametrize("part", ["0" * 32 + "-" + "b" * 16, "a" * 32 + "-" + "0" * 16])
def test_ids_of_nothing_are_no_parent(part):
    """W3C: an id of zeros is none."""
    trace = TraceIdentity.of(KEY, "e-1", {"traceparent": f"00-{part}-01"})
    assert trace == TraceIdentity.of(KEY, "e-1")
