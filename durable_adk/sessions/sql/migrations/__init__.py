"""How the tables of the SQL session store came to be, version by version (Alembic)."""
