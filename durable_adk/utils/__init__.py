"""What ADK calls utilities, and its pages tell applications to use."""
