"""The trace of an invocation and the ids of its spans, which are the same in every process.

No process lives as long as a trace: an invocation moves between workers and into new runs of its
workflow, and may wait for days. So its ids are not random. If its starter was traced, that trace
continues; otherwise the trace id is derived from the invocation's name. The id of the invocation's
own span is always derived, so that its steps can be exported before it (D17).
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from durable_adk.sessions.session import SessionKey
from durable_adk.wire.messages import workflow_id

_TRACEPARENT = re.compile("00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_DERIVED = "durable-adk-derived"
"""Marks a carrier of a derived trace without a first span, whose sampling is undecided."""


@dataclass(frozen=True, kw_only=True)
class TraceIdentity:
    """The trace of one invocation."""

    name: str
    """Name of the invocation: a hash of its session and its id, without personal data."""
    trace_id: int
    parent: int | None = None
    """Id of the parent of the invocation's span; None if that is the root."""
    sampled: bool | None = None
    """Whether the trace's starter has sampled it; None if the trace is derived."""

    @classmethod
    def of(
        cls, key: SessionKey, invocation_id: str, carrier: Mapping[str, Any] | None = None
    ) -> Self:
        """The trace of an invocation.

        Args:
            key: The session.
            invocation_id: The invocation's id.
            carrier: The trace carrier of its start, as `carrier` or any W3C propagator writes it;
                ignored if it is unreadable.
        """
        name = workflow_id(key, invocation_id)
        known = _TRACEPARENT.fullmatch(str((carrier or {}).get("traceparent", "")))
        if known is None or not int(known[1], 16) or not int(known[2], 16):
            return cls(name=name, trace_id=_digest(16, "trace", name))
        derived = bool(carrier and carrier.get(_DERIVED))
        return cls(
            name=name,
            trace_id=int(known[1], 16),
            parent=int(known[2], 16),
            sampled=None if derived else bool(int(known[3], 16) & 1),
        )

    @property
    def root(self) -> int:
        """Id of the invocation's span."""
        return _digest(8, "invocation", self.name)

    def agent_run(self, number: int) -> int:
        """Id of the span of an agent's run; for the first run it is the invocation's span."""
        return _digest(8, "agent", self.name, str(number)) if number else self.root

    def pause(self, number: int) -> int:
        """Id of the span of the invocation's n-th pause."""
        return _digest(8, "pause", self.name, str(number))

    def carrier(self, child: str) -> dict[str, str]:
        """The trace carrier for the start of an agent that is used as a tool.

        Args:
            child: Name of the agent's invocation.
        """
        flags = 0 if self.sampled is False else 1
        parent = f"00-{self.trace_id:032x}-{tool_span(child):016x}-{flags:02x}"
        return {"traceparent": parent} | ({_DERIVED: "1"} if self.sampled is None else {})


def tool_span(child: str) -> int:
    """Id of the span of an agent that is used as a tool, by its invocation's name."""
    return _digest(8, "tool", child)


def _digest(size: int, *parts: str) -> int:
    """A number of `size` bytes; never zero, which is not a valid id."""
    digest = hashlib.sha256("\0".join(("durable_adk", *parts)).encode()).digest()
    return int.from_bytes(digest[:size]) or 1
