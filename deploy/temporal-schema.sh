#!/bin/sh
# Temporal's two databases: made, or brought to the version of this image. A repeat changes nothing.
set -eu

schema() {
  tool="temporal-sql-tool --plugin $DB --ep $POSTGRES_SEEDS -u $POSTGRES_USER -p $DB_PORT --db $1"
  $tool create
  # Refused when it has been done, which is no reason to stop: the update fails if it is needed.
  $tool setup-schema -v 0.0 || true
  $tool update-schema -d "/etc/temporal/schema/postgresql/v12/$2/versioned"
}

schema temporal temporal
schema temporal_visibility visibility
