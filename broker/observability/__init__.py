"""Logs, request ids, spans and metrics."""
