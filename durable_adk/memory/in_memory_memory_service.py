"""Memory that is lost when its process exits."""

from collections import defaultdict
from threading import Lock

from durable_adk.memory._stored import Memory, Owner, StoredMemoryService
from durable_adk.memory._words import words as words_of
from durable_adk.memory.base_memory_service import MAX_RESULTS
from durable_adk.memory.memory_entry import MemoryEntry


class InMemoryMemoryService(StoredMemoryService):
    """Keeps memories in process memory, for tests and scripts; thread-safe (TRAP-8).

    Ranks memories by the number of distinct query words that they contain (MEM-3).
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._memories: defaultdict[Owner, dict[tuple[str, str], Memory]] = defaultdict(dict)

    async def _add(self, owner: Owner, memories: list[Memory], *, replace: str | None) -> None:
        with self._lock:
            own = self._memories[owner]
            for key in [key for key in own if key[0] == replace]:
                del own[key]
            for memory in memories:
                own.setdefault((memory.session_id, memory.entry_id), memory)

    async def _remove(self, owner: Owner, entry_id: str | None) -> None:
        with self._lock:
            own = self._memories.get(owner, {})
            for key in [key for key in own if entry_id in (None, key[1])]:
                del own[key]

    async def _search(self, owner: Owner, words: list[str]) -> list[MemoryEntry]:
        with self._lock:
            entries = [memory.entry for memory in self._memories.get(owner, {}).values()]
        query_words = set(words)
        scored = [(len(query_words.intersection(words_of(entry.text))), entry) for entry in entries]
        found = [pair for pair in scored if pair[0]]
        # Newest first among equal scores: the latest statement is the likeliest to be still true.
        found.sort(key=lambda pair: (pair[0], pair[1].timestamp or ""), reverse=True)
        return [entry.model_copy(deep=True) for _, entry in found[:MAX_RESULTS]]
