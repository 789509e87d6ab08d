"""Tools for operators: each is one module or package here, and only its own code imports within."""
