"""Which nodes of a graph run, in which order and with which inputs."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, strategies as st

from durable_adk.errors import WorkflowConfigurationError
from durable_adk.flows.graph.schedule import GraphSchedule, common_branch
from durable_adk.graph.base_node import START
from durable_adk.graph.routes import DEFAULT_ROUTE
from durable_adk.wire.agent_stack import GraphPosition
from durable_adk.wire.graph.node_run import NodeEnd, NodeRef
from durable_adk.wire.manifest import GraphEdge, GraphNode, GraphRecord

BEGIN = START.name
MESSAGE = NodeRef.user_message()


def graph(
    *edges: tuple[str, str] | tuple[str, str, Any],
    joins: Sequence[str] = (),
    waits: Sequence[str] = (),
    window: int | None = None,
) -> GraphRecord:
    """A graph of edges; its nodes are in the order of their first mention."""
    listed = [
        GraphEdge(source=e[0], target=e[1], route=e[2] if len(e) > 2 else None) for e in edges
    ]
    names = dict.fromkeys(name for edge in listed for name in (edge.source, edge.target))
    nodes = [
        GraphNode(
            name=name,
            kind="join" if name in joins else "function",
            joins=name in joins,
            waits_for_output=name in waits,
        )
        for name in names
        if name != BEGIN
    ]
    return GraphRecord(nodes=nodes, edges=listed, window=window)


def begun(record: GraphRecord, branch: str | None = None) -> GraphSchedule:
    """A schedule at the beginning of a run of a graph."""
    schedule = GraphSchedule(record, GraphPosition(path="wf@1", event_id="e"))
    schedule.begin(MESSAGE, branch)
    return schedule


def start_due(schedule: GraphSchedule) -> list[str]:
    """Start all that may start, as names with their run ids."""
    started: list[str] = []
    while (name := schedule.next()) is not None:
        run = schedule.start(name)
        started.append(f"{name}@{run.run_id}")
    return started


def value(name: str) -> NodeRef:
    """The output of a node."""
    return NodeRef(event=name)


def end(
    schedule: GraphSchedule, name: str, *, route: Any = None, output: NodeRef | None = None
) -> list[str]:
    """End the run of a node, with an output of its name unless it has another; what starts then."""
    run = schedule.position.runs[name]
    schedule.ended(name, NodeEnd(output=output or value(name), route=route, branch=run.branch))
    return start_due(schedule)


def end_empty(schedule: GraphSchedule, name: str) -> list[str]:
    """End the run of a node without output; what starts then."""
    schedule.ended(name, NodeEnd(branch=schedule.position.runs[name].branch))
    return start_due(schedule)


def inputs(schedule: GraphSchedule) -> dict[str, NodeRef]:
    """The inputs of what runs."""
    return {name: run.input for name, run in schedule.position.runs.items()}


def branches(schedule: GraphSchedule) -> dict[str, str | None]:
    """The branches of what runs."""
    return {name: run.branch for name, run in schedule.position.runs.items()}


# ----- triggers and starts


def test_a_completion_triggers_its_successors_in_the_order_of_the_edges() -> None:
    """GR-66, GR-70: the input is the output; START's is the graph's input."""
    schedule = begun(graph((BEGIN, "a"), ("a", "c"), ("a", "b"), ("b", "d"), ("c", "d")))
    assert start_due(schedule) == ["a@1"]
    assert inputs(schedule) == {"a": MESSAGE}
    assert end(schedule, "a") == ["c@1", "b@1"]
    assert inputs(schedule) == {"c": value("a"), "b": value("a")}


def test_a_node_without_output_gives_its_successor_none() -> None:
    """GR-66: the trigger is there, its value is not."""
    schedule = begun(graph((BEGIN, "a"), ("a", "b")))
    start_due(schedule)
    assert end_empty(schedule, "a") == ["b@1"]
    assert inputs(schedule) == {"b": NodeRef()}


ROUTED = (
    (BEGIN, "r"),
    ("r", "always"),
    ("r", "x", "X"),
    ("r", "yz", ["Y", "Z"]),
    ("r", "zero", 0),
    ("r", "other", DEFAULT_ROUTE),
)


@pytest.mark.parametrize(
    ("route", "expected"),
    [
        (None, ["always", "other"]),
        ("X", ["always", "x"]),
        ("Z", ["always", "yz"]),
        (["X", "Y"], ["always", "x", "yz"]),
        (["X", "?"], ["always", "x"]),
        ("?", ["always", "other"]),
        ("", ["always", "other"]),
        ([], ["always", "other"]),
        (False, ["always", "zero"]),
        (0, ["always", "zero"]),
    ],
)
def test_a_route_decides_which_edges_fire(route: Any, expected: list[str]) -> None:
    """GR-67: unrouted edges always; the default only if no other route matches."""
    schedule = begun(graph(*ROUTED))
    start_due(schedule)
    assert end(schedule, "r", route=route) == [f"{name}@1" for name in expected]


def test_a_branch_ends_where_nothing_takes_its_route() -> None:
    """GR-68, GR-74: nothing is due then, and the graph has no output."""
    schedule = begun(graph((BEGIN, "r"), ("r", "x", "X")))
    start_due(schedule)
    assert end(schedule, "r", route="?") == []
    position = schedule.position
    assert (position.runs, position.queues, position.output) == ({}, {}, None)


def test_a_node_runs_once_for_each_trigger_and_one_after_the_other() -> None:
    """GR-69, GR-71: a fan-in without join; triggers keep their order."""
    schedule = begun(
        graph((BEGIN, "a"), (BEGIN, "b"), (BEGIN, "c"), ("a", "end"), ("b", "end"), ("c", "end"))
    )
    assert start_due(schedule) == ["a@1", "b@1", "c@1"]
    assert end(schedule, "b") == ["end@1"]
    assert end(schedule, "a") == []
    assert end(schedule, "c") == []
    assert inputs(schedule) == {"end": value("b")}
    assert end(schedule, "end") == ["end@2"]
    assert inputs(schedule) == {"end": value("a")}
    assert schedule.path("end") == "wf@1/end@2"
    assert end(schedule, "end") == ["end@3"]
    assert end(schedule, "end", output=value("last")) == []
    assert schedule.position.output == value("last")


@pytest.mark.parametrize(("window", "at_once"), [(None, 3), (0, 3), (1, 1), (2, 2)])
def test_no_more_nodes_run_at_once_than_the_graph_allows(window: int | None, at_once: int) -> None:
    """GR-69, GR-70: the others wait, and start in the order of their triggers."""
    schedule = begun(graph((BEGIN, "a"), (BEGIN, "b"), (BEGIN, "c"), window=window))
    names = ["a@1", "b@1", "c@1"]
    assert start_due(schedule) == names[:at_once]
    assert end_empty(schedule, "a") == names[at_once : at_once + 1]


def test_run_ids_count_the_rounds_of_a_loop() -> None:
    """GR-71: each run has a path, and ids of events, of its own."""
    schedule = begun(graph((BEGIN, "inc"), ("inc", "inc", "again"), ("inc", "done", "done")))
    start_due(schedule)
    ids: list[str] = []
    for number in range(2, 5):
        ids.append(schedule.position.runs["inc"].event_id)
        assert end(schedule, "inc", route="again") == [f"inc@{number}"]
    assert ids == ["e.inc@1", "e.inc@2", "e.inc@3"]
    assert end(schedule, "inc", route="done") == ["done@1"]


def test_a_node_that_waits_for_its_output_collects_triggers() -> None:
    """GR-72: without output or route, its successors are not triggered."""
    schedule = begun(
        graph((BEGIN, "a"), (BEGIN, "b"), ("a", "acc"), ("b", "acc"), ("acc", "z"), waits=["acc"])
    )
    start_due(schedule)
    assert end(schedule, "a") == ["acc@1"]
    assert end_empty(schedule, "acc") == []
    assert end(schedule, "b") == ["acc@2"]
    assert end(schedule, "acc") == ["z@1"]


def test_a_route_ends_a_node_that_waits_for_its_output() -> None:
    """GR-72: also the route False, and also without an output."""
    schedule = begun(graph((BEGIN, "acc"), ("acc", "z", False), waits=["acc"]))
    start_due(schedule)
    schedule.ended("acc", NodeEnd(route=False))
    assert start_due(schedule) == ["z@1"]


# ----- joins


def test_a_join_runs_once_all_its_predecessors_have_ended() -> None:
    """GR-57: its parts are in the order of the edges, whoever came first; None without output."""
    schedule = begun(
        graph(
            (BEGIN, "x"), (BEGIN, "y"), (BEGIN, "w"), ("y", "j"), ("x", "j"), ("w", "j"), joins="j"
        )
    )
    start_due(schedule)
    assert end(schedule, "x") == []
    assert end_empty(schedule, "w") == []
    assert end(schedule, "y") == ["j@1"]
    parts = inputs(schedule)["j"].parts
    assert parts is not None
    assert list(parts.items()) == [("y", value("y")), ("x", value("x")), ("w", None)]


def test_start_counts_as_a_completed_predecessor_of_a_join() -> None:
    """GR-57: and has no part in its input."""
    schedule = begun(graph((BEGIN, "a"), (BEGIN, "j"), ("a", "j"), joins="j"))
    assert start_due(schedule) == ["a@1"]
    assert end(schedule, "a") == ["j@1"]
    assert inputs(schedule)["j"].parts == {"a": value("a")}


def test_a_join_fires_once_a_round() -> None:
    """GR-57: it waits for all its predecessors since it last ran."""
    schedule = begun(
        graph(
            *((BEGIN, "a"), ("a", "x"), ("a", "y"), ("x", "j"), ("y", "j")),
            *(("j", "a", "again"), ("j", "z", "done")),
            joins="j",
        )
    )
    assert start_due(schedule) == ["a@1"]
    for number in (1, 2):
        assert end(schedule, "a") == [f"x@{number}", f"y@{number}"]
        assert end(schedule, "y", output=value(f"y{number}")) == []
        assert end(schedule, "x", output=value(f"x{number}")) == [f"j@{number}"]
        assert inputs(schedule)["j"].parts == {"x": value(f"x{number}"), "y": value(f"y{number}")}
        assert schedule.position.arrivals == {}
        assert end(schedule, "j", route="again") == [f"a@{number + 1}"]


def test_the_last_output_of_a_predecessor_counts_for_a_join() -> None:
    """GR-57: one that ran twice before the join has arrived once."""
    schedule = begun(
        graph(
            (BEGIN, "a"), (BEGIN, "b"), (BEGIN, "s"), ("s", "a"), ("a", "j"), ("b", "j"), joins="j"
        )
    )
    start_due(schedule)
    assert end(schedule, "s") == []
    assert end(schedule, "a", output=value("first")) == ["a@2"]
    assert end(schedule, "a", output=value("second")) == []
    assert end(schedule, "b") == ["j@1"]
    assert inputs(schedule)["j"].parts == {"a": value("second"), "b": value("b")}


def test_a_join_behind_routes_that_exclude_each_other_never_runs() -> None:
    """GR-58: who ended by another route has not arrived."""
    schedule = begun(
        graph(
            *((BEGIN, "r"), ("r", "x", "X"), ("r", "y", "Y"), ("x", "j"), ("y", "j"), ("j", "z")),
            joins="j",
        )
    )
    start_due(schedule)
    assert end(schedule, "r", route="X") == ["x@1"]
    assert end(schedule, "x") == []
    assert schedule.position.runs == {}
    assert list(schedule.position.arrivals["j"]) == ["x"]


# ----- branches


def test_several_targets_run_on_branches_of_their_own() -> None:
    """GR-81: inherited by what follows; a single target stays on the branch."""
    schedule = begun(
        graph(
            *((BEGIN, "a"), ("a", "x"), ("a", "y"), ("x", "x2"), ("x2", "p"), ("x2", "q")),
            *(("p", "j"), ("q", "j"), ("y", "k"), ("j", "k"), ("k", "z")),
            joins=["j", "k"],
        ),
        "outer",
    )
    start_due(schedule)
    assert branches(schedule) == {"a": "outer"}
    end(schedule, "a")
    assert branches(schedule) == {"x": "outer.x@1", "y": "outer.y@1"}
    end(schedule, "x")
    assert branches(schedule)["x2"] == "outer.x@1"
    end(schedule, "x2")
    assert branches(schedule)["p"] == "outer.x@1.p@1"
    end(schedule, "p")
    end(schedule, "q")
    assert branches(schedule)["j"] == "outer.x@1"
    end(schedule, "j")
    end(schedule, "y")
    assert branches(schedule) == {"k": "outer"}


def test_a_branch_names_the_run_that_its_trigger_will_be() -> None:
    """GR-81: also where the target still runs, or has other triggers."""
    schedule = begun(
        graph(
            *((BEGIN, "a"), (BEGIN, "b")),
            *(("a", "x"), ("a", "y"), ("b", "x"), ("b", "y")),
        )
    )
    start_due(schedule)
    end(schedule, "a")
    end(schedule, "b")
    assert branches(schedule) == {"x": "a@1.x@1", "y": "a@1.y@1"}
    end_empty(schedule, "x")
    end_empty(schedule, "y")
    assert branches(schedule) == {"x": "b@1.x@2", "y": "b@1.y@2"}


@pytest.mark.parametrize(
    ("several", "common"),
    [
        ([None, None], None),
        (["x@1", "y@1"], None),
        (["a.x@1", "a.y@1"], "a"),
        (["a.x@1", "a"], "a"),
        (["a.x@1", None], None),
        (["a.b", "a.b"], "a.b"),
        (["ab.c", "a.c"], None),
        (["a"], "a"),
    ],
)
def test_a_join_is_on_what_the_branches_have_in_common(
    several: list[str | None], common: str | None
) -> None:
    """GR-81: in whole names."""
    assert common_branch(several) == common


# ----- the graph's output


def test_the_output_of_the_only_node_without_successor_is_the_graphs() -> None:
    """GR-74: if it ran several times, the last one; no output does not replace one."""
    schedule = begun(graph((BEGIN, "a"), (BEGIN, "b"), ("a", "end"), ("b", "end")))
    start_due(schedule)
    end(schedule, "a")
    end(schedule, "b")
    assert schedule.position.output is None
    end(schedule, "end", output=value("first"))
    assert schedule.position.output == value("first")
    end_empty(schedule, "end")
    assert schedule.position.output == value("first")
    assert schedule.terminals == ["end"]


def test_a_second_node_that_ends_the_graph_with_an_output_is_refused() -> None:
    """GR-74: before its output is stored; the message names both."""
    schedule = begun(graph((BEGIN, "a"), (BEGIN, "b"), (BEGIN, "c"), ("c", "d")))
    assert schedule.terminals == ["a", "b", "d"]
    start_due(schedule)
    schedule.claim_output("c")  # not one that ends the graph
    schedule.claim_output("a")
    schedule.claim_output("a")
    says = r"multiple terminal nodes produced output \(2\): 'a' and 'b'"
    with pytest.raises(WorkflowConfigurationError, match=says):
        schedule.claim_output("b")


def test_a_node_that_ends_the_graph_without_output_claims_nothing() -> None:
    """GR-74: so another one may have it."""
    schedule = begun(graph((BEGIN, "a"), (BEGIN, "b")))
    start_due(schedule)
    end_empty(schedule, "a")
    end(schedule, "b")
    assert schedule.position.output == value("b")


# ----- any graph

ROUTES: list[Any] = [None, None, None, "r", "s", ["r", "s"], DEFAULT_ROUTE]
NAMES = ["a", "b", "c", "d"]


@st.composite
def graphs(draw: st.DrawFn) -> GraphRecord:
    """Some graph: also with loops, which the rounds of a test end."""
    names = NAMES[: draw(st.integers(1, len(NAMES)))]
    pairs = st.tuples(st.sampled_from(names), st.sampled_from(names), st.sampled_from(ROUTES))
    begins = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
    edges = draw(st.lists(pairs, min_size=2, max_size=8, unique_by=lambda edge: edge[:2]))
    return graph(
        *((BEGIN, name) for name in begins),
        *edges,
        joins=draw(st.lists(st.sampled_from(names), min_size=1)),
        waits=draw(st.lists(st.sampled_from(names))),
        window=draw(st.sampled_from([None, 1, 2])),
    )


@dataclass
class Player:
    """Ends runs as it is told, and keeps what it saw."""

    schedule: GraphSchedule
    stored: bool = False
    """Whether the position is written as JSON and read again before each decision."""
    log: list[Any] = field(default_factory=list[Any])
    arrived: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """What has come to each join since it ran, by the test's own account."""
    runs: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    """The ids of each node's runs, in the order in which they began."""
    due: Counter[str] = field(default_factory=Counter[str])
    """How many runs of each join have to begin."""

    def play(self, ends: list[tuple[int, Any, bool]]) -> None:
        """Start what is due, and end the runs that the numbers choose."""
        self._arrive(BEGIN, self.schedule.graph.edges)
        self._start()
        for choice, route, has_output in ends:
            if not self.schedule.position.runs:
                return
            runs = list(self.schedule.position.runs)
            name = runs[choice % len(runs)]
            run = self.schedule.position.runs[name]
            output = NodeRef(event=run.event_id) if has_output else None
            try:
                fired = self.schedule.ended(
                    name, NodeEnd(output=output, route=route, branch=run.branch)
                )
            except WorkflowConfigurationError as error:  # GR-74
                self.log.append(error.message)
                return
            self._arrive(name, fired or [])
            self.log.append((name, run.run_id, [edge.target for edge in fired or []]))
            self._start()

    def _start(self) -> None:
        if self.stored:
            self.schedule = GraphSchedule(
                GraphRecord.model_validate_json(self.schedule.graph.model_dump_json()),
                GraphPosition.model_validate_json(self.schedule.position.model_dump_json()),
            )
        while (name := self.schedule.next()) is not None:
            assert name not in self.schedule.position.runs  # GR-69
            window = self.schedule.graph.window
            assert window is None or len(self.schedule.position.runs) < window
            run = self.schedule.start(name)
            if self.schedule.node(name).joins:
                self.due[name] -= 1
                assert list(run.input.parts or {}) == [s for s in self._before(name) if s != BEGIN]
            self.log.append(run.model_dump())
            self.runs.setdefault(name, []).append(run.run_id)
        runs, window = self.schedule.position.runs, self.schedule.graph.window
        if window is None or len(runs) < window:
            waiting = [name for name, number in self.due.items() if number and name not in runs]
            assert waiting == []  # a join runs as soon as it can
        assert all(number >= 0 for number in self.due.values())  # and never before

    def _before(self, join: str) -> list[str]:
        edges = self.schedule.graph.edges
        return list(dict.fromkeys(edge.source for edge in edges if edge.target == join))

    def _arrive(self, source: str, fired: Sequence[GraphEdge]) -> None:
        for edge in fired:
            if edge.source == source and self.schedule.node(edge.target).joins:
                arrived = self.arrived.setdefault(edge.target, set())
                arrived.add(source)
                if arrived == set(self._before(edge.target)):
                    arrived.clear()
                    self.due[edge.target] += 1


@given(
    record=graphs(),
    ends=st.lists(
        st.tuples(st.integers(0, 9), st.sampled_from([None, "r", "s", ["r", "s"]]), st.booleans()),
        min_size=6,
        max_size=20,
    ),
)
def test_any_graph_runs_the_same_from_any_stored_position(
    record: GraphRecord, ends: list[tuple[int, Any, bool]]
) -> None:
    """GR-57, GR-69, GR-71, D10: runs of a node do not overlap, a join runs once for all of its own.

    Nothing but the graph and the position decides, so a position that was stored and read before
    each decision leads to the same runs.
    """
    players = [Player(begun(record), stored=stored) for stored in (False, False, True)]
    for player in players:
        player.play(ends)
    first, again, stored = players
    assert first.log == again.log == stored.log
    assert first.schedule.position == stored.schedule.position
    for name, number in first.schedule.position.started.items():
        assert first.runs[name] == list(range(1, number + 1))
