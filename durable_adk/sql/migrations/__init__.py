"""Alembic migrations of the SQL session store's tables."""
