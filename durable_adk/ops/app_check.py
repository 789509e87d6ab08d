"""Lists where each part of an app runs and how it behaves after a crash, without running any."""

# pyright: reportPrivateUsage=false
# `_run_async_impl` is ADK's name for an agent's body.

import re
from collections.abc import Iterator, Sequence
from typing import Any, cast

from pydantic import Field

from durable_adk.agents.base_agent import BaseAgent
from durable_adk.agents.determinism import findings
from durable_adk.agents.llm_agent import LlmAgent
from durable_adk.agents.loop_agent import LoopAgent
from durable_adk.agents.parallel_agent import ParallelAgent
from durable_adk.agents.sequential_agent import SequentialAgent
from durable_adk.apps.app import App
from durable_adk.apps.graph_record import driven_nodes
from durable_adk.code_executors.base_code_executor import BaseCodeExecutor
from durable_adk.code_executors.built_in_code_executor import BuiltInCodeExecutor
from durable_adk.errors import DurableAdkError
from durable_adk.graph.base_node import BaseNode
from durable_adk.graph.node_tool import tool_of
from durable_adk.graph.parallel_worker import ParallelWorker
from durable_adk.graph.retry_config import NodeRetryConfig
from durable_adk.graph.tool_node import ToolNode
from durable_adk.graph.workflow import Workflow
from durable_adk.json_values import JsonModel
from durable_adk.tools.activity_tool import ActivityTool
from durable_adk.tools.agent_tool import AgentTool
from durable_adk.tools.base_tool import BaseTool
from durable_adk.tools.base_toolset import BaseToolset
from durable_adk.wire.manifest import AgentNode, GraphNode
from durable_adk.wire.tool_contract import ToolContract

_AGAIN = "runs again, unless its result was stored"
_AGAIN_UNLESS_STORED = "runs again, unless its output was stored"
_ONCE_UNLESS_STORED = "is not run again; the run fails if the outcome is unknown"
AGAIN_WITH_KEY = "may run again, with the same idempotency key"
_CONTINUES = "continues where it was; completed work is not repeated"
_CONTRACTS = {
    ToolContract.AT_LEAST_ONCE: AGAIN_WITH_KEY,
    ToolContract.PURE: "runs again: it has no side effects",
    ToolContract.IDEMPOTENT: "runs again; the same idempotency key takes effect once",
    ToolContract.AT_MOST_ONCE: "is not run again; the model learns that the outcome is unknown",
}
_CALLBACKS = {
    "before_agent_callback": "activity run_callback",
    "after_agent_callback": "activity run_callback",
    "before_model_callback": "activity call_model",
    "after_model_callback": "activity call_model",
    "on_model_error_callback": "activity call_model",
    "before_tool_callback": "activity call_tool",
    "after_tool_callback": "activity call_tool",
    "on_tool_error_callback": "activity call_tool",
}
"""The activity that runs each kind of callback."""

_STEP = re.compile(
    r"activity (call_model|call_tool|run_callback|execute_code|run_node)\b(?!, on task queue)"
)
"""The activities whose steps `App.steps_per_activity` puts into one."""


class AppPart(JsonModel):
    """A part of an app: where it runs, and how it behaves after a crash."""

    agent: str
    """Name of the part's agent or graph; for a plugin, of the app."""
    kind: str
    """``agent``, ``model``, ``tool``, ``callback``, ``plugin``, ``workflow``, ``function node`` and
    so on."""
    name: str
    runs_in: str
    after_crash: str
    findings: list[str] = Field(default_factory=list[str])
    """Problems of the part, each with the remedy or the place in the code."""
    warnings: list[str] = Field(default_factory=list[str])
    """What of the part is probably a mistake, and runs all the same (GR-42)."""


def app_parts(app: App) -> list[AppPart]:
    """Return the parts of an app: graphs with their nodes, agents with their parts, plugins."""
    root = app.root_agent
    nodes = [] if isinstance(root, BaseAgent) else list(_of_graph(root, app.manifest()))
    parts = [*nodes, *(part for agent in app.agents() for part in _of_agent(agent))]
    if app.steps_per_activity > 1 and not app.manifest().any_custom():
        parts = [_in_batch(app, part) for part in parts]
    return [*parts, *(_plugin(app, plugin) for plugin in app.plugins)]


def _in_batch(app: App, part: AppPart) -> AppPart:
    """Name the activity that performs the part's step together with others, if one does."""
    node = app.manifest().find(part.agent)
    spec = node.tools.get(part.name) if node is not None and part.kind == "tool" else None
    if spec is None or not spec.apart:
        part.runs_in = _STEP.sub("activity run_steps", part.runs_in)
    return part


def _of_graph(graph: BaseNode, recorded: AgentNode) -> Iterator[AppPart]:
    """Yield a graph, its nodes, and then the graphs in it."""
    if isinstance(graph, Workflow):
        yield AppPart(
            agent=graph.name,
            kind="workflow",
            name=type(graph).__name__,
            runs_in="workflow code",
            after_crash=_CONTINUES,
            warnings=graph.graph.warnings() if graph.graph else [],
        )
    children = {child.name: child for child in recorded.children}
    objects = {one.name: one for one in graph.static_children()}
    for node in recorded.graph.nodes if recorded.graph else ():
        child = children.get(node.name)
        kind = "workflow" if node.kind == "agent" and child and child.graph else node.kind
        yield AppPart(
            agent=graph.name,
            kind="node" if kind == "node" else f"{kind} node",
            name=node.name,
            runs_in=_node_runs_in(node),
            after_crash=_node_after_crash(node, objects.get(node.name)),
            warnings=_unused(objects.get(node.name)),
        )
    for one in driven_nodes(graph):
        if not isinstance(one, BaseAgent):
            yield from _of_graph(one, children[one.name])


def _node_runs_in(node: GraphNode) -> str:
    """Return where a node runs, how often, and for how long."""
    own = node.inner or node
    words = ["workflow code" if own.kind == "agent" else "activity run_node"]
    queue = [f"on task queue {own.task_queue}"] if own.task_queue else []
    if node.inner is not None:
        alone = own.kind in ("agent", "worker") or own.calls
        words = [words[0] if alone else "activity run_items"]
        words[0] += " for each item"
        words += [f"{node.window} items at once"] if node.window else []
    words += queue
    for rule in [node] if node.inner is None else [node.inner, node]:
        if rule.retry is not None:
            config = NodeRetryConfig.model_validate(rule.retry)
            errors = f" after {' or '.join(config.exceptions)}" if config.exceptions else ""
            words.append(f"up to {config.attempts} attempts{errors}")
        if rule.timeout is not None:
            words.append(f"timeout {rule.timeout:g} s")
    return ", ".join(words)


def _node_after_crash(node: GraphNode, made: BaseNode | None) -> str:
    if node.kind in ("agent", "worker"):
        return _CONTINUES
    once = isinstance(made, ToolNode) and made.tool.contract is ToolContract.AT_MOST_ONCE
    return _ONCE_UNLESS_STORED if once else _AGAIN_UNLESS_STORED


def _unused(node: BaseNode | None) -> list[str]:
    """Return the properties of a tool that do not apply where the tool is a node."""
    if isinstance(node, ParallelWorker):
        return _unused(node.node)
    if not isinstance(node, ToolNode):
        return []
    tool = node.tool
    if tool.contract in (ToolContract.AT_LEAST_ONCE, ToolContract.AT_MOST_ONCE):
        return []
    return [
        f"Of the tool {tool.name!r}, its contract {tool.contract.value!r} has no effect in a graph."
    ]


def _of_agent(agent: BaseAgent) -> Iterator[AppPart]:
    built_in = _built_in(agent)
    if built_in is None:
        yield _custom(agent)
    else:
        yield AppPart(
            agent=agent.name,
            kind="agent",
            name=built_in.__name__,
            runs_in="workflow code",
            after_crash=_CONTINUES,
        )
    if isinstance(agent, LlmAgent):
        yield from _of_llm_agent(agent)
    for field, runs_in in _CALLBACKS.items():
        for callback in _listed(getattr(agent, field, None)):
            yield AppPart(
                agent=agent.name,
                kind=field.removesuffix("_callback"),
                name=_name(callback),
                runs_in=runs_in,
                after_crash=_AGAIN,
            )


def _built_in(agent: BaseAgent) -> type[BaseAgent] | None:
    """Return the built-in class whose body an agent runs; None if it has its own body."""
    for kind in (LlmAgent, SequentialAgent, LoopAgent, ParallelAgent):
        if isinstance(agent, kind) and type(agent)._run_async_impl is kind._run_async_impl:  # noqa: SLF001
            return kind
    return None


def _custom(agent: BaseAgent) -> AppPart:
    own = _own(agent)
    return AppPart(
        agent=agent.name,
        kind="agent",
        name=type(own).__name__,
        runs_in="workflow code; ctx.step: activity run_function",
        after_crash=_CONTINUES,
        findings=[
            f"{found} is not replay-safe: do it in ctx.step, a tool or a callback"
            for found in findings(own)
        ],
    )


def _of_llm_agent(agent: LlmAgent) -> Iterator[AppPart]:
    yield _model(agent)
    if callable(agent.instruction):
        yield AppPart(
            agent=agent.name,
            kind="instruction",
            name=_name(agent.instruction),
            runs_in="activity call_model",
            after_crash="runs again with the model call",
        )
    if agent.code_executor is not None:
        yield _executor(agent, agent.code_executor)
    for item in agent.tools:
        yield _tool_or_toolset(agent, item)


def _model(agent: LlmAgent) -> AppPart:
    problems: list[str] = []
    try:
        name = agent.canonical_model.model
    except DurableAdkError as error:
        name, problems = str(agent.model), [error.message]
    return AppPart(
        agent=agent.name,
        kind="model",
        name=name,
        runs_in="activity call_model",
        after_crash="is called again, unless its response was stored",
        findings=problems,
    )


def _executor(agent: LlmAgent, executor: BaseCodeExecutor) -> AppPart:
    built_in = isinstance(executor, BuiltInCodeExecutor)
    return AppPart(
        agent=agent.name,
        kind="code executor",
        name=type(_own(executor)).__name__,
        runs_in="the model's provider" if built_in else "activity execute_code",
        after_crash="as its model call" if built_in else "may run the code again",
    )


def _tool_or_toolset(agent: LlmAgent, item: Any) -> AppPart:
    if isinstance(item, BaseToolset):
        return AppPart(
            agent=agent.name,
            kind="toolset",
            name=type(_own(item)).__name__,
            runs_in="activity call_tool; listed by each worker",
            after_crash=_CONTRACTS[ToolContract.AT_LEAST_ONCE],
        )
    try:
        return _tool(agent, tool_of(item))
    except DurableAdkError as error:
        return AppPart(
            agent=agent.name,
            kind="tool",
            name=_name(item),
            runs_in="nowhere: it is refused",
            after_crash="",
            findings=[error.message],
        )


def _tool(agent: LlmAgent, tool: BaseTool) -> AppPart:
    runs_in, after_crash = _location(tool), _CONTRACTS[tool.contract]
    if isinstance(tool, AgentTool):
        after_crash = _CONTINUES
    elif isinstance(tool, ActivityTool):
        after_crash = "is retried by its own retry policy"
    elif tool.is_long_running:
        after_crash += "; then waits for its result without a worker"
    rule = getattr(_own(tool), "_require_confirmation", False)
    if rule:
        runs_in += ", once approved if its rule says so" if callable(rule) else ", once approved"
    return AppPart(
        agent=agent.name, kind="tool", name=tool.name, runs_in=runs_in, after_crash=after_crash
    )


def _location(tool: BaseTool) -> str:
    if isinstance(tool, AgentTool):
        own = "child workflow, started by activity call_tool"
        return own if tool.has_own_code else "child workflow"
    if isinstance(tool, ActivityTool):
        queue = tool.options.task_queue
        return f"activity {tool.activity}" + (f" on task queue {queue}" if queue else "")
    return "activity call_tool" + (f" on task queue {tool.task_queue}" if tool.task_queue else "")


def _plugin(app: App, plugin: Any) -> AppPart:
    return AppPart(
        agent=app.name,
        kind="plugin",
        name=plugin.name,
        runs_in="activity run_hook, or the step's own",
        after_crash=_AGAIN,
    )


def _own(part: Any) -> Any:
    """Return the object that the user wrote: google-adk's object instead of its adapter."""
    return getattr(part, "adk", None) or part


def _listed(value: Any) -> list[Any]:
    """Return one callback, several or none as a list."""
    if isinstance(value, Sequence):
        return list(cast("Sequence[Any]", value))
    return [] if value is None else [value]


def _name(function: Any) -> str:
    """Return the name of a function, or of the google-adk function that it adapts."""
    own = getattr(function, "callback", function)
    return getattr(own, "__name__", type(own).__name__)
