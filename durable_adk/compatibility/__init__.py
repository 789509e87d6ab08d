"""What of ADK is not here, for whoever imports it."""
