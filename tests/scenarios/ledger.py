"""What tools did, in a file that survives the process they ran in."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from durable_adk.context.activity import ToolContext


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
        entry = Entry(
            app=context.app_name,
            tool=tool,
            call_id=context.function_call_id,
            key=context.idempotency_key,
            session=context.session.id,
            pid=os.getpid(),
        )
        # One write with O_APPEND: lines of processes that write at the same moment do not mix.
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, (json.dumps(entry) + "\n").encode())
        finally:
            os.close(file)

    def of(self, app: str) -> list[Entry]:
        """The runs of one app's tools."""
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        entries = [Entry(*json.loads(line)) for line in lines]
        return [entry for entry in entries if entry.app == app]
