"""The workflow: the event loop on Temporal. The only modules inside the workflow sandbox."""
