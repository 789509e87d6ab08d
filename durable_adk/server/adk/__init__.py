"""The routes of ADK's own server, as its clients and its web page use them."""
