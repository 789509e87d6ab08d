"""Names under which credentials are stored."""

import hashlib

from durable_adk.json_values import canonical


def hashed(*parts: str) -> str:
    """Return the SHA-256 of the ids in hexadecimal, so that the name does not reveal them."""
    # Encoded as JSON and not joined, to keep ("a:b", "c") and ("a", "b:c") distinct.
    return hashlib.sha256(canonical(list(parts)).encode()).hexdigest()
