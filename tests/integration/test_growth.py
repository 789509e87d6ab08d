"""A worker is as large after many invocations as after a few, and a turn costs what it cost."""

import pytest
from temporalio.client import Client

from benchmarks.growth import WARM, count_calls, grow

pytestmark = [pytest.mark.thorough, pytest.mark.sampled(1)]

CALLS = 37_400
"""Python and C calls of a tool turn in its worker. A change that needs fewer lowers it; one that
needs more says in its commit what for."""
MARGIN = 1.02
TURNS = 300


def address_of(client: Client) -> str:
    return client.service_client.config.target_host


async def test_an_invocation_leaves_nothing_in_its_worker(client: Client) -> None:
    """No finder of modules, no module and no object of any type for each one."""
    grown = await grow(address_of(client), TURNS - WARM)
    assert grown.left() == {}


async def test_a_tool_turn_makes_no_more_calls_than_it_did(client: Client) -> None:
    """Counts do not depend on the machine, so they show what a clock cannot."""
    assert await count_calls(address_of(client)) <= CALLS * MARGIN
