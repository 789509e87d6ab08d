"""The invariants of docs/specification.md, as functions over a run's evidence."""
