"""The invariants of reliability.md, section 5, as functions over a run's evidence."""
