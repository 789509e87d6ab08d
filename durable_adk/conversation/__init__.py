"""Pure rules on a session's events, shared by the loop, activities and clients."""
