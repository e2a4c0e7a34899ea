"""Batch jobs: what is asked, what became of it, and what passes between job manager and node agents."""
