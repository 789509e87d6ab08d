"""A headline that is cut until the critic has nothing left to say."""
