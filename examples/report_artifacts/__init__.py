"""Reports that are kept as artifacts, version by version."""
