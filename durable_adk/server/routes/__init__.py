"""The server's own routes."""
