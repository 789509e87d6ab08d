"""Pure rules on the events of a session, shared by the loop, activities and clients."""
