"""What is used here of the `cryptography` library, or that it is not installed."""

from typing import TYPE_CHECKING

from durable_adk.errors import InvalidRequestError

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    installed = True
except ImportError:
    if TYPE_CHECKING:
        raise
    # Whatever needs these is made by `EncryptionCodec`, which refuses to be made.
    installed = False
    InvalidTag = AESGCM = None

__all__ = ["AESGCM", "InvalidTag", "require"]


def require() -> None:
    """Refuse what cannot work.

    Raises:
        InvalidRequestError: The library is not installed.
    """
    if not installed:
        raise InvalidRequestError(
            "Encryption needs the cryptography library, which is an extra: "
            'pip install "durable-adk[encryption]"'
        )
