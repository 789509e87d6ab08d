#!/bin/sh
# The session store's own user and database. Temporal's are made by temporal-schema.sh.
set -eu

psql -v ON_ERROR_STOP=1 -v password="$STORE_PASSWORD" --username "$POSTGRES_USER" --dbname postgres <<'SQL'
CREATE ROLE durable_adk LOGIN PASSWORD :'password';
CREATE DATABASE durable_adk OWNER durable_adk;
REVOKE CONNECT ON DATABASE durable_adk FROM PUBLIC;
SQL
