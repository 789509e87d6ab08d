"""What the sender of a message is told of it."""
