"""The folder of a run: files that its processes append lines to, and that outlive them."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RunFolder:
    """Where everything is that a run leaves behind."""

    path: Path

    @property
    def meta(self) -> Path:
        """What the run is: seed, store, queue, addresses."""
        return self.path / "meta.json"

    @property
    def ledger(self) -> Path:
        """What tools did, by idempotency key; written by tools."""
        return self.path / "ledger.jsonl"

    @property
    def nodes(self) -> Path:
        """Which runs of nodes have begun; written by functions of graphs."""
        return self.path / "nodes.jsonl"

    @property
    def asked(self) -> Path:
        """What the model was asked and answered; written by its stub."""
        return self.path / "asked.jsonl"

    @property
    def commits(self) -> Path:
        """What workers tried to write to the session store."""
        return self.path / "commits.jsonl"

    @property
    def faults(self) -> Path:
        """What was done to them."""
        return self.path / "faults.jsonl"

    def journal(self, slot: str) -> Path:
        """What a client did and saw."""
        return self.path / f"client-{slot}.jsonl"

    @property
    def journals(self) -> list[Path]:
        """Those of all clients."""
        return sorted(self.path.glob("client-*.jsonl"))

    def repeat(self, slot: str) -> Path:
        """What a client saw that sends what another one sends too."""
        return self.path / f"repeat-{slot}.jsonl"

    @property
    def repeats(self) -> list[Path]:
        """Those of all such clients."""
        return sorted(self.path.glob("repeat-*.jsonl"))

    def tries(self, slot: str) -> Path:
        """What a client tried that is not its to do."""
        return self.path / f"tries-{slot}.jsonl"

    @property
    def all_tries(self) -> list[Path]:
        """Those of all clients."""
        return sorted(self.path.glob("tries-*.jsonl"))

    def clears(self, slot: str) -> Path:
        """Which sessions a client has deleted, and what it has put into the new ones."""
        return self.path / f"clears-{slot}.jsonl"

    @property
    def all_clears(self) -> list[Path]:
        """Those of all clients."""
        return sorted(self.path.glob("clears-*.jsonl"))

    @property
    def starts(self) -> Path:
        """Which release each worker is of, and how far its clock is off."""
        return self.path / "starts.jsonl"

    @property
    def ends(self) -> Path:
        """How each worker or server that was ready has ended."""
        return self.path / "ends.jsonl"

    @property
    def tasks(self) -> Path:
        """The activities that workers have taken, and ended."""
        return self.path / "tasks.jsonl"

    @property
    def telemetry(self) -> Path:
        """Spans and metrics of workers."""
        return self.path / "telemetry.txt"

    @property
    def stores(self) -> Path:
        """The folder of the stores beside the sessions'."""
        return self.path / "stores"

    @property
    def encrypted(self) -> Path:
        """There if what Temporal holds is encrypted in this run."""
        return self.path / "encrypted"

    @property
    def restores(self) -> Path:
        """Exists if the store is restored in the end; then no session is deleted."""
        return self.path / "restores"

    @property
    def stop(self) -> Path:
        """There as soon as clients are to send nothing new."""
        return self.path / "stop"

    @property
    def store(self) -> Path:
        """The session store's rows, at the end."""
        return self.path / "store.json"

    @property
    def backup(self) -> Path:
        """A copy of the store as it was in the middle of the run."""
        return self.path / "backup"

    @property
    def restored(self) -> Path:
        """What came of putting that back."""
        return self.path / "restored.json"

    @property
    def kept(self) -> Path:
        """What the artifacts' folder has, at the end."""
        return self.path / "kept.json"

    @property
    def workflows(self) -> Path:
        """Temporal's workflows, at the end."""
        return self.path / "workflows.jsonl"

    @property
    def histories(self) -> Path:
        """Their histories."""
        return self.path / "histories"

    @property
    def controls(self) -> Path:
        """What undisturbed runs store."""
        return self.path / "controls.json"

    @property
    def verdict(self) -> Path:
        """What the auditor says."""
        return self.path / "verdict.json"
