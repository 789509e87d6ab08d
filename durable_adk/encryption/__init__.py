"""Encryption of the payloads in Temporal (D16, S6)."""

from durable_adk.encryption.codec import ENCODING, EncryptionCodec
from durable_adk.encryption.keys import Key, KeyFile, KeyProvider, KeyRing

__all__ = ["ENCODING", "EncryptionCodec", "Key", "KeyFile", "KeyProvider", "KeyRing"]
