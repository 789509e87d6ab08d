"""What the sender of a message learns of it."""
