"""`JoinNode`: waits for all its predecessors."""

from collections.abc import AsyncGenerator
from typing import Any, cast

from durable_adk.context.activity import Context
from durable_adk.events.event import Event
from durable_adk.graph.base_node import BaseNode
from durable_adk.graph.data import validated


class JoinNode(BaseNode):
    """Runs once all its predecessors have ended since its last run (GR-57).

    Its output is a dict of their outputs by their names, in the order of the edges. `input_schema`
    is the type of each of them.
    """

    @property
    def _requires_all_predecessors(self) -> bool:
        return True

    def _validate_input_data(self, data: Any) -> Any:
        if not isinstance(data, dict):
            return super()._validate_input_data(data)
        outputs = cast("dict[str, Any]", data)
        return {name: validated(self.input_schema, output) for name, output in outputs.items()}

    async def _run_impl(self, *, ctx: Context, node_input: Any) -> AsyncGenerator[Any, None]:
        del ctx
        yield Event(output=node_input)
