"""Which trace an invocation is part of, and the ids of its own spans: the same in every process.

A trace has to hold together though nobody holds it: an invocation goes from worker to worker, into
new runs of its workflow, and may wait for days. So nothing of it is drawn. If whoever started it
was being traced, that trace goes on; otherwise the trace's id follows from the invocation's name,
and the id of the invocation's own span always does: its steps can be exported before it (D17).
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
"""Marks a carrier whose trace nobody has begun, so that whether to sample it is still open."""


@dataclass(frozen=True, kw_only=True)
class TraceIdentity:
    """The trace of one invocation."""

    name: str
    """Of the invocation: a hash of its session and its id, without personal data."""
    trace_id: int
    parent: int | None = None
    """Id of the span that the invocation's own one hangs under; None: it is the first."""
    sampled: bool | None = None
    """Whether who began the trace wants to see it; None: nobody has begun it."""

    @classmethod
    def of(
        cls, key: SessionKey, invocation_id: str, carrier: Mapping[str, Any] | None = None
    ) -> Self:
        """The trace of an invocation.

        Args:
            key: Its session.
            invocation_id: Its id.
            carrier: What came with its start, as `carrier` or any W3C propagator writes it; what
                cannot be read counts as nothing.
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
        """Id of the invocation's own span."""
        return _digest(8, "invocation", self.name)

    def agent_run(self, number: int) -> int:
        """Id of the span of an agent's run; the invocation's first run is its own span."""
        return _digest(8, "agent", self.name, str(number)) if number else self.root

    def pause(self, number: int) -> int:
        """Id of the span of the invocation's n-th pause."""
        return _digest(8, "pause", self.name, str(number))

    def carrier(self, child: str) -> dict[str, str]:
        """What goes along with the start of an invocation that one of the tools is.

        Args:
            child: Name of that invocation.
        """
        flags = 0 if self.sampled is False else 1
        parent = f"00-{self.trace_id:032x}-{tool_span(child):016x}-{flags:02x}"
        return {"traceparent": parent} | ({_DERIVED: "1"} if self.sampled is None else {})


def tool_span(child: str) -> int:
    """Id of the span of a tool that is an agent, by the name of the agent's invocation."""
    return _digest(8, "tool", child)


def _digest(size: int, *parts: str) -> int:
    """A number of that many bytes that is not zero, which would be no id."""
    digest = hashlib.sha256("\0".join(("durable_adk", *parts)).encode()).digest()
    return int.from_bytes(digest[:size]) or 1
