"""The names and options of the commands, and the functions that perform them.

These modules import neither other modules of the package nor large libraries, so that help and
completion are fast; a command's function is imported when the command is called.
"""
