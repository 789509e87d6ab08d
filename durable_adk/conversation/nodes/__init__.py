"""What the events of a graph's nodes say, and the answers to their questions."""
