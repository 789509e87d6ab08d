"""Jobs of several systems in turn, so that all see the same machine, and what they have cost."""

import asyncio
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeAlias

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from benchmarks.systems import FLOOR, Running

SETTLE = 0.05
"""Seconds after a job, in which its worker may finish work that no job waits for."""

Rounds: TypeAlias = dict[str, list[float]]
"""Of each system, one number a round."""


async def rounds(
    systems: Sequence[Running], number: int, job: Callable[[Running], Awaitable[object]]
) -> tuple[Rounds, Rounds]:
    """Give each system one job a round, in random order; return seconds, and those of CPU."""
    seconds, cpu = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    for _ in range(number):
        for one in random.sample(systems, len(systems)):
            before, began = await one.cpu(), time.perf_counter()
            await job(one)
            seconds[one.system.name].append(time.perf_counter() - began)
            await asyncio.sleep(SETTLE)
            cpu[one.system.name].append(await one.cpu() - before)
    return dict(seconds), dict(cpu)


def ratios(measured: Rounds) -> dict[str, dict[str, float]]:
    """Compare each system with FLOOR.

    Returns:
        By system, `median`: the median of the rounds' ratios; `p20`: the ratio of the 20th
        percentiles, the jobs that the machine has disturbed least.
    """
    floor = measured[FLOOR.name]
    return {
        name: {
            "median": statistics.median(a / b for a, b in zip(taken, floor, strict=True)),
            "p20": percentile(taken) / percentile(floor),
        }
        for name, taken in measured.items()
    }


def percentile(values: Sequence[float], part: float = 0.2) -> float:
    """The value below which a part of them is."""
    return sorted(values)[int(part * len(values))]


def count(events: Iterable[HistoryEvent]) -> dict[str, int]:
    """What a history holds, and what Temporal Cloud would bill for it, if no attempt failed."""
    kinds = [event.event_type for event in events]
    activities = kinds.count(EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED)
    tasks = kinds.count(EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED)
    return {
        "events": len(kinds),
        "workflow_tasks": tasks,
        "activities": activities,
        "actions": sum(_ACTIONS.get(kind, 0) for kind in kinds),
    }


_ACTIONS = {
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED: 1,
    EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED: 1,
    EventType.EVENT_TYPE_TIMER_STARTED: 1,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED: 1,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED: 1,
    EventType.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES: 1,
    EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED: 1,
    EventType.EVENT_TYPE_MARKER_RECORDED: 1,
}
"""Actions of an event. Several local activities of one workflow task are one; a turn has one."""


async def histories(systems: Sequence[Running], client: Client) -> dict[str, dict[str, int]]:
    """Count the history of each system's last turn."""
    found: dict[str, dict[str, int]] = {}
    for one in systems:
        if one.last:
            history = await client.get_workflow_handle(one.last).fetch_history()
            size = sum(event.ByteSize() for event in history.events)
            found[one.system.name] = count(history.events) | {"bytes": size}
    return found


async def grown(one: Running, turns: int) -> dict[str, float]:
    """Run many short turns; how much memory the worker has before, after half of them and after."""
    sizes = [one.memory()]
    for _ in range(2):
        await one.turns(turns // 2, 16)
        sizes.append(one.memory())
    first, half, last = sizes
    each = (last - half) / (turns // 2) * 1000
    return {"first": first, "half": half, "last": last, "turns": turns, "per_1000": each}
