"""The answers to questions of nodes."""

from collections.abc import Iterator

import pytest

from durable_adk.conversation.nodes.answers import given_answers
from durable_adk.events import Event


def test_a_node_that_has_not_asked_reads_no_event() -> None:
    """GR-136: a loop's node costs as much in its ten-thousandth round as in its first."""

    def events() -> Iterator[Event]:
        pytest.fail("an event was read")
        yield Event()

    assert given_answers(events(), [], invocation_id="i") == {}
