"""Writing to the session log: commits, early commits, notes, and checks for a stale store."""
