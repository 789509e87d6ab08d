"""One module per version of the schema, named after its number."""
