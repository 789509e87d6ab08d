"""The answers to questions of nodes."""

from collections.abc import Iterator

import pytest

from durable_adk.conversation.nodes.answers import given_answers, read_answer
from durable_adk.events import Event


def test_a_node_that_has_not_asked_reads_no_event() -> None:
    """GR-136: a loop's node costs as much in its ten-thousandth round as in its first."""

    def events() -> Iterator[Event]:
        pytest.fail("an event was read")
        yield Event()

    assert given_answers(events(), [], invocation_id="i") == {}


@pytest.mark.parametrize("ref", ["http://127.0.0.1:9/x", "file:///etc/hostname", "#/nope"])
def test_a_schema_that_refers_to_nothing_refuses_no_answer(ref: str) -> None:
    """Models choose schemas, too: nothing is fetched for one, and its call can be answered."""
    assert read_answer({"result": 1}, {"$ref": ref}, "it") == 1
