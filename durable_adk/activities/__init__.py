"""The effects: everything a run does to the outside world, and the activities that carry it out."""
