"""The benchmark of a turn, with few jobs."""

from contextlib import AsyncExitStack
from pathlib import Path

from temporalio.client import Client

from benchmarks.graph import AHEAD, SYSTEMS as CHAINS
from benchmarks.jobs import histories, ratios, rounds
from benchmarks.systems import FLOOR, OURS, running
from benchmarks.task import CHAIN


async def test_each_system_runs_each_round_in_a_process_of_its_own(
    client: Client, tmp_path: Path
) -> None:
    """Time and processor time are compared with FLOOR's, and histories are counted."""
    address = client.service_client.config.target_host
    async with AsyncExitStack() as stack:
        systems = [
            await stack.enter_async_context(
                running(one, address, str(tmp_path / f"{one.workflow}.db"), client)
            )
            for one in (FLOOR, OURS)
        ]
        seconds, cpu = await rounds(systems, 2, lambda one: one.turns(2, 2))
        found = await histories(systems, client)
    for measured in (seconds, cpu):
        assert {name: len(taken) for name, taken in measured.items()} == {
            FLOOR.name: 2,
            OURS.name: 2,
        }
        assert all(one > 0 for taken in measured.values() for one in taken)
        assert ratios(measured)[FLOOR.name] == {"median": 1, "p20": 1}
    assert found[FLOOR.name]["activities"] == found[OURS.name]["activities"] == 3
    assert found[FLOOR.name]["actions"] == 4


async def test_a_chain_has_as_many_activities_as_one_by_hand(
    client: Client, tmp_path: Path
) -> None:
    """And one if its nodes are performed ahead."""
    address = client.service_client.config.target_host
    async with AsyncExitStack() as stack:
        systems = [
            await stack.enter_async_context(
                running(one, address, str(tmp_path / f"{number}.db"), client)
            )
            for number, one in enumerate(CHAINS)
        ]
        await rounds(systems, 1, lambda one: one.turns(1))
        found = await histories(systems, client)
    activities = {name: counts["activities"] for name, counts in found.items()}
    assert activities == {FLOOR.name: CHAIN, OURS.name: CHAIN, AHEAD: 1}
    assert found[OURS.name]["events"] <= found[FLOOR.name]["events"] + 2
