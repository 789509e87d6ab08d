"""The shared parts of this package's HTTP servers: process, address and request checks."""
