"""Which edges fire."""

from typing import Any, NamedTuple

import pytest

from durable_adk.graph.routes import DEFAULT_ROUTE, fired


class Recorded(NamedTuple):
    """An edge as data."""

    name: str
    route: Any


def edges(**routes: Any) -> list[Recorded]:
    """Edges by name."""
    return [Recorded(name, route) for name, route in routes.items()]


PLAIN = edges(always=None, a="a", default=DEFAULT_ROUTE, b="b", ab=["a", "b"])
NUMBERS = edges(zero=0, one=1, two=[2, "2"])


@pytest.mark.parametrize(
    ("graph", "emitted", "names"),
    [
        (PLAIN, None, "always default"),
        (PLAIN, "a", "always a ab"),
        (PLAIN, "zzz", "always default"),
        (PLAIN, ["a", "b"], "always a b ab"),
        (PLAIN, ["zzz", "b"], "always b ab"),
        (PLAIN, [], "always default"),
        (PLAIN, "", "always default"),
        (PLAIN, DEFAULT_ROUTE, "always default"),
        (PLAIN, [DEFAULT_ROUTE, "a"], "always a ab"),
        (edges(empty="", a="a"), "", ""),
        (edges(none=[]), "a", ""),
        (NUMBERS, False, "zero"),
        (NUMBERS, 0, "zero"),
        (NUMBERS, True, "one"),
        (NUMBERS, "1", ""),
        (NUMBERS, 2, "two"),
        (edges(yes=True, no=False), 1, "yes"),
        (edges(yes=True, no=False), 0, "no"),
        (edges(only=DEFAULT_ROUTE), "a", "only"),
    ],
)
def test_an_end_fires_edges_by_its_route(graph: Any, emitted: Any, names: str) -> None:
    """GR-67: the default only if no other route matches; in the edges' order."""
    assert [edge.name for edge in fired(graph, emitted)] == names.split()
