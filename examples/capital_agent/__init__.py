"""An agent that knows capitals and books trips."""
