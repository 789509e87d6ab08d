"""Runs the workflow, the activities and the store's rules under a simulated Temporal server.

What is ours is real: the workflow class in the SDK's own workflow instance, the activities with
their translation of errors, the session rules over tables in memory. What is simulated is the rest:
server, workers, clock, model and the world outside. One seeded scheduler decides about everything
that happens, so a run can be repeated exactly.
"""
