"""Messages between the loop and the activities of a graph."""
