"""The agent stack in a checkpoint."""

from typing import Any

from durable_adk.wire.agent_stack import LlmPosition, RunPosition, SequentialPosition, StackFrame

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
