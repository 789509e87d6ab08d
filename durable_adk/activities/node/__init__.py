"""Effects: the code of a graph's nodes."""
