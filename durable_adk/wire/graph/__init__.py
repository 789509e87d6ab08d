"""What the loop and the activities of a graph tell each other."""
