"""Tests that import google.adk: `tests/interop/test_objects.py` runs them in its environment."""

import os

from tests.support.google_adk import IS_HERE

collect_ignore_glob = [] if IS_HERE else ["test_*.py"]

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else litellm asks the network for one
