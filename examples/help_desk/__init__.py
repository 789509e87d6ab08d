"""A help desk whose agents hand a conversation over to each other."""
