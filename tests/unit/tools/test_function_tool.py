"""FunctionTool: from a Python function to a declaration, and from arguments to a call."""

import contextvars
import functools
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from durable_adk.agents import LlmAgent
from durable_adk.errors import AgentDefinitionError
from durable_adk.tools import BaseTool, BaseToolset, FunctionTool, as_tool
from durable_adk.tools.tool_context import ToolContext

CONTEXT: Any = SimpleNamespace(tool_confirmation=None)


def add(a: int, b: int = 2) -> int:
    """Add two numbers.

    And nothing else.
    """
    return a + b


async def run(func, args, **kwargs):
    return await FunctionTool(func, **kwargs).run_async(args=args, tool_context=CONTEXT)


class Greeter:
    """Greets."""

    greeting = "hello"

    async def __call__(self, name: str) -> str:
        """Greet someone."""
        return f"{self.greeting} {name}"

    def greet(self, name: str) -> str:
        """Greet by method."""
        return f"{self.greeting} {name}"


class Silent:
    """Says nothing."""

    def __call__(self): ...


def test_name_and_description_are_the_functions():
    """The model knows a function by its name and its cleaned docstring (TOL-10)."""
    tool = FunctionTool(add)
    assert tool.name == "add"
    assert tool.description == "Add two numbers.\n\nAnd nothing else."
    assert tool.is_long_running is False


def test_callable_objects_go_by_their_class():
    """A callable object has its class's name, and its docstring before __call__'s, as in ADK."""
    assert (FunctionTool(Greeter()).name, FunctionTool(Greeter()).description) == (
        "Greeter",
        "Greets.",
    )
    assert FunctionTool(Silent()).description == "Says nothing."


def test_name_and_timeout_can_be_given():
    """Both arguments reach the tool and its declaration."""
    tool = FunctionTool(lambda: None, name="nothing", timeout=5.0)
    assert (tool.name, tool.timeout, tool.get_declaration().name) == ("nothing", 5.0, "nothing")


@pytest.mark.parametrize(
    ("func", "args", "result"),
    [
        (add, {"a": 1}, 3),
        (Greeter(), {"name": "you"}, "hello you"),
        (Greeter().greet, {"name": "you"}, "hello you"),
        (functools.partial(add, b=5), {"a": 1}, 6),
        (functools.partial(add, 4), {"b": 1}, 5),
        (functools.partial(functools.partial(Greeter()), "me"), {}, "hello me"),
    ],
)
async def test_every_kind_of_callable_is_called(func, args, result):
    """Functions, methods, partials and callable objects, sync and async, give their result."""
    assert await run(func, args) == result


async def test_sync_wrapper_of_an_async_function_is_awaited():
    """A decorator that hides the coroutine does not make the coroutine the result."""

    async def double(n: int):
        return 2 * n

    @functools.wraps(double)
    def wrapper(n: int):
        return double(n)

    assert await run(wrapper, {"n": 2}) == 4


async def test_positional_only_parameters_are_filled():
    """A parameter that cannot be passed by name is passed by position."""

    def power(base: int, /, exponent: int) -> int:
        return base**exponent

    assert await run(power, {"exponent": 3, "base": 2}) == 8


async def test_variadic_parameters_are_ignored():
    """*args and **kwargs are neither declared nor filled (TOL-11)."""

    def spread(a: int, *args: int, b: int = 0, **kwargs: int):
        return a, args, b, kwargs

    declared = FunctionTool(spread).get_declaration().parameters_json_schema
    assert list(declared["properties"]) == ["a", "b"]
    assert await run(spread, {"a": 1, "b": 2, "args": [3], "c": 4}) == (1, (), 2, {})


async def test_input_stream_is_none_outside_live_mode():
    """The parameter of live tools is hidden from the model (TOL-11)."""

    def listen(topic: str, input_stream):
        return topic, input_stream

    assert await run(listen, {"topic": "t", "input_stream": 1}) == ("t", None)


async def test_sync_functions_run_in_a_thread_with_the_callers_context():
    """A blocking tool does not block the worker, and context variables reach it (OPEN-7)."""
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("set")

    def where():
        return threading.current_thread() is threading.main_thread(), variable.get()

    async def here():
        return threading.current_thread() is threading.main_thread()

    assert await run(where, {}) == (False, "set")
    assert await run(here, {}) is True


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_exceptions_propagate_unchanged(kind):
    """What the function raises is what the caller gets, the very object (TOL-18)."""
    error = LookupError("gone")

    def fail():
        raise error

    async def fail_async():
        raise error

    with pytest.raises(LookupError) as caught:
        await run(fail if kind == "sync" else fail_async, {})
    assert caught.value is error


async def test_stop_iteration_does_not_hang_the_caller():
    """A sync tool that exhausts an iterator fails; no future could carry its StopIteration."""
    with pytest.raises(RuntimeError, match="StopIteration"):
        await run(lambda: next(iter([])), {}, name="exhausted")


async def test_arguments_do_not_alias_the_event():
    """A tool that changes what it received leaves the event's as they were (TRAP-23)."""

    def grow(items: list, options):
        items.append(1)
        options["more"] = True
        return items, options

    args: dict[str, Any] = {"items": [], "options": {"deep": []}}
    assert await run(grow, args) == ([1], {"deep": [], "more": True})
    assert args == {"items": [], "options": {"deep": []}}


async def test_missing_mandatory_arguments_go_back_to_the_model():
    """The function is not called; the text names each, one per line (TOL-14)."""
    called = []

    def book(city: str, day: str, note: str | None, seat: int = 0):
        called.append(city)

    result = await run(book, {"seat": 1})
    lines = result["error"].splitlines()
    assert lines[0] == (
        "Invoking `book()` failed as the following mandatory input parameters are not present:"
    )
    assert lines[1:3] == ["city", "day"]
    assert called == []


async def test_unknown_arguments_are_filtered_out():
    """An argument the function does not have does no harm (TOL-15)."""
    assert await run(add, {"a": 1, "c": 9, "tool_context": 9}) == 3


async def test_unfit_arguments_go_back_to_the_model():
    """The function is not called; the text names each parameter and what came (17.1, TOL-15)."""
    called = []

    def book(city: str, seats: int):
        called.append(city)

    result = await run(book, {"city": 7, "seats": 3.7})
    assert result["error"].startswith("Invoking `book()` failed")
    assert "`city`: got 7." in result["error"]
    assert "`seats`: got 3.7." in result["error"]
    assert called == []


async def test_declaration_is_the_callers_own_copy():
    """Changing a declaration, as a before_model callback may, does not change the tool (CB-6)."""
    tool = FunctionTool(add)
    tool.get_declaration().parameters_json_schema["properties"].clear()
    assert set(tool.get_declaration().parameters_json_schema["properties"]) == {"a", "b"}


async def test_context_reaches_the_function():
    """A context parameter receives the context, and a result of any kind comes back raw."""

    def by_name(tool_context):
        return tool_context

    def by_type(ctx: ToolContext, n: int = 1):
        return ctx

    assert await run(by_name, {}) is CONTEXT
    assert await run(by_type, {"ctx": "forged"}) is CONTEXT


def generator():
    yield 1


async def async_generator():
    yield 1


class Toolset(BaseToolset):
    """A toolset, which google-adk's agents take as a callable."""

    async def get_tools(self, readonly_context=None):
        return []


@pytest.mark.parametrize(
    "make",
    [
        lambda tool: FunctionTool(Greeter().greet, require_confirmation=tool),
        lambda tool: FunctionTool(Greeter().greet, contract="at_most_once", reconcile=tool),
        lambda tool: LlmAgent(name="a", instruction=tool),
        lambda tool: LlmAgent(name="a", before_tool_callback=tool),
        lambda tool: LlmAgent(name="a", after_agent_callback=[tool]),
    ],
)
def test_a_tool_is_no_function(make):
    """Where a function is called, a tool is refused at definition, although it is callable."""
    with pytest.raises((AgentDefinitionError, ValidationError), match=r"function|is a tool"):
        make(FunctionTool(print, name="p"))


@pytest.mark.parametrize(
    ("func", "message"),
    [
        (async_generator, "node of a graph"),
        (generator, "node of a graph"),
        (lambda: None, "cannot be a tool's name"),
        (Greeter, "class"),
        (Greeter.greet, "is an unbound method"),
        (7, "no function"),
        (FunctionTool(print, name="p"), "no function"),
        (Toolset(), "no function"),
    ],
)
def test_what_cannot_be_a_tool_is_refused_at_definition(func, message):
    """The mistake is named when the agent is defined, not when the model first calls (TOL-19)."""
    with pytest.raises(AgentDefinitionError, match=message):
        FunctionTool(func)


def test_generator_behind_a_decorator_is_a_tool():
    """A decorator that turns what a generator yields into a result makes it a tool."""

    def collect(func):
        return functools.wraps(func)(lambda: list(func()))

    assert FunctionTool(collect(generator)).name == "generator"


def test_as_tool_keeps_tools_and_wraps_functions():
    """An agent's `tools` entry becomes a BaseTool, or is named as the mistake it is (AGT-24)."""
    tool = BaseTool(name="t", description="")
    assert as_tool(tool) is tool
    assert isinstance(as_tool(add), FunctionTool)
    with pytest.raises(AgentDefinitionError, match="'add' is not a tool"):
        as_tool("add")
