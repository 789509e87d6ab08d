"""User code in activities: its event loop and threads, callbacks, plugin hooks, functions, code."""
