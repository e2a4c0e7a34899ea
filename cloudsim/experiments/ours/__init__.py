"""Experiments on questions of our own, beyond the papers."""
