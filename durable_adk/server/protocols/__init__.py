"""Routes for the protocols of other front ends and agents."""
