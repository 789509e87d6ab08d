"""A story, written by a flow of agents that is plain Python."""
