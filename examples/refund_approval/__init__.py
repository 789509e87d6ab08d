"""Refunds that wait: for the warehouse, and for somebody's approval."""
