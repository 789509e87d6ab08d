"""What the commands are called, which options they have, and which functions do their work.

These modules import neither the package's others nor any large library, so that help and completion
answer at once; a command's function is imported when the command is called.
"""
