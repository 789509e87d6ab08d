"""Nodes as tools of a model: graphs, and sub-agents that have a task or a single turn."""

from typing import Any

from google.genai import types
from pydantic import TypeAdapter, ValidationError

from durable_adk.errors import AgentDefinitionError
from durable_adk.graph.base_node import START, BaseNode
from durable_adk.graph.data import is_data, validated
from durable_adk.graph.function_node import FunctionNode
from durable_adk.graph.workflow import Workflow
from durable_adk.tools.base_tool import BaseTool
from durable_adk.tools.function_tool import as_tool
from durable_adk.tools.output_schema import json_schema_of
from durable_adk.wire.manifest import CallMode

REQUEST = "request"
"""The argument that holds an input which is no object."""
_ALONE = (
    "IMPORTANT: This tool delegates execution to a specialized agent. Do NOT call this tool in "
    "parallel with any other tools."
)
_TASK = "Detailed instructions or context for the task sub-agent."


class NodeTool(BaseTool):
    """Lets a model run a node: in its own conversation, as a run below that of its agent.

    Unlike the agent of an `AgentTool`, the node may ask people and wait for them.
    """

    delegates = True

    def __init__(self, node: BaseNode, *, mode: CallMode) -> None:
        """Wrap a node.

        Args:
            node: Its name and description are the tool's.
            mode: ``task`` and ``single_turn`` for a sub-agent, ``graph`` for a graph.
        """
        about = [node.description, _ALONE if mode == "task" else ""]
        super().__init__(name=node.name, description="\n".join(filter(None, about)))
        self.node = node
        self.mode: CallMode = mode
        self._schema: Any = _schema_of(node)
        whole = json_schema_of(str if self._schema is None else self._schema)
        self.key = None if str(whole.get("type")).lower() == "object" else REQUEST
        """The argument that is the input; None: the input is the arguments."""

    def _get_declaration(self) -> types.FunctionDeclaration:
        whole = json_schema_of(str if self._schema is None else self._schema)
        if self.key is not None:
            inner = {name: value for name, value in whole.items() if name != "$defs"}
            if self.mode == "task" and self._schema is None:
                inner["description"] = _TASK
            shared = {"$defs": whole["$defs"]} if "$defs" in whole else {}
            whole = {
                "type": "object",
                "properties": {self.key: inner},
                "required": [self.key],
                **shared,
            }
        return types.FunctionDeclaration(
            name=self.name, description=self.description, parameters_json_schema=whole
        )

    def read(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments as the node's schema has them.

        Raises:
            ValueError: They do not fit; the message is for the model.
        """
        try:
            if self.key is None:
                return validated(self._schema, args)
            if self.key not in args:
                raise ValueError(f"The argument {self.key!r} is missing.")  # noqa: TRY301
            value = (
                TypeAdapter[str](str).validate_python(args[self.key])
                if (self._schema is None)
                else validated(self._schema, args[self.key])
            )
        except (ValueError, ValidationError) as error:
            raise ValueError(
                f"Invoking `{self.name}()` failed due to argument validation errors: {error} You "
                "could retry calling this tool, but it is IMPORTANT for you to provide all the "
                "mandatory parameters with correct types."
            ) from None
        return {**args, self.key: value}


def _schema_of(node: BaseNode) -> Any:
    """Return the schema of a node's input; None: a text (GR-192)."""
    if node.input_schema is not None:
        return node.input_schema
    if isinstance(node, FunctionNode):
        return node.parameters.hints.get("node_input")
    edges = node.graph.edges if isinstance(node, Workflow) and node.graph else ()
    begin = (one.to_node for one in edges if one.from_node is START)
    schemas = [_schema_of(one) for one in begin if not one.requires_all_predecessors]
    return schemas[0] if len(schemas) == 1 and _is_usable(schemas[0]) else None


def _is_usable(schema: Any) -> bool:
    if schema is None or is_data(schema):
        return True
    try:
        json_schema_of(schema)
    except Exception:  # noqa: BLE001 - pydantic has several errors for types without a JSON schema
        return False
    return True


def tool_of(item: Any) -> BaseTool:
    """Return an entry of an agent's `tools` as a tool.

    Raises:
        AgentDefinitionError: It is neither a tool nor callable.
    """
    if isinstance(item, Workflow):
        return NodeTool(item, mode="graph")
    if isinstance(item, BaseNode):
        raise AgentDefinitionError(
            f"{type(item).__name__} {item.name!r} cannot be a tool. Agents should be invoked as "
            "sub-agents; wrap one in an AgentTool, and another node in a Workflow."
        )
    return as_tool(item)
