"""External storage for payloads that are too large, or too private, for Temporal (D16)."""
