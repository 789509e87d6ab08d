"""Copies sessions between google-adk's databases and this package's, without google-adk."""
