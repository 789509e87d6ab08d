"""What tools did, in a file that survives the process they ran in."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from durable_adk.context.activity import ToolContext
from harness.journal import note, notes


class Entry(NamedTuple):
    """The beginning of a tool's run."""

    app: str
    tool: str
    call_id: str
    key: str
    """The idempotency key it was given."""
    session: str
    pid: int


@dataclass(frozen=True)
class Ledger:
    """A file with one line for each run of a tool, oldest first."""

    path: Path

    def note(self, tool: str, context: ToolContext) -> None:
        """Write down that a tool begins."""
        note(
            self.path,
            app=context.app_name,
            tool=tool,
            call_id=context.function_call_id,
            key=context.idempotency_key,
            session=context.session.id,
        )

    def of(self, app: str) -> list[Entry]:
        """Return the runs of one app's tools."""
        lines = (line for line in notes(self.path) if line["app"] == app)
        return [Entry(*(line[name] for name in Entry._fields)) for line in lines]
