"""The contexts that user code receives, in activities and in the loop of a custom agent."""
