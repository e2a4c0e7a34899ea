"""Plain-Python replays that the compiled kernels must equal, and the text to read first.

Tests and the figures of the documentation run them, and ``samplers.plain`` for line-ups in plain Python.
"""
