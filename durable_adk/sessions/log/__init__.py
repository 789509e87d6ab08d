"""The durable log: its operations, each in one transaction over the tables of a storage."""
