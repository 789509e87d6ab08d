"""Sessions that are copied between google-adk's databases and ours; google-adk is not needed."""
