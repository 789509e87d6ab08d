"""ADK's path to the names of the calls that go to a client."""
