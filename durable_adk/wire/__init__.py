"""Values that cross processes: steps, messages, manifest, checkpoint, and their converter."""
