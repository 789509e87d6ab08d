"""The SQL database that sessions, memories and credentials share: tables, connections, versions."""
