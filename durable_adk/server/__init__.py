"""The HTTP server: durable agents for browsers and other front ends."""
