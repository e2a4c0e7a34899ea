"""Runs experiments in processes, keeps finished cases, and writes rows, pictures, results and a report."""
