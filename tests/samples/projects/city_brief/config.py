import os

MODEL = os.getenv("BRIEF_MODEL", "gemini-2.0-flash")
DONE = "No more to improve."
