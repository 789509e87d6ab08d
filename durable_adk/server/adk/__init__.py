"""The routes of ADK's own server, for its clients and its web page."""
