"""Explanations for importing names of ADK that this package does not have."""
