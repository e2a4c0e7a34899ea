"""Plain-Python replays that the compiled kernels must equal, and the text to read first.

Nothing in the product runs them; tests and the figures of the documentation do.
"""
