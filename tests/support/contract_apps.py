"""Apps whose tools promise different things, and a model whose answers are all different."""

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.context.activity import ToolContext
from durable_adk.failpoints import failpoint
from durable_adk.graph.workflow import Workflow
from durable_adk.models import LlmRequest, LlmResponse, ScriptedModel
from durable_adk.tools import FunctionTool, RetryConfig, ToolContract
from durable_adk.tools.reconcile import NOT_RUN
from tests.support.chaos_apps import Traces
from tests.support.scripts import call, calls

RECONCILED = "reconciled"
"""The app whose at-most-once tool finds out what became of a lost run."""
RETRIED = "retried"
"""The app whose idempotent tool raises twice before it succeeds."""
KEPT = "kept"
"""The app with code between the model's answer and its commit."""
SIDE_BY_SIDE = "side_by_side"
"""The app that makes two at-most-once calls at once."""
NODE, NODE_RECONCILED = "once_as_node", "reconciled_as_node"
"""The apps whose at-most-once tool is a node of a graph; the second one's finds lost runs."""


class Charges:
    """What the bank knows: it never refuses a second charge."""

    def __init__(self, traces: Traces) -> None:
        self.traces = traces

    def charge(self, tool_context: ToolContext) -> dict[str, str]:
        """Charge the card; who reads the ledger sees every charge."""
        key = tool_context.idempotency_key
        self.traces.note("charge", key)
        failpoint("tool.halfway")
        self.traces.take_effect(key)
        return {"charged": key}

    def flaky(self, tool_context: ToolContext) -> dict[str, str]:
        """Charge the card at the third try."""
        self.traces.note("flaky", tool_context.idempotency_key)
        if len(self.traces.runs("flaky")) < 3:
            raise ConnectionError("the line is busy")
        return {"charged": tool_context.idempotency_key}

    def find(self, args: dict[str, Any], tool_context: ToolContext) -> Any:
        """Look the charge up at the bank."""
        key = tool_context.idempotency_key
        self.traces.note("find", key)
        return {"charged": key} if self.traces.effects else NOT_RUN


def unique(llm_request: LlmRequest) -> str:
    """An answer that no other request gets."""
    return f"answer {uuid.uuid4().hex}"


def slow_to_agree(llm_response: LlmResponse, **_: Any) -> None:
    """A callback after the model, and so between its answer and the commit."""
    failpoint("callback.after_model")


def app(name: str, folder: Path, replies: Sequence[Any], **fields: Any) -> App:
    """An app of one agent."""
    model = ScriptedModel(log=folder / "model", replies=replies)
    return App(name=name, root_agent=LlmAgent(name="cashier", model=model, **fields))


def contract_apps(folder: Path) -> dict[str, App]:
    """The apps by name, with their traces in `folder`."""
    bank = Charges(Traces(folder))
    once = FunctionTool(bank.charge, contract="at_most_once")
    retry = RetryConfig(max_attempts=4, initial_delay=0.05, exceptions=[ConnectionError])
    charging = [call("charge"), "Charged."]
    apps = [
        *(
            app(
                str(contract),
                folder,
                charging,
                tools=[FunctionTool(bank.charge, contract=contract)],
            )
            for contract in ToolContract
        ),
        app(
            RECONCILED,
            folder,
            charging,
            tools=[FunctionTool(bank.charge, contract="at_most_once", reconcile=bank.find)],
        ),
        app(
            RETRIED,
            folder,
            [call("flaky"), "Charged."],
            tools=[FunctionTool(bank.flaky, contract="idempotent", retry=retry)],
        ),
        app(KEPT, folder, [unique], after_model_callback=slow_to_agree),
        app(SIDE_BY_SIDE, folder, [calls(("charge", {}), ("charge", {})), "Both."], tools=[once]),
    ]
    nodes = {
        NODE: once,
        NODE_RECONCILED: FunctionTool(bank.charge, contract="at_most_once", reconcile=bank.find),
    }
    for name, tool in nodes.items():
        root = Workflow(name="wf", edges=[("START", no_arguments, tool, charged)])
        apps.append(App(name=name, root_agent=root))
    return {app.name: app for app in apps}


def no_arguments(node_input: str) -> dict[str, str]:
    """Give the tool nothing."""
    return {}


def charged(node_input: dict[str, str]) -> dict[str, str]:
    """Run behind the tool."""
    return node_input
