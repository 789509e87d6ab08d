"""An invocation's life cycle in the store: open, wait, steer, take over, pause, answer, close."""
