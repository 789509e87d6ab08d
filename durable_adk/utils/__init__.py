"""ADK's utilities that its documentation tells applications to use."""
