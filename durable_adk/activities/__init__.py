"""The effects: everything a run does to the world, and the activities that carry it out."""
