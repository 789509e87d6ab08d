"""Storage of the session log in SQLite and PostgreSQL."""
