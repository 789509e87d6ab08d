"""The loop over the nodes of a graph."""
