"""Tools for operators: the doctor, erasure, and the codec server."""
