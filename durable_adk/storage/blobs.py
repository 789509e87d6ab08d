"""The port to whatever keeps bytes by name."""

from collections.abc import AsyncGenerator
from typing import Protocol


class BlobStore(Protocol):
    """Keeps bytes by name, for all processes that talk to one Temporal namespace.

    A name is ``<owner>/<sha256>``: 32 and 64 hexadecimal digits. It is made of the content, so
    storing it again changes nothing, and nothing is ever overwritten.
    """

    async def put(self, name: str, data: bytes) -> None:
        """Keep `data` so that it outlives a crash of the machine.

        Raises:
            OSError: The store is out of reach; it may work later.
        """
        ...

    async def get(self, name: str) -> bytes:
        """What was kept by this name.

        Raises:
            KeyError: There is nothing of this name.
            OSError: The store is out of reach; it may work later.
        """
        ...


class SharedBlobs(BlobStore, Protocol):
    """A `BlobStore` that also keeps the key of its references, and can be swept."""

    def key(self) -> bytes:
        """The secret that references are signed with, made by whoever comes first; blocks.

        It lies beside the blobs: who can read it can read them too. It keeps out those who reach
        Temporal and not the store.
        """
        ...

    async def expired(self, older_than: float) -> list[str]:
        """Owners, as in names, for whom nothing was stored in the last `older_than` seconds."""
        ...

    def of(self, owner: str) -> AsyncGenerator[bytes]:
        """What is kept for an owner, in any order; another may be deleting it."""
        ...

    async def remove(self, owner: str) -> None:
        """Delete all that is kept for an owner."""
        ...
