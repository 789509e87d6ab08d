"""The status of an invocation in Temporal's UI and search, without content."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from temporalio import workflow
from temporalio.common import SearchAttributeUpdate, TypedSearchAttributes

with workflow.unsafe.imports_passed_through():
    from durable_adk.wire.messages import InvocationRequest
    from durable_adk.wire.search_attributes import (
        AGENT,
        STATUS,
        WAITING_SINCE,
        attributes_of,
    )

Pending = Callable[[], list[dict[str, Any]]]
"""The pending calls, as query ``pending`` returns them."""


class StatusDisplay:
    """The status among the search attributes, and the current details.

    Replay-safe: a search attribute is changed only if the workflow was started with a status, which
    its history records. So the workflow never sets them in a namespace without them, which would
    block it. A turn that does not wait changes none; details and summaries add no history events.
    """

    def __init__(self, pending: Pending) -> None:
        self._pending = pending
        self._steps: dict[int, str] = {}
        self._begun = 0

    @contextmanager
    def step(self, summary: str) -> Generator[None]:
        """Show a step while it runs."""
        self._begun += 1
        mine = self._begun
        self._steps[mine] = summary
        self._show()
        try:
            yield
        finally:
            del self._steps[mine]

    def waiting(self) -> None:
        """Show that the invocation waits for an answer."""
        calls = self._pending()
        self._show(calls)
        if not calls or _status() is None:
            return
        since = datetime.fromtimestamp(workflow.time(), UTC)
        agent = AGENT.value_set(calls[0]["agent"])
        _mark(STATUS.value_set("waiting"), agent, WAITING_SINCE.value_set(since))

    def running(self) -> None:
        """Show that the invocation does not wait any more, if it did."""
        if _status() == "waiting":
            _mark(STATUS.value_set("running"), AGENT.value_unset(), WAITING_SINCE.value_unset())

    def _show(self, calls: list[dict[str, Any]] | None = None) -> None:
        lines = [f"- {summary}" for summary in self._steps.values()]
        lines += [f"- waits for `{call['name']}` of {call['agent']}" for call in calls or []]
        workflow.set_current_details("\n".join([f"Steps begun: {self._begun}", "", *lines]))


def for_child(request: InvocationRequest) -> TypedSearchAttributes | None:
    """Return a child workflow's search attributes: its parent's set, with the child's values."""
    mine = workflow.info().typed_search_attributes
    return attributes_of(request, settable=lambda key: mine.get(key) is not None)


def _status() -> str | None:
    return workflow.info().typed_search_attributes.get(STATUS)


def _mark(*updates: SearchAttributeUpdate[Any]) -> None:
    workflow.upsert_search_attributes(updates)  # pyright: ignore[reportUnknownMemberType]: the SDK's
