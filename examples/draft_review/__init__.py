"""A graph: a text is drafted, a person reviews it, and it is drafted again until it is accepted."""
