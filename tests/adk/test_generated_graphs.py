"""Graphs that are made up, run by google-adk too."""

import asyncio
import contextlib
import copy
import json
import re
from collections.abc import Iterator
from itertools import pairwise
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
"""What has no output: google-adk runs such a node again after each answer."""
ASKING = ["ask", "ask", "ask_again", "ask_again_both"]
HOW = ["returns", "awaits", "yields", "generates"]
DEFAULT = "__DEFAULT__"


@st.composite
def functions(draw: st.DrawFn, name: str, *, asks: bool, fatal: bool) -> Described:
    """A node that runs once for each trigger; `fatal`: it may fail for good."""
    kinds = ["function"] * 6 + ["agent", "tool", "own"]
    kind = draw(st.sampled_from(kinds))
    does = draw(st.sampled_from([*PLAIN, *(ASKING if asks else SILENT)]))
    described = {"name": name, "kind": kind, "does": does, "how": draw(st.sampled_from(HOW))}
    if kind == "function" and does not in ASKING:
        described["fails"] = draw(st.sampled_from([0] * 8 + [1, 1, 2, 2] + [9] * fatal))
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
        name, fatal = next(self.names), more.pop("fatal", False)
        return self.then(self.draw(functions(name, asks=self.asks, fatal=fatal)) | more)

    def chain(self, *, alone: bool = True) -> None:
        """One or two nodes; what runs beside others may not end them."""
        for _ in range(self.draw(st.integers(1, 2))):
            self.function(fatal=alone)

    def fan(self) -> None:
        """Branches side by side, and a join."""
        begin, ends = self.ends, []
        for _ in range(self.draw(st.integers(2, 3))):
            self.ends = begin
            self.chain(alone=False)
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
        elif one["kind"] in ("function", "own", "worker") and one.get("does") == does:
            yield one["name"]


def check_graph(described: Described, ours: Told, adks: Told) -> None:
    """Nothing differs but what is declared."""
    root = described["root"]
    asking = set(named(root, "ask"))
    asking_again = any(named(root, "ask_again")) or any(named(root, "ask_again_both"))
    _read_answers(adks)
    for turn in ours["turns"]:
        if "raises" in turn:  # the hook sees the run's error too, which the node's event has told
            ours["hooks"].remove("on_event root")
    for told in (ours, adks):
        hooks = [] if asking or asking_again else told["hooks"]  # one for each event
        told["hooks"] = [_of_any_order(one) for one in hooks]
        told["requests"] = []  # their prompts are those of other tests
        if asking_again:  # what is yielded is stored, too
            told["turns"] = [turn | {"events": []} for turn in told["turns"]]
        for part in (*told["turns"], *told["kept"].values()):
            kept = [one for one in part["events"] if not _is_answer(one, asking)]
            part["events"] = _without_repeated(kept) if asking_again else kept
            for event in part["events"]:
                if event["author"] == "user":
                    event.pop("node_info", None)
                    if len(event["content"]["parts"]) > 1:  # of several branches: see the row
                        event.pop("branch", None)
    found = differences(ours, adks, by_agent=True)
    assert not found, "\n".join(map(str, found))


def _read_answers(adks: Told) -> None:
    """Make of the answers what is stored here: what they say as JSON, not its text."""
    for kept in adks["kept"].values():
        for event in kept["events"]:
            for part in (event.get("content") or {}).get("parts", ()):
                response = part.get("function_response", {}).get("response", {})
                if event["author"] == "user" and isinstance(response.get("result"), str):
                    with contextlib.suppress(ValueError):
                        response["result"] = json.loads(response["result"])


def _of_any_order(hook: str) -> str:
    """A hook without what differs of a tool that is a node.

    google-adk's context has no name for the agent, ours the graph's, and a join is in any order.
    """
    named, brace, args = re.sub(r"(?<=_tool )(root|n\d+)(?= n)", "unknown", hook).partition("{")
    return named + brace + "".join(sorted(args))


def _without_repeated(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out the open questions that a node asks again although none of them was answered.

    In google-adk a node with `rerun_on_resume` that has an answer runs again with each answer to
    another node, as docs/use/adk-compatibility.md says.
    """
    waiting: dict[str, str] = {}
    answered = set[str]()
    left: list[dict[str, Any]] = []
    for event in events:
        parts = (event.get("content") or {}).get("parts", ())
        given = [part["function_response"]["id"] for part in parts if "function_response" in part]
        asked = [part["function_call"]["id"] for part in parts if "function_call" in part]
        if event["author"] == "user":
            answered = {waiting.pop(name) for name in given if name in waiting}
        path = event.get("node_info", {}).get("path", "")
        if path not in answered and asked and all(name in waiting for name in asked):
            continue
        waiting |= dict.fromkeys(asked, path)
        left.append(event)
    return left


def _is_answer(event: dict[str, Any], asking: set[str]) -> bool:
    """Whether an event is the output of a node that a person has answered (GR-133)."""
    path = event.get("node_info", {}).get("path", "")
    name = path.rpartition("/")[2].partition("@")[0]
    return name in asking and event.get("output") is not None


def _plays(described: Described, google_adk: GoogleAdk) -> None:
    ours = asyncio.run(play(graph_conversation(described)))
    check_graph(described, ours, google_adk.ask(graph=described))


@settings(max_examples=examples(100))
@given(described=graph_conversations(asks=False))
def test_a_made_up_graph_goes_as_in_google_adk(described: Described, google_adk: GoogleAdk) -> None:
    """Chains, fan-outs, joins, routes, loops, retries, workers, tools, agents, graphs in graphs."""
    _plays(described, google_adk)


@settings(max_examples=examples(100))
@given(described=graph_conversations(asks=True))
def test_what_a_graph_asks_goes_as_in_google_adk(
    described: Described, google_adk: GoogleAdk
) -> None:
    """Questions of one node and of several at once, answered one by one or together."""
    _plays(described, google_adk)


def _step(name: str, does: str, kind: str = "function", **more: Any) -> Described:
    return {"name": name, "kind": kind, "does": does, "how": "awaits", **more}


def _chain(*nodes: Described) -> Described:
    names = ["START", *(node["name"] for node in nodes)]
    edges = [(one, other, None) for one, other in pairwise(names)]
    return {"name": "root", "nodes": [*nodes], "edges": edges}


def _beside(*nodes: Described) -> Described:
    join = {"name": "all", "kind": "join"}
    edges = [("START", node["name"], None) for node in nodes]
    edges += [(node["name"], "all", None) for node in nodes]
    return {"name": "root", "nodes": [*nodes, join], "edges": edges}


async def _both(
    root: Described, google_adk: GoogleAdk, *answers: str, value: Any = True
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The stored events here and in google-adk of a text and then these answers."""
    turns = [{"text": "hi", "answers": one, "value": value} for one in ("all", *answers)]
    described = {"root": root, "turns": turns}
    ours = await play(graph_conversation(described))
    told = (ours, google_adk.ask(graph=described))
    if "alike" not in str(root):
        check_graph(described, *copy.deepcopy(told))
    ours, adks = (one["kept"]["u/s"]["events"] for one in told)
    return ours, adks


def _paths(events: list[dict[str, Any]], name: str) -> list[Any]:
    """The outputs, or the texts, of a node's events; of a question its id."""
    found = [one for one in events if one.get("node_info", {}).get("path", "").endswith(name)]
    return [one.get("output") or one["content"]["parts"][0]["function_call"]["id"] for one in found]


async def test_an_answer_is_stored_as_what_it_says(google_adk: GoogleAdk) -> None:
    """And as the output of its node; google-adk keeps the text in the user's event alone."""
    sides = await _both(_chain(_step("n", "ask")), google_adk, "all", value='{"a": 1}')
    stored = [events[2]["content"]["parts"][0]["function_response"]["response"] for events in sides]
    assert stored == [{"result": {"a": 1}}, {"result": '{"a": 1}'}]
    assert [_paths(events, "n@1") for events in sides] == [["q_n", {"a": 1}], ["q_n"]]


async def test_answers_to_several_branches_are_in_none(google_adk: GoogleAdk) -> None:
    """google-adk puts them into one of these."""
    root = _beside(_step("a", "ask"), _step("b", "ask"))
    sides = await _both(root, google_adk, "all")
    branches = [
        [one.get("branch") for one in events if one["author"] == "user"][1] for events in sides
    ]
    assert branches == [None, "a@1"]


async def test_an_answer_runs_its_own_node_only(google_adk: GoogleAdk) -> None:
    """In google-adk each node that has had an answer, and still waits, asks again."""
    root = _beside(_step("a", "ask_again"), _step("b", "ask_again"))
    sides = await _both(root, google_adk, "first", "last", "last")
    asked = [_paths(events, "a@1") for events in sides]
    assert asked == [["q_a_1", "q_a_2"], ["q_a_1", "q_a_2", "q_a_2", "q_a_2"]]


async def test_items_that_ask_alike_each_have_their_answer(google_adk: GoogleAdk) -> None:
    """In google-adk an item that is done runs again with the answer to the next one."""
    root = _chain(_step("n", "list"), _step("w", "ask_again_both", "worker", alike=True))
    sides = await _both(root, google_adk, "all", "all")
    done = [len([one for one in _paths(e, "w@1/w@1") if isinstance(one, list)]) for e in sides]
    assert done == [1, 2]
