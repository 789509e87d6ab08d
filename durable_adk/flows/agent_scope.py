"""One run of one agent from the loop's view, and the branch on which it runs."""

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from enum import Enum

from durable_adk.agents.base_agent import BaseAgent
from durable_adk.context.journal import Journal
from durable_adk.context.loop import InvocationContext
from durable_adk.errors import AgentError, DurableAdkError, as_raised, wrapped
from durable_adk.events.event import Event
from durable_adk.flows.graph.timer import NodeTimer
from durable_adk.wire.agent_stack import RunPosition, StackFrame
from durable_adk.wire.graph.node_run import NodeEnd, NodeRef, NodeSite
from durable_adk.wire.manifest import AgentNode


class Branches:
    """All branches, and how many of them are busy.

    Args:
        ids: Number of ids issued by each open branch, by prefix; changed in place.
    """

    def __init__(self, ids: dict[str, int]) -> None:
        self.ids = ids
        self.stopped: set[str] = set()
        """Prefixes of branches whose agents were cancelled: they may begin no further step."""
        self.busy = 1
        """Number of branches that do not wait for an answer."""


class Branch:
    """One line of execution within an invocation.

    Event ids are counted per branch, so they do not depend on how branches interleave (D5).

    Args:
        prefix: Prefix of its event ids.
        branches: The invocation's branches; a new one joins them.
        timers: Those of the runs of nodes that it belongs to.
    """

    def __init__(self, prefix: str, branches: Branches, timers: tuple[NodeTimer, ...] = ()) -> None:
        self.prefix = prefix
        self.branches = branches
        self.timers = timers
        self._ids = branches.ids
        self._ids.setdefault(prefix, 0)

    def next_id(self) -> str:
        """Return the next event id: the branch and a position, the same at every replay (D5)."""
        self._ids[self.prefix] += 1
        return f"{self.prefix}.{self._ids[self.prefix]}"

    def fork(self, place: str, number: int) -> "list[Branch]":
        """Return branches for a ParallelAgent's children, named after an event id of this one."""
        names = [f"{place}.{index}" for index in range(number)]
        return [Branch(name, self.branches, self.timers) for name in names]

    def count(self, branches: int) -> None:
        """Count it, and others of the same runs of nodes, as busy, or with a minus as not."""
        self.branches.busy += branches
        for timer in self.timers:
            timer.count(branches)

    @property
    def stopped(self) -> bool:
        """Whether it, or one around it, was cancelled: no further step may begin."""
        stopped = self.branches.stopped
        return any(self.prefix == one or self.prefix.startswith(f"{one}.") for one in stopped)

    def stop(self) -> None:
        """Let no further step begin on this branch."""
        self.branches.stopped.add(self.prefix)

    def leave(self) -> None:
        """Remove the branch; code that still runs on it counts ids separately."""
        self._ids = {self.prefix: self.branches.ids.pop(self.prefix, 0)}


class CommitBy(Enum):
    """Which party commits the event of a step."""

    STEP = "step"
    """The step itself (early commit): it saves a round through the workflow."""
    LOOP = "loop"
    """The loop, once the event has passed through the agents above."""


@dataclass(kw_only=True, eq=False)
class NodeCall:
    """The run of a node that an agent, or a graph, is run for."""

    site: NodeSite
    end: NodeEnd | None = None
    """Set by a graph that has ended; for an agent, its events say it."""
    set_awaiting: Callable[[bool], None] | None = None
    """Called when a task agent begins to wait for a message of the user, and when it has one."""

    def of_part(self) -> "NodeCall":
        """Return the call of an agent that the node's agent runs: its text is no output (GR-64)."""
        given = {"output_for": list[str](), "input": NodeRef.user_message()}
        return NodeCall(site=self.site.model_copy(update=given))


@dataclass(kw_only=True, eq=False)
class AgentScope:
    """The loop's data on one run of one agent, beside the context that user code sees."""

    ctx: InvocationContext
    node: AgentNode
    agent: BaseAgent | None
    """The agent's own code, if it has any and this worker has it."""
    branch: Branch
    frame: StackFrame
    """The frame of its body."""
    position: RunPosition
    commit_by: CommitBy
    call: NodeCall | None = None
    """The run of a node of a graph that this run is, or is a part of."""
    journal: Journal | None = None
    """Journal of a custom agent's body; None if the invocation never continues as new."""
    hooks_follow: bool = False
    """Whether after callbacks are yet to run, which may replace its final text or fail."""
    answered: bool = False
    """Whether a before callback has answered, so that body and after callbacks are skipped."""
    abandoned: list[AsyncGenerator[Event, None]] = field(
        default_factory=list[AsyncGenerator[Event, None]]
    )
    """Runs of sub-agents that its body began and abandoned."""

    failures: list[tuple[Exception, DurableAdkError]] = field(
        default_factory=list[tuple[Exception, DurableAdkError]]
    )
    """Exceptions raised into the body, each with the error that it reports."""

    def site(self, *, interim: bool = False) -> NodeSite | None:
        """Return the run of a node that a step belongs to.

        Args:
            interim: Whether the agent says more after its next text: a call of it is open.
        """
        if self.call is None:
            return None
        changed: dict[str, object] = {"ends": not self.hooks_follow}
        return self.call.site.model_copy(update=changed | ({"output_for": []} if interim else {}))

    def given(self, error: DurableAdkError) -> Exception:
        """Return the exception to raise into the body: user code's own, if any (DUR-10)."""
        raised = as_raised(error)
        self.failures.append((raised, error))
        return raised

    def reported(self, error: Exception) -> DurableAdkError:
        """Return the error for an exception of the body; the loop's own if the loop raised it."""
        known = (ours for raised, ours in self.failures if raised is error)
        return next(known, None) or wrapped(AgentError, error)

    @property
    def end_invocation(self) -> bool:
        """Whether the agent is to end; its own code may set this in its context (CTX-11)."""
        return self.ctx.end_invocation

    @end_invocation.setter
    def end_invocation(self, value: bool) -> None:
        self.ctx.end_invocation = value


@dataclass(frozen=True, kw_only=True)
class CallSite:
    """The place from which an agent is run."""

    ctx: InvocationContext
    """The context of the agent above, or one for the whole invocation."""
    frame: StackFrame
    branch: Branch
    above: AgentScope | None = None
    """The agent above; None for the invocation's first agent."""
    call: NodeCall | None = None
    """See `AgentScope.call`."""

    @property
    def run(self) -> int:
        """Number of the run of the agent above."""
        return (self.above.position.run or 0) if self.above else 0


def commit_decision(
    above: AgentScope | None, node: AgentNode, *, hooks_follow: bool
) -> tuple[CommitBy, bool]:
    """Return which party commits a run's events, and whether its final text closes the invocation.

    A step may commit its event itself where the loop would commit it unchanged and at once. A
    custom agent may change or drop the events of the agents below it, and a ParallelAgent commits
    those of its children one after the other.

    Args:
        above: The agent that runs this one; None for the first agent, and for those that it hands
            over to.
        node: The agent.
        hooks_follow: Whether after callbacks or the plugins' after-run hooks are yet to run.
    """
    passed_on = above is not None and (
        above.commit_by is CommitBy.LOOP or above.node.kind == "parallel"
    )
    by = CommitBy.LOOP if passed_on or node.kind == "custom" else CommitBy.STEP
    closes = above is None and node.kind == "llm" and node.mode != "task"
    return by, closes and not hooks_follow
