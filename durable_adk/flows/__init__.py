"""Decides what an invocation does next. No I/O, no clock, no Temporal."""
