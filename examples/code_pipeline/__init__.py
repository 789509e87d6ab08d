"""Code that is written, reviewed and refactored, one agent after the other."""
