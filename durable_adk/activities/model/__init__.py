"""The model step: build a request, call the model, stream its chunks."""
