"""The interface of blob stores."""

from collections.abc import AsyncGenerator
from typing import Protocol


class BlobStore(Protocol):
    """Stores bytes by name, for all processes of one Temporal namespace.

    A name is ``<owner>/<sha256>``: 32 and 64 hexadecimal digits. It is derived from the content, so
    storing a blob is idempotent, and nothing is ever overwritten.
    """

    async def put(self, name: str, data: bytes) -> None:
        """Store `data` durably: it survives a crash of the machine.

        Raises:
            OSError: The store is unavailable; a retry may succeed.
        """
        ...

    async def get(self, name: str) -> bytes:
        """The data with a name.

        Raises:
            KeyError: There is no such blob.
            OSError: The store is unavailable; a retry may succeed.
        """
        ...


class SharedBlobs(BlobStore, Protocol):
    """A `BlobStore` that also stores the key of its references, and can be swept."""

    def key(self) -> bytes:
        """The secret that signs references, created by the first caller; blocks.

        It is stored beside the blobs, so anyone who can read it can read them too. It protects
        against those who have access to Temporal but not to the store.
        """
        ...

    async def expired(self, older_than: float) -> list[str]:
        """Owners, as in blob names, without a new blob in the last `older_than` seconds."""
        ...

    def of(self, owner: str) -> AsyncGenerator[bytes]:
        """The blobs of an owner, in any order; another process may be deleting them."""
        ...

    async def remove(self, owner: str) -> None:
        """Delete all blobs of an owner."""
        ...
