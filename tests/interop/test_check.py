"""``durable-adk check`` of projects, and what it says of google-adk's objects."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import Terminal
from tests.support.required import interpreter

THEIRS = '''
import time

from google.adk.agents import BaseAgent, LlmAgent, SequentialAgent
from google.adk.code_executors import UnsafeLocalCodeExecutor
from google.adk.events import Event
from google.adk.models.lite_llm import LiteLlm
from google.adk.tools import FunctionTool
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.long_running_tool import LongRunningFunctionTool


class Teller(BaseAgent):
    async def _run_async_impl(self, ctx):
        yield Event(author=self.name, custom_metadata={"at": time.time()})


def order(item: str) -> str:
    """Order."""
    return item


def screen(callback_context, llm_request):
    return None


clerk = LlmAgent(
    name="clerk",
    model=LiteLlm(model="openai/gpt-4o"),
    tools=[
        order,
        FunctionTool(screen, require_confirmation=True),
        LongRunningFunctionTool(order),
        AgentTool(LlmAgent(name="helper", model="gemini-2.5-flash")),
    ],
    before_model_callback=screen,
    code_executor=UnsafeLocalCodeExecutor(),
)
root_agent = SequentialAgent(name="shop", sub_agents=[clerk, Teller(name="teller")])
'''
SINGLE = """
from google.adk.agents import LlmAgent

root_agent = LlmAgent(name="a", mode="single_turn")
"""
GRAPH = """
from google.adk.tools import FunctionTool
from google.adk.workflow import BaseNode, RetryConfig, Workflow, node


class Own(BaseNode):
    async def _run_impl(self, *, ctx, node_input):
        yield node_input


@node(retry_config=RetryConfig(max_attempts=2))
def first(node_input):
    return [node_input]


@node(parallel_worker=True, max_parallel_workers=3)
def each(node_input):
    return {"item": node_input}


def order(item: str) -> str:
    return item


root_agent = Workflow(
    name="graph", edges=[("START", first, Own(name="own"), each, FunctionTool(order))]
)
"""
OWN_LOOP = """
from google.adk.workflow import Workflow


class Mine(Workflow):
    async def _run_impl(self, *, ctx, node_input):
        yield node_input


root_agent = Mine(name="mine")
"""
OURS = "from durable_adk import Agent\nroot_agent = Agent(name='clerk', model='offline')\n"


def check(python: str, folder: Path, code: str) -> tuple[int, list[dict[str, Any]], str]:
    """The exit code, the parts and the errors of a check of a project."""
    folder.mkdir()
    (folder / "agent.py").write_text(code)
    run = Terminal(folder, Path(python)).run("check", str(folder), "--json")
    return run.returncode, [json.loads(line) for line in run.stdout.splitlines()], run.stderr


def test_each_part_of_a_google_adk_project_is_named(tmp_path: Path) -> None:
    """By google-adk's names, with what is not replay-safe in a body, and nothing of it run."""
    code, parts, _ = check(interpreter("adk"), tmp_path / "shop", THEIRS)
    told = {(part["agent"], part["kind"], part["name"]): part["runsIn"] for part in parts}
    assert told[("shop", "agent", "SequentialAgent")] == "workflow code"
    assert told[("clerk", "model", "openai/gpt-4o")] == "activity call_model"
    assert told[("clerk", "tool", "order")] == "activity call_tool"
    assert told[("clerk", "tool", "screen")] == "activity call_tool, once approved"
    assert told[("clerk", "code executor", "UnsafeLocalCodeExecutor")] == "activity execute_code"
    assert told[("clerk", "tool", "helper")] == "child workflow"
    assert told[("clerk", "before_model", "screen")] == "activity call_model"
    findings = {part["name"]: part["findings"] for part in parts if part["findings"]}
    assert list(findings) == ["Teller"]
    assert "time.time (" in findings["Teller"][0]
    assert f"{tmp_path}/shop/agent.py:15" in findings["Teller"][0]
    assert code == 1


def test_each_node_of_a_google_adk_graph_is_named(tmp_path: Path) -> None:
    """With where it runs, as the nodes of ours."""
    code, parts, _ = check(interpreter("adk"), tmp_path / "shop", GRAPH)
    told = {(part["agent"], part["kind"], part["name"]): part["runsIn"] for part in parts}
    assert told == {
        ("graph", "workflow", "Workflow"): "workflow code",
        ("graph", "function node", "first"): "activity run_node, up to 2 attempts",
        ("graph", "node", "own"): "activity run_node",
        ("graph", "worker node", "each"): "activity run_items for each item, 3 items at once",
        ("graph", "tool node", "order"): "activity run_node",
    }
    assert code == 0


@pytest.mark.parametrize(("theirs", "says"), [(OWN_LOOP, "_run_impl"), (SINGLE, "single_turn")])
def test_what_cannot_be_durable_is_refused_by_name(tmp_path: Path, theirs: str, says: str) -> None:
    """With the reason and the way out, in one line."""
    code, parts, errors = check(interpreter("adk"), tmp_path / "shop", theirs)
    assert (code, parts) == (1, [])
    assert says in errors
    assert "Traceback" not in errors


def test_a_project_without_findings_passes(tmp_path: Path) -> None:
    """Its exit code is 0."""
    code, parts, errors = check(sys.executable, tmp_path / "shop", OURS)
    assert (code, errors) == (0, "")
    assert [part["kind"] for part in parts] == ["agent", "model"]
