"""A batch of items of a parallel worker: the effect that runs them, and its result."""

from typing import Any

from pydantic import Field

from durable_adk.json_values import JsonModel
from durable_adk.sessions.session import SessionKey
from durable_adk.wire.effect import Effect, ErrorDetail
from durable_adk.wire.graph.node_run import NodeRef, NodeRun, NodeSite, item_event
from durable_adk.wire.graph.ranges import Ranges
from durable_adk.wire.steps import NodeStep, StepResult


class ItemsResult(JsonModel):
    """How the steps of a batch ended, by the items' numbers; the others have not ended."""

    stored: dict[str, int] = Field(default_factory=dict[str, int])
    """The sequence numbers of the outputs of those that have stored one and report no more."""
    results: dict[str, StepResult] = Field(default_factory=dict[str, StepResult])
    """The results of others."""
    failed: dict[str, ErrorDetail] = Field(default_factory=dict[str, ErrorDetail])
    """`errors.as_detail` of the errors of those that have no result."""

    def to_json(self) -> str:
        """Omit defaults, as a `StepResult` does."""
        return self.model_dump_json(by_alias=True, exclude_none=True, exclude_defaults=True)


class ItemsStep(JsonModel, Effect[ItemsResult]):
    """Run the code of several items, and store their outputs.

    The batch may end before it has begun them all. The loop puts the rest into a later one.
    """

    step: NodeStep
    """The step of an item but for what distinguishes items, see `step_of`: its site and branch are
    the worker's, and its event's id is the prefix of the ids of all items' events."""
    items: Ranges
    at_once: int
    """Maximum number of items that run at the same time."""
    retry: dict[str, Any] | None = None
    """See `GraphNode.retry`: an item that is tried again does not end the batch."""
    attempt_timeout: float
    """Maximum seconds of one attempt."""

    @property
    def key(self) -> SessionKey:
        """The session."""
        return self.step.key

    @property
    def summary(self) -> str:
        """A description for Temporal's UI: ``wf@1/w@1: 1-25``."""
        return f"{self.step.named.path}: {', '.join(f'{a}-{b}' for a, b in self.items)}"

    def step_of(self, number: int) -> NodeStep:
        """Return the first step of an item."""
        step = self.step
        run = item_run(step.named, step.branch, step.event_id, number)
        site = item_site(step.named, step.node, run)
        event_id = item_event(step.event_id, number)
        update = {"site": site, "branch": run.branch, "event_id": event_id, "batched": True}
        if number > self.items[0][0]:
            update["ended"] = None  # the first one reports the agents' runs
        return step.model_copy(update=update)


def item_run(worker: NodeSite, branch: str | None, prefix: str, number: int) -> NodeRun:
    """Return the run of a worker's item.

    Args:
        worker: The run of the worker.
        branch: The worker's branch.
        prefix: The prefix of the ids of all items' events.
        number: The item's number, from 1.
    """
    name = worker.path.rpartition("/")[2].partition("@")[0]
    return NodeRun(
        run_id=number,
        input=NodeRef(of=worker.input, item=number - 1, split_by=worker.path),
        branch=".".join(filter(None, (branch, f"{name}@{number}"))),
        event_id=f"{prefix}.{number}",
    )


def item_site(worker: NodeSite, node: str, run: NodeRun) -> NodeSite:
    """Return the run of a worker's item for its steps; `node` is the name of the inner node."""
    path = f"{worker.path}/{node}@{run.run_id}"
    return NodeSite(
        path=path,
        prefix=run.event_id,
        input=run.input,
        output_for=[path],
        scope=worker.scope,
    )
