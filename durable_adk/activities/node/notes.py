"""Notes on the nodes that the code of a node calls: what they got, and how they ended."""

import json
from typing import Any, Final

from google.genai import types

from durable_adk.activities.commit.notes import find_note, write_note
from durable_adk.activities.step import ActiveStep
from durable_adk.errors import AgentError
from durable_adk.graph.base_node import BaseNode
from durable_adk.json_values import canonical, check_json, to_json_value
from durable_adk.log import get_logger
from durable_adk.retrying import STORE_TIMEOUT, retrying
from durable_adk.wire.graph.dynamic import DynamicEnd, DynamicJournal
from durable_adk.wire.graph.node_run import NodeSite
from durable_adk.wire.steps import NodeStep

logger = get_logger(__name__)

JOURNAL: Final = "calls"
"""Kind of the notes that hold a `DynamicJournal`."""
INPUT: Final = "called_input"
"""Kind of the notes that hold a called node's input: the same in all its runs (B-7)."""
FAILURE: Final = "called_failure"
"""Kind of the notes that hold how a called node has failed (B-6)."""


class CallNotes:
    """Reads and stores them, and waits for a store that is unavailable.

    Args:
        active: The step of the code.
        looks: Whether the store may have notes of an earlier attempt.
    """

    def __init__(self, active: ActiveStep[NodeStep], *, looks: bool) -> None:
        self._active, self._looks = active, looks

    async def journal(self, name: str) -> DynamicJournal:
        """Return a stored journal.

        Raises:
            AgentError: There is none of that name.
        """
        body = await self._find(JOURNAL, name)
        if body is None:
            path = self._active.step.named.path
            raise AgentError(f"The session store lacks what {path} has called before.")
        return DynamicJournal.from_json(body)

    async def keep_journal(self, name: str, journal: DynamicJournal) -> None:
        """Store a journal."""
        await self._write(JOURNAL, name, journal.to_json())

    async def failure(self, site: NodeSite) -> DynamicEnd | None:
        """Return how a node failed in an earlier attempt of the code, if it did."""
        known = await self._find(FAILURE, site.prefix) if self._looks else None
        return None if known is None else DynamicEnd.from_json(known)

    async def keep_failure(self, site: NodeSite, ended: DynamicEnd) -> None:
        """Store how a node has failed."""
        await self._write(FAILURE, site.prefix, ended.to_json())

    async def input(self, site: NodeSite, node: BaseNode, value: Any) -> Any:
        """Return the input of a node: the one with which it began, if it has begun.

        Args:
            site: The run of the node.
            node: The node.
            value: What the code passes now.

        Raises:
            StateValueError: It is not JSON; the message names the type and the place.
        """
        if not (node.rerun_on_resume or node.static_children()):
            return value  # its code runs once, unless its worker dies
        body = _packed(value, site.path)
        kept = await self._write(INPUT, site.prefix, body)
        if kept == body:
            return value
        logger.warning("node.other_input", node_path=site.path)
        return _unpacked(kept)

    async def _find(self, kind: str, name: str) -> str | None:
        return await retrying(find_note, STORE_TIMEOUT)(self._active, kind, name)

    async def _write(self, kind: str, name: str, body: str) -> str:
        return await retrying(write_note, STORE_TIMEOUT)(self._active, kind, name, body)


def _packed(value: Any, path: str) -> str:
    """Return the JSON text of an input.

    Raises:
        StateValueError: It is not JSON; the message names the type and the place.
    """
    if isinstance(value, types.Content):
        return canonical({"content": value.model_dump(mode="json", exclude_none=True)})
    plain = to_json_value(value)
    check_json(plain, f"the input of {path}")
    return canonical({"value": plain})


def _unpacked(text: str) -> Any:
    packed = json.loads(text)
    if "content" in packed:
        return types.Content.model_validate(packed["content"])
    return packed["value"]
