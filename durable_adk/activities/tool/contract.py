"""Lets one attempt run a tool whose contract is at most once (D7, I8)."""

import json
import uuid
from typing import Any

from durable_adk.activities.commit.notes import BEGUN, find_note, note_name, write_note
from durable_adk.activities.step import ActiveStep
from durable_adk.calling import contained
from durable_adk.context.activity import ToolContext
from durable_adk.errors import DurableAdkError, LeaseLostError
from durable_adk.failpoints import failpoint
from durable_adk.log import get_logger
from durable_adk.retrying import STORE_TIMEOUT, retrying
from durable_adk.tools.base_tool import BaseTool
from durable_adk.tools.reconcile import NOT_RUN
from durable_adk.wire.graph.node_run import run_key
from durable_adk.wire.steps import NodeStep, ToolStep

logger = get_logger(__name__)


class ToolNotStartedError(Exception):
    """The tool has not run, because the store could not confirm that it may.

    Args:
        error: The cause, usually a StoreUnavailableError; the step is retried then.
    """

    def __init__(self, error: DurableAdkError) -> None:
        super().__init__(error.message)
        self.error = error


def contract_name(step: ToolStep | NodeStep) -> str:
    """Return the name of the notes on runs of a call: for a node the same in all its attempts."""
    return run_key(step.named.prefix) if isinstance(step, NodeStep) else note_name(step)


class RunLostError(Exception):
    """An earlier run of the tool was lost, and the tool cannot tell what it did."""


class AtMostOnce:
    """The runs of one call of a tool.

    Args:
        active: The step of the call.
    """

    def __init__(self, active: ActiveStep[ToolStep] | ActiveStep[NodeStep]) -> None:
        self._active, self._name = active, contract_name(active.step)
        self.noting = False
        """Whether it waits for the store, and the tool has not run."""

    async def instead(self, tool: BaseTool, args: dict[str, Any], context: ToolContext) -> Any:
        """Return a response instead of a run, or None if this attempt may run the tool.

        Raises:
            ToolNotStartedError: The store does not let the tool start.
            RunLostError: The outcome of an earlier run is unknown.
        """
        given = await contained(tool.refused(args=args, tool_context=context))
        if given is None:
            given = await self._lost_before(tool, args, context)
        if given is None:
            failpoint("tool.begun")
        return given

    async def _lost_before(self, tool: BaseTool, args: dict[str, Any], context: ToolContext) -> Any:
        """Return what the tool reports of a lost run, or None if this attempt may run it.

        A note that only one attempt can write records which attempt owns the run. If the tool
        reports that this run had no effect, the next note records its successor, and so on. If
        several attempts get that report at the same time, only one of them continues.
        """
        token, name = uuid.uuid4().hex, self._name
        while (owner := await self._begun(name, token)) != token:
            finding = await self._reconciled(tool, args, context)
            if finding is None:
                raise RunLostError
            if finding is not NOT_RUN:
                return finding
            name = f"{self._name}.{owner}"
        return None

    async def _begun(self, name: str, token: str) -> str:
        """Return the owner of the run recorded under this name: our token if there was none.

        Raises:
            ToolNotStartedError: The store does not respond, or the invocation has ended.
        """
        self.noting = True
        try:
            owner = await retrying(self._owner, STORE_TIMEOUT)(name, token)
        except DurableAdkError as error:
            raise ToolNotStartedError(error) from error
        self.noting = False
        return owner

    async def _owner(self, name: str, token: str) -> str:
        await write_note(self._active, BEGUN, name, json.dumps(token))
        # Read the note back instead of trusting the write: a closed invocation keeps no notes, so
        # every writer would believe it is first. A worker that was frozen must not run the tool.
        body = await find_note(self._active, BEGUN, name)
        if body is None:
            raise LeaseLostError("The invocation has ended; the tool was not run.")
        return str(json.loads(body))

    async def _reconciled(self, tool: BaseTool, args: dict[str, Any], context: ToolContext) -> Any:
        """Ask the tool about a lost run; if it raises, the outcome stays unknown."""
        try:
            return await contained(tool.reconcile(args=args, tool_context=context))
        except Exception:
            call_id = context.function_call_id
            logger.exception("tool.reconcile_failed", tool=tool.name, call_id=call_id)
            return None
