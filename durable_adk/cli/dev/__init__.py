"""``durable-adk dev``: a server and a worker for developers, and what agents do, line by line."""
