"""Processes and files that tests, campaign and benchmarks use to break and to watch the runtime."""
