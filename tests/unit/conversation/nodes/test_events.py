"""What an event of a graph is for the result of its invocation."""

from typing import Any

import pytest

from durable_adk.conversation.nodes.events import result_text
from durable_adk.events import Event
from durable_adk.events.event import NodeInfo


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"message": "Hello"}, "Hello"),
        ({"message": "Hello", "partial": True}, ""),
        ({"output": "done", "node_info": ["wf@1/a@1", "wf@1"]}, "done"),
        ({"output": {"a": "é"}, "node_info": ["wf@1/a@1", "wf@1"]}, '{"a": "é"}'),
        ({"output": False, "node_info": ["wf@1"]}, "false"),
        ({"output": "x", "node_info": ["wf@1/a@1"]}, ""),
        ({"output": "x"}, ""),
        ({"node_info": ["wf@1"]}, ""),
    ],
)
def test_a_text_or_the_output_of_the_app_is_the_result(fields: dict[str, Any], text: str) -> None:
    """Outputs of nodes in the graph are not."""
    paths = fields.pop("node_info", None)
    event = Event(author="a", node_info=NodeInfo(path="wf@1/a@1", output_for=paths), **fields)
    assert result_text(event) == text
