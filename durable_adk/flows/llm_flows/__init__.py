"""ADK's module path for the names of calls that a client answers."""
