"""Toolsets: filter, prefix, and what becomes of one that cannot be loaded."""

import asyncio
from typing import Any

import pytest

from durable_adk.models import LlmRequest
from durable_adk.tools import BaseTool, FunctionTool, base_toolset
from durable_adk.tools.base_toolset import BaseToolset, load_tools, missed_toolsets
from tests.support.waiting import PATIENCE, forever


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def sub(a: int, b: int) -> int:
    """Subtract."""
    return a - b


class Calculator(BaseToolset):
    async def get_tools(self, readonly_context: Any = None) -> list[BaseTool]:
        tools = [FunctionTool(add), FunctionTool(sub)]
        return [tool for tool in tools if self._is_tool_selected(tool, readonly_context)]


class Broken(BaseToolset):
    """Written without a constructor of its own, or a call of ours."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error

    async def get_tools(self, readonly_context: Any = None) -> list[BaseTool]:
        if self.error:
            raise self.error
        await forever()


async def names(toolset: BaseToolset, context: Any = None) -> list[str]:
    """The names of a set's tools."""
    return [tool.name for tool in await toolset.get_tools_with_prefix(context)]


async def test_a_filter_selects_by_name_or_predicate() -> None:
    """TOL-28: names or a predicate over tool and context; no names select all, as in ADK."""
    assert await names(Calculator()) == ["add", "sub"]
    assert await names(Calculator(tool_filter=[])) == ["add", "sub"]
    assert await names(Calculator(tool_filter=["sub"])) == ["sub"]
    chosen = Calculator(tool_filter=lambda tool, context=None: tool.name == context)
    assert await names(chosen, "add") == ["add"]


async def test_a_prefix_names_a_copy_that_does_the_same() -> None:
    """TOL-28: the model sees the prefixed name, the tool itself stays as it was."""
    toolset = Calculator(tool_filter=["add"], tool_name_prefix="calc")
    (tool,) = await toolset.get_tools_with_prefix()
    request = LlmRequest()
    await tool.process_llm_request(tool_context=None, llm_request=request)
    assert list(request.tools_dict) == ["calc_add"]
    (declared,) = request.config.tools[0].function_declarations
    assert declared.name == "calc_add"
    assert tool._get_declaration() == declared
    assert declared.parameters_json_schema["required"] == ["a", "b"]
    assert await tool.run_async(args={"a": 1, "b": 2}, tool_context=None) == 3
    assert [tool.name for tool in await toolset.get_tools()] == ["add"]


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(1), asyncio.CancelledError()])
async def test_a_broken_toolset_is_logged_and_skipped(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    """AGT-24: whatever it raises, the agent continues; the log names the user's line."""
    assert await load_tools(Broken(error)) is None
    (record,) = caplog.records
    assert record.message == "toolset.skipped"
    assert any(place.startswith(f"{__file__}:") for place in record.error_at)


async def test_a_toolset_that_comes_back_soon_is_offered(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """AGT-24: its server may be starting beside the worker; the model would be asked without it."""
    monkeypatch.setattr(base_toolset, "PAUSE", 0.01)

    class Starting(Calculator):
        tries = 0

        async def get_tools(self, readonly_context: Any = None) -> list[BaseTool]:
            self.tries += 1
            if self.tries < 3:
                raise ConnectionError("not yet")
            return await super().get_tools(readonly_context)

    assert [tool.name for tool in await load_tools(Starting()) or []] == ["add", "sub"]
    assert caplog.records == []


async def test_who_cannot_go_on_without_a_toolset_is_told_why() -> None:
    """F23: each one that could not be asked, while somebody collects them."""
    with missed_toolsets() as missed:
        await load_tools(Calculator())
        for error in (ValueError("secret"), SystemExit(1)):
            assert await load_tools(Broken(error)) is None
    assert await load_tools(Broken(KeyError("not collected any more"))) is None
    assert [one.message for one in missed] == ["Broken (ValueError)", "Broken (RuntimeError)"]


async def test_a_hanging_toolset_is_skipped_in_its_time() -> None:
    """AGT-24: waiting for tools has an end."""
    async with asyncio.timeout(PATIENCE):
        assert await load_tools(Broken(None), timeout=0.1) is None


async def test_a_cancelled_step_does_not_skip() -> None:
    """A cancellation is no failure of the toolset: it reaches the step."""
    loading = asyncio.create_task(load_tools(Broken(None)))
    await asyncio.sleep(0)
    loading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await loading
