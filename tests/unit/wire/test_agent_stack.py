"""The agent stack in a checkpoint."""

import json
from itertools import pairwise
from typing import Any

from hypothesis import given, strategies as st

from durable_adk.wire.agent_stack import (
    GraphPosition,
    LlmPosition,
    RunPosition,
    SequentialPosition,
    StackFrame,
)
from durable_adk.wire.graph.node_run import ItemOutputs, NodeRef, NodeRun
from durable_adk.wire.graph.ranges import count_in, numbers_in, taken_from, with_numbers

STORED: dict[str, Any] = {
    "position": {
        "agent": "team",
        "node": None,
        "start": 3,
        "closes": False,
        "body": None,
        "run": 0,
        "transfer": None,
        "unfinished": [{"agent": "first", "start": 1}],
    },
    "below": {"body": {"position": {"at": 1}, "below": {"": {"position": {}, "below": {}}}}},
}


def test_a_stored_stack_is_stored_again_as_it_was() -> None:
    """D10, I13: other releases read this JSON, nulls included."""
    frame = StackFrame.model_validate(STORED)
    assert frame.resumed(RunPosition) is not None
    body = frame.enter("body")
    assert body.resumed(SequentialPosition) == SequentialPosition(at=1)
    body.enter()
    assert frame.model_dump(mode="json") == STORED


def test_a_position_is_resumed_once() -> None:
    """D10: what begins later under the same name begins from its start."""
    frame = StackFrame.model_validate(STORED)
    assert frame.enter("body").resumed(SequentialPosition) is not None
    assert frame.enter("body").resumed(SequentialPosition) is None


def test_a_change_of_a_position_needs_no_saving() -> None:
    """D10: the stack has the position itself, not a copy."""
    frame = StackFrame()
    position = frame.hold(LlmPosition())
    position.unsettled.add("call")
    position.final = True
    told = frame.model_dump(mode="json")["position"]
    assert told == {
        "unsettled": ["call"],
        "final": True,
        "turn": None,
        "open": [],
        "single_turns": {},
        "more": [],
        "error": None,
    }


def test_a_position_of_a_newer_release_is_read() -> None:
    """I13: fields that this release does not know are ignored."""
    frame = StackFrame.model_validate({"position": {"at": 2, "new": 1}, "below": {}})
    assert frame.resumed(SequentialPosition) == SequentialPosition(at=2)


@given(st.sets(st.integers(1, 40)), st.sets(st.integers(1, 40)), st.integers(1, 50))
def test_ranges_are_sets_of_numbers(some: set[int], others: set[int], number: int) -> None:
    """D10: the items of a worker, in few bytes."""
    ranges = with_numbers(with_numbers([], some), others)
    assert list(numbers_in(ranges)) == sorted(some | others)
    assert count_in(ranges) == len(some | others)
    assert all(one[1] + 1 < other[0] for one, other in pairwise(ranges))
    taken, rest = taken_from(ranges, number)
    assert list(numbers_in(taken)) == sorted(some | others)[:number]
    assert list(numbers_in(rest)) == sorted(some | others)[number:]


def test_a_thousand_outputs_take_few_bytes() -> None:
    """D3: also where some items have none, and others have one of a later attempt."""
    late = NodeRef(event="p.500~2.1")
    outputs = ItemOutputs(
        prefix="p", count=1_000, stored=[(1, 499), (502, 1_000)], others={"500": late}
    )
    assert len(NodeRef(listed=outputs).to_json()) < 200
    refs = outputs.refs()
    assert refs[499:501] == [late, None]
    assert [one.event for one in (*refs[:499], *refs[501:]) if one] == [
        f"p.{number}.1" for number in range(1, 1_001) if number not in (500, 501)
    ]


def test_a_number_that_is_0_is_stored() -> None:
    """GR-151: code may call its first node as run 0, and an attempt may have no time left."""
    run = NodeRun(run_id=0, input=NodeRef(event="e"), event_id="e.1", left=0.0, again_at=0.0)
    stored = json.loads(run.model_dump_json())
    assert (stored["run_id"], stored["left"], stored["again_at"]) == (0, 0.0, 0.0)
    assert NodeRun.model_validate(stored) == run


def test_a_graph_that_begins_again_keeps_its_position_before_it_does() -> None:
    """GR-114, D10: the workflow may continue as new while the next attempt waits."""
    frame = StackFrame()
    frame.hold(GraphPosition(path="wf@1", event_id="e"))
    frame.enter("inner").hold(GraphPosition(path="wf@1/inner@1", event_id="f"))
    assert frame.begin_again()
    stored = StackFrame.model_validate(frame.model_dump(mode="json"))
    again = stored.resumed(GraphPosition)
    inner = stored.enter("inner").resumed(GraphPosition)
    assert again is not None
    assert inner is not None
    assert again.is_again
    assert inner.is_again
