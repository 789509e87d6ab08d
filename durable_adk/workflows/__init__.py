"""The event loop as a Temporal workflow; the only modules inside the workflow sandbox."""
