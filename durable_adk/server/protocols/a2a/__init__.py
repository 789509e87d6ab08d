"""Serves the apps as agents of the A2A protocol; needs the extra `a2a`."""
