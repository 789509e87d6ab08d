"""The life of an invocation in the store: open, wait, steer, take over, pause, answer, close."""
