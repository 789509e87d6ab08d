"""``durable-adk dev``: a server and a worker for developers, and a log of agents' activity."""
