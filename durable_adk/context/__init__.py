"""What user code is given: contexts in activities, and in the loop of a custom agent."""
