"""A graph: each page of a document is summarised, side by side, and a report joins the results."""
