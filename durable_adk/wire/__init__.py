"""What crosses a process: steps, messages, the manifest, the checkpoint, and their converter."""
