"""Finding what sessions, leases and workflows lack of each other, and mending it."""
