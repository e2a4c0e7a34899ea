"""Plain-Python replays that the compiled kernels must equal, and the text to read first."""
