"""Drawings of graphs and of trees of agents in Mermaid's language."""

import textwrap
from typing import Any

from durable_adk.agents import LlmAgent, SequentialAgent
from durable_adk.apps import App
from durable_adk.events import Event
from durable_adk.ops.graph_drawing import mermaid
from durable_adk.workflow import DEFAULT_ROUTE, BaseNode, JoinNode, Workflow, node


def first(node_input: Any) -> Any:
    """Return the input."""
    return node_input


def second(node_input: Any) -> Event:
    """Return a route."""
    return Event(output=node_input, route="a")


def third(node_input: Any) -> Any:
    """Return the input."""
    return node_input


def fourth(node_input: Any) -> Any:
    """Return the input."""
    return node_input


def drawn(root: BaseNode) -> str:
    """Return the drawing of an app with this root."""
    return mermaid(App(name="app", root_agent=root).manifest())


def lines(text: str) -> str:
    """Return a text without the indentation of this file."""
    return textwrap.dedent(text).lstrip("\n")


def test_edges_have_their_routes_as_labels() -> None:
    """A node that decides is a diamond; the default route has a name that people can read."""
    routes = {"a": third, 2: second, DEFAULT_ROUTE: fourth}
    assert drawn(Workflow(name="wf", edges=[("START", first, second, routes)])) == lines("""
        flowchart TD
            START(("START"))
            first["first"]
            second{"second"}
            third["third"]
            fourth["fourth"]
            END(("END"))
            START --> first
            first --> second
            second -->|"a"| third
            second -->|"2"| second
            second -->|"default"| fourth
            third --> END
            fourth --> END
        """)


def test_joins_are_rounded_and_workers_have_double_lines() -> None:
    """So one sees where branches meet, and which node runs for each item."""
    each = node(third, parallel_worker=True)
    text = drawn(Workflow(name="wf", edges=[("START", (first, each), JoinNode(name="both"))]))
    assert '    both("both")\n' in text
    assert '    third[["third, for each item"]]\n' in text
    assert "    first --> both\n    third --> both\n    both --> END\n" in text


def test_a_graph_in_a_graph_is_a_subgraph() -> None:
    """Its nodes may have the names of nodes outside of it."""
    inner = Workflow(name="inner", edges=[("START", first)])
    assert drawn(Workflow(name="wf", edges=[("START", first, inner)])) == lines("""
        flowchart TD
            START(("START"))
            first["first"]
            subgraph inner["inner"]
                inner_START(("START"))
                inner_first["first"]
                inner_END(("END"))
                inner_START --> inner_first
                inner_first --> inner_END
            end
            END(("END"))
            START --> first
            first --> inner
            inner --> END
        """)


def test_words_of_mermaid_are_no_ids() -> None:
    """A node named `end` would end the chart, and START may be a node's name."""
    named = [node(first, name=name) for name in ("end", "START", "END", "größe")]
    text = drawn(Workflow(name="wf", edges=[("START", *named)]))
    assert '    end_["end"]\n    START_2["START"]\n    END["END"]\n    gr__e["größe"]\n' in text
    assert '    END_2(("END"))\n' in text
    assert "    START --> end_\n    end_ --> START_2\n" in text


def test_routes_are_quoted() -> None:
    """A route may be any text."""
    text = drawn(Workflow(name="wf", edges=[("START", second, {'#1 "<b>"\n|': third})]))
    assert 'second -->|"#35;1 #quot;#lt;b>#quot; |"| third' in text


def test_agents_are_a_tree() -> None:
    """Both without a graph, and below a node that is an agent."""
    team = SequentialAgent(name="team", sub_agents=[LlmAgent(name="one"), LlmAgent(name="two")])
    assert drawn(team) == lines("""
        flowchart TD
            team["team (sequential)"]
            one["one"]
            team -.-> one
            two["two"]
            team -.-> two
        """)
    in_graph = drawn(Workflow(name="wf", edges=[("START", team)]))
    assert '    team["team"]\n    one["one"]\n    team -.-> one\n' in in_graph


def test_a_workflow_without_edges_is_empty() -> None:
    """It does nothing."""
    assert 'START(("START"))' in drawn(Workflow(name="wf"))
