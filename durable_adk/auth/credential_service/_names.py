"""What credentials are kept under."""

import hashlib

from durable_adk.json_values import canonical


def hashed(*parts: str) -> str:
    """A name for some ids that tells nobody's, of 64 hexadecimal digits."""
    # As JSON, not joined: ("a:b", "c") and ("a", "b:c") are different users.
    return hashlib.sha256(canonical(list(parts)).encode()).hexdigest()
