"""Conversations that are made up, with google-adk's objects: by its runner and by ours."""

import re

import pytest
from hypothesis import given, settings, strategies as st

from tests.adk.generated import Described
from tests.adk.google_adk import GoogleAdk
from tests.adk.test_generated import (
    check,
    conversations,
    failing_conversations,
    transferring_conversations,
    waiting_conversations,
)
from tests.adk.test_generated_graphs import check_graph, graph_conversations
from tests.support.examples import examples

pytestmark = [pytest.mark.property, pytest.mark.sampled(4), pytest.mark.timeout(1200)]

KINDS = {
    "plain": (conversations(), r".*\.error_message"),
    "waiting": (waiting_conversations(), "hooks"),
    "transferring": (
        transferring_conversations(),
        r"hooks\.\+ ours: after_agent|requests\.N\.config\.tools",
    ),
    # A model of google-adk's is asked again after these, which takes seconds.
    "failing": (
        failing_conversations().filter(
            lambda made: not re.search("ConnectionError|TimeoutError", str(made))
        ),
        r"hooks\.\+ ADK's: on_event",
    ),
}
"""By kind, what is made up, and the pattern of the differences that have their row."""


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(30))
@given(data=st.data())
def test_a_made_up_conversation_goes_as_by_google_adks_runner(
    kind: str, data: st.DataObject, google_adk: GoogleAdk, interop: GoogleAdk
) -> None:
    """The same objects of google-adk, run by both, make the same of it."""
    strategy, left_out = KINDS[kind]
    described: Described = data.draw(strategy)
    ours, adks = (side.ask(described=described) for side in (interop, google_adk))
    check(described, ours, adks, left_out=left_out)


@pytest.mark.parametrize("asks", [False, True])
@settings(max_examples=examples(40))
@given(data=st.data())
def test_a_made_up_graph_goes_as_by_google_adks_runner(
    asks: bool, data: st.DataObject, google_adk: GoogleAdk, interop: GoogleAdk
) -> None:
    """The same graph of google-adk, run by both, with its context, events and questions."""
    described: Described = data.draw(graph_conversations(asks=asks))
    ours, adks = (side.ask(graph=described) for side in (interop, google_adk))
    check_graph(described, ours, adks)
