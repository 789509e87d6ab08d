"""What is used here of the `cryptography` library."""

from typing import TYPE_CHECKING

from durable_adk.extras import Absent

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
except ImportError:
    if TYPE_CHECKING:
        raise
    AESGCM = InvalidTag = Absent

__all__ = ["AESGCM", "InvalidTag"]
