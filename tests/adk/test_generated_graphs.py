"""Graphs that are made up, run by google-adk too."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tests.adk.compare import Told, differences
from tests.adk.google_adk import GoogleAdk
from tests.adk.graphs import Described, graph_conversation
from tests.adk.play import play
from tests.support.examples import examples

pytestmark = [pytest.mark.property, pytest.mark.sampled(4), pytest.mark.timeout(1200)]

PLAIN = ["value", "message", "delta", "state", "context", "dict"]
SILENT = ["none", "content"]
"""What has no output: google-adk runs such a node again after each answer (GR-83)."""
ASKING = ["ask", "ask", "ask_again", "ask_again_both"]
HOW = ["returns", "awaits", "yields", "generates"]
DEFAULT = "__DEFAULT__"


@st.composite
def functions(draw: st.DrawFn, name: str, *, asks: bool, fails: bool = True) -> Described:
    """A node that runs once for each trigger."""
    kinds = ["function"] * 6 + ["agent", "tool", "own"]
    kind = draw(st.sampled_from(kinds))
    does = draw(st.sampled_from([*PLAIN, *(ASKING if asks else SILENT)]))
    described = {"name": name, "kind": kind, "does": does, "how": draw(st.sampled_from(HOW))}
    if kind == "function" and fails and does not in ASKING:
        described["fails"] = draw(st.sampled_from([0, 0, 0, 1, 2]))
    if kind == "own":  # a content would be an output, which is no JSON in google-adk
        described["does"] = {"ask": "ask_again", "content": "value"}.get(does, does)
    return described


class Sketch:
    """A graph as far as it is drawn: its nodes, its edges and where it goes on."""

    def __init__(self, draw: st.DrawFn, names: Iterator[str], *, asks: bool) -> None:
        self.draw, self.names, self.asks = draw, names, asks
        self.nodes: list[Described] = []
        self.edges: list[tuple[str, str, Any]] = []
        self.ends: list[tuple[str, Any]] = [("START", None)]

    def then(self, described: Described) -> str:
        """Put a node behind all ends."""
        self.nodes.append(described)
        self.edges += [(source, described["name"], route) for source, route in self.ends]
        self.ends = [(described["name"], None)]
        return described["name"]

    def function(self, **more: Any) -> str:
        """Put a function, a tool, an agent or a class behind all ends."""
        return self.then(self.draw(functions(next(self.names), asks=self.asks)) | more)

    def chain(self) -> None:
        """One or two nodes."""
        for _ in range(self.draw(st.integers(1, 2))):
            self.function()

    def fan(self) -> None:
        """Branches side by side, and a join."""
        begin, ends = self.ends, []
        for _ in range(self.draw(st.integers(2, 3))):
            self.ends = begin
            self.chain()
            ends += self.ends
        self.ends = ends
        self.then({"name": next(self.names), "kind": "join"})

    def routes(self) -> None:
        """Exclusive branches that meet again."""
        keys: list[Any] = self.draw(
            st.lists(st.sampled_from(["a", "b", True, 7]), min_size=1, max_size=2, unique=True)
        )
        emitted = self.draw(st.sampled_from([*keys, "other", None]))
        router = self.function(kind="function", does="delta", routes=[emitted], fails=0)
        ends = []
        for key in (*keys, DEFAULT):
            self.ends = [(router, key)]
            self.chain()
            ends += self.ends
        self.ends = ends

    def loop(self) -> None:
        """A body that runs up to four times."""
        rounds = self.draw(st.integers(0, 3))
        first = self.function()
        routes = ["again"] * rounds + ["on"]
        router = self.function(kind="function", does="state", routes=routes, fails=0)
        self.edges.append((router, first, "again"))
        self.ends = [(router, "on")]

    def worker(self) -> None:
        """A list, and a node for its items."""
        self.function(kind="function", does="list", fails=0)
        self.function(kind="worker", how="awaits")

    def inner(self, depth: int) -> None:
        """A graph in the graph."""
        name = next(self.names)
        self.then(
            {"kind": "graph", **_drawn(self.draw, self.names, name, depth - 1, asks=self.asks)}
        )


def _drawn(
    draw: st.DrawFn, names: Iterator[str], name: str, depth: int, *, asks: bool
) -> Described:
    sketch = Sketch(draw, names, asks=asks)
    parts = ["chain", "fan", "routes", "loop", "worker", *(["inner"] if depth else [])]
    for part in draw(st.lists(st.sampled_from(parts), min_size=1, max_size=3)):
        if part == "inner":
            sketch.inner(depth)
        else:
            getattr(sketch, part)()
    if len(sketch.ends) > 1 or sketch.ends[0][1] is not None:
        sketch.function()  # a graph has one end
    return {
        "name": name,
        "nodes": sketch.nodes,
        "edges": sketch.edges,
        "at_once": draw(st.sampled_from([None, None, 1])),
    }


@st.composite
def graph_conversations(draw: st.DrawFn, *, asks: bool) -> Described:
    """Messages to a graph, and answers to its questions."""
    names = (f"n{number}" for number in range(1000))
    said = st.fixed_dictionaries(
        {
            "text": st.sampled_from(["hello", "7", '["x", 1]']),
            "answers": st.sampled_from(["all", "first", "last"]),
            "value": st.sampled_from([1, "word", '{"a": 1}', {"k": [1]}, True]),
        }
    )
    root = _drawn(draw, names, "root", 1, asks=asks)
    return {"root": root, "turns": draw(st.lists(said, min_size=1, max_size=5 if asks else 2))}


def named(graph: Described, does: str) -> Iterator[str]:
    """The names of a graph's nodes that do something, in the graphs in it too."""
    for one in graph["nodes"]:
        if one["kind"] == "graph":
            yield from named(one, does)
        elif one["kind"] in ("function", "worker") and one.get("does") == does:
            yield one["name"]


def check_graph(described: Described, ours: Told, adks: Told) -> None:
    """Nothing differs but what is declared."""
    asking = set(named(described["root"], "ask"))
    for told in (ours, adks):
        told["hooks"] = []  # one for each event
        told["requests"] = []  # their prompts are those of other tests
        for part in (*told["turns"], *told["kept"].values()):
            part["events"] = [one for one in part["events"] if not _is_answer(one, asking)]
            for event in part["events"]:
                if event.get("node_info") == {"path": ""}:
                    del event["node_info"]  # of the user's events
    found = differences(ours, adks, by_agent=True)
    assert not found, "\n".join(map(str, found))


def _is_answer(event: dict[str, Any], asking: set[str]) -> bool:
    """Whether an event is the output of a node that a person has answered (GR-133)."""
    path = event.get("node_info", {}).get("path", "")
    name = path.rpartition("/")[2].partition("@")[0]
    return name in asking and event.get("output") is not None


def _plays(described: Described, google_adk: GoogleAdk) -> None:
    ours = asyncio.run(play(graph_conversation(described)))
    check_graph(described, ours, google_adk.ask(graph=described))


@settings(max_examples=examples(150))
@given(described=graph_conversations(asks=False))
def test_a_made_up_graph_goes_as_in_google_adk(described: Described, google_adk: GoogleAdk) -> None:
    """Chains, fan-outs, joins, routes, loops, retries, workers, tools, agents, graphs in graphs."""
    _plays(described, google_adk)


@settings(max_examples=examples(150))
@given(described=graph_conversations(asks=True))
def test_what_a_graph_asks_goes_as_in_google_adk(
    described: Described, google_adk: GoogleAdk
) -> None:
    """Questions of one node and of several at once, answered one by one or together."""
    _plays(described, google_adk)
