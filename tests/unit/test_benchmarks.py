"""How the benchmark of a turn counts."""

import pytest
from google.genai import types
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent

from benchmarks.jobs import count, ratios
from benchmarks.systems import FLOOR
from benchmarks.task import message, reply


def said(role: str, part: types.Part) -> types.Content:
    return types.Content(role=role, parts=[part])


def parts(content: types.Content) -> list[types.Part]:
    return content.parts or []


@pytest.mark.parametrize("steps", [1, 3])
def test_the_model_calls_its_tool_as_often_as_the_user_says(steps: int) -> None:
    """In each turn of a conversation anew."""
    contents: list[types.Content] = []
    for _ in range(2):
        contents.append(said("user", types.Part(text=message(steps))))
        for _ in range(steps):
            called = reply(contents)
            assert parts(called)[0].function_call
            response = types.FunctionResponse(name="get_capital", response={"result": "Paris"})
            contents += [called, said("user", types.Part(function_response=response))]
        contents.append(reply(contents))
        assert parts(contents[-1])[0].text


def test_each_job_is_compared_with_that_of_its_own_round() -> None:
    """A machine that becomes slow after the first round does not change the median."""
    found = ratios({FLOOR.name: [1, 10, 10], "other": [2, 20, 30]})
    assert found[FLOOR.name] == {"median": 1, "p20": 1}
    assert found["other"] == {"median": 2, "p20": 2}


def test_a_history_is_counted_by_its_events() -> None:
    """An action is what Temporal Cloud bills: the start, and each activity."""
    kinds = [
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED,
        EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED,
        EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED,
        EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED,
        EventType.EVENT_TYPE_MARKER_RECORDED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED,
    ]
    found = count(HistoryEvent(event_type=kind) for kind in kinds)
    assert found == {"events": 6, "workflow_tasks": 1, "activities": 1, "actions": 3}
