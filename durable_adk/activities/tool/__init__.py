"""The tool step: finds the tool, runs it as its contract allows and builds its response event."""
