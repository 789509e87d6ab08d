"""The invariants of docs/know/specification.md, as functions over a run's evidence."""
