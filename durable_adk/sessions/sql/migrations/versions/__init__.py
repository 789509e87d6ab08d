"""One module a version of the schema, named after its number."""
