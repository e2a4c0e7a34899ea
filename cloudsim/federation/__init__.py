"""Federations: the file that describes one, its model, its replay in one process, and its report."""
