"""`ParallelWorker`: runs a node for each item of a list."""

from collections.abc import Iterator
from typing import Any, cast

from google.genai import types
from pydantic import Field, PrivateAttr

from durable_adk.errors import WorkflowConfigurationError
from durable_adk.graph.base_node import START, BaseNode
from durable_adk.graph.data import accepts_content, expects_text, parsed, text_of


def check_max_parallel_workers(*, parallel_worker: bool, number: int | None) -> None:
    """Check the options of a parallel worker (GR-37).

    Raises:
        WorkflowConfigurationError: They contradict each other.
    """
    if number is None:
        return
    if not parallel_worker:
        raise WorkflowConfigurationError(
            "max_parallel_workers can only be set when parallel_worker is True."
        )
    if number < 1:
        raise WorkflowConfigurationError("max_parallel_workers must be greater than or equal to 1.")


class ParallelWorker(BaseNode):
    """Runs another node once for each item of its input; the output is the list of their outputs.

    It has the node's name (GR-59).
    """

    max_parallel_workers: int | None = Field(default=None)
    """Maximum number of items at once; None: no limit."""
    _node: BaseNode = PrivateAttr()

    def __init__(
        self, *, node: BaseNode, max_parallel_workers: int | None = None, **fields: Any
    ) -> None:
        """Take the node for the items.

        Args:
            node: The node; any but START.
            max_parallel_workers: Maximum number of items at once; None: no limit.
            **fields: Fields of `BaseNode`, for the run of all items.

        Raises:
            WorkflowConfigurationError: The node is START, or the number is below 1.
        """
        if node is START:
            raise WorkflowConfigurationError("ParallelWorker cannot wrap a START node.")
        check_max_parallel_workers(parallel_worker=True, number=max_parallel_workers)
        settings: dict[str, Any] = {"name": node.name, "rerun_on_resume": True, **fields}
        settings["max_parallel_workers"] = max_parallel_workers
        super().__init__(**settings)
        self._node = node

    @property
    def node(self) -> BaseNode:
        """The node that runs for each item."""
        return self._node

    def _iter_static_children(self) -> Iterator[BaseNode]:
        yield self._node

    def items(self, node_input: Any) -> list[Any]:
        """Return the inputs of the items (GR-59).

        The text of a content is parsed as JSON. What is not a list is one item.
        """
        if isinstance(node_input, types.Content):
            node_input = self._said(node_input)
        return cast("list[Any]", node_input) if isinstance(node_input, list) else [node_input]

    def _said(self, content: types.Content) -> Any:
        wanted = self._node.input_type
        whole = wanted not in (Any, object) and accepts_content(wanted)
        if whole or not content.parts or any(part.text is None for part in content.parts):
            return content
        text = text_of(content)
        value = parsed(text)
        # A single number is a text to a node that takes texts.
        is_text = expects_text(wanted) and not isinstance(value, list)
        return text if is_text else cast("Any", value)
