"""A worker is as large after many invocations as after a few, and a turn costs what it cost."""

import asyncio
import json
import subprocess
import sys

import pytest
from temporalio.client import Client

from benchmarks.growth import WARM, count_calls, grow

pytestmark = [pytest.mark.thorough, pytest.mark.sampled(1)]

CALLS = 29_900
"""Python and C calls of a tool turn in its worker. A change that needs fewer lowers it; one that
needs more says in its commit what for."""
MARGIN = 1.02
TURNS = 200
LONG = 1.05
"""What a turn in a session of 2,000 events, or a late step, may cost next to the first ones."""


def address_of(client: Client) -> str:
    return client.service_client.config.target_host


async def test_an_invocation_leaves_nothing_in_its_worker(client: Client) -> None:
    """No finder of modules, no module and no object of any type for each one."""
    grown = await grow(address_of(client), TURNS - WARM)
    assert grown.left() == {}


async def test_a_tool_turn_makes_no_more_calls_than_it_did(client: Client) -> None:
    """Counts do not depend on the machine, so they show what a clock cannot."""
    assert await count_calls(address_of(client)) <= CALLS * MARGIN


async def test_a_step_of_a_long_session_costs_what_one_of_a_short_one_does() -> None:
    """D3: with a callback and a plugin in place, and the hundredth step what the first did."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.long_session"), stdout=subprocess.PIPE
    )
    counts = json.loads((await child.communicate())[0])
    assert counts["long"] <= counts["empty"] * LONG
    assert counts["last"] <= counts["first"] * LONG
