"""What an event says of a node of a graph: output, route, path and scope."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from durable_adk.events import Event, EventActions
from durable_adk.events.event import NodeInfo

PLAIN = '{"author":"a","invocationId":"i","id":"x","timestamp":1.0,"actions":{"stateDelta":{"k":1},'
PLAIN += '"artifactDelta":{},"requestedAuthConfigs":{},"requestedToolConfirmations":{}}}'
OF_NODES = {"output", "node_info", "nodeInfo", "isolation_scope", "isolationScope"}


def test_an_event_of_no_node_is_stored_as_before() -> None:
    """GR-5, GR-6: not a byte is added, whichever way it is written."""
    event = Event(author="a", invocation_id="i", id="x", timestamp=1.0, state={"k": 1})
    assert event.to_json() == PLAIN
    assert event.storable_json("it") == PLAIN
    for by_alias in (True, False):
        whole = event.model_dump(by_alias=by_alias)
        assert OF_NODES.isdisjoint(whole)
        assert "route" not in whole["actions"]


@pytest.mark.parametrize("output", [{"x": None, "y": [None, 1]}, False, 0, "", [], [True, 1, "1"]])
def test_an_output_survives_storage(output: Any) -> None:
    """GR-5: also one that is falsy, and the nulls in it."""
    written = Event(author="a", output=output).to_json()
    read = Event.from_json(written)
    assert json.dumps(read.output) == json.dumps(output)
    assert read.to_json() == written


@pytest.mark.parametrize("route", [True, False, 0, 1, "", "a", ["a", True, 1, 0]])
def test_a_route_keeps_its_type(route: Any) -> None:
    """GR-6: True is not 1 in the store, though both match the same edges."""
    read = Event.from_json(Event(route=route).to_json())
    assert json.dumps(read.actions.route) == json.dumps(route)


def test_the_shorthands_add_to_what_is_given() -> None:
    """GR-5: to actions and node info, as objects or as dicts."""
    given: list[dict[str, Any]] = [
        {
            "actions": EventActions(escalate=True),
            "node_info": NodeInfo(output_for=["wf@1"]),
        },
        {"actions": {"escalate": True}, "node_info": {"output_for": ["wf@1"]}},
    ]
    for fields in given:
        event = Event(message="Hi", state={"k": 1}, route="r", node_path="wf@1/a@2", **fields)
        assert event.text == "Hi"
        expected = EventActions(escalate=True, state_delta={"k": 1}, route="r")
        assert event.actions == expected
        assert event.node_info == NodeInfo(path="wf@1/a@2", output_for=["wf@1"])
    assert given[0]["actions"] == EventActions(escalate=True)


@pytest.mark.parametrize("fields", [{"route": {"a": 1}}, {"route": [[1]]}, {"node_path": 5}])
def test_a_shorthand_is_validated(fields: dict[str, Any]) -> None:
    """GR-5: as the field that it sets."""
    with pytest.raises(ValidationError):
        Event(**fields)


@pytest.mark.parametrize(
    ("path", "name", "run_id", "parent"),
    [
        ("", "", "", None),
        ("ag@1", "ag", "1", None),
        ("wf@1/draft@2", "draft", "2", "1"),
        ("ag@1/inner@call-7/step@first", "step", "first", "call-7"),
        ("wf/a", "a", "", None),
    ],
)
def test_a_path_names_node_and_runs(path: str, name: str, run_id: str, parent: str | None) -> None:
    """GR-5: the last segment's name and run id, and the run id of the one before."""
    info = NodeInfo(path=path)
    assert (info.name, info.run_id, info.parent_run_id) == (name, run_id, parent)
    assert Event(node_info=info).node_name == name


def test_node_info_is_read_as_adk_writes_it() -> None:
    """GR-5: in camelCase, and fields of other releases are ignored."""
    text = '{"author":"wf","output":1,"nodeInfo":{"path":"wf@1","outputFor":["wf@1"],'
    text += '"messageAsOutput":true,"later":1},"isolationScope":"s"}'
    event = Event.from_json(text)
    assert event.node_info == NodeInfo(path="wf@1", output_for=["wf@1"], message_as_output=True)
    assert (event.output, event.isolation_scope) == (1, "s")
    assert json.loads(event.to_json())["nodeInfo"] == {
        "path": "wf@1",
        "outputFor": ["wf@1"],
        "messageAsOutput": True,
    }
