"""Protocols of other front ends and agents, as routes of the server."""
