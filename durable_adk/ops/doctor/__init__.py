"""Detects and repairs inconsistencies between session store, leases and workflows."""
