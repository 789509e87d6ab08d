"""The port to whatever keeps bytes by name."""

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
