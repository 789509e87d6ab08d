"""A graph: an agent says what a message is about, and a route leads to the agent who answers it."""
