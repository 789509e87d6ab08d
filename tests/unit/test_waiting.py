"""What tests wait with, and that they wait with nothing else."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.waiting import stays, until, until_true

TESTS = Path(__file__).parents[1]
PACES = {
    "adk/scripted.py": "chunks come at a rate",
    "integration/test_graphs.py": "nodes take longer than they may, or than others",
    "integration/test_graph_times.py": "nodes take longer than they may",
    "interop/objects/test_nodes.py": "a node takes longer than it may",
    "stubs/mcp_stub.py": "a tool takes as long as it is asked to",
    "support/publisher_main.py": "chunks come at a rate",
    "support/streams.py": "chunks come at a rate, so that more of them are not lost than usual",
    "support/waiting.py": "the functions that wait",
}
"""Where something takes time that no test waits for, and why."""
CLOCKS = {"monotonic", "perf_counter"}
BODY = "_run_async_impl"
"""A custom agent's body runs as workflow code, where a sleep is a timer of Temporal's."""
FILES = [
    path
    for path in sorted(TESTS.rglob("*.py"))
    if not path.is_relative_to(TESTS / "samples" / "projects")
]


async def test_a_state_is_waited_for_and_returned():
    """Of a function or a coroutine, as soon as it is true."""
    looks = iter([0, "", [], "there"])

    async def look() -> object:
        return next(looks)

    assert await until(look) == "there"
    assert until_true(lambda: 7) == 7


async def test_what_does_not_come_is_named():
    """With its last value, instead of a hang."""
    with pytest.raises(TimeoutError, match=r"test_waiting.py:\d+\) is still 0"):
        await until(lambda: 0, patience=0)
    with pytest.raises(TimeoutError, match="is still None"):
        until_true(lambda: None, patience=0)


async def test_what_changes_does_not_stay():
    """However late within the time in which it is watched."""
    looks = iter([True, True, False])
    with pytest.raises(AssertionError, match="no longer"):
        await stays(lambda: next(looks))


def timed(tree: ast.AST, within: str = "") -> Iterator[int]:
    """Lines that wait for seconds, or require that something takes at most so many."""
    for node in ast.iter_child_nodes(tree):
        name = getattr(node, "name", "") if isinstance(node, ast.AsyncFunctionDef) else ""
        match node:
            case ast.Call(func=ast.Attribute(attr="sleep") | ast.Name(id="sleep"), args=args):
                if within != BODY and not (args and ast.unparse(args[0]) == "0"):
                    yield node.lineno
            case ast.Assert(test=test):
                compared = [one for one in ast.walk(test) if isinstance(one, ast.Compare)]
                if any(isinstance(one.ops[0], ast.Lt | ast.LtE) and asks(one) for one in compared):
                    yield node.lineno
            case _:
                pass
        yield from timed(node, name or within)


def asks(compared: ast.Compare) -> bool:
    """Whether a side of a comparison asks a clock how long something has taken."""
    calls = [one.func for one in ast.walk(compared.left) if isinstance(one, ast.Call)]
    return any(isinstance(one, ast.Attribute) and one.attr in CLOCKS for one in calls)


def test_no_test_waits_for_seconds() -> None:
    """A slow machine fails none: tests wait for states, and benchmarks have the bounds."""
    names = {path.relative_to(TESTS).as_posix(): path.read_text() for path in FILES}
    found = [
        f"tests/{name}:{line}: use tests/support/waiting.py"
        for name, text in names.items()
        if name not in PACES
        for line in timed(ast.parse(text))
    ]
    assert found == []


@pytest.mark.parametrize(
    "code",
    [
        "await asyncio.sleep(0.1)",
        "time.sleep(x)",
        "sleep()",
        "assert time.monotonic() - began < 3",
        "assert 0.1 <= x and time.perf_counter() - began <= 3",
    ],
)
def test_a_wait_for_seconds_is_seen(code: str) -> None:
    """In a function, too; but neither a turn of the event loop nor a timer of a workflow."""
    assert list(timed(ast.parse(f"async def f():\n    {code}"))) == [2]
    assert list(timed(ast.parse("async def f():\n    await asyncio.sleep(0)"))) == []
    assert list(timed(ast.parse(f"async def {BODY}():\n    await asyncio.sleep(1)"))) == []
