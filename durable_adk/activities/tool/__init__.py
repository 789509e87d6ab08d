"""The tool step: find the tool, run it as its contract allows, make its response an event."""
