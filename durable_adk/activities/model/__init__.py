"""The model step: builds a request, calls the model and streams its chunks."""
