"""What operators see of an invocation whose worker was killed (D17)."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from tests.chaos.conftest import MakePlace
from tests.support.processes import Workplace
from tests.support.telemetry import Seen, read_spans, tree
from tests.support.waiting import until


@dataclass(frozen=True, kw_only=True)
class Case:
    """Where the worker dies, and which attempts of its steps have a span."""

    at: str
    app: str = "charge"
    steps: tuple[tuple[str, int], ...]
    """Names of the operations, and numbers of the attempts, in order."""


CASES = [
    # Who dies while the model answers, or the tool runs, has no span; the next attempt has.
    Case(at="model.after_call@1", steps=(("chat", 2), ("execute_tool", 1), ("chat", 1))),
    Case(at="tool.halfway@1", steps=(("chat", 1), ("execute_tool", 2), ("chat", 1))),
    # What was done twice, because its commit was lost, is seen twice.
    Case(
        at="commit.before@2",
        steps=(("chat", 1), ("execute_tool", 1), ("execute_tool", 2), ("chat", 1)),
    ),
    # What was committed is not done again; the end is told by the attempt that finds it.
    Case(at="commit.after@3", steps=(("chat", 1), ("execute_tool", 1), ("chat", 1))),
    Case(at="close.after@1", app="audited", steps=(("chat", 1), ("execute_tool", 1), ("chat", 1))),
]


async def _run(case: Case, place: Workplace) -> Workplace:
    place.traced = True
    async with place.restarted_worker(case.at.replace("@", ":kill@")):
        await place.all_of(case.app)
        await place.workflow(case.app).result()
        await until(lambda: _roots(place))
    return place


@pytest.fixture(scope="module")
async def outcomes(make_place: MakePlace) -> AsyncIterator[dict[str, "asyncio.Task[Workplace]"]]:
    """All cases, running side by side: most of a case's time is the start of two workers."""
    tasks = {case.at: asyncio.create_task(_run(case, make_place())) for case in CASES}
    yield tasks
    for task in tasks.values():
        task.cancel()
    await asyncio.gather(*tasks.values(), return_exceptions=True)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.at)
async def test_a_kill_leaves_one_trace_with_one_span_for_each_attempt_that_ended(
    case: Case, outcomes: dict[str, "asyncio.Task[Workplace]"]
) -> None:
    """D17: all that ended is there, once, under one root of the trace that was derived."""
    place = await outcomes[case.at]
    assert place.deaths == 1
    spans = read_spans(place.spans)
    assert len(_roots(place)) == 1
    assert len({span.trace for span in spans}) == 1
    assert len({span.id for span in spans}) == len(spans)
    (top,) = tree(spans)
    assert top[0].startswith("invoke_agent")
    steps = [s for s in spans if s.attributes.get("gen_ai.operation.name") != "invoke_agent"]
    steps = sorted((s for s in steps if "gen_ai.operation.name" in s.attributes), key=_start)
    told = tuple(
        (s.attributes["gen_ai.operation.name"], s.attributes["durable_adk.attempt"]) for s in steps
    )
    assert told == case.steps


async def test_finished_steps_are_seen_while_a_later_one_runs(make_place: MakePlace) -> None:
    """D17: spans do not wait for the end of their invocation."""
    place = make_place()
    place.traced = True
    worker = await place.start_worker()
    async with worker:
        client = asyncio.ensure_future(place.all_of("tool"))
        await until(lambda: place.traces.runs("patient"))
        await until(lambda: len(read_spans(place.spans)) == 1)
        assert read_spans(place.spans)[0].attributes["gen_ai.operation.name"] == "chat"
        assert not _roots(place)
        client.cancel()
        await asyncio.gather(client, return_exceptions=True)
        await worker.kill()
    await place.workflow("tool").terminate()


def _roots(place: Workplace) -> list[Seen]:
    return [s for s in read_spans(place.spans) if "durable_adk.status" in s.attributes]


def _start(span: Seen) -> str:
    return str(span.start)
